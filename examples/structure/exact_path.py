r"""
An exact l1 path with its knots
===============================

With a differentiable loss that is quadratic on pieces, the solution of

.. math::

   \min_{w, b} \; \frac1m \sum_{i=1}^m \max(0, 1 - y_i (\langle x_i, w\rangle + b))^2 + \lambda \|w\|_1

is a piecewise linear function of :math:`\lambda`. Its pieces end where a feature joins the solution or leaves
it, or an example enters the margin or leaves it. So the whole path can be found, not a grid of it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import cutplane as cut

X, y = load_breast_cancer(return_X_y=True)
X, y = StandardScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0)

# %%
# The norm leaves the bias free. The path goes from the least weight with w = 0 to the problem's own.
norm = cut.L1(1e-3, weights=np.append(np.ones(X.shape[1]), 0.0))
problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.SquaredHinge(), intercept=True), norm)
path = problem.path(exact=True)
print(path)
print("the first events:", ", ".join(path.events[:6]))

# %%
# Every knot has a certified gap, and so has any weight in between.
print("largest gap of a knot:", path.gaps.max())
print("gap at 0.0123:        ", path.gap(0.0123))
assert path.gaps.max() < 1e-10 and path.gap(0.0123) < 1e-10

# %%
# A cold solve agrees.
cold = cut.Problem(problem.risk, norm.with_lam(0.0123)).solve(tol=1e-10)
assert np.allclose(cold.x, path(0.0123), atol=1e-4)

# %%
# The path, and where its knots are: ticks below for examples, and above for features.
figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
path.plot(ax=axes)
crosses = np.array([event.startswith("crosses") for event in path.events])
axes.plot(
    path.knots[crosses], np.zeros(crosses.sum()), "|", color="0.5", transform=axes.get_xaxis_transform()
)
axes.plot(
    path.knots[~crosses], np.ones((~crosses).sum()), "|", color="C3", transform=axes.get_xaxis_transform()
)
axes.set_title(
    f"{len(path)} knots: {(~crosses).sum()} of features (above), {crosses.sum()} of examples (below)"
)
plt.show()
