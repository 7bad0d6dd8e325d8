r"""
The cut that removes a fractional vertex
========================================

Three variables with two states each, and each pair pays 1 if its states are equal. Two states for three
variables: some pair must be equal, so the least energy is 1. The linear programme over the local polytope
says 0. This example draws why, and the inequality that mends it.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

import cutplane as cut

agree = [[1, 0], [0, 1]]
pairs = [(0, 1), (1, 2), (0, 2)]
model = cut.graphical.GraphicalModel([2, 2, 2], [(pair, agree) for pair in pairs])
local = model.map(method="primal", tighten=False)
print(f"the local polytope: energy {local.energy:g}, bound {local.bound:g}")

# %%
# In the plane of disagreements
# -----------------------------
# The energy depends on how often each pair disagrees: :math:`c_{uv} = P(x_u \neq x_v)`, and
# :math:`E = \sum_{uv} (1 - c_{uv})`. The eight labellings give four points, for turning all states round
# changes nothing. Their convex hull, a tetrahedron, is what the marginal polytope looks like from here. Seen
# the same way, the local polytope is the whole cube: each pair alone may disagree with probability 1, if each
# variable is in either state with probability 1/2.
corners = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
labellings = np.array(list(itertools.product([0, 1], repeat=3)))
points = np.unique([[x[u] != x[v] for u, v in pairs] for x in labellings], axis=0).astype(float)
edges = [(a, b) for a, b in itertools.combinations(corners, 2) if np.abs(a - b).sum() == 1]
fractional = np.ones(3)


def draw(ax, title):
    ax.add_collection3d(Line3DCollection(edges, colors="0.7", linewidths=1))
    faces = [points[list(face)] for face in itertools.combinations(range(4), 3)]
    ax.add_collection3d(Poly3DCollection(faces, facecolors="C0", edgecolors="C0", alpha=0.25))
    ax.scatter(*points.T, color="C0", s=40, label="labellings", depthshade=False)
    ax.set(xlabel="$c_{01}$", ylabel="$c_{12}$", zlabel="$c_{02}$", title=title)
    ax.set(xticks=[0, 1], yticks=[0, 1], zticks=[0, 1])
    ax.view_init(16, 8)


# %%
# The vertex and the cut
# ----------------------
# The least energy over the cube is at the corner (1, 1, 1): all three pairs disagree, as no labelling can. A
# cycle changes sides an even number of times, so for the triangle
#
# .. math:: c_{01} + c_{12} + c_{02} \le 2,
#
# the cycle inequality with all three edges in F. It is a face of the tetrahedron and cuts the corner off.
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4), subplot_kw={"projection": "3d"})
draw(left, "the fractional vertex")
left.scatter(*fractional, color="C3", s=80, marker="X", label="optimum of the local polytope")
left.legend(loc="upper left", frameon=False, fontsize="small")
draw(right, "the cut")
triangle = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
right.add_collection3d(Poly3DCollection([triangle], facecolors="C3", alpha=0.45))
right.scatter(*fractional, color="C3", s=80, marker="X")
right.scatter(*triangle.T, color="C2", s=60, label="optima", depthshade=False)
right.legend(loc="upper left", frameon=False, fontsize="small")
plt.show()


# %%
# The same as a formulation
# -------------------------
# The cube is a `Box`, and a separation oracle looks for the worst of the four inequalities of the triangle.
@cut.separation_oracle
def triangle_inequalities(c):
    found = []
    for F in [(0,), (1,), (2,), (0, 1, 2)]:
        normal = np.full(3, -1.0)
        normal[list(F)] = 1.0
        if normal @ c > len(F) - 1 + 1e-9:
            found.append(cut.HalfSpace(normal, len(F) - 1.0))
    return found


cube = cut.Box(0, 1, dim=3)
problem = cut.Problem(cut.LinearObjective(-np.ones(3)), feasible_set=cube & triangle_inequalities)
for step in problem.iterate(cut.Kelley()):
    print(f"{step.n_cuts} rows: bound {3 + step.lower_bound:g}")

# %%
# Seen from the dual
# ------------------
# A cut of the primal is a variable of the dual: the zero function on all three variables, whose costs can be
# moved to the pairs. Sweeps with it reach the least energy; without it they cannot rise above 0.
for tighten in (False, True):
    result = model.map(method="dual", tighten=tighten)
    print(f"tighten={tighten}: energy {result.energy:g}, bound {result.bound:.6g}")

# %%
# The check
# ---------
tightened = model.map(method="primal")
assert tightened.status is result.status is cut.Status.OPTIMAL
assert abs(local.bound) <= 1e-9 and local.energy == 1.0
assert abs(tightened.bound - 1.0) <= 1e-6 and abs(result.bound - 1.0) <= 1e-6
assert abs(3.0 + step.lower_bound - model.brute_force()[1]) <= 1e-6
