r"""
The smallest ball around points
===============================

The centre of the smallest ball that holds the points :math:`a_1, \ldots, a_m` minimises the greatest
distance,

.. math:: \min_x \; \max_i \|x - a_i\| .

Every query of this risk returns the farthest point; the maximum is never written out. The solution is where
the model's cuts balance: the centre is a convex combination of the points on the sphere, with the
certificate's multipliers as weights.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import cutplane as cut

# %%
# 150 flowers: length and width of their sepals.
A = load_iris().data[:, :2]


# %%
# The formulation
# ---------------
@cut.risk(dim=A.shape[1])
def greatest_distance(x):
    distances = np.linalg.norm(x - A, axis=1)
    i = distances.argmax()
    return distances[i], (x - A[i]) / distances[i]


result = cut.Problem(greatest_distance, feasible_set=cut.Box(A.min(axis=0), A.max(axis=0))).solve(tol=1e-7)
print(result)

# %%
# The ball, and the points that hold it.
centre, radius = result.x, result.objective
distances = np.linalg.norm(centre - A, axis=1)
touching = distances > radius * (1 - 1e-5)
fig, ax = plt.subplots()
ax.add_patch(plt.Circle(tuple(centre), radius, fill=False))
ax.plot(*A.T, ".", color="0.6")
ax.plot(*A[touching].T, "o", label="on the sphere")
ax.plot(*centre, "x", color="C1", label="centre")
ax.set(aspect="equal", xlabel="sepal length (cm)", ylabel="sepal width (cm)")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %%
# The check
# ---------
# cvxpy solves the second-order cone programme with all the points. The aggregate of the cuts' slopes, which
# are unit vectors from the points on the sphere to the centre, vanishes.
x = cp.Variable(A.shape[1])
farthest = cp.max(cp.norm2(x[None, :] - A, axis=1))
optimum = cp.Problem(cp.Minimize(farthest)).solve(solver=cp.CLARABEL)
multipliers, slopes = result.certificate.multipliers, result.certificate.slopes
assert result.status is cut.Status.OPTIMAL
assert abs(radius - optimum) <= 1e-5 * optimum
assert np.linalg.norm(multipliers @ slopes) <= 1e-3
