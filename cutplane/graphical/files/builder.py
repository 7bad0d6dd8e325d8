"""Builds a model from a file: variables, tables, and functions of many variables as chains of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, NoReturn

import numpy as np

from cutplane.graphical.factors import entries_of, places_of, starts_of
from cutplane.graphical.files.tokens import MAX_ENTRIES, are_scopes
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.validation import Array

SPARSE = 4
"""Fewest variables of a table that may become an automaton, because smaller tables are rarely sparse."""


_BLOCK = 2**18
"""Table entries that are written at a time, because their words take some 30 MB."""


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

    def shape(self, scope: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of a table of some variables."""
        return tuple(self.cardinalities[u] for u in scope)

    def add(self, scope: Sequence[int], table: Array) -> None:
        """Add a table."""
        self.add_all([len(scope)], scope, table)

    def add_all(self, arities: Sequence[int] | Array, scopes: Sequence[int] | Array, tables: Array) -> None:
        """Add several tables, each in C order of its variables, one after the other."""
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

    def add_tuples(self, scope: Sequence[int], default: float, states: Array, costs: Array) -> None:
        """Add a table with the same cost for all tuples of states except the given ones.

        A table of four or more variables that is larger than the list of tuples becomes an automaton, whose
        states are the beginnings of tuples.
        """
        shape = self.shape(scope)
        if len(scope) < SPARSE or math.prod(shape) <= states.size + costs.size:
            size = math.prod(shape)
            self.check_room(size)
            table, place, stride = np.full(size, default), np.zeros(costs.size, dtype=np.int64), size
            for column, k in enumerate(shape):
                stride //= k
                place = place + stride * states[:, column]
            table[place] = costs
            self.add(scope, table.reshape(shape))
            return
        ends = dict(zip(map(tuple, states.tolist()), costs.tolist(), strict=True))
        beginnings = {key[:length] for key in ends for length in range(len(shape) + 1)}

        def step(_: int, beginning: Hashable, x: int) -> list[tuple[Hashable, float]]:
            longer = None if beginning is None else (*beginning, x)  # pyright: ignore[reportGeneralTypeIssues]
            return [(longer if longer in beginnings else None, 0.0)]

        self.add_automaton(scope, Automaton({(): 0.0}, step, lambda key: ends.get(key, default)))  # pyright: ignore[reportArgumentType]

    def add_all_tuples(
        self, arities: Array, scopes: Array, defaults: Array, owners: Array, states: Array, costs: Array
    ) -> bool:
        """Add several tables, or return False if a scope or a state does not exist or a tuple is repeated.

        Parameters
        ----------
        arities, defaults : ndarray of shape (m,)
            Number of variables, and cost of all other tuples, of each table.
        scopes : ndarray
            The variables of the tables, one table after the other.
        owners, costs : ndarray of shape (n,)
            The table, and the cost, of each tuple of states.
        states : ndarray
            The states of the tuples, one tuple after the other.
        """
        cardinalities = np.array(self.cardinalities, dtype=np.int64)
        if not are_scopes(arities, scopes, cardinalities.size):
            return False
        sizes = entries_of(cardinalities, arities, scopes)
        if sizes.sum() > self._room:
            return False
        starts, scope_starts = starts_of(sizes.astype(np.int64)), starts_of(arities)
        widths = arities[owners]
        tuples, places = starts_of(widths), np.zeros(owners.size, dtype=np.int64)
        for i in range(int(arities.max(initial=0))):
            wide = np.flatnonzero(widths > i)
            digits, most = states[tuples[wide] + i], cardinalities[scopes[scope_starts[owners[wide]] + i]]
            if ((digits < 0) | (digits >= most)).any():
                return False
            places[wide] = places[wide] * most + digits
        places += starts[owners]
        if np.bincount(places).max(initial=0) > 1:
            return False
        tables = np.repeat(defaults, np.diff(starts))
        tables[places] = costs
        self.add_all(arities, scopes, tables)
        return True

    def add_automaton(self, scope: Sequence[int], automaton: Automaton) -> None:
        """Add the cost of an automaton: one table, or a chain of tables if these have fewer entries.

        Between two variables of the scope the chain has an auxiliary variable, the state of the automaton.
        The bound of a chain is as good as the bound of one table, because neighbouring tables share only one
        variable.
        """
        if not scope:
            costs = [cost + automaton.end(state) for state, cost in automaton.start.items()]
            self.add((), np.array(min(costs, default=math.inf)))
            return
        shape = self.shape(scope)
        tables = self._chain(shape, automaton)
        if math.prod(shape) <= sum(table.size for table in tables):
            self.add(scope, _product(tables).reshape(shape))
            return
        before: tuple[int, ...] = ()
        for u, table in zip(scope, tables, strict=True):
            after: tuple[int, ...] = ()
            if table.shape[2] > 1:
                after = (len(self.cardinalities),)
                self.cardinalities.append(table.shape[2])
            variables = (*before, u, *after)
            self.add(variables, table.reshape(self.shape(variables)))
            before = after

    def model(self) -> GraphicalModel:
        """Return the model."""
        arities, scopes = (
            np.concatenate([[], *parts], dtype=np.int64, casting="unsafe")
            for parts in (self._arities, self._scopes)
        )
        tables = np.concatenate(self._tables, axis=None) if self._tables else np.empty(0)
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

    def table(self, i: int) -> Array:
        """Return the flat table of a factor."""
        return self.costs[slice(*self.ends[i])]


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
