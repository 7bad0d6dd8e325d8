"""Compiled update of a cluster of three variables and their three pairs, by min-plus products of matrices."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import NUMBERS, routine

# Unsigned numbers, as in variable_passes.py.


@routine(fastmath=NUMBERS)
def visit_triangle(layout, clusters, tables, messages, cluster_messages, c, forward, marginal):
    """Take all costs of the pairs (u, v), (u, w), (v, w), and hand back the min-marginals of the cluster."""
    scope, first = clusters.scope_starts[c], clusters.child_starts[c]
    k0 = layout.cardinalities[clusters.scopes[scope]]
    k1 = layout.cardinalities[clusters.scopes[scope + 1]]
    k2 = layout.cardinalities[clusters.scopes[scope + 2]]
    uv, uw, vw = (
        clusters.message_starts[first],
        clusters.message_starts[first + 1],
        clusters.message_starts[first + 2],
    )
    for j in range(3):
        pair = clusters.children[first + j]
        link, t = layout.scope_starts[pair], layout.table_starts[pair]
        rows, columns, end = (
            layout.message_starts[link],
            layout.message_starts[link + 1],
            layout.message_starts[link + 2],
        )
        _absorb(tables, t, messages, rows, columns, end, cluster_messages, clusters.message_starts[first + j])
    for i in range(3):
        j = i if forward else 2 - i
        if j == 0:
            _marginal_uv(cluster_messages, uv, uw, vw, k0, k1, k2, marginal)
        elif j == 1:
            _marginal_uw(cluster_messages, uv, uw, vw, k0, k1, k2, marginal)
        else:
            _marginal_vw(cluster_messages, uv, uw, vw, k0, k1, k2, marginal)
        start = clusters.message_starts[first + j]
        size = clusters.message_starts[first + j + 1] - start
        _give(
            tables,
            layout.table_starts[clusters.children[first + j]],
            cluster_messages,
            start,
            size,
            marginal,
            3 - i,
        )


@routine(fastmath=NUMBERS)
def _absorb(tables, t, messages, rows, columns, end, into, start):
    """Move all costs of a pair into the cluster."""
    k0, k1 = np.uint64(columns - rows), np.uint64(end - columns)
    t, rows, columns, start = np.uint64(t), np.uint64(rows), np.uint64(columns), np.uint64(start)
    for x in range(k0):
        for y in range(k1):
            extra = messages[rows + x] + messages[columns + y]
            into[start + y] += tables[t + y] + extra
            tables[t + y] = -extra if tables[t + y] < np.inf and extra < np.inf else np.inf
        t += k1
        start += k1


@routine(fastmath=NUMBERS)
def _give(tables, t, messages, start, size, marginal, parts):
    """Move one of so many parts of a min-marginal of the cluster to a pair; inf is copied instead."""
    t, start, size = np.uint64(t), np.uint64(start), np.uint64(size)
    share = 1.0 / parts
    for x in range(size):
        part = marginal[x] * share
        messages[start + x] -= part if part < np.inf else 0.0
        tables[t + x] += part


@routine(fastmath=NUMBERS)
def _marginal_uv(costs, uv, uw, vw, k0, k1, k2, marginal):
    uv, uw, vw, k0, k1, k2 = (
        np.uint64(uv),
        np.uint64(uw),
        np.uint64(vw),
        np.uint64(k0),
        np.uint64(k1),
        np.uint64(k2),
    )
    for x in range(k0):
        for y in range(k1):
            low = np.inf
            for z in range(k2):
                cost = costs[uw + x * k2 + z] + costs[vw + y * k2 + z]
                low = cost if cost < low else low
            marginal[x * k1 + y] = low + costs[uv + x * k1 + y]


@routine(fastmath=NUMBERS)
def _marginal_uw(costs, uv, uw, vw, k0, k1, k2, marginal):
    uv, uw, vw, k0, k1, k2 = (
        np.uint64(uv),
        np.uint64(uw),
        np.uint64(vw),
        np.uint64(k0),
        np.uint64(k1),
        np.uint64(k2),
    )
    for x in range(k0):
        row = x * k2
        for z in range(k2):
            marginal[row + z] = np.inf
        for y in range(k1):
            for z in range(k2):
                cost = costs[uv + x * k1 + y] + costs[vw + y * k2 + z]
                marginal[row + z] = cost if cost < marginal[row + z] else marginal[row + z]
        for z in range(k2):
            marginal[row + z] += costs[uw + row + z]


@routine(fastmath=NUMBERS)
def _marginal_vw(costs, uv, uw, vw, k0, k1, k2, marginal):
    uv, uw, vw, k0, k1, k2 = (
        np.uint64(uv),
        np.uint64(uw),
        np.uint64(vw),
        np.uint64(k0),
        np.uint64(k1),
        np.uint64(k2),
    )
    for i in range(k1 * k2):
        marginal[i] = np.inf
    for x in range(k0):
        for y in range(k1):
            row = y * k2
            for z in range(k2):
                cost = costs[uv + x * k1 + y] + costs[uw + x * k2 + z]
                marginal[row + z] = cost if cost < marginal[row + z] else marginal[row + z]
    for i in range(k1 * k2):
        marginal[i] += costs[vw + i]
