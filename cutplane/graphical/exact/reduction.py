"""A smaller model with the same least energy: variables that follow from others are removed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutplane.graphical.exact.clique_tree import restricted_model, state_counts
from cutplane.graphical.exact.reduction_passes import MOST_NEIGHBOURS, Remainder, expand, reduce
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import GivenFactors, collect, places_of, starts_of
from cutplane.pieces.validation import Array


@dataclass(frozen=True, eq=False)
class Reduction:
    """A smaller model with some variables and states of another model, and the map of labellings back.

    `states` are the remaining states of the original variables, one variable after the other, from
    ``rest.unary_starts`` on. `choices` are the states of each removed variable for the states of others.
    """

    model: FactorGraph
    states: Array
    rest: Remainder
    choices: Array

    def expand(self, labelling: Array) -> Array:
        """Return the best labelling of the original model that agrees with one of the smaller model."""
        rest = self.rest
        full = np.zeros(rest.counts.size, dtype=np.int64)
        full[~rest.is_removed] = labelling
        order = rest.order[: np.count_nonzero(rest.is_removed)]
        expand(rest.near, rest.choice_starts, self.choices, order, rest.counts, full)
        return self.states[rest.unary_starts[:-1] + full]


def reduce_model(model: FactorGraph) -> Reduction:
    """Return a model with the same least energy and fewer variables and states, exactly.

    States of infinite unary cost are removed (each variable has another state). A variable that another
    variable determines through hard constraints is replaced by that variable. A variable with at most three
    neighbours is eliminated if the new table is not larger than the tables that it replaces.
    """
    alive = model.unaries < np.inf
    counts = state_counts(model, alive)
    states = np.flatnonzero(alive) - np.repeat(model.unary_starts[:-1], counts)
    work = model if alive.all() else restricted_model(model, counts, states)
    rest = _remainder(work)
    start = np.array(work.tables), np.empty(work.unaries.size, dtype=np.int64)
    constant, tables, choices = reduce(rest, work.constant, *start)
    left = np.flatnonzero(~rest.is_removed)
    number = np.zeros(work.n_variables, dtype=np.int64)
    number[left] = np.arange(left.size)
    kept = np.flatnonzero(rest.arities)
    arities = np.append(rest.arities[kept], np.ones(left.size, dtype=np.int64))
    scopes = rest.scopes[places_of(rest.firsts[kept], rest.arities[kept])]
    given = GivenFactors(
        starts_of(arities),
        number[np.append(scopes, left)],
        np.append(rest.places[kept], tables.size + rest.unary_starts[left]),
        np.append(tables, rest.unaries),
    )
    smaller = FactorGraph.from_arrays(counts[left], collect(counts[left], given, constant))
    return Reduction(smaller, states, rest, choices)


def _remainder(model: FactorGraph) -> Remainder:
    """Return the model in arrays with room for one factor per variable."""
    n, n_factors, n_links = model.n_variables, model.n_factors, model.n_links
    room, links = np.zeros(n, dtype=np.int64), np.zeros(MOST_NEIGHBOURS * n, dtype=np.int64)
    linked = np.repeat(np.arange(n_factors), model.arities)
    order = np.argsort(model.scopes, kind="stable")
    following, heads = np.full(n_links + links.size, -1), np.full(n, -1)
    first = np.flatnonzero(np.diff(model.scopes[order], prepend=-1))
    heads[model.scopes[order[first]]] = order[first]
    is_next = model.scopes[order[1:]] == model.scopes[order[:-1]]
    following[order[:-1][is_next]] = order[1:][is_next]
    return Remainder(
        counts=model.cardinalities,
        unary_starts=model.unary_starts,
        unaries=np.array(model.unaries),
        firsts=np.append(model.scope_starts[:-1], room),
        arities=np.append(model.arities, room),
        scopes=np.append(model.scopes, links),
        places=np.append(model.table_starts, room),
        sizes=np.append(model.table_sizes, room),
        heads=heads,
        linked=np.append(linked, links),
        following=following,
        near=np.full((n, MOST_NEIGHBOURS), -1),
        choice_starts=room.copy(),
        order=room.copy(),
        is_removed=np.zeros(n, dtype=np.bool_),
        totals=np.array([0, model.tables.size, 0, n_factors, n_links, n_links]),
    )
