r"""
Methods and backends, side by side
==================================

Where to query next is the method's choice, who solves the reduced problems is the backend's. Neither is
part of the problem,

.. math:: \min_w \; \frac1m \sum_{i=1}^m \max(0, 1 - y_i \langle x_i, w\rangle) + \frac\lambda2 \|w\|^2 ,

so they can be changed without touching its declaration.
"""

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
lam = 1e-2

# %%
# The formulation
# ---------------
problem = cut.Problem(cut.LinearRisk(X, y, loss=cut.losses.Hinge()), cut.L2(lam))
methods = [cut.BMRM(), cut.OCAS(), cut.ProximalBundle(), cut.LevelBundle()]
table = cut.compare(problem, methods, ["auto", "clarabel"], tol=1e-5)
print(table)

# %%
# The certified gap over time.
table.plot()
plt.show()

# %%
# The check
# ---------
# Every combination certifies the tolerance, and cvxpy, which solves the problem as a whole, agrees with
# each of them.
w = cp.Variable(X.shape[1])
hinge = cp.sum(cp.pos(1 - cp.multiply(y, X @ w))) / len(y)
optimum = cp.Problem(cp.Minimize(hinge + lam / 2 * cp.sum_squares(w))).solve(solver=cp.CLARABEL)
for result in table.results:
    assert result.status is cut.Status.OPTIMAL
    assert abs(result.objective - optimum) <= 1e-5 * optimum
    assert result.lower_bound <= optimum * (1 + 1e-7)
