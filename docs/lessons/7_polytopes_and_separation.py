r"""
7. Polytopes and separation
===========================

Choosing the best of finitely many things is a linear programme, if one knows the convex hull of the
things. One never does: it has too many faces. But one face at a time, where it is needed, is enough,
and finding it is a problem of its own: *separation*. Two examples: labels that disagree, and a round
trip.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra, maximum_flow

import cutplane as cut


# %%
# What a separation oracle does
# -----------------------------
# A disk is an intersection of infinitely many half-spaces. Nobody lists them: an oracle is asked about
# a point, and says that it is inside, or returns a half-space that holds for the disk and not for the
# point.
@cut.separation_oracle
def disk(x):
    length = np.linalg.norm(x)
    return [] if length <= 1 + 1e-9 else [cut.HalfSpace(x / length, 1.0)]


over_disk = cut.Problem(cut.LinearObjective([-1.0, -0.6]), feasible_set=cut.Box(-1.5, 1.5) & disk)
cut.explore(over_disk, cut.Kelley(), tol=1e-4)

# %%
# The least value of :math:`\langle c, x\rangle` over the disk is :math:`-\|c\|`.
rounded = over_disk.solve(cut.Kelley(), tol=1e-6)
print(rounded.lower_bound, -np.hypot(1.0, 0.6))
assert np.isclose(rounded.objective, -np.hypot(1.0, 0.6), rtol=1e-5)

# %%
# Three variables that all want to differ
# ---------------------------------------
# Three variables with two states each; each pair that is equal costs 1. Let :math:`c_{uv}` be 1 if u
# and v differ. The eight labellings give four different vectors :math:`(c_{01}, c_{12}, c_{02})`: none
# differ, or two pairs do.
pairs = [(0, 1), (1, 2), (0, 2)]
labellings = list(itertools.product([0, 1], repeat=3))
vertices = np.unique([[x[u] != x[v] for u, v in pairs] for x in labellings], axis=0).astype(float)
print(vertices.astype(int).tolist())
costs = [sum(x[u] == x[v] for u, v in pairs) for x in labellings]
print("least cost of a labelling:", min(costs))

# %%
# The cost is linear, :math:`\sum_{uv} (1 - c_{uv})`, so its minimum over the *convex hull* of these
# vectors is attained at one of them. If all we ask is that each pair *alone* be possible, :math:`0 \le
# c \le 1`, then all three may differ:
relaxed = cut.Problem(cut.LinearObjective(-np.ones(3)), feasible_set=cut.Box(0, 1, dim=3)).solve(tol=1e-9)
print(f"relaxed: cost {3 + relaxed.objective:.3f} at c = {relaxed.x.round(3)}")
assert min(costs) == 1 and np.isclose(3 + relaxed.objective, 0.0)

# %%
# The point (1, 1, 1) is in no convex combination of labellings. A *separation oracle* proves that by a
# half-space: round the cycle the state changes an even number of times, and so
#
# .. math:: c_{01} + c_{12} + c_{02} \le 2 \qquad \text{and}
#    \qquad c_{uv} \le c_{vw} + c_{uw} \text{ for each pair} .


def triangle_inequalities(c):
    normals = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    sides = np.array([2.0, 0, 0, 0])
    return [cut.HalfSpace(n, b) for n, b in zip(normals, sides, strict=True) if n @ c > b + 1e-9]


hull = cut.Box(0, 1, dim=3) & cut.separation_oracle(triangle_inequalities)
tight = cut.Problem(cut.LinearObjective(-np.ones(3)), feasible_set=hull).solve(cut.Kelley(), tol=1e-9)
print(f"with the cut: cost {3 + tight.objective:.3f}")
assert np.isclose(3 + tight.objective, min(costs))

fig = plt.figure(figsize=(5.5, 5), layout="constrained")
ax = fig.add_subplot(projection="3d")
corners = list(itertools.product([0, 1], repeat=3))
for a, b in itertools.combinations(corners, 2):
    if sum(i != j for i, j in zip(a, b, strict=True)) == 1:
        ax.plot(*zip(a, b, strict=True), color="0.7", linewidth=1)
for a, b in itertools.combinations(vertices, 2):
    ax.plot(*zip(a, b, strict=True), color="C0")
ax.plot_trisurf(*np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]]).T, color="C1", alpha=0.4)
ax.scatter(*vertices.T, color="C0", s=50, depthshade=False, label="labellings")
ax.scatter(1, 1, 1, color="C3", s=80, marker="X", depthshade=False, label="fractional point")
ax.set(xlabel="$c_{01}$", ylabel="$c_{12}$", zlabel="$c_{02}$", xticks=[0, 1], yticks=[0, 1], zticks=[0, 1])
ax.view_init(18, 12)
ax.legend(loc="upper left")
plt.show()

# %%
# The same for other costs: the relaxed optimum, and the half-spaces that are returned until a labelling is
# reached.
cut.pictures.triangle(costs=(-1.0, 0.8, 0.6))

# %%
# Nothing else is needed here: the box with the four inequalities is the convex hull. For random costs
# the linear programme and enumeration agree.
rng = np.random.default_rng(0)
for _ in range(20):
    cost = rng.standard_normal(3)
    found = cut.Problem(cut.LinearObjective(cost), feasible_set=hull).solve(cut.Kelley(), tol=1e-9)
    assert np.isclose(found.objective, (vertices @ cost).min(), atol=1e-7)

# %%
# A graph has exponentially many cycles. For a cycle C and an odd set F of its edges the inequality reads
#
# .. math:: \sum_{e \in F} (1 - c_e) + \sum_{e \in C \setminus F} c_e \ge 1 .
#
# Still, the most violated one through a vertex u is found by a *shortest path*: double the graph, let
# edges of length :math:`c_e` stay on a side and edges of length :math:`1 - c_e` change it. A path from
# u to its copy changes sides an odd number of times.


def most_violated(c, edges, n):
    """Return the least left-hand side of all cycle inequalities."""
    u, v = np.array(edges).T
    tails = np.concatenate([u, u + n, u, u + n])
    heads = np.concatenate([v, v + n, v + n, v])
    lengths = np.maximum(np.concatenate([c, c, 1 - c, 1 - c]), 1e-12)  # zero means no edge there
    doubled = csr_array((lengths, (tails, heads)), shape=(2 * n, 2 * n))
    return min(dijkstra(doubled, directed=False, indices=k)[k + n] for k in range(n))


print(f"at (1, 1, 1): {most_violated(np.ones(3), pairs, 3):.3f}")
print(f"at a labelling: {most_violated(vertices[1], pairs, 3):.3f}")
assert most_violated(np.ones(3), pairs, 3) < 1e-9 and most_violated(vertices[1], pairs, 3) >= 1 - 1e-9
five = [(k, (k + 1) % 5) for k in range(5)]
assert np.isclose(most_violated(np.full(5, 0.9), five, 5), 5 * 0.1)  # the five-cycle itself, all edges in F

# %%
# That is how `cutplane.graphical.GraphicalModel.map` closes the gap of spin glasses with thousands of
# edges.
#
# A round trip
# ------------
# The shortest tour through n places picks edges with :math:`x_e \in \{0, 1\}`, two at each place. That
# alone allows several small tours. So every set S of places has to be left by at least two edges,
#
# .. math:: \sum_{e \in \delta(S)} x_e \ge 2 ,
#
# which is violated if and only if some cut of the graph with the weights x is smaller than 2: a
# *minimum cut*, found by maximum flows.
n = 11
places = np.random.default_rng(1).random((n, 2))
tail, head = np.triu_indices(n, 1)
length = np.linalg.norm(places[tail] - places[head], axis=1)
degrees = 1.0 * (np.equal.outer(np.arange(n), tail) | np.equal.outer(np.arange(n), head))


@cut.separation_oracle
def connected(x):
    scaled = np.rint(1e6 * np.maximum(x, 0.0)).astype(np.int32)
    graph = csr_array((np.tile(scaled, 2), (np.r_[tail, head], np.r_[head, tail])), shape=(n, n))
    found = []
    for target in range(1, n):
        flow = maximum_flow(graph, 0, target)
        if flow.flow_value < 2e6 - 100:
            left = graph - flow.flow
            left.data = 1.0 * (left.data > 0)
            left.eliminate_zeros()
            side = np.isfinite(dijkstra(left, indices=0))
            found.append(cut.HalfSpace(-1.0 * (side[tail] != side[head]), -2.0))
    return found


two_each = cut.Box(0, 1, dim=len(length)) & cut.Polyhedron(A_eq=degrees, b_eq=np.full(n, 2.0))
without = cut.Problem(cut.LinearObjective(length), feasible_set=two_each).solve(cut.Kelley(), tol=1e-7)
tour = cut.Problem(cut.LinearObjective(length), feasible_set=two_each & connected).solve(
    cut.Kelley(), tol=1e-7
)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for ax, solved, title in zip(
    axes, (without, tour), ("two edges at each place", "and connected"), strict=True
):
    for e in np.flatnonzero(solved.x > 1e-6):
        ax.plot(*places[[tail[e], head[e]]].T, "C0-" if solved.x[e] > 1 - 1e-6 else "C1--")
    ax.plot(*places.T, "k.", markersize=8)
    ax.set(title=f"{title}: {solved.objective:.4f}", xticks=[], yticks=[])
plt.show()

# %%
# Is it the shortest? Dynamic programming over sets of places (Held and Karp) knows:


def held_karp(distance):
    n = len(distance)
    best = {(1 << k, k): distance[0, k] for k in range(1, n)}
    for size in range(2, n):
        for chosen in itertools.combinations(range(1, n), size):
            bits = sum(1 << k for k in chosen)
            for k in chosen:
                rest = bits ^ (1 << k)
                best[bits, k] = min(best[rest, j] + distance[j, k] for j in chosen if j != k)
    return min(best[(1 << n) - 2, k] + distance[k, 0] for k in range(1, n))


exact = held_karp(np.linalg.norm(places[:, np.newaxis] - places, axis=2))
print(
    f"two edges each {without.objective:.6f}, connected {tour.objective:.6f}, dynamic programming {exact:.6f}"
)
assert without.objective < tour.objective and tour.status == "OPTIMAL"
assert np.abs(tour.x - np.rint(tour.x)).max() < 1e-5 and np.isclose(tour.objective, exact, rtol=1e-6)

# %%
# Here the linear programme ended at a tour. It need not: then its value is still a lower bound, to be
# raised by other inequalities or by branching.
#
# Exercises
# ---------
# **1.** Write an oracle for the ball: given x and a radius, return None if x lies in the ball around
# zero, else a pair (normal, offset) such that :math:`\langle \text{normal}, z\rangle \le \text{offset}`
# for all z of the ball, but not for x.


def separate_from_ball(x, radius): ...  # yours


def check_1(answer):
    rng = np.random.default_rng(1)
    for radius in (0.5, 2.0):
        inside = rng.standard_normal(3)
        inside *= 0.9 * radius / np.linalg.norm(inside)
        assert answer(inside, radius) is None, "this point is inside"
        outside = 1.1 / 0.9 * inside
        found = answer(outside, radius)
        assert found is not None and len(found) == 2, "this point is outside"
        normal, offset = np.asarray(found[0], dtype=float), float(found[1])
        assert normal @ outside > offset, "the half-space does not cut x off"
        ball = rng.standard_normal((5000, 3))
        ball *= radius / np.linalg.norm(ball, axis=1)[:, np.newaxis]
        ball = np.vstack([ball, radius * normal / np.linalg.norm(normal)])
        assert (ball @ normal <= offset + 1e-9).all(), "the half-space cuts off a part of the ball"


# check_1(separate_from_ball)  # take the first mark away to be told whether you are right

# %%
# **2.** Where x is integral, no flows are needed: the connected parts of the graph are seen at once.
# Return the set of places, as a boolean array, of one part that is not everything, or None if there is
# none. ``scipy.sparse.csgraph`` has ``connected_components``.


def subtour(chosen, tail, head, n): ...  # yours


def check_2(answer):
    i, j = np.triu_indices(7, 1)
    two = {(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (5, 6), (3, 6)}
    one = {(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (0, 6)}
    for tours, connected in ((two, False), (one, True)):
        chosen = np.array([(a, b) in tours for a, b in zip(i, j, strict=True)])
        side = answer(chosen, i, j, 7)
        if connected:
            assert side is None, "this is one tour"
        else:
            assert side is not None and np.shape(side) == (7,), "there are two tours"
            side = np.asarray(side, dtype=bool)
            assert 0 < side.sum() < 7, "neither nothing nor everything"
            assert not chosen[side[i] != side[j]].any(), "an edge leaves the set"


# check_2(subtour)

# %%
# Solutions
# ---------
# **1.** The ball lies behind its tangent at the point of it that is nearest to x.


def solution_1(x, radius):
    return None if np.linalg.norm(x) <= radius else (x, radius * np.linalg.norm(x))


check_1(solution_1)

# %%
# **2.** The part that holds place 0.


def solution_2(chosen, tail, head, n):
    graph = csr_array((np.ones(chosen.sum()), (tail[chosen], head[chosen])), shape=(n, n))
    parts, label = connected_components(graph, directed=False)
    return None if parts == 1 else label == 0


check_2(solution_2)
