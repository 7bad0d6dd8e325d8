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

_NEGLIGIBLE = 0.1
"""Costs below this share of the missing bound per variable are not passed on, because all of them together
would raise the bound by no more than that."""


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
    unaries: Array


class Node(NamedTuple):
    """What changes during the search; the arrays are changed in place.

    The states still in of variable u are the first ``counts[u]`` entries of its block of `alive`; `dirty` are
    the variables that must be visited again, `weights` say how often a node ended at each. `trail` has
    saved values, `trail_blocks` the blocks they belong to, `stamps` the level at which each block has last
    been saved; `tops` are the ends of the two and the present level. `low` and `digits` are room for
    min-marginals, and for counting through the states of a factor. `work` counts the entries of tables that
    have been read. Each factor has ``free[a]`` variables of several states; a link is `stale` if its factor
    may have costs to give to its variable.
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
    work: Array
    free: Array
    stale: Array


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
        unaries=model.unaries,
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
        work=np.zeros(1),
        free=np.add.reduceat(counts[model.scopes] > 1, model.scope_starts[:-1], dtype=np.int64)
        if links
        else np.zeros(0, dtype=np.int64),
        stale=np.ones(links, dtype=bool),
    )
    return network, node


def _starts(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


@routine
def _save(block, block_starts, values, stamps, trail, trail_blocks, tops):
    """Keep the values of a block for `undo`, once a level."""
    if stamps[block] == tops[2]:
        return
    stamps[block] = tops[2]
    begin, end = block_starts[block], block_starts[block + 1]
    top = tops[0]
    for i in range(end - begin):
        trail[top + i] = values[begin + i]
    trail_blocks[tops[1]] = block
    tops[0] += end - begin
    tops[1] += 1


@routine
def _set_count(network, node, u, count):
    change = (count > 1) - (node.counts[u] > 1)
    node.counts[u] = count
    if change != 0:
        for i in range(network.near_starts[u], network.near_starts[u + 1]):
            node.free[network.link_factors[network.near_links[i]]] += change


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
            _set_count(network, node, block, count)
    node.dirty[:] = False
    node.stale[:] = False
    node.tops[2] += 1


@routine
def restrict(network, node, u, state, kept):
    """Fix u to a state, or remove that state."""
    _save(u, network.block_starts, node.values, node.stamps, node.trail, node.trail_blocks, node.tops)
    begin = network.block_starts[u]
    count = 0
    for i in range(node.counts[u]):
        x = node.alive[begin + i]
        if (x == state) == kept:
            node.alive[begin + count] = x
            count += 1
        else:
            node.values[begin + x] = np.inf
    _set_count(network, node, u, count)
    _mark(network, node, u)


@routine
def _mark(network, node, u):
    """Mark u and its neighbours for another visit, and their links for another pull."""
    node.dirty[u] = True
    for i in range(network.near_starts[u], network.near_starts[u + 1]):
        a = network.link_factors[network.near_links[i]]
        for link in range(network.scope_starts[a], network.scope_starts[a + 1]):
            node.dirty[network.scopes[link]] = True
            node.stale[link] = True


@routine
def _pull(
    link,
    u,
    scope_starts,
    scopes,
    strides,
    table_starts,
    tables,
    starts,
    link_factors,
    values,
    alive,
    counts,
    low,
    digits,
):
    """Set `low` to the min-marginals of a factor for the states of u; return the entries read."""
    a = link_factors[link]
    n = counts.shape[0]
    unary = starts[u]
    count, stride = counts[u], strides[link]
    first, end = scope_starts[a], scope_starts[a + 1]
    table = table_starts[a]
    if end - first == 2:
        other = first + end - 1 - link
        v, across = scopes[other], strides[other]
        theirs, incoming = starts[v], starts[n + other]
        for i in range(count):
            place = table + alive[unary + i] * stride
            least = np.inf
            for j in range(counts[v]):
                y = alive[theirs + j]
                least = min(least, tables[place + y * across] + values[incoming + y])
            low[i] = least
        return count * counts[v]
    low[:count] = np.inf
    digits[: end - first] = 0
    work = 0
    other = first
    while other < end:
        place, base = table, 0.0
        for other in range(first, end):
            if other != link:
                y = alive[starts[scopes[other]] + digits[other - first]]
                place += y * strides[other]
                base += values[starts[n + other] + y]
        work += count
        for i in range(count):
            low[i] = min(low[i], base + tables[place + alive[unary + i] * stride])
        other = first
        while other < end:
            if other != link:
                digits[other - first] += 1
                if digits[other - first] < counts[scopes[other]]:
                    break
                digits[other - first] = 0
            other += 1
    return work


@routine
def propagate(network, node, bound, limit, passes, progress):
    """Sweep over the variables that need it until the bound rises by less than `progress` of what is missing.

    A variable takes the min-marginals of its factors to the variables behind, gives its least cost to the
    bound, and hands the rest on in equal parts to its factors with variables ahead. States that lift the
    bound to the limit are removed. Returns the bound; inf if it has reached the limit or no labelling exists.
    """
    starts, scope_starts, scopes, strides, table_starts, tables, link_factors, near_starts, near_links, _ = (
        network
    )
    (
        values,
        alive,
        counts,
        dirty,
        weights,
        stamps,
        trail,
        trail_blocks,
        tops,
        low,
        digits,
        work,
        free,
        stale,
    ) = node
    n = counts.shape[0]
    for _ in range(passes):
        before = bound
        negligible = _NEGLIGIBLE * (limit - bound) / n if limit < np.inf else 0.0
        for step in range(2 * n):
            forward = step < n
            u = step if forward else 2 * n - 1 - step
            if not dirty[u]:
                continue
            begin = starts[u]
            _save(u, starts, values, stamps, trail, trail_blocks, tops)
            ahead = behind = 0
            choice = counts[u] > 1
            for i in range(near_starts[u], near_starts[u + 1]):
                link = near_links[i]
                a = link_factors[link]
                if free[a] > choice:
                    is_first, is_last = link == scope_starts[a], link == scope_starts[a + 1] - 1
                    ahead += not is_last if forward else not is_first
                    behind += not is_first if forward else not is_last
                    if is_first if forward else is_last:
                        continue
                if not stale[link]:
                    continue
                stale[link] = False
                work[0] += _pull(
                    link,
                    u,
                    scope_starts,
                    scopes,
                    strides,
                    table_starts,
                    tables,
                    starts,
                    link_factors,
                    values,
                    alive,
                    counts,
                    low,
                    digits,
                )
                _save(n + link, starts, values, stamps, trail, trail_blocks, tops)
                message = starts[n + link]
                for j in range(counts[u]):
                    x = alive[begin + j]
                    if low[j] == np.inf:
                        values[begin + x] = np.inf
                    else:
                        least = low[j] + values[message + x]
                        values[begin + x] += least
                        values[message + x] -= least
            least = np.inf
            for i in range(counts[u]):
                least = min(least, values[begin + alive[begin + i]])
            bound += least
            if not bound < limit:
                weights[u] += 1.0
                return np.inf
            kept = 0
            largest = 0.0
            for i in range(counts[u]):
                x = alive[begin + i]
                cost = values[begin + x] - least
                if bound + cost < limit:
                    values[begin + x] = cost
                    alive[begin + kept] = x
                    kept += 1
                    largest = max(largest, cost)
                else:
                    values[begin + x] = np.inf
            if kept < counts[u]:
                _set_count(network, node, u, kept)
                _mark(network, node, u)
            dirty[u] = False
            if kept == 1 or ahead == 0 or largest <= negligible:
                continue
            share = 1.0 / max(ahead, behind)
            for i in range(near_starts[u], near_starts[u + 1]):
                link = near_links[i]
                a = link_factors[link]
                if link == (scope_starts[a + 1] - 1 if forward else scope_starts[a]) or free[a] < 2:
                    continue
                _save(n + link, starts, values, stamps, trail, trail_blocks, tops)
                message = starts[n + link]
                for j in range(kept):
                    x = alive[begin + j]
                    values[message + x] += share * values[begin + x]
                for other in range(scope_starts[a], scope_starts[a + 1]):
                    stale[other] = True
                    if other > link if forward else other < link:
                        dirty[scopes[other]] = True
            residual = max(0.0, 1.0 - ahead * share)
            for i in range(kept):
                values[begin + alive[begin + i]] *= residual
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
            active += node.free[network.link_factors[network.near_links[i]]] > 1
        score = node.counts[u] / ((1.0 + node.weights[u]) * (1.0 + active) * (1.0 + usefulness[u]))
        if score < best:
            chosen, best = u, score
    return chosen


@routine
def energy_of(network, constant, labelling):
    """Return the energy of a labelling."""
    energy = constant
    for u in range(labelling.shape[0]):
        energy += network.unaries[network.block_starts[u] + labelling[u]]
    for a in range(network.table_starts.shape[0]):
        place = network.table_starts[a]
        for link in range(network.scope_starts[a], network.scope_starts[a + 1]):
            place += labelling[network.scopes[link]] * network.strides[link]
        energy += network.tables[place]
    return energy
