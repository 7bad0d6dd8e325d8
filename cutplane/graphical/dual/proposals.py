"""Clusters that may increase the bound of a reparametrised model: triangles, squares and longer cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np

from cutplane.graphical.dual.cluster_scores import (
    Cycles,
    PairCosts,
    find_edge,
    guaranteed_increases,
    set_increases,
)
from cutplane.graphical.dual.frustrated_cycles import frustrated_cycles
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

_AT_ONCE = 1000
"""Cycles triangulated at once, because often the first few hundred are enough."""
_AT_LEAST = 8
"""Clusters proposed even if they are large, because each proposal searches the whole graph again."""


class ClusterProposals:
    """Proposes clusters that it has not proposed before."""

    def __init__(self, model: FactorGraph) -> None:
        self._cardinalities = model.cardinalities
        self._larger = [model.factor(int(a)).variables for a in np.flatnonzero(model.arities > 2)]
        self._known: dict[Scope, None] = {}

    def propose(
        self, costs: PairCosts, least: float, work: int, is_late: Callable[[], bool]
    ) -> tuple[list[Scope], str]:
        """Return clusters that certainly increase the bound by more than `least`, best first, and their kind.

        They are triangles and chordless squares or, if there are none, longer frustrated cycles. They have at
        most `work` joint states in total, unless there are only a few of them.
        """
        short = Cycles.joined(short_cycles(costs))
        found = self._new(self._triplets(short, guaranteed_increases(costs, short, is_late), least), work)
        if found or is_late():
            return found, "short cycles"
        long = frustrated_cycles(costs, least, is_late)
        return self._new(
            self._triplets(long, guaranteed_increases(costs, long, is_late), least), work
        ), "frustrated cycles"

    def guess(
        self, costs: PairCosts, excesses: Array, least: float, work: int, is_late: Callable[[], bool]
    ) -> tuple[list[Scope], str]:
        """Return clusters that may together increase the bound, although none certainly does, and their kind.

        These kinds are tried in order until one exists: factors of more than two variables, because as
        clusters they agree on the marginals of pairs; clusters and triangles extended by one variable, if
        they certainly help; short cycles on which the labelling exceeds the bound (by the `excesses` of the
        variables); other short cycles; other extended clusters and triangles.
        """
        for kind, scopes in self._guesses(costs, excesses, least):
            found = self._new(scopes, work)
            if found or is_late():
                return found, kind
        return [], "nothing"

    def _guesses(
        self, costs: PairCosts, excesses: Array, least: float
    ) -> Iterator[tuple[str, Iterable[Scope]]]:
        yield "larger factors", self._larger
        groups = short_cycles(costs)
        short, triangles = Cycles.joined(groups), groups[0].variables.reshape(-1, 3)
        grown = grown_sets(costs, list(dict.fromkeys([*self._known, *_scopes(triangles)])), excesses)
        yield "grown clusters", _ranked(grown, set_increases(costs, grown), least)
        distances = (
            np.add.reduceat(excesses[short.variables], short.starts[:-1]) if len(short) else np.empty(0)
        )
        yield "doubtful cycles", self._triplets(short, distances, least)
        yield "all short cycles", self._triplets(short, distances, -1.0)
        yield "doubtful clusters", _ranked(grown, sums(excesses, grown), -1.0)

    def _triplets(self, cycles: Cycles, values: Array, least: float) -> Iterator[Scope]:
        order = _order(values, least)
        for begin in range(0, order.size, _AT_ONCE):
            yield from _scopes(triplets_of(cycles, order[begin : begin + _AT_ONCE], self._cardinalities))

    def _new(self, scopes: Iterable[Scope], work: int) -> list[Scope]:
        found = []
        for scope in scopes:
            if scope not in self._known:
                self._known[scope] = None
                found.append(scope)
                work -= int(np.prod(self._cardinalities[list(scope)]))
                if work <= 0 and len(found) >= _AT_LEAST:
                    break
        return found


def _order(values: Array, least: float) -> Array:
    good = np.flatnonzero(values > least)
    return good[np.argsort(-values[good], kind="stable")]


def _ranked(scopes: list[Scope], values: Array, least: float) -> Iterator[Scope]:
    return (scopes[number] for number in _order(values, least).tolist())


def _scopes(rows: Array) -> Iterator[Scope]:
    return map(tuple, rows.tolist())


_LIMIT = 2**20
"""Largest number of triangles, and of squares, that are listed, because their rows then take 25 and 34 MB."""
_LARGEST = 2**10
"""Largest number of joint states of an extended set, because each pass over a cluster visits all of them."""
_MOST = 2**10
"""Number of extended sets after which no scope is extended, because the most promising scopes are first."""
_MANY = 8
"""Largest number of common neighbours whose pairs are all listed, because pairs grow as the square."""


Scope = tuple[int, ...]


def short_cycles(costs: PairCosts) -> list[Cycles]:
    """Return the triangles and the chordless squares of the graph of pairs, at most 2^20 of each."""
    starts, neighbours, _ = costs.graph
    return [Cycles.stacked(find(starts, neighbours, _LIMIT)) for find in (triangles, squares)]


def triplets_of(cycles: Cycles, chosen: Array, cardinalities: Array) -> Array:
    """Return the triplets that triangulate the chosen cycles, in their order, as ascending rows.

    All chords of a cycle start at its variable with the fewest states.
    """
    if not chosen.size:
        return np.empty((0, 3), dtype=np.int64)
    begins, sizes = cycles.starts[chosen], np.diff(cycles.starts)[chosen]
    ends = np.cumsum(sizes)
    places = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    states = cardinalities[cycles.variables[np.repeat(begins, sizes) + places]]
    fewest = np.minimum.reduceat(states * sizes.max() + places, ends - sizes) % sizes.max()
    ends = np.cumsum(sizes - 2)
    steps = np.arange(ends[-1]) - np.repeat(ends - sizes + 2, sizes - 2) + 1
    corners = np.stack([np.zeros_like(steps), steps, steps + 1], axis=1)
    corners = (corners + np.repeat(fewest, sizes - 2)[:, None]) % np.repeat(sizes, sizes - 2)[:, None]
    return np.sort(cycles.variables[corners + np.repeat(begins, sizes - 2)[:, None]], axis=1)


def grown_sets(costs: PairCosts, scopes: list[Scope], excesses: Array) -> list[Scope]:
    """Return scopes extended by one variable that is a neighbour of at least two of their variables.

    Sets of more than 1024 joint states are omitted. Scopes on which the best labelling exceeds the bound
    most, by the `excesses` of their variables, are extended first, until there are 1024 sets.
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


