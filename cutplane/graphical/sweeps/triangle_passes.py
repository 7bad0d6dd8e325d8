"""Compiled passes over clusters of three variables and their pairs, by min-plus products of matrices."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import NUMBERS, routine

# Unsigned numbers, as in variable_passes.py.


@routine(fastmath=NUMBERS)
def triangle_pass(layout, clusters, tables, messages, cluster_messages, begin, end, forward, marginal):
    """Visit the triangles from `begin` to before `end` in order, or in reverse; like `cluster_pass`."""
    starts = clusters.message_starts
    for step in range(end - begin):
        c = begin + step if forward else end - 1 - step
        scope, first = clusters.scope_starts[c], clusters.child_starts[c]
        k0 = np.uint64(layout.cardinalities[clusters.scopes[scope]])
        k1 = np.uint64(layout.cardinalities[clusters.scopes[scope + 1]])
        k2 = np.uint64(layout.cardinalities[clusters.scopes[scope + 2]])
        uv, uw, vw = np.uint64(starts[first]), np.uint64(starts[first + 1]), np.uint64(starts[first + 2])
        for j in range(3):
            pair = clusters.children[first + j]
            link = layout.scope_starts[pair]
            _absorb(
                tables,
                layout.table_starts[pair],
                messages,
                layout.message_starts[link],
                layout.message_starts[link + 1],
                layout.message_starts[link + 2],
                cluster_messages,
                starts[first + j],
            )
        for i in range(3):
            j = i if forward else 2 - i
            _marginal(cluster_messages, j, uv, uw, vw, k0, k1, k2, marginal)
            entry, start = (
                np.uint64(layout.table_starts[clusters.children[first + j]]),
                np.uint64(starts[first + j]),
            )
            size = np.uint64(starts[first + j + 1] - starts[first + j])
            share = 1.0 / (3 - i)
            for x in range(size):
                part = marginal[x] * share
                cluster_messages[start + x] -= part if part < np.inf else 0.0
                tables[entry + x] += part


@routine(fastmath=NUMBERS)
def lowest_triangle_costs(layout, clusters, cluster_messages, begin, end, lowest):
    """Write the least cost of each triangle from `begin` to before `end`."""
    starts = clusters.message_starts
    for c in range(begin, end):
        scope, first = clusters.scope_starts[c], clusters.child_starts[c]
        k1 = np.uint64(layout.cardinalities[clusters.scopes[scope + 1]])
        k2 = np.uint64(layout.cardinalities[clusters.scopes[scope + 2]])
        uv, uw = np.uint64(starts[first]), np.uint64(starts[first + 1])
        low = np.inf
        for _ in range(layout.cardinalities[clusters.scopes[scope]]):
            vw = np.uint64(starts[first + 2])
            for y in range(k1):
                both = cluster_messages[uv + y]
                for z in range(k2):
                    cost = both + cluster_messages[uw + z] + cluster_messages[vw + z]
                    low = cost if cost < low else low
                vw += k2
            uv += k1
            uw += k2
        lowest[c] = low


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
def _marginal(costs, which, uv, uw, vw, k0, k1, k2, marginal):
    """Set `marginal` to the least costs of a triangle for each state of its pair uv (0), uw (1), vw (2)."""
    if which == 0:
        for x in range(k0):
            for y in range(k1):
                low = np.inf
                for z in range(k2):
                    cost = costs[uw + x * k2 + z] + costs[vw + y * k2 + z]
                    low = cost if cost < low else low
                marginal[x * k1 + y] = low + costs[uv + x * k1 + y]
        return
    for i in range(k0 * k2 if which == 1 else k1 * k2):
        marginal[i] = np.inf
    own = uw if which == 1 else vw
    other = vw if which == 1 else uw
    for x in range(k0):
        for y in range(k1):
            row, beside = (x * k2, y * k2) if which == 1 else (y * k2, x * k2)
            for z in range(k2):
                cost = costs[uv + x * k1 + y] + costs[other + beside + z]
                marginal[row + z] = cost if cost < marginal[row + z] else marginal[row + z]
    for i in range(k0 * k2 if which == 1 else k1 * k2):
        marginal[i] += costs[own + i]
