r"""
A sparse classifier
===================

The hinge loss with an l1 regularizer,

.. math:: \min_w \; \frac1m \sum_{i=1}^m \max(0, 1 - y_i \langle x_i, w\rangle) + \lambda \|w\|_1 ,

selects features: as :math:`\lambda` falls they enter one after the other. Every reduced problem is a linear
programme.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import cutplane as cut

# %%
# The breast-cancer data, standardised, with a constant feature for the bias.
data = load_breast_cancer()
X = np.column_stack([StandardScaler().fit_transform(data.data), np.ones(len(data.data))])
y = np.where(data.target == 1, 1.0, -1.0)

# %%
# At w = 0 the risk has the gradient :math:`-X'y/m`, so zero is optimal exactly if :math:`\lambda \ge
# \|X'y/m\|_\infty`.
lam_max = np.abs(X.T @ y / len(y)).max()
lams = lam_max * np.logspace(0.1, -2.5, 27)

# %%
# The formulation
# ---------------
# One problem, solved for each weight; all cuts of the risk are kept from one weight to the next.
problem = cut.Problem(cut.LinearRisk(X, y, loss=cut.losses.Hinge()), cut.L1(lam_max))
path = problem.path(lams, tol=1e-6)

# %%
# How many features each classifier uses, and how well.
frame = path.to_frame()
frame["features"] = (np.abs(path.coefficients) > 1e-7).sum(axis=1)
frame["accuracy"] = ((path.coefficients @ X.T > 0) == (y > 0)).mean(axis=1)
print(frame[["lam", "objective", "gap", "features", "accuracy", "oracle_calls"]].iloc[::5].to_string())

# %%
# The path of the coefficients.
ax = path.plot()
ax.set_title("coefficients of the l1-regularized hinge loss")
plt.show()

# %%
# The check
# ---------
# The path starts at zero and leaves it at the weight foreseen; its last problem, solved as a whole by
# cvxpy, has the same optimum.
w = cp.Variable(X.shape[1])
hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / len(y)
optimum = cp.Problem(cp.Minimize(hinge + lams[-1] * cp.norm1(w))).solve(solver=cp.CLARABEL)
assert all(result.status is cut.Status.OPTIMAL for result in path)
assert np.abs(path[0].x).max() <= 1e-7 and np.abs(path[2].x).max() > 1e-3
assert abs(path.objectives[-1] - optimum) <= 1e-5 * optimum
