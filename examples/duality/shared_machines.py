r"""
Jobs for machines with little time
==================================

Each of n jobs is done by one of m machines. Machine i takes the time :math:`w_{ij}` and costs
:math:`c_{ij}`, and has the time :math:`C_i`:

.. math::

   \min \sum_{i,j} c_{ij} x_{ij} \quad \text{subject to} \quad \sum_i x_{ij} = 1 \text{ for each job}, \quad
   \sum_j w_{ij} x_{ij} \le C_i \text{ for each machine}, \quad x_{ij} \in \{0, 1\} .

With a price for each job a machine is on its own: it solves a knapsack problem. The best prices are a
Lagrangian dual (`doi:10.1007/BFb0120690 <https://doi.org/10.1007/BFb0120690>`_), a nonsmooth convex
problem. Its bound is better than that of the relaxation :math:`0 \le x \le 1`, and its cuts average to a
solution of the linear programme over all that a machine can do.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import cutplane as cut

rng = np.random.default_rng(3)
m, n = 4, 14
times = rng.integers(5, 25, (m, n))
costs = 40 - times + rng.integers(-4, 5, (m, n))
limits = np.floor(1.05 * times.sum(axis=1) / m)

# %%
# The formulation
# ---------------
machines = [
    cut.decomposition.LinearSubproblem(c, [w], row_upper=[limit], upper=1.0, integrality=True)
    for c, w, limit in zip(costs, times, limits, strict=True)
]
dual = cut.LagrangianDual(machines, coupling=[np.eye(n)] * m, rhs=np.ones(n))
result = cut.Problem(dual).solve(tol=1e-6)
shares = np.array(result.primal)
print(result)

# %%
# The averages of the machines' answers do each job once, in parts; most parts are whole.
fig, ax = plt.subplots(figsize=(8, 3))
ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
ax.set_xlabel("job")
ax.set_ylabel("machine")
ax.set_xticks(range(n))
ax.set_yticks(range(m))
fig.tight_layout()
plt.show()

# %%
# The check
# ---------
# The bound lies between that of the relaxation and the optimum, both found by HiGHS through cvxpy.
x = cp.Variable((m, n), nonneg=True)
whole = cp.Variable((m, n), boolean=True)


def optimum(y):
    rows = [cp.sum(y, axis=0) == 1, cp.sum(cp.multiply(times, y), axis=1) <= limits]
    return cp.Problem(cp.Minimize(cp.sum(cp.multiply(costs, y))), rows).solve(solver="HIGHS")


bound, relaxed, best = -result.objective, optimum(x), optimum(whole)
print(f"relaxation {relaxed:.3f}, Lagrangian bound {bound:.3f}, optimum {best:.0f}")
assert result.status is cut.Status.OPTIMAL
assert relaxed - 1e-6 <= bound <= best + 1e-6
assert bound > relaxed + 0.1
assert dual.infeasibility(result.primal) <= 1e-6
assert abs((costs * shares).sum() - bound) <= 1e-4 * bound
