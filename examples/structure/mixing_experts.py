r"""
Mixing experts with an entropy
==============================

Several predictors are given; a mixture of them, with weights in the simplex, is to have a small absolute
error:

.. math::

   \min_{p \ge 0, \, \sum_j p_j = 1} \;
   \frac1m \sum_{i=1}^m |\langle z_i, p\rangle - y_i| + \lambda \sum_j p_j \ln p_j ,

where :math:`z_{ij}` is what expert j predicts for example i. The entropy spreads the weights; its conjugate
over the simplex is a soft maximum, so the lower bound has a closed form.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

import cutplane as cut

# %%
# Ten experts, fitted to one half of the diabetes data; their weights are chosen on the other half.
X, target = load_diabetes(return_X_y=True)
y = target / 100
fitted, held_out = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
experts = {f"nearest {k}": KNeighborsRegressor(k) for k in (1, 5, 20, 80)}
experts |= {f"tree of depth {d}": DecisionTreeRegressor(max_depth=d, random_state=0) for d in (1, 3, 6)}
experts |= {f"ridge {alpha:g}": Ridge(alpha) for alpha in (0.01, 1.0, 100.0)}
predictions = [expert.fit(X[fitted], y[fitted]).predict(X[held_out]) for expert in experts.values()]
Z, y = np.column_stack(predictions), y[held_out]
lam = 0.01

# %%
# The formulation
# ---------------
risk = cut.LinearRisk(Z, y, loss=cut.losses.Absolute())
problem = cut.Problem(risk, cut.NegativeEntropy(lam), cut.Simplex())
result = problem.solve(tol=1e-6)
print(result)

# %%
# No expert alone has an error as small as the mixture's.
errors = np.abs(Z - y[:, None]).mean(axis=0)
print(f"best expert {errors.min():.4f}, mixture {np.abs(Z @ result.x - y).mean():.4f}")

# %%
# The weights.
fig, ax = plt.subplots()
ax.barh(list(experts), result.x)
ax.set_xlabel("weight")
fig.tight_layout()
plt.show()

# %%
# The check
# ---------
# cvxpy solves the problem as a whole. The weights are also, by the conditions of optimality, the soft
# minimum :math:`p_j \propto \exp(-v_j / \lambda)`, where v is the aggregate slope: the cuts weighted by
# their multipliers.
p = cp.Variable(Z.shape[1])
whole = cp.sum(cp.abs(Z @ p - y)) / len(y) - lam * cp.sum(cp.entr(p))
optimum = cp.Problem(cp.Minimize(whole), [p >= 0, cp.sum(p) == 1]).solve(solver=cp.CLARABEL)
v = result.certificate.multipliers @ result.certificate.slopes
softmin = np.exp(-(v - v.min()) / lam)
assert result.status is cut.Status.OPTIMAL
assert abs(result.objective - optimum) <= 1e-5 * optimum
assert np.allclose(result.x, softmin / softmin.sum(), atol=0.02)
