r"""
Five losses for a classifier
============================

A linear classifier for scikit-learn's breast-cancer data (569 tumours, 30 measurements) solves

.. math:: \min_w \; \frac1m \sum_{i=1}^m \ell(\langle x_i, w\rangle, y_i) + \frac\lambda2 \|w\|^2 .

The loss :math:`\ell` is a parameter of the risk: smooth or not, the same engine solves and certifies the
problem.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import cutplane as cut

# %%
# The data, standardised, with a constant feature for the bias.
X, labels = load_breast_cancer(return_X_y=True)
X = np.column_stack([StandardScaler().fit_transform(X), np.ones(len(X))])
y = np.where(labels == 1, 1.0, -1.0)
lam = 1e-2

# %%
# Each loss, and the same function of the margin :math:`s = y \langle x, w\rangle` for cvxpy, to compare
# with.
losses = {
    "hinge": (cut.losses.Hinge(), lambda s: cp.pos(1 - s)),
    "squared hinge": (cut.losses.SquaredHinge(), lambda s: cp.square(cp.pos(1 - s))),
    "modified Huber": (cut.losses.ModifiedHuber(), lambda s: cp.huber(cp.pos(1 - s), 2)),
    "logistic": (cut.losses.Logistic(), lambda s: cp.logistic(-s)),
    "exponential": (cut.losses.Exponential(), lambda s: cp.exp(-s)),
}

# %%
# The formulation
# ---------------
results = {}
for name, (loss, _) in losses.items():
    problem = cut.Problem(cut.LinearRisk(X, y, loss=loss), cut.L2(lam))
    results[name] = problem.solve(tol=1e-6)

# %%
# What each of them costs: a smooth risk needs fewer iterations, and fewer features of the data are fitted
# exactly.
for name, result in results.items():
    accuracy = np.mean(np.sign(X @ result.x) == y)
    print(f"{name:<15} {result.objective:.6f}  {result.n_iter:>3} iterations  accuracy {accuracy:.3f}")

# %%
# The losses over the margin.
margin = np.linspace(-2, 2.5, 200)
fig, ax = plt.subplots()
for name, (loss, _) in losses.items():
    ax.plot(margin, loss.value(margin, 1.0), label=name)
ax.set(xlabel="margin", ylabel="loss", ylim=(0, 8))
ax.legend()
plt.show()

# %%
# The check
# ---------
# cvxpy solves each problem as a whole.
w = cp.Variable(X.shape[1])
for name, (_, expression) in losses.items():
    whole = cp.sum(expression(cp.multiply(y, X @ w))) / len(y) + lam / 2 * cp.sum_squares(w)
    optimum = cp.Problem(cp.Minimize(whole)).solve(solver=cp.CLARABEL)
    assert results[name].status is cut.Status.OPTIMAL
    assert abs(results[name].objective - optimum) <= 1e-5 * optimum, name
