"""What a cycle of variables is worth, by min-plus products around it."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.dual.candidate_kernels import find_edge
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import NUMBERS, routine


@routine(fastmath=NUMBERS)
def score_cycles(
    cycle_starts: Array,
    cycles: Array,
    starts: Array,
    neighbours: Array,
    edges: Array,
    cardinalities: Array,
    unary_starts: Array,
    unaries: Array,
    table_starts: Array,
    tables: Array,
) -> Array:
    """Return min over x of the sum of the pairs and unaries of each cycle, minus the sum of their minima.

    `edges` gives the number of the pair of each neighbour; a pair (i, j) has i < j and its table in C order.
    """
    scores = np.zeros(cycle_starts.size - 1)
    widest = 1
    for u in cycles:
        widest = max(widest, cardinalities[u])
    walked, step, product = np.empty(widest**2), np.empty(widest**2), np.empty(widest**2)
    for c in range(scores.size):
        first, last = cycle_starts[c], cycle_starts[c + 1] - 1
        k = cardinalities[cycles[first]]
        separate = 0.0
        for place in range(first, last + 1):
            u = cycles[place]
            v = cycles[place + 1] if place < last else cycles[first]
            rows, columns = cardinalities[u], cardinalities[v]
            edge = edges[find_edge(starts, neighbours, int(u), int(v))]
            table = tables[table_starts[edge] : table_starts[edge] + rows * columns]
            separate += table.min()
            costs = unaries[unary_starts[v] : unary_starts[v + 1]]
            separate += costs.min()
            _oriented(table, costs, u < v, step)
            if place == first:
                walked[: rows * columns] = step[: rows * columns]
            elif place < last:
                _min_plus(walked, step, k, rows, columns, product)
                walked, product = product, walked
        n = cardinalities[cycles[last]]
        together = np.inf
        for i in range(k):
            for j in range(n):
                together = min(together, walked[i * n + j] + step[j * k + i])
        scores[c] = together - separate if separate < np.inf else 0.0
    return scores


@routine(fastmath=NUMBERS)
def _oriented(table: Array, costs: Array, forwards: bool, step: Array) -> None:
    """Write the table, transposed unless `forwards`, plus the costs of its columns, into `step`."""
    columns = costs.size
    rows = table.size // columns
    if forwards:
        for i in range(rows):
            for j in range(columns):
                step[i * columns + j] = table[i * columns + j] + costs[j]
    else:
        for i in range(rows):
            for j in range(columns):
                step[i * columns + j] = table[j * rows + i] + costs[j]


@routine(fastmath=NUMBERS)
def _min_plus(left, right, n, inner, columns, product):
    """Write min over b of left[a, b] + right[b, c] into `product`."""
    product[: n * columns] = np.inf
    for a in range(n):
        row = product[a * columns : (a + 1) * columns]
        for b in range(inner):
            cost = left[a * inner + b]
            if cost < np.inf:
                other = right[b * columns : (b + 1) * columns]
                for c in range(columns):
                    row[c] = min(row[c], cost + other[c])
