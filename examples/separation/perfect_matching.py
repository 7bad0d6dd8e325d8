r"""
Perfect matching by odd sets
============================

An even number of points is to be paired so that the sum of the distances :math:`\ell_e` is least. Edmonds
(`doi:10.6028/jres.069B.013 <https://doi.org/10.6028/jres.069B.013>`_) showed that this is a linear programme,

.. math::

   \min_{x \ge 0} \sum_e \ell_e x_e \quad \text{subject to} \quad
   \sum_{e \ni i} x_e = 1 \;\; \text{for each point } i, \qquad
   \sum_{e \in \delta(S)} x_e \ge 1 \;\; \text{for each odd set } S ,

where :math:`\delta(S)` are the edges that leave S: one of an odd set has its partner outside. There are
exponentially many odd sets; a separation oracle finds a violated one by minimum cuts.
"""

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

import cutplane as cut

# %%
# Four towns with odd numbers of points.
rng = np.random.default_rng(0)
towns = np.repeat([(0, 0), (2, 0), (0, 2), (2, 2)], [3, 5, 3, 7], axis=0)
points = towns + 0.25 * rng.normal(size=towns.shape)
n = len(points)
tail, head = np.triu_indices(n, 1)
length = np.linalg.norm(points[tail] - points[head], axis=1)
ends = 1.0 * (np.equal.outer(np.arange(n), tail) | np.equal.outer(np.arange(n), head))


# %%
# The separation oracle
# ---------------------
# Gusfield's algorithm (`doi:10.1137/0219009 <https://doi.org/10.1137/0219009>`_) makes a cut tree by n - 1
# maximum flows: each edge of the tree splits the points by a minimum cut between its two ends.
def source_side(capacities, source, sink):
    residual = capacities - maximum_flow(capacities, source, sink).flow
    reached = breadth_first_order(csr_array(residual > 0, dtype=int), source, return_predecessors=False)
    return np.isin(np.arange(n), reached)


def cut_tree(capacities):
    parent = np.zeros(n, dtype=int)
    for s in range(1, n):
        t = parent[s]
        side = source_side(capacities, s, t)
        parent[side & (parent == t) & (np.arange(n) != s)] = s
        if side[parent[t]]:
            parent[s], parent[t] = parent[t], s
    return parent


def below(parent):
    """Return the points below each edge of the tree, one row per edge."""
    sides = np.eye(n, dtype=bool)
    for point in range(1, n):
        above = point
        while above:
            sides[above, point] = True
            above = parent[above]
    return sides[1:]


# %%
# Padberg and Rao (`doi:10.1287/moor.7.1.67 <https://doi.org/10.1287/moor.7.1.67>`_) proved that one of the
# odd sets below the edges of the tree has the least cut of all odd sets, so none is overlooked. The flows are
# integers: x is scaled.
@cut.separation_oracle
def odd_sets(x):
    capacities = np.zeros((n, n), dtype=np.int32)
    capacities[tail, head] = capacities[head, tail] = np.rint(2.0**28 * np.maximum(x, 0))
    sides = below(cut_tree(csr_array(capacities)))
    odd = sides[sides.sum(axis=1) % 2 == 1]
    leaving = 1.0 * (odd[:, tail] != odd[:, head])
    violated = leaving[leaving @ x < 1 - 1e-6]
    return cut.HalfSpaces(-violated, -np.ones(len(violated)))


# %%
# The formulation
# ---------------
degrees = cut.Box(0, 1, dim=len(length)) & cut.Polyhedron(A_eq=ends, b_eq=np.ones(n))
shortest = cut.LinearObjective(length)
without = cut.Problem(shortest, feasible_set=degrees).solve(cut.Kelley(), tol=1e-6)
result = cut.Problem(shortest, feasible_set=degrees & odd_sets).solve(cut.Kelley(), tol=1e-6)
print(result)

# %%
# The equations alone are met by halves (dashed) on the edges of triangles and longer odd cycles, at half the
# cost: nobody leaves a town. The odd sets say that in each of them one has to.
fig, axes = plt.subplots(1, 2, figsize=(9, 4))
for ax, solution, title in zip(axes, (without, result), ("degrees alone", "odd sets"), strict=True):
    for e in np.flatnonzero(solution.x > 1e-6):
        style = "C0-" if solution.x[e] > 1 - 1e-6 else "C1--"
        ax.plot(*points[[tail[e], head[e]]].T, style)
    ax.plot(*points.T, "k.")
    ax.set_title(f"{title}: {solution.objective:.3f}")
    ax.set_axis_off()
fig.tight_layout()
plt.show()

# %%
# The check
# ---------
# Dynamic programming over the sets of points still to be paired: the last one is paired with any other.
distances = np.zeros((n, n))
distances[tail, head] = distances[head, tail] = length


@cache
def shortest_pairing(left):
    if not left:
        return 0.0
    *others, last = left
    rests = {i: tuple(j for j in others if j != i) for i in others}
    return min(distances[i, last] + shortest_pairing(rest) for i, rest in rests.items())


optimum = shortest_pairing(tuple(range(n)))
assert result.status is without.status is cut.Status.OPTIMAL
assert set(np.round(without.x, 6)) == {0.0, 0.5, 1.0}
assert set(np.round(result.x, 6)) == {0.0, 1.0}
assert without.objective < 0.6 * optimum
assert abs(result.objective - optimum) <= 1e-6 * optimum
