r"""
A penalty from cvxpy: the fused lasso
=====================================

A signal is measured through random projections, some of which are grossly wrong. The absolute loss forgives
the wrong ones, and a penalty on the entries and on their differences (Tibshirani and others, 2005,
`doi:10.1111/j.1467-9868.2005.00490.x <https://doi.org/10.1111/j.1467-9868.2005.00490.x>`_) makes the answer
piecewise constant:

.. math::

   \min_x \; \frac1m \sum_{i=1}^m |\langle a_i, x\rangle - b_i|
   + \lambda \left( \sum_j |x_j| + 5 \sum_j |x_{j+1} - x_j| \right) .

Any convex cvxpy expression is a regularizer: it stays exact in every reduced problem.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import cutplane as cut

# %%
# The signal "Blocks" of Donoho and Johnstone (1994, `doi:10.1093/biomet/81.3.425
# <https://doi.org/10.1093/biomet/81.3.425>`_), sampled at 40 points; 80 random projections of it, every
# tenth replaced by noise.
jumps = np.array([0.1, 0.13, 0.15, 0.23, 0.25, 0.4, 0.44, 0.65, 0.76, 0.78, 0.81])
heights = np.array([4, -5, 3, -4, 5, -4.2, 2.1, 4.3, -3.1, 2.1, -4.2])
n, m = 40, 80
signal = (np.arange(n)[:, None] / n >= jumps) @ heights
rng = np.random.default_rng(0)
A = rng.normal(size=(m, n)) / np.sqrt(n)
b = A @ signal
b[::10] += 10 * rng.normal(size=m // 10)

# %%
# The formulation
# ---------------
x = cp.Variable(n)
fused = cut.CvxpyRegularizer(cp.norm1(x) + 5 * cp.norm1(cp.diff(x)), x, lam=1e-3)
problem = cut.Problem(cut.LinearRisk(A, b, loss=cut.losses.Absolute()), fused)
result = problem.solve(cut.ProximalBundle(), tol=1e-6)
print(result)

# %%
# Bad measurements have no influence.
fig, ax = plt.subplots()
ax.step(np.arange(n), signal, where="mid", color="0.8", linewidth=4, label="signal")
ax.step(np.arange(n), result.x, where="mid", label="recovered")
ax.legend()
plt.show()

# %%
# The check
# ---------
# cvxpy solves the problem as a whole.
whole = cp.sum(cp.abs(A @ x - b)) / m + 1e-3 * (cp.norm1(x) + 5 * cp.norm1(cp.diff(x)))
optimum = cp.Problem(cp.Minimize(whole)).solve(solver=cp.CLARABEL)
assert result.status is cut.Status.OPTIMAL
assert abs(result.objective - optimum) <= 1e-5 * optimum
assert np.abs(result.x - signal).max() < 0.5