@routine
def triangles(starts, neighbours, limit):
    """Return at most `limit` triangles, one ascending row each.

    Each triangle is found once, from its variable of highest degree. The time is the sum, over the edges, of
    the smaller degree of both ends, so that variables of high degree cost little.
    """
    n = starts.size - 1
    found = np.empty((limit, 3), dtype=np.int64)
    mark = np.zeros(n, dtype=np.int64)
    count = 0
    for u in range(n):
        for place in range(starts[u], starts[u + 1]):
            if _before(starts, neighbours[place], u):
                mark[neighbours[place]] = u + 1
        for place in range(starts[u], starts[u + 1]):
            v = neighbours[place]
            if mark[v] != u + 1:
                continue
            for other in range(starts[v], starts[v + 1]):
                w = neighbours[other]
                if mark[w] != u + 1 or not _before(starts, w, v):
                    continue
                if count == limit:
                    return found
                low, high = min(u, v, w), max(u, v, w)
                found[count, 0], found[count, 1], found[count, 2] = low, u + v + w - low - high, high
                count += 1
    return found[:count]


@routine
def squares(starts, neighbours, limit):
    """Return at most `limit` chordless cycles of four variables, one row each, in the order of the cycle.

    If two variables have many common neighbours, only cycles through consecutive ones are listed, because the
    other cycles are sums of these.
    """
    n = starts.size - 1
    found = np.empty((limit, 4), dtype=np.int64)
    head = np.full(n, -1, dtype=np.int64)
    seen = np.zeros(n, dtype=np.int64)
    ends = np.empty(n, dtype=np.int64)
    longest = 0
    for u in range(n):
        paths = 0
        for place in range(starts[u], starts[u + 1]):
            paths += starts[neighbours[place] + 1] - starts[neighbours[place]]
        longest = max(longest, paths)
    link_after = np.empty(longest, dtype=np.int64)
    middle = np.empty(longest, dtype=np.int64)
    common = np.empty(n, dtype=np.int64)
    count = 0
    for u in range(n):
        used = 0
        n_ends = 0
        for place in range(starts[u], starts[u + 1]):
            v = neighbours[place]
            if not _before(starts, v, u):
                continue
            for other in range(starts[v], starts[v + 1]):
                w = neighbours[other]
                if not _before(starts, w, u):
                    continue
                if seen[w] != u + 1:
                    seen[w] = u + 1
                    head[w] = -1
                    ends[n_ends] = w
                    n_ends += 1
                link_after[used], middle[used] = head[w], v
                head[w] = used
                used += 1
        for number in range(n_ends):
            w = ends[number]
            if find_edge(starts, neighbours, u, w) >= 0:
                continue
            size = 0
            link = head[w]
            while link >= 0:
                common[size] = middle[link]
                size += 1
                link = link_after[link]
            reach = size if size <= _MANY else 1
            for first in range(size):
                for second in range(first + 1, min(size, first + 1 + reach)):
                    v, x = common[first], common[second]
                    if find_edge(starts, neighbours, v, x) >= 0:
                        continue
                    if count == limit:
                        return found
                    found[count, 0], found[count, 1], found[count, 2], found[count, 3] = u, v, w, x
                    count += 1
    return found[:count]


@routine
def _before(starts, u, v):
    """Tell whether u precedes v: by degree, then by number."""
    du, dv = starts[u + 1] - starts[u], starts[v + 1] - starts[v]
    return du < dv or (du == dv and u < v)
