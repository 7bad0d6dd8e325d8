"""Orders in which variables are eliminated, such that the tables are small."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import places_of, starts_of
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.runtime.compiling import routine

Neighbours = list[set[int]]

_ATTEMPTS = 12
"""Most greedy orders of a hard graph, because another way to break ties may give smaller tables."""
_EASY = 18.0
"""log2 of a table's entries up to which no more orders are tried, because 2 MB are fast to minimise."""
_HOPELESS = 32.0
"""log2 of a table's entries from which no more orders are tried, because few machines have 32 GB."""
_SMALL_GRAPH = 20_000
"""Total number of neighbours up to which orders are repeated, because in larger graphs they take seconds."""
_ROUNDING, _CLOSE = 2.0**-20, 1e-4
"""Rounding unit of the log2 of numbers of states, because sums are then exact, and the error of a sum."""
_PART = 10_000
"""Variables that are eliminated between two readings of the clock, because they take some milliseconds."""


def elimination_order(
    model: FactorGraph, counts: Sequence[int], limit: float, deadline: float = np.inf
) -> tuple[list[int], float]:
    """Return an order for these numbers of states, and the log2 of its largest table, as `best_order` does.

    Variables of one state are first. Models of the same scopes share the order.
    """
    key = tuple(counts)
    order, width, tried = model.orders.get(key, ([], np.inf, -np.inf))
    if not order and limit > tried:
        sizes = np.array(counts, dtype=np.float64)
        free = np.flatnonzero(sizes > 1)
        number = {u: i for i, u in enumerate(free.tolist())}
        scopes = [[number[u] for u in scope] for scope in scopes_of(model, counts)]
        order, width = best_order(neighbourhoods(free.size, scopes), np.log2(sizes[free]), limit, deadline)
        if clock() > deadline:
            raise TimeoutError("The search for an order of elimination was stopped at its deadline.")
        order = [*np.flatnonzero(sizes == 1).tolist(), *free[order].tolist()] if width <= limit else []
        model.orders[key] = order, width, limit
    return order, width


def scopes_of(model: FactorGraph, counts: Sequence[int] | None = None) -> list[list[int]]:
    """Return the scope of each factor, without variables for which `counts` has a single state."""
    starts, scopes = model.scope_starts.tolist(), model.scopes.tolist()
    several = [counts is None or counts[u] != 1 for u in range(model.n_variables)]
    return [[u for u in scopes[begin:end] if several[u]] for begin, end in pairwise(starts)]


def neighbourhoods(n: int, scopes: Sequence[Sequence[int]]) -> Neighbours:
    """Return for each of n variables the variables that share a scope with it."""
    near: Neighbours = [set() for _ in range(n)]
    for scope in scopes:
        for u in scope:
            near[u].update(scope)
    for u in range(n):
        near[u].discard(u)
    return near


def best_order(
    near: Neighbours, weights: Array, limit: float = np.inf, deadline: float = np.inf
) -> tuple[list[int], float]:
    """Return the best of some orders, and the log2 of its largest table; `weights` are log2 of the states.

    The first order is breadth-first (reverse Cuthill-McKee), which is best for grids. Greedy orders take the
    variable whose elimination adds the fewest pairs, or makes the smallest table; if the tables are large,
    they are repeated with other ways to break ties. If no order fits the limit, the returned order is empty,
    and the size is the least one that exceeded the limit.
    """
    if not near:
        return [], 0.0
    order = sweep_order(near)
    best = _cost(order, near, weights, limit)
    blocked = best[0]
    if blocked > limit:
        best, order = (np.inf, np.inf), []
    rng = np.random.default_rng(0)
    names = np.arange(len(near))
    is_small = sum(map(len, near)) <= _SMALL_GRAPH
    for attempt in range(_ATTEMPTS):
        if clock() > deadline:
            break
        is_hard = is_small and _EASY < min(best[0], blocked) < _HOPELESS
        if attempt > (1 if is_small or order else 0) and not is_hard:
            break
        found, size = _greedy(near, weights, min(limit, best[0]), attempt % 2 == 1, names, deadline)
        if size > limit:
            blocked = min(blocked, size)
        elif found:
            cost = _cost(found, near, weights, limit)
            if cost < best:
                best, order = cost, found
        names = rng.permutation(len(near))
    return order, best[0] if order else blocked


def message_scopes(order: Sequence[int], near: Neighbours) -> list[set[int]]:
    """Return for each variable the other variables of its table at its elimination."""
    scopes: Neighbours = [set() for _ in near]
    for u, scope in _messages(order, near):
        scopes[u] = scope
    return scopes


def _messages(order: Sequence[int], near: Neighbours) -> Iterator[tuple[int, set[int]]]:
    position = {u: i for i, u in enumerate(order)}
    received: dict[int, set[int]] = {}
    for u in order:
        scope = {v for v in near[u] if position[v] > position[u]} | received.pop(u, set())
        yield u, scope
        if scope:
            parent = min(scope, key=position.__getitem__)
            received.setdefault(parent, set()).update(scope - {parent})


def _cost(order: Sequence[int], near: Neighbours, weights: Array, limit: float) -> tuple[float, float]:
    """Return the log2 of the largest table, or of the first beyond the limit, and of their sum."""
    weight = weights.tolist()
    sizes = []
    for u, scope in _messages(order, near):
        sizes.append(weight[u] + sum(weight[v] for v in scope))
        if sizes[-1] > limit:
            return sizes[-1], np.inf
    return max(sizes), float(np.logaddexp2.reduce(sizes))


