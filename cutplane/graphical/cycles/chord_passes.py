"""From odd closed walks to odd cycles that are simple and chordless, in compiled code.

Only modules that need numba anyway import this one.
"""

from __future__ import annotations

import math

from cutplane.runtime.compiling import routine


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
    """Turn the cycle until the node of the largest degree is the last, where nobody asks for its arcs."""
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
    """Replace the cycle by a violated part of it and a chord, the deepest such cut, until there is none.

    A chord splits an odd cycle into two, whose violations sum to its own.
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
    """Keep the part between two nodes of the cycle, or the other part, and a chord; return the size."""
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
