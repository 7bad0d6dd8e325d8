r"""
A risk of your own
==================

A new learning formulation is a function that returns a value and a subgradient. Here, the pinball risk of
quantile regression,

.. math:: f(w) = \frac1m \sum_{i=1}^m \max(0.9 \, r_i, -0.1 \, r_i), \qquad r = y - Xw ,

whose minimiser predicts what nine patients out of ten stay below.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

import cutplane as cut
from cutplane.testing import check_risk

# %%
# The diabetes data, standardised, with a constant feature; the target in hundreds.
X, target = load_diabetes(return_X_y=True)
X = np.column_stack([StandardScaler().fit_transform(X), np.ones(len(X))])
y = target / 100


# %%
# The formulation
# ---------------
@cut.risk(dim=X.shape[1])
def pinball(w):
    r = y - X @ w
    return np.maximum(0.9 * r, -0.1 * r).mean(), -X.T @ np.where(r > 0, 0.9, -0.1) / len(y)


problem = cut.Problem(pinball, cut.L2(1e-2))
result = problem.solve(tol=1e-6)
print(result)

# %%
# Is the subgradient right? This would be found before the first solve; a wrong sign or factor is shown with
# two points.
print(check_risk(pinball))

# %%
# Both bounds, over the iterations.
result.plot()
plt.show()

# %%
# The check
# ---------
# cvxpy solves the problem as a whole, and the certificate is recomputed from the function above alone.
w = cp.Variable(X.shape[1])
r = y - X @ w
whole = cp.sum(cp.maximum(0.9 * r, -0.1 * r)) / len(y) + 1e-2 / 2 * cp.sum_squares(w)
optimum = cp.Problem(cp.Minimize(whole)).solve(solver=cp.CLARABEL)
below = np.mean(y <= X @ result.x + 1e-6)  # the optimum passes exactly through some of them
print(f"{below:.3f} of the patients are not above the prediction")
assert result.status is cut.Status.OPTIMAL
assert abs(result.objective - optimum) <= 1e-5 * optimum
assert result.certificate.verify().valid
assert abs(below - 0.9) < 0.02