def sweep_order(near: Neighbours) -> list[int]:
    """Return a breadth-first order, in which neighbours are close to each other."""
    n = len(near)
    columns = np.array([v for scope in near for v in scope], dtype=np.int64)
    pointers = np.concatenate([[0], np.cumsum([len(scope) for scope in near])])
    graph = sparse.csr_array((np.ones(columns.size), columns, pointers), shape=(n, n))
    return reverse_cuthill_mckee(graph, symmetric_mode=True).tolist()


def _greedy(
    near: Neighbours, weights: Array, limit: float, by_fill: bool, ties: Array, deadline: float
) -> tuple[list[int], float]:
    """Return an order and 0, or no order and the size of the next table if that is beyond the limit."""
    n, degrees = len(near), np.array([len(scope) for scope in near], dtype=np.int64)
    rooms = 2 * degrees + 4
    begins = starts_of(rooms)
    members = np.empty(begins[-1], dtype=np.int64)
    members[places_of(begins[:-1], degrees)] = [v for scope in near for v in scope]
    graph, weights = (begins, degrees, rooms), np.round(weights / _ROUNDING) * _ROUNDING
    sizes, fill = initial_keys(members, *graph, weights, by_fill)
    order, count, done = np.empty(n, dtype=np.int64), 0, np.full(n, False)
    state = weights, sizes, fill, ties, done, order
    while count < n:
        end = min(n, count + _PART)
        count, size, members = take_cheapest(members, *graph, *state, count, end, limit + _CLOSE, by_fill)
        if size > 0.0 or clock() > deadline:
            return [], size
    return order.tolist(), 0.0


@routine
def initial_keys(members, begins, degrees, rooms, weights, by_fill):
    """Return the size of the table of each variable, and the number of pairs that its elimination adds."""
    n = degrees.size
    sizes, fill, marks = weights.copy(), np.zeros(n, dtype=np.int64), np.full(n, -1)
    for u in range(n):
        scope = members[begins[u] : begins[u] + degrees[u]]
        for v in scope:
            sizes[u] += weights[v]
            marks[v] = u
        if by_fill:
            pairs = 0
            for v in scope:
                for w in members[begins[v] : begins[v] + degrees[v]]:
                    pairs += marks[w] == u
            fill[u] = (scope.size * (scope.size - 1) - pairs) // 2
    return sizes, fill


@routine
def take_cheapest(
    members, begins, degrees, rooms, weights, sizes, fill, ties, done, order, count, end, limit, by_fill
):
    """Eliminate the variables of least fill, size and tie, until `end` are, or a table is beyond the limit.

    Return the number of eliminated variables, the size beyond the limit or 0, and `members`, or a longer
    copy of it. The neighbours of u are ``members[begins[u]:begins[u] + degrees[u]]``, with space for
    ``rooms[u]``.
    """
    n = degrees.size
    heap = [(fill[u], sizes[u], ties[u], u) for u in range(n) if not done[u]]
    heapq.heapify(heap)
    marks, stamp = np.zeros(n, dtype=np.int64), 0
    changed, is_changed = np.empty(n, dtype=np.int64), np.full(n, False)
    while count < end:
        key = heapq.heappop(heap)
        u = key[3]
        if done[u] or key[0] != fill[u] or key[1] != sizes[u]:
            continue
        if sizes[u] > limit:
            return count, sizes[u], members
        done[u], order[count] = True, u
        count += 1
        scope = members[begins[u] : begins[u] + degrees[u]].copy()
        n_changed = scope.size
        changed[:n_changed] = scope
        is_changed[scope] = True
        for i in range(scope.size):
            a, stamp = scope[i], stamp + 1
            marks[members[begins[a] : begins[a] + degrees[a]]] = stamp
            for b in scope[i + 1 :]:
                if marks[b] == stamp:
                    continue
                if by_fill:
                    n_common = 0
                    for w in members[begins[b] : begins[b] + degrees[b]]:
                        if marks[w] == stamp:
                            n_common += 1
                            fill[w] -= 1
                            if not is_changed[w]:
                                is_changed[w], changed[n_changed] = True, w
                                n_changed += 1
                    fill[a] += degrees[a] - n_common
                    fill[b] += degrees[b] - n_common
                members = _join(members, begins, degrees, rooms, a, b)
                members = _join(members, begins, degrees, rooms, b, a)
                marks[b] = stamp
                sizes[a] += weights[b]
                sizes[b] += weights[a]
        stamp += 1
        marks[scope] = stamp
        for a in scope:
            kept = begins[a]
            for place in range(begins[a], begins[a] + degrees[a]):
                w = members[place]
                if w != u:
                    members[kept] = w
                    kept += 1
                    fill[a] -= by_fill and marks[w] != stamp
            degrees[a] -= 1
            sizes[a] -= weights[u]
        for a in changed[:n_changed]:
            is_changed[a] = False
            if not done[a]:
                heapq.heappush(heap, (fill[a], sizes[a], ties[a], a))
    return count, 0.0, members


@routine
def _join(members, begins, degrees, rooms, a, b):
    """Add b to the neighbours of a, which are first copied to the end of the array if there is no space."""
    if degrees[a] == rooms[a]:
        end, rooms[a] = begins[-1], 2 * rooms[a]
        if end + rooms[a] > members.size:
            members = np.concatenate((members, np.empty(members.size + rooms[a], dtype=np.int64)))
        members[end : end + degrees[a]] = members[begins[a] : begins[a] + degrees[a]]
        begins[a], begins[-1] = end, end + rooms[a]
    members[begins[a] + degrees[a]] = b
    degrees[a] += 1
    return members
