"""Compiled test whether the minima of a reparametrised model support each other."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.sweeps.cluster_kernels import child_places, cluster_costs, costs_of_factors
from cutplane.runtime.compiling import NUMBERS, routine


@routine(fastmath=NUMBERS)
def has_consistent_minima(layout, clusters, tables, unaries, messages, cluster_messages, tol):
    """Strike out what is not near a minimum, then what has no support; return whether states are left.

    In the end, each state left of a variable is part of a tuple left of each of its factors, and each tuple
    left of a factor inside a cluster is part of a tuple left of the cluster.
    """
    n, m = layout.cardinalities.size, layout.table_starts.size
    states = _near_minimum(unaries, layout.unary_starts, tol)
    starts, costs = costs_of_factors(layout, tables, messages, np.arange(m))
    ends = np.append(starts, costs.size)
    tuples = _near_minimum(costs, ends, tol)
    pending = np.ones(m, np.bool_)
    supported = np.empty(_most(layout), np.bool_)
    while True:
        forward = True
        while pending.any():
            for i in range(m):
                a = i if forward else m - 1 - i
                if not pending[a]:
                    continue
                pending[a] = False
                _strike_tuples(layout, a, tuples[ends[a] : ends[a + 1]], states)
                for link in range(layout.scope_starts[a], layout.scope_starts[a + 1]):
                    if _strike_states(layout, a, link, tuples[ends[a] : ends[a + 1]], states, supported):
                        u = layout.scopes[link]
                        for j in range(layout.variable_starts[u], layout.variable_starts[u + 1]):
                            other = layout.link_factors[layout.variable_links[j]]
                            pending[other] |= other != a
            forward = not forward
        for u in range(n):
            if not states[layout.unary_starts[u] : layout.unary_starts[u + 1]].any():
                return False
        for c in range(clusters.is_triangle.size):
            _strike_in_cluster(layout, clusters, cluster_messages, c, ends, tuples, pending, tol)
        if not pending.any():
            return True


@routine(fastmath=NUMBERS)
def _near_minimum(costs, starts, tol):
    near = np.empty(costs.size, np.bool_)
    for i in range(starts.size - 1):
        low = np.inf
        for x in range(starts[i], starts[i + 1]):
            low = min(low, costs[x])
        for x in range(starts[i], starts[i + 1]):
            near[x] = costs[x] < np.inf and costs[x] <= low + tol
    return near


@routine(fastmath=NUMBERS)
def _most(layout):
    most = 1
    for k in layout.cardinalities:
        most = max(most, k)
    return most


@routine(fastmath=NUMBERS)
def _strike_tuples(layout, a, tuples, states):
    """Strike out the tuples of factor a with a state that is struck out."""
    after = tuples.size
    for link in range(layout.scope_starts[a], layout.scope_starts[a + 1]):
        u = layout.scopes[link]
        after //= layout.cardinalities[u]
        for i in range(tuples.size):
            tuples[i] &= states[layout.unary_starts[u] + i // after % layout.cardinalities[u]]


@routine(fastmath=NUMBERS)
def _strike_states(layout, a, link, tuples, states, supported):
    """Strike out the states of a variable that are in no tuple left of factor a; return if any."""
    u = layout.scopes[link]
    k = layout.cardinalities[u]
    after = 1
    for i in range(link + 1, layout.scope_starts[a + 1]):
        after *= layout.cardinalities[layout.scopes[i]]
    supported[:k] = False
    for i in range(tuples.size):
        supported[i // after % k] |= tuples[i]
    changed = False
    begin = layout.unary_starts[u]
    for x in range(k):
        if states[begin + x] and not supported[x]:
            states[begin + x] = False
            changed = True
    return changed


@routine(fastmath=NUMBERS)
def _strike_in_cluster(layout, clusters, cluster_messages, c, ends, tuples, pending, tol):
    """Strike out the tuples of the factors inside a cluster that are in no tuple left of it."""
    costs = cluster_costs(layout, clusters, cluster_messages, c)
    left = _near_minimum(costs, np.array([0, costs.size]), tol)
    begin, end = clusters.child_starts[c], clusters.child_starts[c + 1]
    places = child_places(layout, clusters, c)
    for j in range(begin, end):
        first = ends[clusters.children[j]]
        for x in range(costs.size):
            left[x] &= tuples[first + places[j - begin, x]]
    for j in range(begin, end):
        child = clusters.children[j]
        found = np.zeros(ends[child + 1] - ends[child], np.bool_)
        for x in range(costs.size):
            found[places[j - begin, x]] |= left[x]
        for x in range(found.size):
            if tuples[ends[child] + x] and not found[x]:
                tuples[ends[child] + x] = False
                pending[child] = True
