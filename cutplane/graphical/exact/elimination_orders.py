"""Orders in which the variables of a model can be minimised out one after the other with small tables."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

Neighbours = list[set[int]]

_ATTEMPTS = 12
_EASY = 18.0
_HOPELESS = 32.0
_SMALL = 20_000


def neighbourhoods(n: int, scopes: Sequence[tuple[int, ...]]) -> Neighbours:
    """Return for each of n variables those that share a scope with it."""
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

    The first walks through the graph in breadth (reverse Cuthill-McKee), which is best for grids; the greedy
    ones take the variable whose elimination adds the fewest pairs, or makes the smallest table. Where the
    tables are large, the greedy ones are repeated with their ties broken otherwise. If no order fits the
    limit, it is empty, and the least size that stopped one is returned.
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
    is_small = sum(map(len, near)) <= _SMALL
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
    """Return for each variable those left in its table when it is minimised out."""
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
    """Return the log2 of the largest table, or of the first beyond the limit, and of the sum of all."""
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
