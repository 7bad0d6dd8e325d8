"""Contraction of edges whose ends certainly agree or disagree, and paths in the components; compiled.

Only modules that need numba in any case import this one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

INTEGRAL = 1e-9
"""Distance from 0 or 1 up to which an edge is certain, because LP solvers return no more digits."""


class ContractedNet(NamedTuple):
    """The graph whose nodes are the components of the edges that are (almost) certain to agree or disagree.

    The arcs between different components are grouped by their tails. `weights` are the disagreements of the
    arcs after a flip of the nodes of parity 1, and `arcs` are their numbers in the graph. `component` is the
    component of each node of the graph, and `parity` tells whether the node disagrees with the first node of
    the component.
    """

    starts: Array
    heads: Array
    weights: Array
    arcs: Array
    component: Array
    parity: Array


@routine
def contract(graph, c, tol):
    """Contract the edges with c within INTEGRAL of 0 or 1.

    Also return the arcs within a component, one per edge, that contradict its parities by more than `tol`.
    """
    starts, tails, heads, edges = graph
    n = starts.shape[0] - 1
    root, flip = np.arange(n), np.zeros(n, np.int8)
    for k in range(tails.shape[0]):
        ce = c[edges[k]]
        if tails[k] < heads[k] and (ce <= INTEGRAL or 1.0 - ce <= INTEGRAL):
            _unite(root, flip, tails[k], heads[k], ce > 0.5)
    n_components = 0
    component, parity = np.empty(n, np.int32), np.zeros(n, np.int8)
    for u in range(n):
        if root[u] == u:
            component[u] = n_components
            n_components += 1
        else:  # the parent has a lower number, so that its component is already computed
            component[u] = component[root[u]]
            parity[u] = flip[u] ^ parity[root[u]]
    weights = np.empty(tails.shape[0])
    new_starts = np.zeros(n_components + 1, np.int32)
    loops = np.empty(tails.shape[0] // 2, np.int32)
    n_loops = 0
    for k in range(tails.shape[0]):
        ce = c[edges[k]]
        weights[k] = 1.0 - ce if parity[tails[k]] ^ parity[heads[k]] else ce
        if component[tails[k]] != component[heads[k]]:
            new_starts[component[tails[k]] + 1] += 1
        elif tails[k] < heads[k] and weights[k] > tol:
            loops[n_loops] = k
            n_loops += 1
    for u in range(n_components):
        new_starts[u + 1] += new_starts[u]
    net = ContractedNet(
        new_starts,
        np.empty(new_starts[-1], np.int32),
        np.empty(new_starts[-1]),
        np.empty(new_starts[-1], np.int32),
        component,
        parity,
    )
    places = new_starts.copy()
    for k in range(tails.shape[0]):
        tail, head = component[tails[k]], component[heads[k]]
        if tail != head:
            net.heads[places[tail]], net.weights[places[tail]], net.arcs[places[tail]] = head, weights[k], k
            places[tail] += 1
    return net, loops[:n_loops]


@routine
def _unite(root, flip, u, v, differ):
    """Unite two components; the lower of both roots becomes the root."""
    parity = np.int8(differ)
    while root[u] != u:
        flip[u] ^= flip[root[u]]
        root[u] = root[root[u]]
        parity ^= flip[u]
        u = root[u]
    while root[v] != v:
        flip[v] ^= flip[root[v]]
        root[v] = root[root[v]]
        parity ^= flip[v]
        v = root[v]
    if u != v:
        root[max(u, v)] = min(u, v)
        flip[max(u, v)] = parity


@routine
def join(first, last, size, graph, net, c, scratch):
    """Append to the walk the path with the fewest integral edges between two nodes of one component."""
    walk, via, parity = scratch.walk, scratch.via, net.parity
    middle = _meet(first, last, graph, net, c, scratch)
    length, node = 0, middle
    while node != first:
        node = graph.tails[via[0, node]]
        length += 1
    node = middle
    for i in range(size + length - 1, size - 1, -1):
        arc = via[0, node]
        node = graph.tails[arc]
        walk.nodes[i], walk.edges[i] = node, graph.edges[arc]
        walk.odd[i] = parity[node] != parity[graph.heads[arc]]
    size, node = size + length, middle
    while node != last:
        arc = via[1, node]
        walk.nodes[size], walk.edges[size] = node, graph.edges[arc]
        node = graph.tails[arc]
        walk.odd[size] = parity[node] != parity[graph.heads[arc]]
        size += 1
    for side in range(2):
        for i in range(scratch.ends[side]):
            via[side, scratch.queues[side, i]] = -1
    return size


@routine
def _meet(first, last, graph, net, c, scratch):
    """Search from both nodes, on the cheaper side first, and return the node where the searches meet."""
    queues, via, ends, starts = scratch.queues, scratch.via, scratch.ends, graph.starts
    queues[0, 0], queues[1, 0] = first, last
    via[0, first] = via[1, last] = 0
    ends[:] = 1
    begins, work = np.zeros(2, np.int64), np.empty(2, np.int64)
    work[0], work[1] = starts[first + 1] - starts[first], starts[last + 1] - starts[last]
    middle = first if first == last else -1
    while middle < 0:
        side = 0 if work[0] <= work[1] else 1
        begin, begins[side], work[side] = begins[side], ends[side], 0
        for i in range(begin, begins[side]):
            node = queues[side, i]
            for arc in range(starts[node], starts[node + 1]):
                head = graph.heads[arc]
                if via[side, head] >= 0 or net.component[head] != net.component[node]:
                    continue
                ce = c[graph.edges[arc]]
                if (1.0 - ce if net.parity[node] ^ net.parity[head] else ce) > INTEGRAL:
                    continue
                via[side, head], queues[side, ends[side]] = arc, head
                ends[side] += 1
                work[side] += starts[head + 1] - starts[head]
                if via[1 - side, head] >= 0:
                    return head
    return middle
