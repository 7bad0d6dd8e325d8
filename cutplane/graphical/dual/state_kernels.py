"""How much more than the bound a labelling costs that gives a variable a certain state."""

from __future__ import annotations

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine


@routine
def add_pair_slacks(
    pairs: Array,
    cardinalities: Array,
    unary_starts: Array,
    table_starts: Array,
    tables: Array,
    slacks: Array,
) -> None:
    """Add to the slack of each state its min-marginal in each pair of its variable, less the least one."""
    widest = 1
    for k in cardinalities:
        widest = max(widest, k)
    by_column = np.empty(widest)
    for e in range(pairs.shape[0]):
        u, v = pairs[e, 0], pairs[e, 1]
        rows, columns = cardinalities[u], cardinalities[v]
        table = tables[table_starts[e] : table_starts[e] + rows * columns]
        least = table.min()
        if least == np.inf:
            continue
        by_column[:columns] = np.inf
        for i in range(rows):
            by_row = np.inf
            for j in range(columns):
                cost = table[i * columns + j]
                if cost < by_row:
                    by_row = cost
                if cost < by_column[j]:
                    by_column[j] = cost
            slacks[unary_starts[u] + i] += by_row - least
        for j in range(columns):
            slacks[unary_starts[v] + j] += by_column[j] - least


@routine
def pair_excesses(
    labelling: Array, pairs: Array, cardinalities: Array, table_starts: Array, tables: Array
) -> Array:
    """Return what the labelling costs in each pair above the least cost there."""
    excesses = np.empty(pairs.shape[0])
    for e in range(pairs.shape[0]):
        u, v = pairs[e, 0], pairs[e, 1]
        columns = cardinalities[v]
        table = tables[table_starts[e] : table_starts[e] + cardinalities[u] * columns]
        excesses[e] = table[labelling[u] * columns + labelling[v]] - table.min()
    return excesses
