"""Soft arc consistency of the nodes of a branch and bound search, undone by a trail; compiled.

A node is one array `values`: the unary costs of all variables, then the messages of all links; together with
the tables of the model they make the reparametrised costs, all of them >= 0 beside a constant, the bound of
the node. States that are out have infinite unary costs; those still in are listed in `alive`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

_NEGLIGIBLE = 1e-2


class Network(NamedTuple):
    """A graphical model as the passes take it, the tables all >= 0.

    The unary costs of each variable, then the messages of each link begin in the values of a node at its
    entry of `block_starts`. The links of variable u are those of `near_links` from ``near_starts[u]`` on; the
    rest is as in `GraphicalModel`.
    """

    block_starts: Array
    scope_starts: Array
    scopes: Array
    strides: Array
    table_starts: Array
    tables: Array
    link_factors: Array
    near_starts: Array
    near_links: Array


class Node(NamedTuple):
    """What changes during the search; the arrays are changed in place.

    The states still in of variable u are the first ``counts[u]`` entries of its block of `alive`; `dirty` are
    the variables that must be looked at again, `weights` say how often a node ended at each. `trail` has
    saved values, `trail_blocks` the blocks they belong to, `stamps` the level at which each block has last
    been saved; `tops` are the ends of the two and the present level. `low` and `digits` are room for
    min-marginals, and for counting through the states of a factor.
    """

    values: Array
    alive: Array
    counts: Array
    dirty: Array
    weights: Array
    stamps: Array
    trail: Array
    trail_blocks: Array
    tops: Array
    low: Array
    digits: Array


def root(model: FactorGraph) -> tuple[Network, Node]:
    """Return the network and the root node of a model whose costs are all >= 0."""
    n, links = model.n_variables, model.n_links
    block_starts = _starts(np.concatenate([model.cardinalities, model.cardinalities[model.scopes]]))
    blocks = block_starts.size - 1
    network = Network(
        block_starts=block_starts,
        scope_starts=model.scope_starts,
        scopes=model.scopes,
        strides=model.strides,
        table_starts=model.table_starts,
        tables=model.tables,
        link_factors=np.repeat(np.arange(model.n_factors), model.arities),
        near_starts=_starts(np.bincount(model.scopes, minlength=n)),
        near_links=np.argsort(model.scopes, kind="stable"),
    )
    finite = np.isfinite(model.unaries)
    states = np.arange(model.unaries.size) - np.repeat(model.unary_starts[:-1], model.cardinalities)
    alive = np.zeros(model.unaries.size, dtype=np.int64)
    counts = np.zeros(n, dtype=np.int64)
    for u in range(n):
        begin, end = model.unary_starts[u], model.unary_starts[u + 1]
        kept = states[begin:end][finite[begin:end]]
        alive[begin : begin + kept.size] = kept
        counts[u] = kept.size
    node = Node(
        values=np.concatenate([model.unaries, np.zeros(block_starts[-1] - model.unaries.size)]),
        alive=alive,
        counts=counts,
        dirty=np.ones(n, dtype=bool),
        weights=np.zeros(n),
        stamps=np.full(n + links, -1),
        trail=np.empty(4 * int(block_starts[-1])),
        trail_blocks=np.empty(4 * blocks, dtype=np.int64),
        tops=np.zeros(3, dtype=np.int64),
        low=np.empty(model.cardinalities.max(initial=0)),
        digits=np.zeros(model.arities.max(initial=0), dtype=np.int64),
    )
    return network, node


def _starts(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


@routine
def _save(network, node, block):
    if node.stamps[block] == node.tops[2]:
        return
    node.stamps[block] = node.tops[2]
    begin, end = network.block_starts[block], network.block_starts[block + 1]
    top = node.tops[0]
    for i in range(end - begin):
        node.trail[top + i] = node.values[begin + i]
    node.trail_blocks[node.tops[1]] = block
    node.tops[0] += end - begin
    node.tops[1] += 1


@routine
def undo(network, node, top):
    """Restore what has been saved since `trail_blocks` ended at `top`, and begin a new level."""
    n = node.counts.shape[0]
    while node.tops[1] > top:
        node.tops[1] -= 1
        block = node.trail_blocks[node.tops[1]]
        begin, end = network.block_starts[block], network.block_starts[block + 1]
        node.tops[0] -= end - begin
        saved = node.tops[0]
        for i in range(end - begin):
            node.values[begin + i] = node.trail[saved + i]
        if block < n:
            count = 0
            for x in range(end - begin):
                if node.values[begin + x] < np.inf:
                    node.alive[begin + count] = x
                    count += 1
            node.counts[block] = count
    for u in range(n):
        node.dirty[u] = False
    node.tops[2] += 1


@routine
def restrict(network, node, u, keep):
    """Keep only some states of u: those of mask `keep`."""
    _save(network, node, u)
    begin = network.block_starts[u]
    count = 0
    for i in range(node.counts[u]):
        x = node.alive[begin + i]
        if keep[x]:
            node.alive[begin + count] = x
            count += 1
        else:
            node.values[begin + x] = np.inf
    node.counts[u] = count
    _mark(network, node, u)


@routine
def _mark(network, node, u):
    """Have u and its neighbours looked at again."""
    node.dirty[u] = True
    for i in range(network.near_starts[u], network.near_starts[u + 1]):
        a = network.link_factors[network.near_links[i]]
        for link in range(network.scope_starts[a], network.scope_starts[a + 1]):
            node.dirty[network.scopes[link]] = True


@routine
def _pull(network, node, link):
    """Move the min-marginals of a factor to the variable of the link."""
    u, a = network.scopes[link], network.link_factors[link]
    starts, values, alive = network.block_starts, node.values, node.alive
    low, digits = node.low, node.digits
    n = node.counts.shape[0]
    unary, message = starts[u], starts[n + link]
    count, stride = node.counts[u], network.strides[link]
    first, end = network.scope_starts[a], network.scope_starts[a + 1]
    table = network.table_starts[a]
    if end - first == 2:
        other = first + end - 1 - link
        v, across = network.scopes[other], network.strides[other]
        theirs, incoming = starts[v], starts[n + other]
        for i in range(count):
            place = table + alive[unary + i] * stride
            least = np.inf
            for j in range(node.counts[v]):
                y = alive[theirs + j]
                cost = network.tables[place + y * across] + values[incoming + y]
                if cost < least:
                    least = cost
            low[i] = least
    else:
        for i in range(count):
            low[i] = np.inf
        for other in range(first, end):
            digits[other - first] = 0
        other = first
        while other < end:
            place, base = table, 0.0
            for other in range(first, end):
                if other != link:
                    y = alive[starts[network.scopes[other]] + digits[other - first]]
                    place += y * network.strides[other]
                    base += values[starts[n + other] + y]
            for i in range(count):
                cost = base + network.tables[place + alive[unary + i] * stride]
                if cost < low[i]:
                    low[i] = cost
            other = first
            while other < end:
                if other != link:
                    digits[other - first] += 1
                    if digits[other - first] < node.counts[network.scopes[other]]:
                        break
                    digits[other - first] = 0
                other += 1
    _save(network, node, n + link)
    for i in range(count):
        x = alive[unary + i]
        if low[i] == np.inf:
            values[unary + x] = np.inf
        else:
            least = low[i] + values[message + x]
            values[unary + x] += least
            values[message + x] -= least


@routine
def _is_active(network, node, link):
    """Tell whether another variable of the factor of a link has a choice left."""
    a = network.link_factors[link]
    for other in range(network.scope_starts[a], network.scope_starts[a + 1]):
        if other != link and node.counts[network.scopes[other]] > 1:
            return True
    return False


@routine
def _visit(network, node, u, forward, bound, limit, negligible):
    """Pull costs to u from behind, take its minimum, and push the rest ahead; return the bound."""
    n = node.counts.shape[0]
    begin = network.block_starts[u]
    _save(network, node, u)
    ahead = behind = 0
    for i in range(network.near_starts[u], network.near_starts[u + 1]):
        link = network.near_links[i]
        a = network.link_factors[link]
        is_first, is_last = link == network.scope_starts[a], link == network.scope_starts[a + 1] - 1
        if _is_active(network, node, link):
            ahead += not is_last if forward else not is_first
            behind += not is_first if forward else not is_last
            if is_first if forward else is_last:
                continue
        _pull(network, node, link)
    count = node.counts[u]
    least = np.inf
    for i in range(count):
        least = min(least, node.values[begin + node.alive[begin + i]])
    if least == np.inf:
        return np.inf
    bound += least
    kept = 0
    for i in range(count):
        x = node.alive[begin + i]
        cost = node.values[begin + x] - least
        if bound + cost < limit:
            node.values[begin + x] = cost
            node.alive[begin + kept] = x
            kept += 1
        else:
            node.values[begin + x] = np.inf
    node.counts[u] = kept
    if kept == 0:
        return np.inf
    if kept < count:
        _mark(network, node, u)
    node.dirty[u] = False
    if kept == 1 or ahead == 0:
        return bound
    share = 1.0 / max(ahead, behind)
    largest = 0.0
    for i in range(kept):
        largest = max(largest, node.values[begin + node.alive[begin + i]])
    if largest <= negligible:
        return bound
    for i in range(network.near_starts[u], network.near_starts[u + 1]):
        link = network.near_links[i]
        a = network.link_factors[link]
        if link == (network.scope_starts[a + 1] - 1 if forward else network.scope_starts[a]):
            continue
        if not _is_active(network, node, link):
            continue
        _save(network, node, n + link)
        message = network.block_starts[n + link]
        for j in range(kept):
            x = node.alive[begin + j]
            node.values[message + x] += share * node.values[begin + x]
        for other in range(network.scope_starts[a], network.scope_starts[a + 1]):
            if other > link if forward else other < link:
                node.dirty[network.scopes[other]] = True
    left = max(0.0, 1.0 - ahead * share)
    for i in range(kept):
        node.values[begin + node.alive[begin + i]] *= left
    return bound


@routine
def propagate(network, node, bound, limit, passes, progress):
    """Sweep over the variables that need it until the bound rises by less than `progress` of what is missing.

    Returns the bound; inf if it has reached the limit or no labelling is left.
    """
    n = node.counts.shape[0]
    for _ in range(passes):
        before = bound
        negligible = _NEGLIGIBLE * (limit - bound) / n if limit < np.inf else 0.0
        for forward in (True, False):
            for i in range(n):
                u = i if forward else n - 1 - i
                if not node.dirty[u]:
                    continue
                bound = _visit(network, node, u, forward, bound, limit, negligible)
                if bound >= limit:
                    node.weights[u] += 1.0
                    return np.inf
        if bound - before <= progress * (limit - before):
            break
    return bound


@routine
def cheapest(network, node, labelling):
    """Take the cheapest state of each variable; return whether no variable has another one."""
    is_leaf = True
    for u in range(node.counts.shape[0]):
        begin = network.block_starts[u]
        least = np.inf
        for i in range(node.counts[u]):
            x = node.alive[begin + i]
            if node.values[begin + x] < least:
                least = node.values[begin + x]
                labelling[u] = x
        is_leaf &= node.counts[u] == 1
    return is_leaf


@routine
def branching_variable(network, node, usefulness):
    """Return the variable with the fewest states for its use, the nodes that ended at it, and its factors."""
    chosen, best = -1, np.inf
    for u in range(node.counts.shape[0]):
        if node.counts[u] < 2:
            continue
        active = 0
        for i in range(network.near_starts[u], network.near_starts[u + 1]):
            active += _is_active(network, node, network.near_links[i])
        score = node.counts[u] / ((1.0 + node.weights[u]) * (1.0 + active) * (1.0 + usefulness[u]))
        if score < best:
            chosen, best = u, score
    return chosen
