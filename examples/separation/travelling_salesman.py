r"""
A travelling salesman in Berlin
===============================

The shortest round trip through n places picks edges of the complete graph, :math:`x_e = 1`, of length
:math:`\ell_e`. Dantzig, Fulkerson and Johnson (`doi:10.1287/opre.2.4.393
<https://doi.org/10.1287/opre.2.4.393>`_) solved it by linear programming over

.. math::

   0 \le x \le 1, \qquad \sum_{e \ni i} x_e = 2 \;\; \text{for each place } i, \qquad
   \sum_{e \in \delta(S)} x_e \ge 2 \;\; \text{for each set } S \text{ of places, not all of them},

where :math:`\delta(S)` are the edges that leave S. The sets are far too many to list, but one whose
inequality is violated is a cut of the graph of weight below 2, so a minimum cut finds it.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import depth_first_order

import cutplane as cut

# %%
# The 52 places of the instance *berlin52*; distances are rounded to integers, and the shortest tour is known
# to have the length 7542 (TSPLIB, `doi:10.1287/ijoc.3.4.376 <https://doi.org/10.1287/ijoc.3.4.376>`_).
places = """
565 575, 25 185, 345 750, 945 685, 845 655, 880 660, 25 230, 525 1000, 580 1175, 650 1130, 1605 620, 1220 580,
1465 200, 1530 5, 845 680, 725 370, 145 665, 415 635, 510 875, 560 365, 300 465, 520 585, 480 415, 835 625,
975 580, 1215 245, 1320 315, 1250 400, 660 180, 410 250, 420 555, 575 665, 1150 1160, 700 580, 685 595,
685 610, 770 610, 795 645, 720 635, 760 650, 475 960, 95 260, 875 920, 700 500, 555 815, 830 485, 1170 65,
830 610, 605 625, 595 360, 1340 725, 1740 245
"""
points = np.array([place.split() for place in places.split(",")], dtype=float)
n = len(points)
tail, head = np.triu_indices(n, 1)
length = np.rint(np.linalg.norm(points[tail] - points[head], axis=1))
ends = 1.0 * (np.equal.outer(np.arange(n), tail) | np.equal.outer(np.arange(n), head))


# %%
# The separation oracle
# ---------------------
# The algorithm of Stoer and Wagner (`doi:10.1145/263867.263872 <https://doi.org/10.1145/263867.263872>`_)
# goes through n - 1 cuts, of which the least is a minimum cut. A phase collects the vertices, each time the
# one most tightly connected to those collected; the last one alone is the cut of the phase, and is then
# merged with the one before.
def cuts_of_phases(weights):
    weights, sides = weights.copy(), np.eye(len(weights), dtype=bool)
    while len(weights) > 1:
        last, connection = 0, weights[0].copy()
        connection[0] = -np.inf
        for _ in range(len(weights) - 1):
            before, last = last, connection.argmax()
            value = connection[last]
            connection += weights[last]
            connection[last] = -np.inf
        yield value, sides[last]
        sides[before] |= sides[last]
        weights[before] += weights[last]
        weights[:, before] += weights[:, last]
        weights[before, before] = 0
        weights = np.delete(np.delete(weights, last, axis=0), last, axis=1)
        sides = np.delete(sides, last, axis=0)


@cut.separation_oracle
def connected(x):
    weights = np.zeros((n, n))
    weights[tail, head] = weights[head, tail] = x
    sides = [side for value, side in cuts_of_phases(weights) if value < 2 - 1e-6]
    return [cut.HalfSpace(-1.0 * (side[tail] != side[head]), -2.0) for side in sides]


# %%
# The formulation
# ---------------
degrees = cut.Box(0, 1, dim=len(length)) & cut.Polyhedron(A_eq=ends, b_eq=np.full(n, 2.0))
shortest = cut.LinearObjective(length)
without = cut.Problem(shortest, feasible_set=degrees).solve(cut.Kelley(), tol=1e-6)
result = cut.Problem(shortest, feasible_set=degrees & connected).solve(cut.Kelley(), tol=1e-6)
print(result)

# %%
# The equations alone allow small subtours and, dashed, halves of edges. With the cuts the solution is
# integral: a tour. Other instances end with halves; their value is a lower bound, to be raised by further
# inequalities or by branching.
fig, axes = plt.subplots(1, 2, figsize=(10, 3.6))
for ax, solution, title in zip(axes, (without, result), ("degrees alone", "connected"), strict=True):
    for e in np.flatnonzero(solution.x > 1e-6):
        style = "C0-" if solution.x[e] > 1 - 1e-6 else "C1--"
        ax.plot(*points[[tail[e], head[e]]].T, style)
    ax.plot(*points.T, "k.")
    ax.set_title(f"{title}: {solution.objective:.1f}")
    ax.set_axis_off()
fig.tight_layout()
plt.show()

# %%
# The check
# ---------
# A connected graph with two edges at each place is a tour. The certified lower bound shows that none is
# shorter, and the length is the published one.
chosen = result.x > 0.5
graph = csr_array((np.ones(chosen.sum()), (tail[chosen], head[chosen])), shape=(n, n))
tour = depth_first_order(graph, 0, directed=False, return_predecessors=False)
print("tour:", *tour)
assert result.status is cut.Status.OPTIMAL
assert np.abs(result.x - chosen).max() <= 1e-6
assert (ends @ chosen == 2).all() and len(tour) == n
assert np.ceil(result.lower_bound - 1e-3) == length[chosen].sum() == 7542
