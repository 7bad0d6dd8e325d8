r"""
Ordered levels
==============

How far will diabetes have progressed after a year: not at all, a little, much, or very much? Four levels are
neither four classes, since they have an order, nor numbers, since the steps between them need not be equal.
Ordinal regression puts the patients on a line, by a score :math:`\langle w, x\rangle`, and thresholds
:math:`b_0, b_1, b_2` between the levels:

.. math:: \min_{w, b} \; \frac1m \sum_{i=1}^m \sum_j
   \max(0,\, 1 \mp (\langle w, x_i\rangle - b_j)) + \frac\lambda2 \|w\|^2 ,

where the sign is minus for patients whose level is above :math:`j`. A mistake costs the more the more
thresholds it crosses.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

import cutplane as cut

# %%
# Ten measurements of 442 patients, standardised, and the quarter of all patients that each belongs to.
X, progression = load_diabetes(return_X_y=True)
X = StandardScaler().fit_transform(X)
y = np.digitize(progression, np.quantile(progression, [0.25, 0.5, 0.75]))
m, n = X.shape
lam = 1e-2

# %%
# The formulation
# ---------------
# The vector of the problem is (w, b); the thresholds are not regularized.
regularizer = cut.L2(lam, weights=np.append(np.ones(n), np.zeros(3)))
risks = {
    "all": cut.OrdinalRisk(X, y, cut.losses.Hinge(), thresholds="all"),
    "immediate": cut.OrdinalRisk(X, y, cut.losses.Hinge(), thresholds="immediate"),
}
results, levels = {}, {}
for name, risk in risks.items():
    results[name] = cut.Problem(risk, regularizer).solve(tol=1e-6)
    levels[f"{name} thresholds"] = risk.predict_levels(results[name].x)

# %%
# For comparison, a classifier that does not know of the order: four rows of weights, each with a bias.
classes = cut.MulticlassRisk(X, y, cut.losses.MulticlassHinge(), intercept=True)
penalised = np.column_stack([np.ones((4, n)), np.zeros(4)])
W = cut.Problem(classes, cut.L2(lam, weights=penalised.ravel())).solve(tol=1e-4).x.reshape(classes.shape)
levels["four classes"] = (X @ W[:, :n].T + W[:, n]).argmax(axis=1)

# %%
# How many levels the predictions are off: those that know of the order are seldom far off.
for name, predicted in levels.items():
    off = np.abs(predicted - y)
    print(f"{name:<21} right {np.mean(off == 0):.3f}  off by {off.mean():.3f}  by 2 or 3: {np.sum(off > 1)}")

# %%
# The scores of the patients and the thresholds.
x = results["all"].x
fig, ax = plt.subplots()
for level in range(4):
    ax.hist(X[y == level] @ x[:n], bins=np.linspace(-4, 4, 40), alpha=0.5, label=f"quarter {level + 1}")
for threshold in x[n:]:
    ax.axvline(threshold, color="0.3", linestyle="--")
ax.set(xlabel="score", ylabel="patients")
ax.legend()
plt.show()

# %%
# The check
# ---------
# cvxpy solves the whole problem, written threshold by threshold; and, as theory has it, the thresholds that
# are best for the sum over all of them are in order.
w, b = cp.Variable(n), cp.Variable(3)
for name, result in results.items():
    losses = []
    for j in range(3):
        sign = np.where(y > j, 1.0, -1.0)
        counted = np.ones(m) if name == "all" else (y == j) | (y == j + 1)
        losses.append(cp.sum(cp.multiply(counted / m, cp.pos(1 - cp.multiply(sign, X @ w - b[j])))))
    optimum = cp.Problem(cp.Minimize(sum(losses) + lam / 2 * cp.sum_squares(w))).solve(solver=cp.CLARABEL)
    assert result.status is cut.Status.OPTIMAL
    assert abs(result.objective - optimum) <= 2e-6 * optimum, name
assert (np.diff(x[n:]) > 0).all()
