r"""
Save a run, go on with it, change the regularizer
=================================================

A result is its cuts. They can be written to a file, read in another process, and taken up again: by the
same problem, to reach a smaller gap, or by another one with the same risk, for its cuts hold whatever the
regularizer or the feasible set is.
"""

import tempfile
from pathlib import Path

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import cutplane as cut

# %%
# The breast-cancer data, standardised, with a constant feature.
X, labels = load_breast_cancer(return_X_y=True)
X = np.column_stack([StandardScaler().fit_transform(X), np.ones(len(X))])
y = np.where(labels == 1, 1.0, -1.0)
lam = 1e-3

# %%
# The formulation
# ---------------
# A first run, cut short; its file; the run that goes on from it. `OCAS` does nothing but cut.
risk = cut.LinearRisk(X, y, loss=cut.losses.Hinge())
problem = cut.Problem(risk, cut.L2(lam))
cuts = cut.OCAS()
short = problem.solve(cuts, tol=1e-6, max_iter=5)
with tempfile.TemporaryDirectory() as folder:
    loaded = cut.load(short.save(Path(folder) / "run"), problem)
resumed = problem.solve(cuts, tol=1e-6, warm_start=loaded)
print(f"saved   {short.status!s:<8} gap {short.gap:.1e} after {short.oracle_calls} queries")
print(f"resumed {resumed.status!s:<8} gap {resumed.gap:.1e} after {resumed.oracle_calls} more")

# %%
# Another regularizer, another set: the cuts still hold.
elastic = cut.Problem(risk, cut.ElasticNet(lam), cut.Box(-0.5, 0.5))
warm = elastic.solve(cuts, tol=1e-6, warm_start=resumed)
cold = elastic.solve(cuts, tol=1e-6)
print(f"elastic net in a box: {warm.oracle_calls} queries, {cold.oracle_calls} from nothing")

# %%
# The gap over the queries: the run that was cut short and went on, and the other problem with and without its
# cuts.
fig, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
start = short.oracle_calls
for ax, run, shift, label in (
    (axes[0], short, 0, "saved"),
    (axes[0], resumed, start, "resumed"),
    (axes[1], cold, 0, "from nothing"),
    (axes[1], warm, 0, "with the cuts"),
):
    gaps = np.maximum(run.history.column("gap"), 1e-7)
    ax.semilogy(shift + run.history.column("oracle_calls"), gaps, ".-", label=label)
for ax, title in zip(axes, ("one run in two processes", "an elastic net in a box"), strict=True):
    ax.set(title=title, xlabel="queries of the risk", ylabel="relative gap")
    ax.legend()
plt.show()

# %%
# The check
# ---------
# Both certificates hold, and cvxpy finds the same optima.
w = cp.Variable(X.shape[1])
hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / len(y)
ridge = cp.Problem(cp.Minimize(hinge + lam / 2 * cp.sum_squares(w)))
penalty = lam * (cp.norm1(w) / 2 + cp.sum_squares(w) / 4)
boxed = cp.Problem(cp.Minimize(hinge + penalty), [cp.abs(w) <= 0.5])
for result, whole in ((resumed, ridge), (warm, boxed), (cold, boxed)):
    optimum = whole.solve(solver=cp.CLARABEL)
    assert result.status is cut.Status.OPTIMAL
    assert result.certificate.verify().valid
    assert abs(result.objective - optimum) <= 1e-5 * optimum
assert loaded.certificate.verify().valid
assert resumed.oracle_calls < problem.solve(cuts, tol=1e-6).oracle_calls
assert warm.oracle_calls < cold.oracle_calls
