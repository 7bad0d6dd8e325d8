r"""
BMRM and OCAS: why the line search matters
==========================================

Both methods minimise the same model in each iteration, the cuts known so far plus the regularizer. BMRM goes
where the model has its minimum. OCAS goes on the line from the best point through that minimum, but only as
far as the true objective falls,

.. math::

   w_b \leftarrow w_b + k (w_t - w_b), \qquad k = \arg\min_{k \ge 0} F(w_b + k (w_t - w_b)),
   \qquad F(w) = \frac1m \sum_{i=1}^m \max(0, 1 - y_i \langle x_i, w\rangle) + \frac\lambda2 \|w\|^2 .

The data are scikit-learn's 1,797 handwritten digits: is a digit less than five?
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import cutplane as cut

X, digit = load_digits(return_X_y=True)
X = np.column_stack([X / 16, np.ones(len(X))])
y = np.where(digit < 5, 1.0, -1.0)
lam = 1e-4
problem = cut.Problem(cut.LinearRisk(X, y, loss=cut.losses.Hinge()), cut.L2(lam))

# %%
# One step
# --------
# After ten iterations of BMRM: the best point so far, and the minimiser of the model, which is
# :math:`-A\alpha/\lambda` for the slopes A and the multipliers of the cuts. Between them the data are touched
# twice, once for the image :math:`z = Xw` of each end; all the values on the line follow from those.
start = problem.solve(cut.BMRM(), max_iter=10)
cuts = start.certificate
known = cuts.queries < cuts.queries.max()  # all but the cut that was then taken at the minimiser itself
w_b, w_t = start.x, -cuts.slopes.T @ cuts.multipliers / lam
z_b, z_t = X @ w_b, X @ w_t
t = np.linspace(-0.1, 1.1, 2000)
along = [
    problem.risk.values(problem.risk.combine(z_b, z_t, s)) + problem.regularizer.value(w_b + s * (w_t - w_b))
    for s in t
]
model = [
    (cuts.slopes @ (w_b + s * (w_t - w_b)) + cuts.offsets)[known].max()
    + problem.regularizer.value(w_b + s * (w_t - w_b))
    for s in t
]
k = t[np.argmin(along)]

fig, ax = plt.subplots(layout="constrained")
ax.semilogy(t, along, label="objective F")
ax.semilogy(t, model, label="model: the cuts so far")
ax.plot(0, along[np.argmin(np.abs(t))], "ks", label="best point")
ax.plot(1, along[np.argmin(np.abs(t - 1))], "o", color="C3", label="BMRM goes here")
ax.plot(k, min(along), "*", color="C2", markersize=14, label="OCAS goes here")
ax.set(xlabel="k: from the best point to the minimiser of the model")
ax.legend()
plt.show()

# %%
# A run
# -----
# The objective at the successive queries of each, and the certified lower bounds.
results = {"BMRM": problem.solve(cut.BMRM(), tol=1e-3), "OCAS": problem.solve(cut.OCAS(), tol=1e-3)}
fig, ax = plt.subplots(layout="constrained")
for color, (name, result) in zip(("C3", "C2"), results.items(), strict=True):
    points = result.certificate.points
    queried = [problem.objective(points[query]) for query in sorted(points)[1:]]
    lower_bounds = result.history.column("lower_bound")[1:]
    calls = result.history.column("oracle_calls")[1:] - 1
    ax.loglog(np.arange(1, len(queried) + 1), queried, ".", color=color, label=f"{name}, at its queries")
    ax.loglog(calls, lower_bounds, color=color, label=f"{name}, lower bound")
    print(f"{name}: {result.n_iter} iterations, {result.oracle_calls} queries, gap {result.gap:.1e}")
ax.set(xlabel="query", ylabel="objective", ylim=(0.05, None))
ax.legend(loc="lower left")
plt.show()

# %%
# The queries of BMRM are far above the optimum: its next point is where the model is least accurate. Those of
# OCAS are near the best point, where a cut tells the most about the minimum.
#
# The weaker the regularizer
# --------------------------
# The regularizer is all that keeps BMRM from going far; OCAS depends on it less.
lams = np.logspace(-1, -5, 9)
iterations = {
    name: [cut.Problem(problem.risk, cut.L2(weight)).solve(method, tol=1e-3).n_iter for weight in lams]
    for name, method in {"BMRM": cut.BMRM(), "OCAS": cut.OCAS()}.items()
}
fig, ax = plt.subplots(layout="constrained")
for color, (name, counts) in zip(("C3", "C2"), iterations.items(), strict=True):
    ax.loglog(lams, counts, "o-", color=color, label=name)
ax.set(xlabel="lam", ylabel="iterations to a certified gap of 1e-3")
ax.invert_xaxis()
ax.legend()
plt.show()

# %%
# The check
# ---------
# The step of BMRM goes up, that of OCAS down; both runs end at the optimum that cvxpy finds, and OCAS needs
# several times fewer iterations.
assert along[np.argmin(np.abs(t - 1))] > along[np.argmin(np.abs(t))] > min(along)
w = cp.Variable(X.shape[1])
hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / len(y)
optimum = cp.Problem(cp.Minimize(hinge + lam / 2 * cp.sum_squares(w))).solve(solver=cp.CLARABEL)
for result in results.values():
    assert result.status is cut.Status.OPTIMAL
    assert result.lower_bound <= optimum * (1 + 1e-7) and result.objective <= optimum * (1 + 1e-3)
assert iterations["BMRM"][-1] > 3 * iterations["OCAS"][-1]
