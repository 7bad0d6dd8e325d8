r"""
The largest cut of a grid
=========================

The vertices of a graph are to be split in two so that the edges between the sides weigh most; the weights
have both signs. Let :math:`c_e = 1` if the edge e is cut. An even number of the edges of a cycle are, which
linear inequalities say:

.. math::

   \max_{0 \le c \le 1} \sum_e w_e c_e \quad \text{subject to} \quad
   \sum_{e \in F} (1 - c_e) + \sum_{e \in C \setminus F} c_e \ge 1
   \;\; \text{for each cycle } C \text{ and } F \subseteq C, \; |F| \text{ odd}.

If the graph is planar this is no relaxation: the solution is a cut (Barahona and Mahjoub,
`doi:10.1007/BF02592023 <https://doi.org/10.1007/BF02592023>`_). In physics the split is the ground state of
a spin glass.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra

import cutplane as cut

# %%
# A grid of 12 x 12 vertices; the weights are drawn from a normal distribution.
h = w = 12
rng = np.random.default_rng(0)
right, down = rng.normal(size=(h, w - 1)), rng.normal(size=(h - 1, w))
weights = np.concatenate([right.ravel(), down.ravel()])
vertices = np.arange(h * w).reshape(h, w)
tail = np.concatenate([vertices[:, :-1].ravel(), vertices[:-1].ravel()])
head = np.concatenate([vertices[:, 1:].ravel(), vertices[1:].ravel()])
n, m = h * w, len(weights)
number = {frozenset(edge): e for e, edge in enumerate(zip(tail, head, strict=True))}

# %%
# The separation oracle
# ---------------------
# Two copies of the graph: an edge of length :math:`c_e` stays in its copy, one of length :math:`1 - c_e`
# changes to the other. A walk from a vertex to its second copy changes an odd number of times, so its length
# is the left side of an inequality; the shortest of them are violated if they are shorter than 1.
starts = np.concatenate([tail, tail + n, tail, tail + n])
stops = np.concatenate([head, head + n, head + n, head])


@cut.separation_oracle
def cycles(c):
    c = np.clip(c, 0, 1)
    doubled = csr_array((np.concatenate([c, c, 1 - c, 1 - c]), (starts, stops)), shape=(2 * n, 2 * n))
    lengths, before = dijkstra(doubled, False, np.arange(n), return_predecessors=True, limit=1)
    odd_walks = {walk(i, before[i]) for i in range(n) if lengths[i, i + n] < 1 - 1e-6}
    return [cut.HalfSpace(*half_space) for half_space in odd_walks]


def walk(start, before):
    normal, changes = np.zeros(m), 0
    here = start + n
    while here != start:
        there = before[here]
        change = (there < n) != (here < n)
        normal[number[frozenset((there % n, here % n))]] += 1 if change else -1
        changes += change
        here = there
    return tuple(normal), changes - 1.0


# %%
# The formulation
# ---------------
problem = cut.Problem(cut.LinearObjective(-weights), feasible_set=cut.Box(0, 1, dim=m) & cycles)
result = problem.solve(cut.Kelley(), tol=1e-6)
print(result)

# %%
# The sides follow from the cut along any tree that spans the graph.
is_cut = result.x > 0.5
order, parent = breadth_first_order(csr_array((np.ones(m), (tail, head)), shape=(n, n)), 0, directed=False)
side = np.zeros(n, dtype=bool)
for i in order[1:]:
    side[i] = side[parent[i]] ^ is_cut[number[frozenset((i, parent[i]))]]

# %%
# The edges drawn in red lose: they are cut although their weight is negative, or not although it is positive.
# Around a shaded face the number of positive weights is odd, but that of cut edges even, so an odd number of
# edges lose: steps across red edges lead from shaded face to shaded face, or outside.
loses = is_cut != (weights > 0)
odd_faces = (right[:-1] > 0) ^ (right[1:] > 0) ^ (down[:, :-1] > 0) ^ (down[:, 1:] > 0)
fig, ax = plt.subplots(figsize=(5, 5))
ax.imshow(odd_faces, cmap="Greys", vmax=4, extent=(0, w - 1, h - 1, 0))
for e in range(m):
    y, x = np.divmod([tail[e], head[e]], w)
    ax.plot(x, y, color="C3" if loses[e] else "0.7", linewidth=2 if loses[e] else 1)
ax.scatter(vertices % w, vertices // w, c=side, cmap="coolwarm", edgecolors="black", zorder=2)
ax.set(xlim=(-0.5, w - 0.5), ylim=(h - 0.5, -0.5))
ax.set_axis_off()
fig.tight_layout()
plt.show()

# %%
# The check
# ---------
# Dynamic programming, vertex by vertex: the largest cut for each choice of sides of the last w vertices.
largest = np.zeros(2**w)
for i in range(h):
    for j in range(w):
        if i > 0:
            above = largest.reshape(2**j, 2, -1)
            largest = np.maximum(above, above[:, ::-1] + down[i - 1, j])
        if j > 0:
            pairs = largest.reshape(2 ** (j - 1), 2, 2, -1)
            largest = pairs + right[i, j - 1] * np.array([[[0], [1]], [[1], [0]]])
optimum = largest.max()
print(f"by dynamic programming {optimum:.6f}, by cutting planes {-result.objective:.6f}")
assert result.status is cut.Status.OPTIMAL
assert np.abs(result.x - is_cut).max() <= 1e-6
assert ((side[tail] != side[head]) == is_cut).all()
assert abs(weights[is_cut].sum() - optimum) <= 1e-9 * optimum
assert abs(-result.lower_bound - optimum) <= 1e-6 * optimum
