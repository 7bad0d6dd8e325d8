r"""
The centre of the version space
===============================

The linear classifiers that make no error on the training data form a polyhedral cone; cut off by a box, it
has a largest inscribed ball. Its centre (the Chebyshev centre) is the classifier farthest from the nearest
error:

.. math::

   \max_{w, r} \; r \quad \text{subject to} \quad y_i \langle x_i, w\rangle \ge r \|x_i\| \;\; \forall i,
   \qquad |w_j| + r \le 1 \;\; \forall j .

The constraints are never listed: a separation oracle answers with the most violated one.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

import cutplane as cut

# %%
# One species of iris can be told from the others without error. The rows are the half-spaces of the cone
# and of the box, and in the last column the length of their normals.
X, species = load_iris(return_X_y=True)
X = np.column_stack([X, np.ones(len(X))])
y = np.where(species == 0, 1.0, -1.0)
n = X.shape[1]
rows = np.vstack([-y[:, None] * X, np.eye(n), -np.eye(n)])
sides = np.append(np.zeros(len(y)), np.ones(2 * n))
rows = np.column_stack([rows, np.linalg.norm(rows, axis=1)])


# %%
# The formulation
# ---------------
# The variable is (w, r); the ball lies in the half-space i if <rows[i], (w, r)> <= sides[i].
@cut.separation_oracle
def ball_inside(x):
    excess = rows @ x - sides
    i = excess.argmax()
    return [] if excess[i] <= 1e-9 else [cut.HalfSpace(rows[i], sides[i])]


farthest = cut.LinearObjective(-np.eye(n + 1)[n])
result = cut.Problem(farthest, feasible_set=cut.Box(-1, 1, dim=n + 1) & ball_inside).solve(tol=1e-7)
print(result)

# %%
# The oracle returned only a few of the half-spaces.
w, radius = result.x[:n], result.x[n]
half_spaces = np.unique(result.certificate.slopes[result.certificate.blocks < 0], axis=0)
print(f"radius {radius:.6f}, {len(half_spaces)} of {len(rows)} half-spaces used")

# %%
# The distance of the centre from each half-space. The ball touches the first ones; most half-spaces
# are far away, and nobody needed them.
distances = (sides - rows[:, :n] @ w) / rows[:, n]
order = distances.argsort()
asked = (rows[order, np.newaxis] == half_spaces).all(axis=2).any(axis=1)
fig, ax = plt.subplots(layout="constrained")
ax.bar(np.arange(len(rows)), distances[order], width=1.0, color=np.where(asked, "C3", "C0"))
ax.axhline(radius, color="k", linestyle=":", label="radius")
ax.bar([0], [0], color="C3", label="asked for")
ax.set(xlabel="half-space", ylabel="distance from the centre", ylim=(0.0, 0.6))
ax.legend()
plt.show()

# %%
# The check
# ---------
# cvxpy solves the linear programme with all its rows. No facet is nearer to the centre than the radius, and
# one is as near.
z = cp.Variable(n + 1)
optimum = cp.Problem(cp.Minimize(-z[n]), [rows @ z <= sides]).solve(solver=cp.CLARABEL)
assert result.status is cut.Status.OPTIMAL
assert abs(result.objective - optimum) <= 1e-5 * abs(optimum)
assert abs(distances.min() - radius) <= 1e-5 * radius
assert np.array_equal(np.sign(X @ w), y)
