r"""
A regularisation path that reuses every cut
===========================================

A cut of the risk is a lower bound of the risk alone: it holds for every weight of the regularizer. Along a
path

.. math::

   \min_w \; \frac1m \sum_{i=1}^m \max(0, 1 - y_i \langle x_i, w\rangle) + \frac\lambda2 \|w\|^2,
   \qquad \lambda = 1, \ldots, 10^{-5} ,

each problem starts with the cuts of all those before it. The comparison is with solving each from nothing,
both by `OCAS`, which knows the risk by its cuts alone.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import cutplane as cut

# %%
# The digits 3 and 8, 357 images of 8 x 8 pixels, with a constant feature.
X, digit = load_digits(return_X_y=True)
chosen = np.isin(digit, (3, 8))
X = np.column_stack([X[chosen] / 16, np.ones(chosen.sum())])
y = np.where(digit[chosen] == 3, 1.0, -1.0)
lams = np.logspace(0, -5, 21)

# %%
# The formulation
# ---------------
problem = cut.Problem(cut.LinearRisk(X, y, loss=cut.losses.Hinge()), cut.L2(1.0))
path = problem.path(lams, method=cut.OCAS(), tol=1e-5)
print(path)

# %%
# The same, each from nothing.
cold = [cut.Problem(problem.risk, cut.L2(lam)).solve(cut.OCAS(), tol=1e-5) for lam in lams]
calls = sum(result.oracle_calls for result in cold)
saved = 1 - path.oracle_calls / calls
print(f"{path.oracle_calls} queries of the risk instead of {calls}: {saved:.0%} saved")

# %%
# Queries of the risk, for each weight.
fig, ax = plt.subplots()
ax.semilogx(lams, [result.oracle_calls for result in cold], "o-", label="each from nothing")
ax.semilogx(lams, [result.oracle_calls for result in path], "o-", label="path")
ax.set(xlabel="lam", ylabel="queries of the risk")
ax.invert_xaxis()
ax.legend()
plt.show()

# %%
# The check
# ---------
# Both agree, and so does cvxpy with the problem as a whole, in the middle of the path.
middle = len(lams) // 2
w = cp.Variable(X.shape[1])
hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / len(y)
whole = cp.Problem(cp.Minimize(hinge + lams[middle] / 2 * cp.sum_squares(w)))
optimum = whole.solve(solver=cp.CLARABEL)
assert all(result.status is cut.Status.OPTIMAL for result in [*path, *cold])
assert abs(path.objectives[middle] - optimum) <= 1e-5 * optimum
assert np.allclose(path.objectives, [result.objective for result in cold], rtol=1e-5)
assert saved > 0.3
