r"""
Two moons with ten labels
=========================

Ten labelled examples say little about where two classes meet; hundreds of unlabelled ones say where the
examples are. A graph joins each example with its nearest neighbours, and a function that varies slowly along
its edges pays less:

.. math::

   \min_{f, b} \; \tfrac12 \|f\|^2 + \tfrac\mu2 \sum_{k \sim l} (f(x_k) - f(x_l))^2
   + C \sum_{i \text{ labelled}} \max(0, 1 - y_i (f(x_i) + b)) .
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from cutplane.estimators import GraphSVC, KernelSVC

X, y = make_moons(300, noise=0.06, random_state=0)
some = np.full(len(y), -1)
for label in (0, 1):
    some[np.flatnonzero(y == label)[:5]] = label

# %%
# The support vector machine of the labelled examples, and the one with the graph.
labelled = some >= 0
alone = KernelSVC(C=10.0, gamma=5.0).fit(X[labelled], y[labelled])
graph = GraphSVC(C=10.0, graph_weight=30.0, gamma=5.0).fit(X, some)
for name, model in (("ten labels alone", alone), ("with the graph", graph)):
    print(f"{name:<18} accuracy {model.score(X, y):.3f}, certified gap {model.gap_:.1e}")
assert graph.score(X, y) > 0.98 > alone.score(X, y)

# %%
# Where the two decide.
grid = np.stack(np.meshgrid(np.linspace(-1.6, 2.6, 120), np.linspace(-1.1, 1.6, 90)), axis=-1)
figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for axes, (name, model) in zip(panels, (("ten labels alone", alone), ("with the graph", graph)), strict=True):
    scores = model.decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    axes.contourf(grid[..., 0], grid[..., 1], scores, levels=20, cmap="RdBu", alpha=0.5)
    axes.contour(grid[..., 0], grid[..., 1], scores, levels=[0.0], colors="black")
    axes.scatter(*X.T, s=6, color="0.4")
    axes.scatter(*X[labelled].T, c=y[labelled], cmap="RdBu", edgecolors="black", s=50)
    axes.set_title(f"{name}: {model.score(X, y):.1%}")
plt.show()
