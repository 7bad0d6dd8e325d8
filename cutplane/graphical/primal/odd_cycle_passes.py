"""Violated odd cycles in compiled code: shortest odd closed walks, made simple and chordless, and selected.

Edges whose ends certainly agree or disagree are contracted first, and expanded to paths at the end.

Only modules that need numba in any case import this one. Arcs are grouped by their tails; arc k goes to node
``heads[k]`` with disagreement ``weights[k]``. In the doubled graph, an arc from x to y leads from (x, p) to
(y, p) at the cost c, and to (y, 1 - p) at the cost 1 - c. An odd closed walk through u is a path from (u, 0)
to (u, 1).
"""

from __future__ import annotations

import heapq
import math
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
            unite(root, flip, tails[k], heads[k], ce > 0.5)
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
def unite(root, flip, u, v, differ):
    """Unite two components, or return whether the edge contradicts the parities of their nodes.

    The lower of both roots becomes the root.
    """
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
    if u == v:
        return parity != 0
    root[max(u, v)], flip[max(u, v)] = min(u, v), parity
    return False


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


class Walk(NamedTuple):
    """A closed walk: edge i joins node i and node i + 1, and is in F or not; the arrays may be longer."""

    nodes: Array
    edges: Array
    odd: Array


class Scratch(NamedTuple):
    """Buffers of one search; unused entries of `place` and `via` are -1.

    `trail` contains the steps in the contracted graph: 4 arc + 2 (against its direction) + 1 (crossing in the
    doubled graph). `place` is the position of a node in the cycle, `prefix` the weight of the cycle up to
    each of its nodes. `queues`, `via` and `ends` are the nodes, the arcs that reached them, and the lengths
    of two breadth-first searches.
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
    """Return lengths, edges, membership of F and violations of odd cycles, at most one per source or loop.

    For each component from `first` to before `last`, find a shortest walk through it and no lower component.
    Each loop, which is an arc within a component, is closed by the path with the fewest integral edges.
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
    """Write the walk along an arc within a component and back along integral edges; return its size."""
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
    """Append to the trail the steps from `node` back to the source; return its size."""
    while ball.parents[node] >= 0:
        above = ball.parents[node]
        trail[size] = 4 * np.int64(ball.arcs[node]) + direction + ((node ^ above) & 1)
        size += 1
        node = above
    return size


@routine
def _expand(n_steps, graph, net, c, scratch):
    """Write the walk in the graph that corresponds to the trail in the contracted graph; return its size."""
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
    copy = np.empty(2 * array.shape[0], array.dtype)
    for i in range(array.shape[0]):
        copy[i] = array[i]
    return copy


class Ball(NamedTuple):
    """The nodes (x, p) = 2 x + p of the doubled graph that a search has reached.

    `distances` are inf for nodes that are not reached, `parents` are the previous doubled nodes (-1 at the
    source), and `arcs` are the arcs from them.
    """

    distances: Array
    parents: Array
    arcs: Array
    reached: Array


@routine
def new_ball(n):
    """Return an empty ball for a graph of n nodes."""
    distances = np.full(2 * n, math.inf)
    arrays = np.empty((3, 2 * n), np.int32)
    return Ball(distances, arrays[0], arrays[1], arrays[2])


@routine
def shortest_odd_walk(source, starts, heads, weights, bound, ball):
    """Find an odd closed walk shorter than `bound` through `source` and no lower node.

    By symmetry the shortest walk consists of two shortest paths from (source, 0), each at most half as long,
    and one arc between their ends. Therefore a ball of half the radius suffices. Return the doubled node at
    the end of the first path, the arc (-1 if there is no such walk), the node at the end of the second path,
    and the size of the ball. The ball still contains the paths; `clear` it after reading them.
    """
    distances, parents, arcs, reached = ball
    best, best_first, best_arc, best_second = bound, -1, -1, -1
    root = 2 * source
    distances[root], parents[root], arcs[root], reached[0] = 0.0, -1, -1, root
    n_reached, heap = 1, [(0.0, root)]
    while len(heap) > 0:
        d, node = heapq.heappop(heap)
        if 2.0 * d >= best:
            break
        if d > distances[node]:
            continue
        parity = node & 1
        for k in range(starts[node >> 1], starts[(node >> 1) + 1]):
            head = heads[k]
            if head < source:
                continue
            for crossing in range(2):
                reach = d + (1.0 - weights[k] if crossing else weights[k])
                if reach >= best:
                    continue
                target = 2 * np.int64(head) + (parity ^ crossing)
                twin = target ^ 1
                if reach + distances[twin] < best:
                    best, best_first, best_arc, best_second = reach + distances[twin], node, k, twin
                if 2.0 * reach >= best or reach >= distances[target]:
                    continue
                if distances[target] == math.inf:
                    reached[n_reached] = target
                    n_reached += 1
                distances[target], parents[target], arcs[target] = reach, node, k
                heapq.heappush(heap, (reach, target))
    return best_first, best_arc, best_second, n_reached


