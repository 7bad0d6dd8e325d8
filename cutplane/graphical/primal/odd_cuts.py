"""Odd cuts of least weight in a graph, by a cut tree."""

from __future__ import annotations

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine
from cutplane.runtime.deadline import check_time

_LEAST = 1e-9
"""Residual weight that counts as zero, because it is a rounding error of weights of at most 1."""


def light_odd_cuts(
    starts: Array, heads: Array, opposite: Array, weights: Array, odd: Array, limit: float
) -> Array:
    """Return the sides of cuts lighter than `limit` with an odd number of odd nodes on each side.

    The arcs from node u to ``heads[starts[u]:starts[u + 1]]`` have the given weights, and `opposite` are the
    numbers of the arcs back. If there is such a cut, one of least weight is returned, because one edge of a
    cut tree defines it (Padberg and Rao 1982, doi:10.1287/moor.7.1.67). The tree takes one maximum flow for
    each node (Gusfield 1990, doi:10.1137/0219009). No side contains node 0.
    """
    n = starts.size - 1
    nodes, above, values = np.arange(n), np.zeros(n, dtype=np.int64), np.full(n, np.inf)
    for s in range(1, n):
        check_time()
        t = above[s]
        values[s], reached = _max_flow(starts, heads, opposite, weights.copy(), s, t)
        above[reached & (above == t) & (nodes != s)] = s
        if reached[above[t]]:
            above[s], above[t] = above[t], s
            values[s], values[t] = values[t], values[s]
    sides = [_below(above, s) for s in np.flatnonzero(values < limit).tolist()]
    return np.array([side for side in sides if odd[side].sum() % 2], dtype=bool).reshape(-1, n)


def _below(above: Array, s: int) -> Array:
    """Return the part of the tree from node s on."""
    below, side = np.zeros(above.size, dtype=bool), np.arange(above.size) == s
    while (side > below).any():
        below, side = side, side | side[above]
    return side


@routine
def _max_flow(starts, heads, opposite, residual, s, t):
    """Return the value of a maximum flow from s to t, and the nodes on the side of s of a minimum cut."""
    n, value = starts.size - 1, 0.0
    through, queue = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    while True:
        through[:] = -1
        through[s] = heads.size
        queue[0], first, last = s, 0, 1
        while first < last and through[t] < 0:
            u = queue[first]
            first += 1
            for arc in range(starts[u], starts[u + 1]):
                if residual[arc] > _LEAST and through[heads[arc]] < 0:
                    through[heads[arc]] = arc
                    queue[last] = heads[arc]
                    last += 1
        if through[t] < 0:
            return value, through >= 0
        amount, u = np.inf, t
        while u != s:
            amount = min(amount, residual[through[u]])
            u = heads[opposite[through[u]]]
        u = t
        while u != s:
            residual[through[u]] -= amount
            residual[opposite[through[u]]] += amount
            u = heads[opposite[through[u]]]
        value += amount
