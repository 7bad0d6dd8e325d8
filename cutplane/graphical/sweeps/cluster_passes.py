"""Compiled updates of clusters: zero factors on several variables, linked to the factors inside them.

A cluster needs no table, because its costs are the sum of the messages of its links. Shifting costs between a
cluster and a factor inside it changes a message and the table of the factor. Clusters of three variables and
their pairs have passes by min-plus products of matrices.
"""

from __future__ import annotations

import numpy as np

from cutplane.graphical.sweeps.variable_passes import set_costs
from cutplane.runtime.compiling import NUMBERS, routine


@routine(fastmath=NUMBERS)
def cluster_pass(layout, clusters, tables, messages, cluster_messages, begin, end, forward, marginal):
    """Visit the clusters from `begin` to before `end` in order, or in reverse.

    A visit shifts all costs of the n factors inside into the cluster, and then min-marginals of the cluster
    back to the factors: 1/n of it to the first factor, 1/(n - 1) of the remaining one to the second, and all
    of the last one to the last factor.
    """
    for step in range(end - begin):
        c = begin + step if forward else end - 1 - step
        first, last = clusters.child_starts[c], clusters.child_starts[c + 1]
        if last == first + 3:
            triangle_pass(layout, clusters, tables, messages, cluster_messages, c, c + 1, forward, marginal)
            continue
        places = _child_places(layout, clusters, c)
        index = np.empty(last - first, np.int64)
        for j in range(first, last):
            start = clusters.message_starts[j]
            costs = np.empty(clusters.message_starts[j + 1] - start)
            set_costs(layout, tables, messages, clusters.children[j], costs, index)
            for x in range(costs.size):
                cluster_messages[start + x] += costs[x]
            _take_out(layout, tables, clusters.children[j], costs)
        total = _sum_of_messages(clusters, cluster_messages, c, places)
        for i in range(last - first):
            j = first + i if forward else last - 1 - i
            start = clusters.message_starts[j]
            given = _marginal(total, places[j - first], clusters.message_starts[j + 1] - start)
            for x in range(given.size):
                if given[x] < np.inf:
                    given[x] /= first - last + i
                    cluster_messages[start + x] += given[x]
            _take_out(layout, tables, clusters.children[j], given)
            for x in range(total.size):
                total[x] += given[places[j - first, x]]


@routine(fastmath=NUMBERS)
def lowest_cluster_costs(layout, clusters, cluster_messages, begin, end, lowest):
    """Write the least cost of each cluster from `begin` to before `end`."""
    for c in range(begin, end):
        if clusters.child_starts[c + 1] == clusters.child_starts[c] + 3:
            lowest_triangle_costs(layout, clusters, cluster_messages, c, c + 1, lowest)
            continue
        places = _child_places(layout, clusters, c)
        total = _sum_of_messages(clusters, cluster_messages, c, places)
        lowest[c] = np.inf
        for x in range(total.size):
            lowest[c] = min(lowest[c], total[x])


@routine(fastmath=NUMBERS)
def _sum_of_messages(clusters, cluster_messages, c, places):
    begin = clusters.child_starts[c]
    total = np.zeros(places.shape[1])
    for j in range(begin, clusters.child_starts[c + 1]):
        message = cluster_messages[clusters.message_starts[j] : clusters.message_starts[j + 1]]
        for x in range(total.size):
            total[x] += message[places[j - begin, x]]
    return total


@routine(fastmath=NUMBERS)
def _marginal(total, places, size):
    """Return the least costs of a cluster for each state of a factor inside it."""
    marginal = np.full(size, np.inf)
    for x in range(total.size):
        marginal[places[x]] = min(marginal[places[x]], total[x])
    return marginal


@routine(fastmath=NUMBERS)
def _take_out(layout, tables, factor, costs):
    """Subtract costs from the table of a factor; an entry becomes inf where they are inf."""
    t = layout.table_starts[factor]
    for x in range(costs.size):
        tables[t + x] = tables[t + x] - costs[x] if costs[x] < np.inf else np.inf


@routine(fastmath=NUMBERS)
def _child_places(layout, clusters, c):
    """Return the state of each factor inside a cluster for each joint state of the cluster."""
    size = 1
    for i in range(clusters.scope_starts[c], clusters.scope_starts[c + 1]):
        size *= layout.cardinalities[clusters.scopes[i]]
    begin, end = clusters.child_starts[c], clusters.child_starts[c + 1]
    places = np.zeros((end - begin, size), np.int64)
    for j in range(begin, end):
        head = layout.scope_starts[clusters.children[j]]
        link = layout.scope_starts[clusters.children[j] + 1] - 1
        filled, stride = 1, 1
        for i in range(clusters.scope_starts[c + 1] - 1, clusters.scope_starts[c] - 1, -1):
            u = clusters.scopes[i]
            k = layout.cardinalities[u]
            is_inside = link >= head and layout.scopes[link] == u
            step = stride if is_inside else 0
            for x in range(filled, filled * k):
                places[j - begin, x] = places[j - begin, x - filled] + step
            filled *= k
            if is_inside:
                stride *= k
                link -= 1
    return places


# Unsigned indices, as in variable_passes.py.


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
            _triangle_marginal(cluster_messages, j, uv, uw, vw, k0, k1, k2, marginal)
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
    """Shift all costs of a pair into the cluster."""
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
def _triangle_marginal(costs, which, uv, uw, vw, k0, k1, k2, marginal):
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
