"""Builds a model from a file: variables, tables, and functions of many variables as chains of tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factors import entries_of, places_of, starts_of
from cutplane.graphical.files.tokens import MAX_ARITY, MAX_ENTRIES
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.validation import Array, as_count

_SPARSE = 4
"""Fewest variables of a table that may become an automaton, because smaller tables are rarely sparse."""
_DIGITS = 15
"""Most digits after the decimal point, because floats have no more."""
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


Step = Callable[[int, Any, int], Iterable[tuple[Hashable, float]]]


class ModelBuilder:
    """Collects the factors of a model; auxiliary variables follow the variables of the file.

    ``fail(reason)`` raises an error that names the file and the line.
    """

    def __init__(self, cardinalities: Sequence[int] | Array, fail: Callable[[str], NoReturn]) -> None:
        self.cardinalities = np.asarray(cardinalities).tolist()
        self._fail = fail
        self._parts: list[tuple[Sequence[int] | Array, Sequence[int] | Array, Array]] = []
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
        self._parts.append((arities, scopes, tables))

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

        self.add_automaton(scope, {(): 0.0}, step, lambda key: costs.get(key, default))

    def add_automaton(
        self, scope: Sequence[int], start: Mapping[Hashable, float], step: Step, end: Callable[[Any], float]
    ) -> None:
        """Add the cost of a weighted automaton that reads the states of the variables of a scope in turn.

        The cost of a labelling is the least sum of the costs of start, steps and end over all runs. For
        example, "at most one variable is in state 1" has the runs ``0 -> 0 -> 1 -> 1`` of a counter. `start`
        has the cost of each first state, ``step(position, state, x)`` returns pairs of a next state and its
        cost, and ``end(state)`` the cost of a last state.

        The automaton becomes one table, or a chain of tables if these have fewer entries. Between two
        variables of the scope the chain has an auxiliary variable, the state of the automaton. The bound of a
        chain is as good as the bound of one table, because neighbouring tables share only one variable.
        """
        if not scope:
            self.add(
                (), np.array([min((cost + end(state) for state, cost in start.items()), default=math.inf)])
            )
            return
        tables = self._chain(self.shape(scope), start, step, end)
        if math.prod(self.shape(scope)) <= sum(table.size for table in tables):
            product = tables[0][0]
            for table in tables[1:]:
                product = np.min(product[:, :, None, None] + table, axis=1).reshape(-1, table.shape[2])
            self.add(scope, product)
            return
        before: tuple[int, ...] = ()
        for u, table in zip(scope, tables, strict=True):
            after: tuple[int, ...] = ()
            if table.shape[2] > 1:
                after = (len(self.cardinalities),)
                self.cardinalities.append(table.shape[2])
            self.add((*before, u, *after), table)
            before = after

    def forbid_above(self, bound: float) -> float:
        """Forbid each entry whose labellings all have an energy of at least `bound`.

        Return the largest difference to the least cost of a table that is not forbidden.
        """
        arities, scopes, tables = self._merged()
        if arities.size:
            sizes = entries_of(np.array(self.cardinalities), arities, scopes).astype(np.int64)
            least = np.minimum.reduceat(tables, starts_of(sizes)[:-1])
            bound -= float(least.sum())
            tables[tables - np.repeat(least, sizes) >= bound] = np.inf
        self._parts = [(arities, scopes, tables)]
        return bound

    def _merged(self) -> tuple[Array, Array, Array]:
        arities, scopes, tables = zip(*self._parts, strict=True) if self._parts else ((), (), ())
        arities, scopes = (
            np.concatenate([[], *parts], dtype=np.int64, casting="unsafe") for parts in (arities, scopes)
        )
        return arities, scopes, np.concatenate([np.empty(0), *tables], axis=None)

    def model(self) -> GraphicalModel:
        """Return the model, and forget its parts and `fail`, which may hold the text of the file."""
        del self._fail
        parts, self._parts = self._merged(), []
        return GraphicalModel.from_flat(self.cardinalities, *parts)

    def _chain(
        self, sizes: Sequence[int], start: Mapping[Hashable, float], step: Step, end: Callable[[Any], float]
    ) -> list[Array]:
        """Return the costs of (state before, state of the variable, state after) for each variable.

        States of the automaton with equal continuations are merged, as in Hopcroft's minimisation; states
        without a continuation are removed. There is one state before the first variable, and one after the
        last variable.
        """
        layers, arcs = [list(start)], []
        for position, size in enumerate(sizes):
            after: dict[Hashable, int] = {}
            arcs.append(
                [
                    [
                        (x, after.setdefault(state, len(after)), cost)
                        for x in range(size)
                        for state, cost in step(position, before, x)
                    ]
                    for before in layers[-1]
                ]
            )
            layers.append(list(after))
        rest = list(map(end, layers[-1]))  # the cost after a state, in addition to its class
        classes, n_after, tables = [0] * len(rest), 1, []
        for size, found in zip(reversed(sizes), reversed(arcs), strict=True):
            numbers: dict[frozenset[tuple[tuple[int, int], float]], int] = {}
            classes_before = []
            for steps in found:
                least: dict[tuple[int, int], float] = {}
                for x, state, cost in steps:
                    place = x, classes[state]
                    least[place] = min(cost + rest[state], least.get(place, math.inf))
                kept = frozenset(item for item in least.items() if item[1] < math.inf)
                classes_before.append(numbers.setdefault(kept, len(numbers)) if kept else -1)
            self.check_room(len(numbers) * size * n_after)
            table = np.full((max(len(numbers), 1), size, n_after), np.inf)
            for row, number in numbers.items():
                for place, cost in row:
                    table[number, *place] = cost
            tables.append(table)
            classes, n_after = classes_before, table.shape[0]
            rest = [math.inf if number < 0 else 0.0 for number in classes]
        costs = np.reshape([cost + more for cost, more in zip(start.values(), rest, strict=True)], (-1, 1, 1))
        tables[-1] = np.min(tables[-1][classes] + costs, axis=0, keepdims=True, initial=np.inf)
        return tables[::-1]


def as_digits(precision: Any) -> int:
    """Return a number of digits after the decimal point, checked."""
    if as_count("precision", precision, low=0) > _DIGITS:
        raise InvalidInputError(f"precision must be at most {_DIGITS}, got {precision}.")
    return int(precision)


class FactorBlock(NamedTuple):
    """Some factors of a model: the variables, and the tables, one after the other, with their sizes."""

    scopes: list[list[int]]
    costs: Array
    sizes: Array

    @property
    def starts(self) -> Array:
        """Where each table begins."""
        return starts_of(self.sizes)[:-1]

    @property
    def ends(self) -> list[tuple[int, int]]:
        """Where each table begins and ends."""
        return list(pairwise(starts_of(self.sizes).tolist()))


def blocks_of(model: GraphicalModel) -> Iterator[FactorBlock]:
    """Yield the variables whose costs are not all 0, and the factors, some at a time."""
    owners = np.repeat(np.arange(model.n_variables), model.cardinalities)
    used = np.unique(owners[model.unaries != 0.0])
    unary = np.arange(used.size + 1), used, model.cardinalities[used], model.unary_starts[used], model.unaries
    tables = model.scope_starts, model.scopes, model.table_sizes, model.table_starts, model.tables
    for scope_starts, scopes, sizes, starts, costs in (unary, tables):
        ends = np.cumsum(sizes) // _BLOCK
        for block in np.split(np.arange(sizes.size), np.flatnonzero(np.diff(ends)) + 1):
            if block.size:
                links = scope_starts[block[0] : block[-1] + 2].tolist()
                flat = scopes[links[0] : links[-1]].tolist()
                lists = [flat[begin - links[0] : end - links[0]] for begin, end in pairwise(links)]
                yield FactorBlock(lists, costs[places_of(starts[block], sizes[block])], sizes[block])
