"""States that no better labelling can have, and where the best labelling and the bound differ."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.dual.cluster_scores import PairCosts
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine


def states_to_forbid(costs: PairCosts, room: float) -> list[tuple[int, int]]:
    """Return (variable, state) that cost more than `room` above the bound whatever the rest does.

    A labelling costs at least the bound, plus what one of its states costs above the least in the unary and
    in every pair of the variable, by min-marginals.
    """
    alive = np.isfinite(costs.unaries)
    least = np.minimum.reduceat(costs.unaries, costs.unary_starts[:-1])
    variable_of = np.repeat(np.arange(costs.cardinalities.size), costs.cardinalities)
    slacks = np.where(alive, costs.unaries, 0.0) - np.where(alive, least[variable_of], 0.0)
    add_pair_slacks(
        costs.pairs, costs.cardinalities, costs.unary_starts, costs.table_starts, costs.tables, slacks
    )
    places = np.flatnonzero(alive & (slacks > room))
    variables = variable_of[places]
    return list(zip(variables.tolist(), (places - costs.unary_starts[variables]).tolist(), strict=True))


def excesses(costs: PairCosts, labelling: Array) -> Array:
    """Return what the labelling costs above the least in the unary and in the pairs of each variable."""
    starts = costs.unary_starts[:-1]
    with np.errstate(invalid="ignore"):  # of a variable without a state left, inf - inf
        total = costs.unaries[starts + labelling] - np.minimum.reduceat(costs.unaries, starts)
    rows, columns = labelling[costs.pairs].T
    places = costs.table_starts + rows * costs.cardinalities[costs.pairs[:, 1]] + columns
    beyond = costs.tables[places]
    if beyond.size:
        with np.errstate(invalid="ignore"):
            beyond -= np.minimum.reduceat(costs.tables, costs.table_starts)
    for side in range(2):
        np.add.at(total, costs.pairs[:, side], beyond)
    return total


@routine
def add_pair_slacks(pairs, cardinalities, unary_starts, table_starts, tables, slacks):
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
