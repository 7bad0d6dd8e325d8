"""Cycles of any length along which the pairs of a reparametrised model contradict each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cutplane.graphical.dual.cycles import Cycles, PairCosts
from cutplane.graphical.factors import starts_of
from cutplane.graphical.primal.odd_cycle_passes import unite
from cutplane.runtime.compiling import routine

_REACH = 2**12
"""Most nodes that a search visits, because thousands of searches of a large graph would take too long."""
_EFFORT = 8
"""Nodes visited by all searches, relative to the number of entries, because five sweeps take as long."""
_ROUNDS = 20
"""Most rounds of searches, because each one subtracts margins, so that later cycles are weaker."""


def frustrated_cycles(costs: PairCosts, least: float, is_late: Callable[[], bool] = lambda: False) -> Cycles:
    """Return cycles of any length along which the pairs contradict each other (Sontag, Choe, Li 2012).

    The states of each variable are split into one state and the others, in all ways. For two such splits of a
    pair of variables, either agreement or disagreement is cheaper, by some margin. A cycle in which
    disagreement is cheaper for an odd number of pairs increases the bound by its smallest margin if the
    variables have two states, and is a good candidate if they have more. The strongest cycles are found with
    a maximum spanning forest, and shortened. Then their margins are subtracted, and the search is repeated.
    All searches visit at most as many nodes as some sweeps visit entries. Margins up to `least` are ignored.
    """
    if len(costs.pairs) == 0:
        return Cycles(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64))
    nodes = np.where(costs.cardinalities > 2, costs.cardinalities, costs.cardinalities - 1)
    node_starts = starts_of(nodes)
    variable_of = np.repeat(np.arange(nodes.size), nodes)
    shares = 1.0 / np.maximum(1, np.diff(costs.graph[0]))
    ends, preferences = projected_preferences(costs.pairs, node_starts, shares, *costs.arrays, least)
    strengths, effort = np.abs(preferences), _EFFORT * costs.tables.size
    found: list[Cycles] = []
    for _ in range(_ROUNDS):
        order = np.argsort(-strengths, kind="stable")[: np.count_nonzero(strengths > least)]
        ends, preferences, strengths = ends[order], preferences[order], strengths[order]
        starts, walks, passed, visited = frustrated_walks(
            int(node_starts[-1]), ends, (preferences < 0.0).astype(np.int64), strengths, effort, _REACH
        )
        found.append(Cycles(*simple_cycles(starts, variable_of[passed], nodes.size)))
        effort -= visited
        if len(starts) == 1 or effort <= 0 or is_late():
            break
        spend(starts, walks, strengths)
    return Cycles.joined(found)


@routine
def projected_preferences(
    pairs, node_starts, shares, cardinalities, unary_starts, unaries, table_starts, tables, least
):
    """Return the edges (node, node) of the projection graph and their preferences, if above `least`.

    A node (u, a) splits the states of u into a and the others; a variable of two states has one node. The
    preference is the least cost of disagreement minus the least cost of agreement. `shares` is the part of
    its unary costs that a variable adds to each of its pairs.
    """
    count = 0
    ends = np.empty((tables.size, 2), dtype=np.int64)
    preferences = np.empty(tables.size)
    widest = 1
    for k in cardinalities:
        widest = max(widest, k)
    costs, without = np.empty((widest, widest)), np.empty((widest, widest))
    for e in range(pairs.shape[0]):
        u, v = pairs[e, 0], pairs[e, 1]
        rows, columns = cardinalities[u], cardinalities[v]
        for i in range(rows):
            own = shares[u] * unaries[unary_starts[u] + i]
            for j in range(columns):
                other = shares[v] * unaries[unary_starts[v] + j]
                costs[i, j] = tables[table_starts[e] + i * columns + j] + own + other
        _row_minima_without_one(costs, rows, columns, without)
        for b in range(node_starts[v + 1] - node_starts[v]):
            least_row, first, second = -1, np.inf, np.inf
            column_row, column_first, column_second = -1, np.inf, np.inf
            for i in range(rows):
                if without[i, b] < first:
                    least_row, first, second = i, without[i, b], first
                elif without[i, b] < second:
                    second = without[i, b]
                if costs[i, b] < column_first:
                    column_row, column_first, column_second = i, costs[i, b], column_first
                elif costs[i, b] < column_second:
                    column_second = costs[i, b]
            for a in range(node_starts[u + 1] - node_starts[u]):
                agree = min(costs[a, b], second if a == least_row else first)
                differ = min(without[a, b], column_second if a == column_row else column_first)
                if agree == differ or abs(differ - agree) <= least:
                    continue
                ends[count, 0], ends[count, 1] = node_starts[u] + a, node_starts[v] + b
                preferences[count] = differ - agree
                count += 1
    return ends[:count], preferences[:count]


@routine
def _row_minima_without_one(costs, rows, columns, without):
    for i in range(rows):
        place, first, second = -1, np.inf, np.inf
        for j in range(columns):
            if costs[i, j] < first:
                place, first, second = j, costs[i, j], first
            elif costs[i, j] < second:
                second = costs[i, j]
        for j in range(columns):
            without[i, j] = second if j == place else first


@routine
def frustrated_walks(n_nodes, ends, negative, strengths, effort, reach):
    """Return (starts, links, nodes) of closed walks with an odd number of negative edges, and nodes visited.

    The edges are sorted by decreasing strength. A walk is given by the numbers of its edges, and by the nodes
    that each edge shares with the next. For each edge that contradicts stronger edges, the walk is the
    shortest one over edges that are at least as strong. A search is abandoned after `reach` nodes, and none
    is begun after `effort` nodes in total.
    """
    m = ends.shape[0]
    closing = _contradictions(n_nodes, ends, negative)
    starts = np.zeros(n_nodes + 1, dtype=np.int64)
    for e in range(m):
        starts[ends[e, 0] + 1] += 1
        starts[ends[e, 1] + 1] += 1
    fill = np.zeros(n_nodes, dtype=np.int64)
    for node in range(n_nodes):
        starts[node + 1] += starts[node]
        fill[node] = starts[node]
    links = np.empty(2 * m, dtype=np.int64)
    for e in range(m):
        for side in range(2):
            links[fill[ends[e, side]]] = e
            fill[ends[e, side]] += 1
    reached = np.zeros(2 * n_nodes, dtype=np.int64)
    arrival = np.empty(2 * n_nodes, dtype=np.int64)
    queue = np.empty(2 * n_nodes, dtype=np.int64)
    walk_starts = np.zeros(closing.size + 1, dtype=np.int64)
    most = min(reach, 2 * n_nodes)
    longest = min(closing.size * (most + 2), 2 * effort + most + 2)
    walks, nodes = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    count, used, visited = 0, 0, 0
    for search in range(closing.size):
        if visited >= effort:
            break
        e = closing[search]
        source, target = 2 * ends[e, 0], 2 * ends[e, 1] + 1 - negative[e]
        head, tail = 0, 1
        queue[0] = source
        reached[source] = search + 1
        while head < tail and tail < reach and reached[target] != search + 1:
            node = queue[head]
            head += 1
            for place in range(starts[node // 2], starts[node // 2 + 1]):
                link = links[place]
                if strengths[link] < strengths[e]:
                    break
                after = _across(ends, negative, link, node)
                if reached[after] != search + 1:
                    reached[after] = search + 1
                    arrival[after] = link
                    queue[tail] = after
                    tail += 1
        visited += tail
        if reached[target] != search + 1:
            continue
        node, link = target, e
        while True:
            walks[used], nodes[used] = link, node // 2
            used += 1
            if node == source:
                break
            link = arrival[node]
            node = _across(ends, negative, link, node)
        count += 1
        walk_starts[count] = used
    return walk_starts[: count + 1], walks[:used], nodes[:used], visited


@routine
def _across(ends, negative, link, node):
    """Return the other end of an edge from a node with a parity; both directions are treated alike."""
    return 2 * (ends[link, 0] + ends[link, 1] - node // 2) + ((node + negative[link]) & 1)


@routine
def spend(walk_starts, walks, strengths):
    """Subtract from all edges of each walk the strength of its weakest edge."""
    for w in range(walk_starts.size - 1):
        least = np.inf
        for place in range(walk_starts[w], walk_starts[w + 1]):
            least = min(least, strengths[walks[place]])
        for place in range(walk_starts[w], walk_starts[w + 1]):
            strengths[walks[place]] -= least


@routine
def _contradictions(n_nodes, ends, negative):
    """Return the edges that contradict the edges before them."""
    root, flip = np.arange(n_nodes), np.zeros(n_nodes, np.int8)
    found, count = np.empty(ends.shape[0], dtype=np.int64), 0
    for e in range(ends.shape[0]):
        if unite(root, flip, ends[e, 0], ends[e, 1], negative[e]):
            found[count] = e
            count += 1
    return found[:count]


@routine
def simple_cycles(walk_starts, variables, n_variables):
    """Split closed walks at the variables that they visit twice, into cycles of at least three variables."""
    starts = np.zeros(variables.size // 3 + 1, dtype=np.int64)
    cycles = np.empty(variables.size, dtype=np.int64)
    stack = np.empty(variables.size, dtype=np.int64)
    place = np.full(n_variables, -1, dtype=np.int64)
    count, used = 0, 0
    for w in range(walk_starts.size - 1):
        height = 0
        for step in range(walk_starts[w], walk_starts[w + 1] + 1):
            closing = step == walk_starts[w + 1]
            base = 0 if closing else max(0, place[variables[step]])
            if closing or place[variables[step]] >= 0:
                if height - base >= 3:
                    for level in range(base, height):
                        cycles[used] = stack[level]
                        used += 1
                    count += 1
                    starts[count] = used
                for level in range(base, height):
                    place[stack[level]] = -1
                height = base
            if not closing:
                place[variables[step]] = height
                stack[height] = variables[step]
                height += 1
    return starts[: count + 1], cycles[:used]
