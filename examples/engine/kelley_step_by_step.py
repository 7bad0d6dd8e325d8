r"""
The cutting-plane method, step by step
======================================

The value that is nearest to all observations :math:`y_i`, by the mean absolute distance

.. math:: f(x) = \frac1m \sum_{i=1}^m |x - y_i| ,

is their median. Kelley's method finds it from slopes alone: each query adds a tangent, the greatest of the
tangents is a model of f from below, and the next query is where the model is least.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import cutplane as cut

# %%
# The alcohol content of 178 wines.
y = load_wine().data[:, 0]


# %%
# The formulation
# ---------------
@cut.risk(dim=1)
def mean_distance(x):
    return np.abs(x - y).mean(), np.sign(x - y).mean(keepdims=True)


problem = cut.Problem(mean_distance, feasible_set=cut.Box(y.min() - 2, y.max() + 2))
run = problem.iterate(cut.Kelley(), tol=1e-8)
bounds = [(step.lower_bound, step.upper_bound) for step in run]

# %%
# The bounds close in on the optimum.
for iteration, (lower, upper) in enumerate(bounds):
    print(f"{iteration:>2}  {lower:>10.6f} <= optimum <= {upper:.6f}")

# %%
# The model after 2, 3 and 5 queries. Its least value, the dot, is the lower bound.
certificate = run.result().certificate
grid = np.linspace(y.min() - 2, y.max() + 2, 500)
values = np.abs(grid[:, None] - y).mean(axis=1)
tangents = grid[:, None] * certificate.slopes[:, 0] + certificate.offsets
fig, axes = plt.subplots(1, 3, figsize=(11, 4), sharey=True)
for ax, count in zip(axes, (2, 3, 5), strict=True):
    model = tangents[:, :count].max(axis=1)
    ax.plot(grid, tangents[:, :count], color="0.8", linewidth=1)
    ax.plot(grid, values, label="risk")
    ax.plot(grid, model, label="model")
    ax.plot(grid[model.argmin()], model.min(), "o", color="C1")
    ax.set(title=f"{count} cuts", xlabel="alcohol content (%)", xlim=(10.5, 15.5), ylim=(-0.2, 2))
axes[0].legend()
plt.show()

# %%
# The check
# ---------
# The theorem: f is least at the median. cvxpy agrees.
result = run.result()
x = cp.Variable()
optimum = cp.Problem(cp.Minimize(cp.sum(cp.abs(x - y)) / len(y))).solve(solver=cp.CLARABEL)
assert result.status is cut.Status.OPTIMAL
assert abs(result.objective - np.abs(np.median(y) - y).mean()) <= 1e-8 * optimum
assert abs(result.objective - optimum) <= 1e-5 * optimum
