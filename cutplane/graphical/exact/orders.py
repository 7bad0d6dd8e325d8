"""Orders in which variables are eliminated, such that the tables are small."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

Neighbours = list[set[int]]

_ATTEMPTS = 12
"""Most greedy orders of a hard graph, because another way to break ties may give smaller tables."""
_EASY = 18.0
"""log2 of a table's entries up to which no more orders are tried, because 2 MB are fast to minimise."""
_HOPELESS = 32.0
"""log2 of a table's entries from which no more orders are tried, because few machines have 32 GB."""
_SMALL_GRAPH = 20_000
"""Total number of neighbours up to which orders are repeated, because Python computes them slowly."""


def elimination_order(
    model: FactorGraph, counts: Sequence[int], limit: float, deadline: float = np.inf
) -> tuple[list[int], float]:
    """Return an order for these numbers of states, and the log2 of its largest table, as `best_order` does.

    Variables of one state are first. Models of the same scopes share the order.
    """
    key = limit, tuple(counts)
    if key not in model.orders:
        sizes = np.array(counts, dtype=np.float64)
        free = np.flatnonzero(sizes > 1)
        number = {u: i for i, u in enumerate(free.tolist())}
        scopes = [[number[u] for u in scope] for scope in open_scopes(model, counts)]
        order, width = best_order(neighbourhoods(free.size, scopes), np.log2(sizes[free]), limit, deadline)
        if clock() > deadline:
            raise TimeoutError("The search for an order of elimination was stopped at its deadline.")
        model.orders[key] = [*np.flatnonzero(sizes == 1).tolist(), *free[order].tolist()], width
    return model.orders[key]


def open_scopes(model: FactorGraph, counts: Sequence[int]) -> list[list[int]]:
    """Return the scope of each factor without the variables that have one state."""
    starts, scopes = model.scope_starts.tolist(), model.scopes.tolist()
    return [[u for u in scopes[begin:end] if counts[u] != 1] for begin, end in pairwise(starts)]


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
    order = _sweep(near)
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


def _sweep(near: Neighbours) -> list[int]:
    n = len(near)
    columns = np.array([v for scope in near for v in scope], dtype=np.int64)
    pointers = np.concatenate([[0], np.cumsum([len(scope) for scope in near])])
    graph = sparse.csr_array((np.ones(columns.size), columns, pointers), shape=(n, n))
    return reverse_cuthill_mckee(graph, symmetric_mode=True).tolist()


def _greedy(
    near: Neighbours, weights: Array, limit: float, by_fill: bool, names: Array, deadline: float
) -> tuple[list[int], float]:
    """Return an order and 0, or no order and the size of the next table if that is beyond the limit.

    Ties are broken by `names`.
    """
    near = [set(scope) for scope in near]
    weight = weights.tolist()
    sizes = [weight[u] + sum(weight[v] for v in scope) for u, scope in enumerate(near)]
    fill = [sum(len(scope - near[v]) - 1 for v in scope) // 2 if by_fill else 0 for scope in near]
    ties = names.tolist()
    keys = [(fill[u], round(sizes[u], 9), ties[u]) for u in range(len(near))]
    heap = [(key, u) for u, key in enumerate(keys)]
    heapq.heapify(heap)
    order: list[int] = []
    done: set[int] = set()
    while heap:
        key, u = heapq.heappop(heap)
        if u in done or key != keys[u]:
            continue
        if sizes[u] > limit or clock() > deadline:
            return [], sizes[u]
        order.append(u)
        done.add(u)
        scope = near[u]
        changed = set(scope)
        for a in scope:
            for b in scope - near[a]:
                if b <= a:
                    continue
                if by_fill:
                    common = near[a] & near[b]
                    for w in common:
                        fill[w] -= 1
                    changed |= common
                    fill[a] += len(near[a]) - len(common)
                    fill[b] += len(near[b]) - len(common)
                near[a].add(b)
                near[b].add(a)
                sizes[a] += weight[b]
                sizes[b] += weight[a]
        for a in scope:
            if by_fill:
                fill[a] -= len(near[a] - scope) - 1
            near[a].discard(u)
            sizes[a] -= weight[u]
        for a in changed:
            if a not in done:
                fresh = (fill[a], round(sizes[a], 9), ties[a])
                if fresh != keys[a]:
                    keys[a] = fresh
                    heapq.heappush(heap, (fresh, a))
    return order, 0.0
