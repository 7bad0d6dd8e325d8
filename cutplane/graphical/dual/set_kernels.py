"""What a set of variables is worth as a cluster, by depth-first search with bounds."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.dual.candidate_kernels import find_edge
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine


@routine
def score_sets(
    set_starts: Array,
    sets: Array,
    starts: Array,
    neighbours: Array,
    edges: Array,
    cardinalities: Array,
    unary_starts: Array,
    unaries: Array,
    table_starts: Array,
    tables: Array,
) -> Array:
    """Return min over x of the sum of all pairs and unaries inside each set, minus the sum of their minima.

    The variables of a set are ascending.
    """
    scores = np.zeros(set_starts.size - 1)
    largest = 1
    for s in range(scores.size):
        largest = max(largest, set_starts[s + 1] - set_starts[s])
    pair = np.empty((largest, largest), dtype=np.int64)
    states = np.empty(largest, dtype=np.int64)
    spent = np.empty(largest + 1)
    ahead = np.empty(largest + 1)
    for s in range(scores.size):
        members = sets[set_starts[s] : set_starts[s + 1]]
        n = members.size
        ahead[n] = 0.0
        for j in range(n - 1, -1, -1):
            v = members[j]
            low = unaries[unary_starts[v] : unary_starts[v + 1]].min()
            for i in range(j):
                place = find_edge(starts, neighbours, members[i], v)
                pair[i, j] = -1
                if place >= 0:
                    start = table_starts[edges[place]]
                    pair[i, j] = start
                    low += tables[start : start + cardinalities[members[i]] * cardinalities[v]].min()
            ahead[j] = ahead[j + 1] + low
        separate = ahead[0]
        if separate == np.inf:
            continue
        enough = separate + 1e-12 * max(1.0, abs(separate))
        best = np.inf
        depth = 0
        spent[0] = 0.0
        states[0] = -1
        while depth >= 0 and best > enough:
            v = members[depth]
            states[depth] += 1
            if states[depth] == cardinalities[v]:
                depth -= 1
                continue
            cost = spent[depth] + unaries[unary_starts[v] + states[depth]]
            for i in range(depth):
                if pair[i, depth] >= 0:
                    cost += tables[pair[i, depth] + states[i] * cardinalities[v] + states[depth]]
            if cost + ahead[depth + 1] >= best:
                continue
            if depth == n - 1:
                best = cost
                continue
            depth += 1
            spent[depth] = cost
            states[depth] = -1
        scores[s] = best - separate if best > enough else 0.0
    return scores
