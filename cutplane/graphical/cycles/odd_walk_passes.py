"""Shortest odd closed walks in compiled code.

Only modules that need numba anyway import this one. Arcs are grouped by their tails; arc k goes to node
``heads[k]`` with disagreement ``weights[k]``. In the doubled graph an arc from x to y goes from (x, p) to
(y, p) at the cost c, and to (y, 1 - p) at the cost 1 - c; an odd closed walk through u goes from (u, 0) to
(u, 1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine


class Ball(NamedTuple):
    """The nodes (x, p) = 2 x + p of the doubled graph that a search has reached, and its heap of open nodes.

    `distances` are inf where not reached; `parents` are the doubled nodes before, -1 at the source, and
    `arcs` those from there; `places` says where in the binary heap a node is.
    """

    distances: Array
    parents: Array
    arcs: Array
    reached: Array
    heap: Array
    places: Array


@routine
def new_ball(n):
    """Return an empty ball for a graph of n nodes."""
    distances = np.full(2 * n, math.inf)
    arrays = np.empty((5, 2 * n), np.int32)
    return Ball(distances, arrays[0], arrays[1], arrays[2], arrays[3], arrays[4])


@routine
def shortest_odd_walk(source, starts, heads, weights, bound, ball):
    """Search an odd closed walk shorter than `bound` through `source` and no lower node.

    By symmetry the shortest one consists of two shortest paths from (source, 0), each no longer than half of
    it, and of one arc between their ends: a ball of half the radius is enough. Returned are the doubled node
    at the end of the one path, the arc, -1 if there is no such walk, the node at the end of the other path,
    and the size of the ball, which is left as it is for the paths to be read; then `clear` it.
    """
    distances, parents, arcs, reached, heap, places = ball
    best, best_first, best_arc, best_second = bound, -1, -1, -1
    root = 2 * source
    distances[root], parents[root], arcs[root] = 0.0, -1, -1
    reached[0], heap[0], places[root] = root, root, 0
    n_reached, size = 1, 1
    while size > 0:
        node = heap[0]
        d = distances[node]
        if 2.0 * d >= best:
            break
        size -= 1
        if size > 0:
            _sift_down(heap, places, distances, heap[size], size)
        parity = node & 1
        for k in range(starts[node >> 1], starts[(node >> 1) + 1]):
            head = heads[k]
            if head < source:
                continue
            for crossing in range(2):
                reach = d + (1.0 - weights[k] if crossing else weights[k])
                if reach >= best:
                    continue
                target = 2 * head + (parity ^ crossing)
                twin = target ^ 1
                if reach + distances[twin] < best:
                    best, best_first, best_arc, best_second = reach + distances[twin], node, k, twin
                if 2.0 * reach >= best or reach >= distances[target]:
                    continue
                if distances[target] == math.inf:
                    reached[n_reached] = target
                    n_reached += 1
                    places[target] = size
                    size += 1
                distances[target], parents[target], arcs[target] = reach, node, k
                _sift_up(heap, places, distances, target)
    return best_first, best_arc, best_second, n_reached


@routine
def clear(ball, n_reached):
    """Empty the ball."""
    for i in range(n_reached):
        ball.distances[ball.reached[i]] = math.inf


@routine
def _sift_up(heap, places, distances, node):
    """Move `node`, whose place is given and whose distance fell, towards the root."""
    key = distances[node]
    i = places[node]
    while i > 0:
        above = (i - 1) >> 1
        if distances[heap[above]] <= key:
            break
        heap[i] = heap[above]
        places[heap[i]] = i
        i = above
    heap[i] = node
    places[node] = i


@routine
def _sift_down(heap, places, distances, node, size):
    """Put `node` at the root of the heap of the first `size` places and move it away from there."""
    key = distances[node]
    i = 0
    while True:
        below = 2 * i + 1
        if below >= size:
            break
        if below + 1 < size and distances[heap[below + 1]] < distances[heap[below]]:
            below += 1
        if key <= distances[heap[below]]:
            break
        heap[i] = heap[below]
        places[heap[i]] = i
        i = below
    heap[i] = node
    places[node] = i
