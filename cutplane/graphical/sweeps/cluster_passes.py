"""Compiled updates of clusters: zero factors on several variables, linked to the factors inside them.

The costs of a cluster are the sum of the messages of its links, so they need no table. A link to a factor
moves costs between the cluster and the table of the factor, which it therefore writes to.
"""

from __future__ import annotations

import numpy as np

from cutplane.graphical.sweeps.triangle_passes import visit_triangle
from cutplane.graphical.sweeps.variable_passes import scratch
from cutplane.runtime.compiling import NUMBERS, routine


@routine(fastmath=NUMBERS)
def cluster_pass(layout, clusters, tables, messages, cluster_messages, forward):
    """Visit all clusters in order, or in reverse.

    A visit takes all costs of the factors inside, and hands the min-marginals back: the first factor gets its
    share of them, as many as there are factors, the last one all that is left.
    """
    n = clusters.is_triangle.size
    most = scratch(layout)[0].size
    marginal = np.empty(most * most)
    for i in range(n):
        c = i if forward else n - 1 - i
        if clusters.is_triangle[c]:
            visit_triangle(layout, clusters, tables, messages, cluster_messages, c, forward, marginal)
        else:
            _visit(layout, clusters, tables, messages, cluster_messages, c, forward)


@routine(fastmath=NUMBERS)
def _visit(layout, clusters, tables, messages, cluster_messages, c, forward):
    begin, end = clusters.child_starts[c], clusters.child_starts[c + 1]
    places = child_places(layout, clusters, c)
    for j in range(begin, end):
        costs = factor_costs(layout, tables, messages, clusters.children[j])
        start = clusters.message_starts[j]
        for x in range(costs.size):
            cluster_messages[start + x] += costs[x]
        _take_out(layout, tables, clusters.children[j], costs)
    total = _sum_of_messages(clusters, cluster_messages, c, places)
    for i in range(end - begin):
        j = begin + i if forward else end - 1 - i
        start = clusters.message_starts[j]
        given = _marginal(total, places[j - begin], clusters.message_starts[j + 1] - start)
        for x in range(given.size):
            if given[x] < np.inf:
                given[x] /= begin - end + i
                cluster_messages[start + x] += given[x]
        _take_out(layout, tables, clusters.children[j], given)
        for x in range(total.size):
            total[x] += given[places[j - begin, x]]


@routine(fastmath=NUMBERS)
def lowest_cluster_costs(layout, clusters, cluster_messages):
    """Return the least cost of each cluster."""
    lowest = np.empty(clusters.is_triangle.size)
    for c in range(lowest.size):
        lowest[c] = cluster_costs(layout, clusters, cluster_messages, c).min()
    return lowest


@routine(fastmath=NUMBERS)
def cluster_costs(layout, clusters, cluster_messages, c):
    """Return the costs of a cluster, in C order over its variables."""
    return _sum_of_messages(clusters, cluster_messages, c, child_places(layout, clusters, c))


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
    """Take costs out of the table of a factor; where they are inf, the entry becomes inf."""
    t = layout.table_starts[factor]
    for x in range(costs.size):
        tables[t + x] = tables[t + x] - costs[x] if costs[x] < np.inf else np.inf


@routine(fastmath=NUMBERS)
def child_places(layout, clusters, c):
    """Return, for each factor inside a cluster, which state of it each state of the cluster belongs to."""
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


@routine(fastmath=NUMBERS)
def factor_costs(layout, tables, messages, factor):
    """Return the costs of a factor: its table plus its messages."""
    first, end = layout.scope_starts[factor], layout.scope_starts[factor + 1]
    size = 1
    for link in range(first, end):
        size *= layout.message_starts[link + 1] - layout.message_starts[link]
    t = layout.table_starts[factor]
    costs = tables[t : t + size].copy()
    after = size
    for link in range(first, end):
        start = layout.message_starts[link]
        k = layout.message_starts[link + 1] - start
        after //= k
        place = 0
        while place < size:
            for x in range(k):
                for _ in range(after):
                    costs[place] += messages[start + x]
                    place += 1
    return costs


@routine(fastmath=NUMBERS)
def costs_of_factors(layout, tables, messages, factors):
    """Return where the costs of each of these factors begin, and the costs, one after the other."""
    starts = np.zeros(factors.size + 1, np.int64)
    for i in range(factors.size):
        size = 1
        for link in range(layout.scope_starts[factors[i]], layout.scope_starts[factors[i] + 1]):
            size *= layout.message_starts[link + 1] - layout.message_starts[link]
        starts[i + 1] = starts[i] + size
    costs = np.empty(starts[-1])
    for i in range(factors.size):
        costs[starts[i] : starts[i + 1]] = factor_costs(layout, tables, messages, factors[i])
    return starts[:-1], costs
