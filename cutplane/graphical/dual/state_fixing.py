"""States that no better labelling can have, and where the best labelling and the bound differ."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.dual.cluster_scores import PairCosts
from cutplane.pieces.validation import Array


def states_to_forbid(costs: PairCosts, room: float) -> list[tuple[int, int]]:
    """Return (variable, state) that cost more than `room` above the bound whatever the rest does.

    A labelling costs at least the bound, plus what one of its states costs above the least in the unary and
    in every pair of the variable, by min-marginals.

    Parameters
    ----------
    costs : PairCosts
    room : float
        How far a labelling that is still of interest may be above the bound.
    """
    from cutplane.graphical.dual.state_kernels import add_pair_slacks

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
    from cutplane.graphical.dual.state_kernels import pair_excesses

    starts = costs.unary_starts[:-1]
    total = costs.unaries[starts + labelling] - np.minimum.reduceat(costs.unaries, starts)
    beyond = pair_excesses(labelling, costs.pairs, costs.cardinalities, costs.table_starts, costs.tables)
    for side in range(2):
        np.add.at(total, costs.pairs[:, side], beyond)
    return total
