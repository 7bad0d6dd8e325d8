"""Builds a model from a file: variables, tables, and functions of many variables as chains of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cutplane.graphical.factors import entries_of, places_of, starts_of
from cutplane.graphical.files.tokens import MAX_ARITY, MAX_ENTRIES
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.validation import Array

_SPARSE = 4
"""Fewest variables of a table that may become an automaton, because smaller tables are rarely sparse."""
_BLOCK = 2**18
"""Table entries that are written at a time, because their words take some 30 MB."""


class SparseTables(NamedTuple):
    """Tables in which all tuples of states have the same cost, except the given tuples.

    Attributes
    ----------
    arities, defaults : ndarray of shape (m,)
        Number of variables, and cost of all other tuples, of each table.
    scopes : ndarray
        The variables of the tables, one table after the other.
    owners, costs : ndarray of shape (n,)
        The table, ascending, and the cost of each tuple of states.
    states : ndarray
        The states of the tuples, one tuple after the other.
    """

    arities: Array
    scopes: Array
    defaults: Array
    owners: Array
    states: Array
    costs: Array


class Automaton(NamedTuple):
    """A weighted finite automaton, which reads the states of the variables of a scope one after another.

    The cost of a labelling is the least sum of the costs of start, steps and end over all runs. For example,
    "at most one variable is in state 1" has the runs ``0 -> 0 -> 1 -> 1`` of a counter.

    Attributes
    ----------
    start : mapping
        The cost of each state of the automaton before the first variable.
    step : callable
        ``step(position, state, x)`` returns pairs of a next state and its cost.
    end : callable
        ``end(state)`` returns the cost after the last variable.
    """

    start: Mapping[Hashable, float]
    step: Callable[[int, Hashable, int], Iterable[tuple[Hashable, float]]]
    end: Callable[[Hashable], float]


class ModelBuilder:
    """Collects the factors of a model; auxiliary variables follow the variables of the file.

    Parameters
    ----------
    cardinalities : sequence of int, or ndarray
        Numbers of states of the variables of the file.
    fail : callable
        ``fail(reason)`` raises an error that names the file and the line.

    Attributes
    ----------
    cardinalities : list of int
    """

    def __init__(self, cardinalities: Sequence[int] | Array, fail: Callable[[str], NoReturn]) -> None:
        self.cardinalities = np.asarray(cardinalities).tolist()
        self._fail = fail
        self._arities: list[Sequence[int] | Array] = []
        self._scopes: list[Sequence[int] | Array] = []
        self._tables: list[Array] = []
        self._room = MAX_ENTRIES

    def shape(self, scope: Sequence[int] | Array) -> tuple[int, ...]:
        """Return the shape of a table of some variables."""
        return tuple(self.cardinalities[u] for u in scope)

    def add(self, scope: Sequence[int], table: Array) -> None:
        """Add a table."""
        self.add_all([len(scope)], scope, table)

    def add_all(self, arities: Sequence[int] | Array, scopes: Sequence[int] | Array, tables: Array) -> None:
        """Add several tables, each in C order of its variables, one after the other."""
        if (most := np.max(arities, initial=0)) > MAX_ARITY:
            self._fail(f"a factor of {most} variables is too large for a table; {MAX_ARITY} are possible")
        self.check_room(tables.size)
        self._room -= tables.size
        self._arities.append(arities)
        self._scopes.append(scopes)
        self._tables.append(tables)

    def check_room(self, entries: int) -> None:
        """Fail if this many more entries would be too many."""
        if entries > self._room:
            self._fail(
                f"the tables of a cost function have {entries} entries; all tables together can have "
                f"{MAX_ENTRIES}"
            )

    def add_tuples(self, given: SparseTables) -> Array:
        """Add tables that are given by tuples of states; return the tuples whose costs do not count.

        If a tuple is given several times, its last cost counts. A table of four or more variables that is
        larger than the list of its tuples becomes an automaton, whose states are the beginnings of tuples.
        """
        arities, scopes, defaults, owners, states, costs = given
        counts, widths = np.bincount(owners, minlength=arities.size), arities[owners]
        firsts, digits, links = starts_of(counts), starts_of(widths), starts_of(arities)
        cardinalities = np.array(self.cardinalities, dtype=np.int64)
        sizes, is_ignored = entries_of(cardinalities, arities, scopes), np.zeros(owners.size, dtype=bool)
        is_list = (arities >= _SPARSE) & (sizes > counts * (arities + 1))
        for f in np.flatnonzero(is_list).tolist():
            part = slice(*firsts[f : f + 2])
            keys = states[digits[part.start] : digits[part.stop]].reshape(-1, arities[f]).tolist()
            ends = dict(zip(map(tuple, keys), costs[part].tolist(), strict=True))
            is_ignored[part] = costs[part] != [ends[tuple(key)] for key in keys]
            self._add_list(scopes[slice(*links[f : f + 2])].tolist(), float(defaults[f]), ends)
        sizes[is_list] = 0.0
        self.check_room(int(sizes.sum()))
        starts, tuples = starts_of(sizes), np.flatnonzero(~is_list[owners])
        places = np.zeros(tuples.size, dtype=np.int64)
        for i in range(int(arities[~is_list].max(initial=0))):
            wide = np.flatnonzero(widths[tuples] > i)
            chosen = tuples[wide]
            radix = cardinalities[scopes[links[owners[chosen]] + i]]
            places[wide] = places[wide] * radix + states[digits[chosen] + i]
        places += starts[owners[tuples]]
        tables = np.repeat(defaults, np.diff(starts))
        tables[places] = costs[tuples]
        is_ignored[tuples] = tables[places] != costs[tuples]
        self.add_all(arities[~is_list], scopes[np.repeat(~is_list, arities)], tables)
        return np.flatnonzero(is_ignored)

    def _add_list(self, scope: Sequence[int], default: float, costs: dict[Any, float]) -> None:
        """Add a table that has the same cost for all tuples of states except the given ones."""
        beginnings = {key[:length] for key in costs for length in range(len(scope) + 1)}

        def step(_: int, beginning: Any, x: int) -> list[tuple[Hashable, float]]:
            longer = None if beginning is None else (*beginning, x)
            return [(longer if longer in beginnings else None, 0.0)]

        self.add_automaton(scope, Automaton({(): 0.0}, step, lambda key: costs.get(key, default)))

    def add_automaton(self, scope: Sequence[int], automaton: Automaton) -> None:
        """Add the cost of an automaton: one table, or a chain of tables if these have fewer entries.

        Between two variables of the scope the chain has an auxiliary variable, the state of the automaton.
        The bound of a chain is as good as the bound of one table, because neighbouring tables share only one
        variable.
        """
        if not scope:
            costs = [cost + automaton.end(state) for state, cost in automaton.start.items()]
            self.add((), np.array([min(costs, default=math.inf)]))
            return
        tables = self._chain(self.shape(scope), automaton)
        if math.prod(self.shape(scope)) <= sum(table.size for table in tables):
            self.add(scope, _product(tables))
            return
        before: tuple[int, ...] = ()
        for u, table in zip(scope, tables, strict=True):
            after: tuple[int, ...] = ()
            if table.shape[2] > 1:
                after = (len(self.cardinalities),)
                self.cardinalities.append(table.shape[2])
            self.add((*before, u, *after), table)
            before = after

    def model(self) -> GraphicalModel:
        """Return the model, and forget its parts and `fail`, which may hold the text of the file."""
        arities, scopes = (
            np.concatenate([[], *parts], dtype=np.int64, casting="unsafe")
            for parts in (self._arities, self._scopes)
        )
        tables = np.concatenate([np.empty(0), *self._tables], axis=None)
        del self._tables, self._fail
        return GraphicalModel.from_flat(self.cardinalities, arities, scopes, tables)

    def _chain(self, sizes: Sequence[int], automaton: Automaton) -> list[Array]:
        """Return the costs of (state before, state of the variable, state after) for each variable.

        States of the automaton with equal continuations are merged, as in Hopcroft's minimisation; states
        without a continuation are removed. There is one state before the first variable, and one after the
        last variable.
        """
        layers = [list(automaton.start)]
        arcs: list[list[list[tuple[int, int, float]]]] = []
        for position, size in enumerate(sizes):
            after: dict[Hashable, int] = {}
            arcs.append(
                [
                    [
                        (x, after.setdefault(state, len(after)), cost)
                        for x in range(size)
                        for state, cost in automaton.step(position, before, x)
                    ]
                    for before in layers[-1]
                ]
            )
            layers.append(list(after))
        rest = [
            automaton.end(state) for state in layers[-1]
        ]  # the cost after a state, in addition to its class
        classes, n_after, tables = [0] * len(rest), 1, []
        for size, found in zip(reversed(sizes), reversed(arcs), strict=True):
            numbers: dict[frozenset[tuple[tuple[int, int], float]], int] = {}
            classes_before = []
            for steps in found:
                least: dict[tuple[int, int], float] = {}
                for x, state, cost in steps:
                    place, total = (x, classes[state]), cost + rest[state]
                    if total < least.get(place, math.inf):
                        least[place] = total
                classes_before.append(
                    numbers.setdefault(frozenset(least.items()), len(numbers)) if least else -1
                )
            self.check_room(len(numbers) * size * n_after)
            table = np.full((max(len(numbers), 1), size, n_after), np.inf)
            for row, number in numbers.items():
                for place, cost in row:
                    table[number, *place] = cost
            tables.append(table)
            classes, n_after = classes_before, table.shape[0]
            rest = [math.inf if number < 0 else 0.0 for number in classes]
        costs = [cost + more for cost, more in zip(automaton.start.values(), rest, strict=True)]
        tables[-1] = np.min(
            tables[-1][classes] + np.reshape(costs, (-1, 1, 1)), axis=0, keepdims=True, initial=np.inf
        )
        return tables[::-1]


def _product(tables: Sequence[Array]) -> Array:
    """Return the least cost over the states of the automaton, for each labelling in C order."""
    product = tables[0][0]
    for table in tables[1:]:
        product = np.min(product[:, :, None, None] + table, axis=1).reshape(-1, table.shape[2])
    return product


class FactorBlock(NamedTuple):
    """Some factors of a model: the variables, the table and the starts of the tables of each in `costs`."""

    scopes: list[list[int]]
    costs: Array
    starts: Array

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Where each table begins and ends."""
        return list(pairwise([*self.starts.tolist(), self.costs.size]))


