"""Compiled recomputation of reparametrised costs from the costs of the model and the messages."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.sweeps.variable_passes import min_marginal, scratch
from cutplane.runtime.compiling import NUMBERS, routine


@routine(fastmath=NUMBERS)
def lowered_unaries(layout, unaries, messages, relative):
    """Return unaries minus all messages of a variable, less `relative` of the sum of their sizes."""
    costs, sizes = unaries.copy(), np.abs(unaries)
    for link in range(layout.scopes.size):
        begin, start = layout.unary_starts[layout.scopes[link]], layout.message_starts[link]
        for x in range(layout.message_starts[link + 1] - start):
            costs[begin + x] -= messages[start + x]
            sizes[begin + x] += abs(messages[start + x])
    return _lower_all(costs, sizes, relative)


@routine(fastmath=NUMBERS)
def lowered_own_tables(layout, clusters, n_shared, own, cluster_messages, relative):
    """Return the tables that clusters write to minus all messages of clusters, lowered in the same way."""
    costs, sizes = own.copy(), np.abs(own)
    for j in range(clusters.children.size):
        t = layout.table_starts[clusters.children[j]] - n_shared
        start = clusters.message_starts[j]
        for x in range(clusters.message_starts[j + 1] - start):
            costs[t + x] -= cluster_messages[start + x]
            sizes[t + x] += abs(cluster_messages[start + x])
    return _lower_all(costs, sizes, relative)


@routine(fastmath=NUMBERS)
def lowest_lowered_costs(layout, shared, own, messages, relative):
    """Return the least cost of each factor; shared tables are lowered here, table by table."""
    starts = layout.message_starts
    buffer, index = scratch(layout)
    lowest = np.full(layout.table_starts.size, np.inf)
    table = np.empty(0)
    for a in range(lowest.size):
        head, arity = layout.scope_starts[a], layout.scope_starts[a + 1] - layout.scope_starts[a]
        size = 1
        for link in range(head, head + arity):
            size *= starts[link + 1] - starts[link]
        if size > table.size:
            table = np.empty(size)
        t = layout.table_starts[a]
        if t < shared.size:
            _lower(shared[t : t + size], relative, table)
        else:
            table[:size] = own[t - shared.size : t - shared.size + size]
        min_marginal(table, 0, messages, starts, head, arity, head, index, buffer)
        for x in range(starts[head + 1] - starts[head]):
            lowest[a] = min(lowest[a], buffer[x])
    return lowest


@routine(fastmath=NUMBERS)
def lowered(costs, relative):
    """Return costs less `relative` of their sizes."""
    out = np.empty_like(costs)
    _lower(costs, relative, out)
    return out


@routine(fastmath=NUMBERS)
def _lower(costs, relative, out):
    for x in range(costs.size):
        factor = 1.0 - relative if costs[x] > 0.0 else 1.0 + relative
        out[x] = costs[x] * factor


@routine(fastmath=NUMBERS)
def _lower_all(costs, sizes, relative):
    for x in range(costs.size):
        costs[x] = costs[x] - relative * sizes[x] if sizes[x] < np.inf else np.inf
    return costs


@routine(fastmath=NUMBERS)
def lower_bound_of_sum(values):
    """Return a number that the sum does not fall below, by compensated summation (Neumaier 1974)."""
    total, lost, sizes = 0.0, 0.0, 0.0
    for value in values:
        if value == np.inf:
            return np.inf
        after = total + value
        lost += (total - after) + value if abs(total) >= abs(value) else (value - after) + total
        total = after
        sizes += abs(value)
    unit = np.finfo(np.float64).eps
    return (total + lost) - 2.0 * unit * abs(total + lost) - values.size * unit * unit * sizes
