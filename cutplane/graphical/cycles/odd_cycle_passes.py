"""Violated odd cycles in compiled code, and the memory in which walks are made into cycles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.graphical.cycles.chord_passes import cut_chords, cut_loops, turn, weigh
from cutplane.graphical.cycles.contraction_passes import join
from cutplane.graphical.cycles.odd_walk_passes import clear, new_ball, shortest_odd_walk
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine


class Walk(NamedTuple):
    """A closed walk: edge i goes from node i to node i + 1, and is in F or not; the arrays may be longer."""

    nodes: Array
    edges: Array
    odd: Array


class Scratch(NamedTuple):
    """Memory of one search: -1 wherever `place` and `via` are not in use.

    `trail` has the steps in the contracted graph, 4 arc + 2 (against its direction) + 1 (crossing in the
    doubled graph); `place` says where a node is in the cycle, `prefix` the weight of the cycle up to each of
    its nodes; `queues`, `via` and `ends` are nodes, arcs by which they came, and lengths of two breadth-first
    searches.
    """

    walk: Walk
    cycle: Walk
    trail: Array
    place: Array
    prefix: Array
    queues: Array
    via: Array
    ends: Array


@routine
def new_scratch(n):
    """Return the memory for a graph of n nodes."""
    longest = 8 * n + 8  # two paths, each through both copies of a component, joined within the components
    return Scratch(
        Walk(np.empty(longest, np.int32), np.empty(longest, np.int32), np.empty(longest, np.bool_)),
        Walk(np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.bool_)),
        np.empty(longest, np.int64),
        np.full(n, -1, np.int32),
        np.empty(n),
        np.empty((2, n), np.int32),
        np.full((2, n), -1, np.int32),
        np.zeros(2, np.int64),
    )


@routine
def odd_cycles(first, last, loops, graph, net, c, tol):
    """Return the lengths, edges, parts of F and violations of odd cycles, at most one a source or loop.

    Through each component from `first` to before `last`, and no lower one, a shortest walk is sought; each
    loop, an arc within a component, is closed by the path of fewest integral edges.
    """
    n = graph.starts.shape[0] - 1
    ball, scratch = new_ball(net.starts.shape[0] - 1), new_scratch(n)
    most = last - first + loops.shape[0]
    lengths, violations = np.empty(most, np.int64), np.empty(most)
    edges = np.empty(16 * most + 16, np.int64)
    odd = np.empty(edges.shape[0], np.bool_)
    count, begin = 0, 0
    for i in range(most):
        if i < loops.shape[0]:
            size = _close(loops[i], graph, net, c, scratch)
        else:
            size = _search(first + i - loops.shape[0], graph, net, c, 1.0 - tol, ball, scratch)
        if size == 0:
            continue
        size = turn(cut_loops(size, scratch), graph, scratch)
        size = cut_chords(size, graph, c, 1.0 - tol, scratch)
        weight = weigh(size, c, scratch)
        if weight >= 1.0 - tol:
            continue
        end = begin + size
        while end > edges.shape[0]:
            edges, odd = _twice(edges), _twice(odd)
        for j in range(size):
            edges[begin + j], odd[begin + j] = scratch.cycle.edges[j], scratch.cycle.odd[j]
        lengths[count], violations[count] = size, 1.0 - weight
        count, begin = count + 1, end
    return lengths[:count], edges[:begin], odd[:begin], violations[:count]


@routine
def _close(arc, graph, net, c, scratch):
    """Write the walk through an arc within a component and back over integral edges; return its size."""
    tail, head = np.int64(graph.tails[arc]), np.int64(graph.heads[arc])
    walk = scratch.walk
    walk.nodes[0], walk.edges[0] = tail, graph.edges[arc]
    walk.odd[0] = net.parity[tail] == net.parity[head]
    return join(head, tail, np.int64(1), graph, net, c, scratch)


@routine
def _search(source, graph, net, c, bound, ball, scratch):
    """Write the shortest odd walk through a component if it is below `bound`; return its size, else 0."""
    first, arc, second, n_reached = shortest_odd_walk(source, net.starts, net.heads, net.weights, bound, ball)
    size = 0
    if arc >= 0:
        trail = scratch.trail
        there = _path(first, 0, ball, trail, 0)
        for i in range(there // 2):
            trail[i], trail[there - 1 - i] = trail[there - 1 - i], trail[i]
        trail[there] = 4 * arc + ((first ^ second ^ 1) & 1)
        size = _expand(_path(second, 2, ball, trail, there + 1), graph, net, c, scratch)
    clear(ball, n_reached)
    return size


@routine
def _path(node, direction, ball, trail, size):
    """Append the steps from `node` back to the source to the trail; return its size."""
    while ball.parents[node] >= 0:
        above = ball.parents[node]
        trail[size] = 4 * np.int64(ball.arcs[node]) + direction + ((node ^ above) & 1)
        size += 1
        node = above
    return size


@routine
def _expand(n_steps, graph, net, c, scratch):
    """Write the walk in the graph that the trail in the contracted graph stands for; return its size."""
    walk, trail = scratch.walk, scratch.trail
    size = np.int64(0)
    start = at = np.int64(-1)
    for i in range(n_steps):
        arc = net.arcs[trail[i] >> 2]
        leave, enter = np.int64(graph.tails[arc]), np.int64(graph.heads[arc])
        if trail[i] & 2:
            leave, enter = enter, leave
        if i == 0:
            start, at = leave, leave
        size = join(at, leave, size, graph, net, c, scratch)
        walk.nodes[size], walk.edges[size] = leave, graph.edges[arc]
        walk.odd[size] = (trail[i] & 1) ^ net.parity[leave] ^ net.parity[enter]
        size += 1
        at = enter
    return join(at, start, size, graph, net, c, scratch)


@routine
def _twice(array):
    """Return a copy with as much room again."""
    copy = np.empty(2 * array.shape[0], array.dtype)
    for i in range(array.shape[0]):
        copy[i] = array[i]
    return copy