def blocks_of(model: GraphicalModel) -> Iterator[FactorBlock]:
    """Yield the variables whose costs are not all 0, and the factors, some at a time."""
    used = np.flatnonzero(
        np.bincount(np.repeat(np.arange(model.n_variables), model.cardinalities), model.unaries != 0.0)
    )
    arities = np.concatenate([np.ones(used.size, dtype=np.int64), model.arities])
    scopes = np.concatenate([used, model.scopes]).tolist()
    sizes = np.concatenate([model.cardinalities[used], model.table_sizes])
    is_unary = np.arange(sizes.size) < used.size
    places = np.concatenate([model.unary_starts[used], model.table_starts])
    scope_starts = starts_of(arities).tolist()
    for block in np.split(np.arange(sizes.size), np.flatnonzero(np.diff(np.cumsum(sizes) // _BLOCK)) + 1):
        single = block[is_unary[block]], block[~is_unary[block]]
        costs = [
            values[places_of(places[part], sizes[part])]
            for values, part in zip((model.unaries, model.tables), single, strict=True)
        ]
        lists = [scopes[scope_starts[a] : scope_starts[a + 1]] for a in block.tolist()]
        if lists:
            yield FactorBlock(lists, np.concatenate(costs), starts_of(sizes[block])[:-1])
