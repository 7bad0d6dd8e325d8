"""Triangles and chordless squares of a sparse graph, in time near to its size."""

from __future__ import annotations

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

_MANY = 8


@routine
def find_edge(starts: Array, neighbours: Array, u: int, v: int) -> int:
    """Return the place of v among the ascending neighbours of u, or -1."""
    low, high = starts[u], starts[u + 1]
    while low < high:
        middle = (low + high) // 2
        if neighbours[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low if low < starts[u + 1] and neighbours[low] == v else -1


@routine
def triangles(starts: Array, neighbours: Array, limit: int) -> Array:
    """Return at most `limit` triangles, one ascending row each.

    Each is found once, from its variable of highest degree by way of the others, so that hubs cost little:
    the time is the sum over the edges of the lower degree of their ends.
    """
    n = starts.size - 1
    found = np.empty((min(limit, 1024), 3), dtype=np.int64)
    mark = np.zeros(n, dtype=np.int64)
    count = 0
    for u in range(n):
        for place in range(starts[u], starts[u + 1]):
            if _before(starts, neighbours[place], u):
                mark[neighbours[place]] = u + 1
        for place in range(starts[u], starts[u + 1]):
            v = neighbours[place]
            if mark[v] != u + 1:
                continue
            for other in range(starts[v], starts[v + 1]):
                w = neighbours[other]
                if mark[w] != u + 1 or not _before(starts, w, v):
                    continue
                if count == limit:
                    return found
                if count == found.shape[0]:
                    found = _grown(found, limit)
                low, high = min(u, v, w), max(u, v, w)
                found[count, 0], found[count, 1], found[count, 2] = low, u + v + w - low - high, high
                count += 1
    return found[:count]


@routine
def squares(starts: Array, neighbours: Array, limit: int) -> Array:
    """Return at most `limit` chordless cycles of four variables, one row each, in the order of the cycle.

    Where two variables have many common neighbours, only cycles through consecutive ones are listed: the
    others are sums of these.
    """
    n = starts.size - 1
    found = np.empty((min(limit, 1024), 4), dtype=np.int64)
    head = np.full(n, -1, dtype=np.int64)
    seen = np.zeros(n, dtype=np.int64)
    ends = np.empty(n, dtype=np.int64)
    chain = np.empty(1024, dtype=np.int64)
    middle = np.empty(1024, dtype=np.int64)
    common = np.empty(n, dtype=np.int64)
    count = 0
    for u in range(n):
        used = 0
        n_ends = 0
        for place in range(starts[u], starts[u + 1]):
            v = neighbours[place]
            if not _before(starts, v, u):
                continue
            for other in range(starts[v], starts[v + 1]):
                w = neighbours[other]
                if not _before(starts, w, u):
                    continue
                if seen[w] != u + 1:
                    seen[w] = u + 1
                    head[w] = -1
                    ends[n_ends] = w
                    n_ends += 1
                if used == chain.size:
                    chain = _longer(chain)
                    middle = _longer(middle)
                chain[used], middle[used] = head[w], v
                head[w] = used
                used += 1
        for number in range(n_ends):
            w = ends[number]
            if find_edge(starts, neighbours, u, w) >= 0:
                continue
            size = 0
            link = head[w]
            while link >= 0:
                common[size] = middle[link]
                size += 1
                link = chain[link]
            reach = size if size <= _MANY else 1
            for first in range(size):
                for second in range(first + 1, min(size, first + 1 + reach)):
                    v, x = common[first], common[second]
                    if find_edge(starts, neighbours, v, x) >= 0:
                        continue
                    if count == limit:
                        return found
                    if count == found.shape[0]:
                        found = _grown(found, limit)
                    found[count, 0], found[count, 1], found[count, 2], found[count, 3] = u, v, w, x
                    count += 1
    return found[:count]


@routine
def triangulate(starts: Array, cycles: Array, chosen: Array, cardinalities: Array) -> Array:
    """Return the triplets that triangulate the chosen cycles, one ascending row each.

    The chords of a cycle leave from its variable of fewest states.
    """
    count = 0
    for c in chosen:
        count += starts[c + 1] - starts[c] - 2
    rows = np.empty((count, 3), dtype=np.int64)
    count = 0
    for c in chosen:
        cycle = cycles[starts[c] : starts[c + 1]]
        first = 0
        for place in range(cycle.size):
            if cardinalities[cycle[place]] < cardinalities[cycle[first]]:
                first = place
        for step in range(1, cycle.size - 1):
            u, v, w = cycle[first], cycle[(first + step) % cycle.size], cycle[(first + step + 1) % cycle.size]
            low, high = min(u, v, w), max(u, v, w)
            rows[count, 0], rows[count, 1], rows[count, 2] = low, u + v + w - low - high, high
            count += 1
    return rows


@routine
def _before(starts: Array, u: int, v: int) -> bool:
    """Tell whether u precedes v: by degree, then by number."""
    du, dv = starts[u + 1] - starts[u], starts[v + 1] - starts[v]
    return du < dv or (du == dv and u < v)


@routine
def _grown(rows: Array, limit: int) -> Array:
    grown = np.empty((min(limit, 2 * rows.shape[0]), rows.shape[1]), dtype=np.int64)
    grown[: rows.shape[0]] = rows
    return grown


@routine
def _longer(values: Array) -> Array:
    longer = np.empty(2 * values.size, dtype=np.int64)
    longer[: values.size] = values
    return longer
