"""Where a reparametrised model may be tightened: short cycles, and longer ones that contradict themselves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np

from cutplane.graphical.dual.cluster_scores import Cycles, PairCosts
from cutplane.pieces.validation import Array

_LIMIT = 2**20
_REACH = 2**12
_ROUNDS = 20
_LARGEST = 2**10
_MOST = 2**10

Scope = tuple[int, ...]


def short_cycles(costs: PairCosts) -> list[Cycles]:
    """Return the triangles and the chordless squares of the graph of pairs, 2^20 of each at most."""
    from cutplane.graphical.dual.candidate_kernels import squares, triangles

    starts, neighbours, _ = costs.graph
    return [Cycles.stacked(find(starts, neighbours, _LIMIT)) for find in (triangles, squares)]


def frustrated_cycles(
    costs: PairCosts, limit: int, least: float, is_late: Callable[[], bool] = lambda: False
) -> Cycles:
    """Return cycles of any length along which the pairs contradict each other.

    The states of each variable are split into one of them and the others, in all ways; a pair of such splits
    prefers to agree or to differ, by some margin. A cycle with an odd number of those that prefer to differ
    raises the bound by its smallest margin if the variables have two states, and is a good candidate if they
    have more. The strongest are found by way of a maximum spanning forest, and shortened; their margins
    are taken off, and so on.

    Parameters
    ----------
    costs : PairCosts
    limit : int
        The most searches that are made.
    least : float
        Margins up to this one are ignored.
    is_late : callable, optional
        Whether to search no more.

    Returns
    -------
    Cycles

    References
    ----------
    Sontag, Choe, Li (2012). Efficiently searching for frustrated cycles in MAP inference. UAI.
    https://arxiv.org/abs/1210.4902
    """
    from cutplane.graphical.dual.frustration_kernels import (
        frustrated_walks,
        projected_preferences,
        simple_cycles,
        spend,
        walked_nodes,
    )

    if len(costs.pairs) == 0:
        return Cycles(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64))
    nodes = np.where(costs.cardinalities > 2, costs.cardinalities, costs.cardinalities - 1)
    node_starts = np.concatenate([[0], np.cumsum(nodes)])
    variable_of = np.repeat(np.arange(nodes.size), nodes)
    ends, preferences = projected_preferences(
        costs.pairs,
        node_starts,
        1.0 / np.maximum(1, np.diff(costs.graph[0])),
        costs.cardinalities,
        costs.unary_starts,
        costs.unaries,
        costs.table_starts,
        costs.tables,
        least,
    )
    strengths = np.abs(preferences)
    found: list[Cycles] = []
    for _ in range(_ROUNDS):
        order = np.argsort(-strengths, kind="stable")[: np.count_nonzero(strengths > least)]
        ends, preferences, strengths = ends[order], preferences[order], strengths[order]
        starts, walks = frustrated_walks(
            int(node_starts[-1]), ends, (preferences < 0.0).astype(np.int64), strengths, limit, _REACH
        )
        variables = variable_of[walked_nodes(starts, walks, ends)]
        found.append(Cycles(*simple_cycles(starts, variables, nodes.size)))
        limit -= len(starts) - 1
        if len(starts) == 1 or limit <= 0 or is_late():
            break
        spend(starts, walks, strengths)
    return Cycles.joined(found)


def triplets_of(cycles: Cycles, chosen: Array, cardinalities: Array) -> Array:
    """Return the triplets that triangulate the chosen cycles, in their order, as ascending rows."""
    from cutplane.graphical.dual.candidate_kernels import triangulate

    return triangulate(cycles.starts, cycles.variables, chosen, cardinalities)


def grown_sets(costs: PairCosts, scopes: list[Scope], excesses: Array) -> list[Scope]:
    """Return scopes with one more variable each that is a neighbour of at least two of theirs.

    Sets of more than 1024 joint states are left out. The scopes with the largest excesses are first, until
    there are 1024 sets.

    Parameters
    ----------
    costs : PairCosts
    scopes : list of tuple of int
        Ascending.
    excesses : ndarray of shape (n,)
        How far the best labelling is from the bound at each variable.
    """
    starts, neighbours, _ = costs.graph
    grown: dict[Scope, None] = {}
    for number in np.argsort(-sums(excesses, scopes), kind="stable"):
        scope = scopes[number]
        states = costs.cardinalities[list(scope)].prod()
        near, counts = np.unique(
            np.concatenate([neighbours[starts[u] : starts[u + 1]] for u in scope]), return_counts=True
        )
        for u in near[(counts >= 2) & (states * costs.cardinalities[near] <= _LARGEST)].tolist():
            if u not in scope:
                grown[tuple(sorted((*scope, u)))] = None
        if len(grown) >= _MOST:
            break
    return list(grown)


def sums(values: Array, scopes: list[Scope]) -> Array:
    """Return the sum of the values of the variables of each scope."""
    if not scopes:
        return np.empty(0)
    starts = np.cumsum([0, *map(len, scopes[:-1])])
    return np.add.reduceat(values[list(chain.from_iterable(scopes))], starts)
