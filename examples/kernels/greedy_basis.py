r"""
A decision boundary on a handful of functions
=============================================

A support vector machine expands its function in all support vectors, often hundreds. Here the basis grows
greedily instead: of 59 random examples the one joins whose kernel function lowers the objective most,

.. math::

   \min_{f, b} \; \tfrac12 \|f\|^2 + C \sum_i \max(0, 1 - y_i (f(x_i) + b))^2,
   \qquad f = \sum_{j \in J} a_j k(x_j, \cdot) .
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from cutplane.estimators import SparseKernelClassifier

X, y = make_moons(1200, noise=0.25, random_state=0)
train, test = slice(0, 400), slice(400, None)

# %%
# Errors on other examples, as the basis grows, beside the machine with all support vectors.
svc = SVC(gamma=2.0).fit(X[train], y[train])
print(f"SVC, {svc.n_support_.sum()} support vectors: {1 - svc.score(X[test], y[test]):.3f}")
sizes, models = (2, 4, 8, 16), {}
for size in sizes:
    models[size] = SparseKernelClassifier(n_basis=size, gamma=2.0, random_state=0).fit(X[train], y[train])
    error = 1 - models[size].score(X[test], y[test])
    print(f"{size:>2} functions: {error:.3f}, objective {models[size].objective_:.1f}")
assert models[16].score(X[test], y[test]) > svc.score(X[test], y[test]) - 0.02

# %%
# The boundary, and the examples whose functions it is made of.
grid = np.stack(np.meshgrid(np.linspace(-2, 3, 120), np.linspace(-1.6, 2.1, 90)), axis=-1)
figure, panels = plt.subplots(1, len(sizes), figsize=(12, 3), sharey=True, layout="constrained")
for axes, size in zip(panels, sizes, strict=True):
    scores = models[size].decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    axes.scatter(*X[train].T, c=y[train], cmap="RdBu", s=5, alpha=0.6)
    axes.contour(grid[..., 0], grid[..., 1], scores, levels=[0.0], colors="black")
    axes.scatter(*X[train][models[size].support_].T, color="none", edgecolors="black", s=60)
    axes.set_title(f"{size} functions")
plt.show()