@routine
def clear(ball, n_reached):
    """Empty the ball."""
    for i in range(n_reached):
        ball.distances[ball.reached[i]] = math.inf


@routine
def cut_loops(size, scratch):
    """Write the first odd simple cycle in the walk, without the even loops before it; return its size."""
    walk, place = scratch.walk, scratch.place
    nodes, edges, odd = scratch.cycle
    begin, end = 0, 0
    for i in range(size):
        node = walk.nodes[i]
        if place[node] >= 0:
            begin = place[node]
            parity = 0
            for j in range(begin, end):
                parity ^= int(odd[j])
            if parity:
                break
            for j in range(begin, end):
                place[nodes[j]] = -1
            begin, end = 0, begin
        place[node] = end
        nodes[end], edges[end], odd[end] = node, walk.edges[i], walk.odd[i]
        end += 1
    for j in range(end):
        place[nodes[j]] = -1
    for j in range(begin, end):
        nodes[j - begin], edges[j - begin], odd[j - begin] = nodes[j], edges[j], odd[j]
    return end - begin


@routine
def turn(size, graph, scratch):
    """Rotate the cycle until the node of the largest degree, whose arcs are not read, is the last."""
    walk, cycle, starts = scratch.walk, scratch.cycle, graph.starts
    largest, hub = -1, -1
    for i in range(size):
        node = cycle.nodes[i]
        walk.nodes[i], walk.edges[i], walk.odd[i] = node, cycle.edges[i], cycle.odd[i]
        if starts[node + 1] - starts[node] > largest:
            largest, hub = starts[node + 1] - starts[node], i
    for i in range(size):
        j = (i + hub + 1) % size
        cycle.nodes[i], cycle.edges[i], cycle.odd[i] = walk.nodes[j], walk.edges[j], walk.odd[j]
    return size


@routine
def cut_chords(size, graph, c, bound, scratch):
    """Replace the cycle by a violated part of it and a chord, by the deepest such cut, until there is none.

    A chord splits an odd cycle into two cycles, whose violations add up to the violation of the cycle.
    """
    place, prefix = scratch.place, scratch.prefix
    nodes, edges, odd = scratch.cycle
    while size > 3:
        total, parity = 0.0, 0
        for i in range(size):
            place[nodes[i]] = 2 * i + parity
            prefix[i] = total
            total += 1.0 - c[edges[i]] if odd[i] else c[edges[i]]
            parity ^= int(odd[i])
        best, first, last, edge, inner = 0.0, -1, -1, -1, False
        for i in range(size - 2):
            for arc in range(graph.starts[nodes[i]], graph.starts[nodes[i] + 1]):
                j = place[graph.heads[arc]] >> 1
                if j < i + 2 or (i == 0 and j == size - 1):
                    continue
                ce = c[graph.edges[arc]]
                if not _is_odd(i, j, scratch):
                    ce = 1.0 - ce
                within = prefix[j] - prefix[i]
                for part in range(2):
                    weight = within + ce if part else total - within + 1.0 - ce
                    length = j - i + 1 if part else size - j + i + 1
                    depth = (1.0 - weight) / math.sqrt(length)
                    if weight < bound and depth > best:
                        best, first, last, edge, inner = depth, i, j, graph.edges[arc], part == 1
        if first >= 0:
            in_f = _is_odd(first, last, scratch) != inner
        for i in range(size):
            place[nodes[i]] = -1
        if first < 0:
            return size
        size = _shorten(first, last, inner, edge, in_f, size, scratch.cycle)
    return size


@routine
def _is_odd(i, j, scratch):
    """Whether the part of the cycle between its nodes i and j has an odd number of edges in F."""
    nodes, place = scratch.cycle.nodes, scratch.place
    return ((place[nodes[i]] ^ place[nodes[j]]) & 1) == 1


@routine
def _shorten(first, last, inner, edge, in_f, size, cycle):
    """Keep the part between two nodes of the cycle, or the other part, with a chord; return the size."""
    nodes, edges, odd = cycle
    if inner:
        for i in range(first, last + 1):
            nodes[i - first], edges[i - first], odd[i - first] = nodes[i], edges[i], odd[i]
        edges[last - first], odd[last - first] = edge, in_f
        return last - first + 1
    edges[first], odd[first] = edge, in_f
    move = last - first - 1
    for i in range(last, size):
        nodes[i - move], edges[i - move], odd[i - move] = nodes[i], edges[i], odd[i]
    return size - move


@routine
def weigh(size, c, scratch):
    """Return sum over F of (1 - c_e) + sum over the rest of the cycle of c_e."""
    total = 0.0
    for i in range(size):
        ce = c[scratch.cycle.edges[i]]
        total += 1.0 - ce if scratch.cycle.odd[i] else ce
    return total
