"""The node of a branch and bound search: its arrays, decisions, and a trail that undoes them; compiled.

A node is one array `values`: the unary costs of all variables, the messages of all links, and costs that are
added to tables of pairs. Together with the tables of the model they are the reparametrised costs, all >= 0
except for a constant, the bound of the node. Removed states have infinite unary costs; the others are listed
in `alive`. A factor without costs is idle, because it is useless to shift costs to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.factors import starts_of
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

INDEX = np.uint32
"""Type of indices, because compiled code tests signed ones for negative values at every access."""


class Network(NamedTuple):
    """A graphical model as an argument of the passes; all tables are >= 0.

    The blocks of the values of a node begin at the entries of `block_starts`: unary costs of each variable,
    messages of each link, for each factor whether it is idle, and costs added to each factor, of which only
    pairs have any. The blocks of messages begin at `message_starts`. The links of variable u begin at
    ``near_starts[u]`` in the list `near` of a node. ``slots[slot_starts[a]:]`` are the
    pairwise factors of the variables (0, 1), (0, 2), ... of factor a, -1 for none. The costs added to factor
    a begin at ``added_starts[a]``, -1 for none. `strengths` are the standard deviations of the costs of the
    factors, relative to their mean. The other arrays are as in `GraphicalModel`.
    """

    block_starts: Array
    message_starts: Array
    scope_starts: Array
    scopes: Array
    strides: Array
    table_starts: Array
    tables: Array
    link_factors: Array
    near_starts: Array
    unaries: Array
    slot_starts: Array
    slots: Array
    added_starts: Array
    strengths: Array


class Node(NamedTuple):
    """State of the search at a node; the arrays are changed in place.

    The allowed states of variable u are the first ``counts[u]`` entries of its block of `alive`. `dirty` are
    the variables that must be visited again; `weights` count the dead ends at each variable or after a
    decision on it. `trail` contains saved values, `trail_blocks` their blocks, `stamps` the level at which
    each block was last saved; `tops` are the ends of `trail` and `trail_blocks`, and the present level.
    `low` is a buffer for min-marginals, and `digits` for enumerating the states of a factor. `work` counts
    the table entries read so far. ``free[a]`` is the number of variables of factor a with several states. A
    link is `stale` if its factor may have costs to shift to its variable. `near` lists the links of each
    variable: first the ``active[u]`` links to factors that are not idle. `places` are the places of the
    links in this list.
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
    near: Array
    places: Array
    active: Array
    targets: Array


def root(model: FactorGraph) -> tuple[Network, Node]:
    """Return the network and the root node of a model whose costs are all >= 0."""
    n, ks = model.n_variables, model.cardinalities
    pairs, slot_starts, slots = _slots(model)
    is_new = pairs[:, 2] < 0
    n_factors = model.n_factors + int(is_new.sum())
    pairs[is_new, 2] = np.arange(model.n_factors, n_factors)
    slots[slots >= 0] = pairs[slots[slots >= 0], 2]
    new = pairs[is_new]
    scopes = np.concatenate([model.scopes, new[:, :2].ravel()])
    scope_starts = np.concatenate(
        [model.scope_starts, model.scope_starts[-1] + 2 * np.arange(1, 1 + len(new))]
    )
    arities = np.diff(scope_starts)
    links = scopes.size
    sizes = np.zeros(n_factors, dtype=np.int64)
    sizes[pairs[:, 2]] = ks[pairs[:, 0]] * ks[pairs[:, 1]]
    blocks = [ks, ks[scopes], np.ones(n_factors, dtype=np.int64), sizes]
    block_starts = starts_of(np.concatenate(blocks))
    added_starts = np.where(sizes > 0, block_starts[n + links + n_factors : -1], -1)
    zeros = np.zeros(sizes[model.n_factors :].max(initial=0))  # one zero table for all new pairs
    network = Network(
        block_starts=block_starts.astype(INDEX),
        message_starts=block_starts[n : n + links].astype(INDEX),
        scope_starts=scope_starts.astype(INDEX),
        scopes=scopes.astype(INDEX),
        strides=np.concatenate(
            [model.strides, np.stack([ks[new[:, 1]], np.ones_like(new[:, 1])], axis=1).ravel()]
        ).astype(INDEX),
        table_starts=np.append(model.table_starts, np.full(len(new), model.tables.size)).astype(INDEX),
        tables=np.append(model.tables, zeros),
        link_factors=np.repeat(np.arange(n_factors, dtype=INDEX), arities),
        near_starts=starts_of(np.bincount(scopes, minlength=n)).astype(INDEX),
        unaries=model.unaries,
        slot_starts=np.append(slot_starts, np.full(len(new), -1)),
        slots=slots,
        added_starts=added_starts,
        strengths=np.append(_strengths(model), np.ones(len(new))),
    )
    finite = np.isfinite(model.unaries)
    states = np.arange(model.unaries.size) - np.repeat(model.unary_starts[:-1], ks)
    alive = np.zeros(model.unaries.size, dtype=INDEX)
    counts = np.zeros(n, dtype=INDEX)
    for u in range(n):
        begin, end = model.unary_starts[u], model.unary_starts[u + 1]
        kept = states[begin:end][finite[begin:end]]
        alive[begin : begin + kept.size] = kept
        counts[u] = kept.size
    values = np.concatenate([model.unaries, np.zeros(block_starts[-1] - model.unaries.size)])
    values[block_starts[n + links + model.n_factors : n + links + n_factors]] = 1.0
    is_idle = np.repeat(np.arange(n_factors) >= model.n_factors, arities)
    near = np.lexsort((is_idle, scopes)).astype(INDEX)
    places = np.empty(links, dtype=INDEX)
    places[near] = np.arange(links)
    node = Node(
        values=values,
        alive=alive,
        counts=counts,
        dirty=np.ones(n, dtype=bool),
        weights=np.zeros(n),
        stamps=np.full(block_starts.size - 1, -1),
        trail=np.empty(4 * int(block_starts[-1])),
        trail_blocks=np.empty(4 * block_starts.size, dtype=np.int64),
        tops=np.zeros(3, dtype=np.int64),
        low=np.empty(ks.max(initial=0)),
        digits=np.zeros(arities.max(initial=0), dtype=INDEX),
        work=np.zeros(1),
        free=np.add.reduceat(counts[scopes] > 1, scope_starts[:-1], dtype=INDEX)
        if links
        else np.zeros(0, dtype=INDEX),
        stale=np.ones(links, dtype=bool),
        near=near,
        places=places,
        active=np.bincount(scopes[~is_idle], minlength=n).astype(INDEX),
        targets=np.empty(np.bincount(scopes).max(initial=0), dtype=INDEX),
    )
    return network, node


def _strengths(model: FactorGraph) -> Array:
    """Return the strengths of the factors; a forbidden entry counts as the largest finite cost."""
    if model.n_factors == 0:
        return np.empty(0)
    is_finite = np.isfinite(model.tables)
    costs = np.where(is_finite, model.tables, model.tables[is_finite].max(initial=0.0) or 1.0)
    costs /= costs.max() or 1.0
    means, squares = (np.add.reduceat(x, model.table_starts) / model.table_sizes for x in (costs, costs**2))
    deviations = np.sqrt(np.maximum(squares - means**2, 0.0))
    return deviations / (deviations.mean() or 1.0)


def _slots(model: FactorGraph) -> tuple[Array, Array, Array]:
    """Return pairs of variables that are in several factors, and the pairs of each factor.

    Each pair is in some factor of three or more variables. Return the pairs, the factor of each pair (-1 if
    there is none), and the start of the pairs of each factor in a list of pairs (-1 for none).
    """
    n, starts, arities = model.n_variables, model.scope_starts[:-1], model.arities
    slot_starts = np.full(model.n_factors, -1)
    codes, size = [], 0
    for arity in np.unique(arities[arities > 2]).tolist():
        factors = np.flatnonzero(arities == arity)
        scopes = model.scopes[starts[factors, None] + np.arange(arity)]
        first, second = np.triu_indices(arity, 1)
        slot_starts[factors] = size + first.size * np.arange(factors.size)
        codes.append((scopes[:, first] * n + scopes[:, second]).ravel())
        size += codes[-1].size
    two = np.flatnonzero(arities == 2)
    pair_codes = model.scopes[starts[two]] * n + model.scopes[starts[two] + 1]
    higher = np.concatenate([*codes, np.empty(0, dtype=np.int64)])
    distinct, which, counts = np.unique(higher, return_inverse=True, return_counts=True)
    numbers = np.full(distinct.size, -1)
    order = np.searchsorted(distinct, pair_codes)
    is_given = np.append(distinct, -1)[order] == pair_codes
    numbers[order[is_given]] = two[is_given]
    used = (counts > 1) | (numbers >= 0)
    renumbered = np.where(used, np.cumsum(used) - 1, -1)
    pairs = np.stack([distinct // max(n, 1), distinct % max(n, 1), numbers], axis=1)[used]
    return pairs, slot_starts, renumbered[which] if which.size else np.empty(0, dtype=np.int64)


@routine(allocates=False, inlined=True)
def save(network, node, block):
    """Save the values of a block for `undo`, once per level."""
    if node.stamps[block] != node.tops[2]:
        node.stamps[block] = node.tops[2]
        begin, top = network.block_starts[block], np.uint32(node.tops[0])
        size = network.block_starts[block + 1] - begin
        for i in range(size):
            node.trail[top + i] = node.values[begin + i]
        node.trail_blocks[node.tops[1]] = block
        node.tops[0] += size
        node.tops[1] += 1


@routine(allocates=False, inlined=True)
def set_count(network, node, u, count):
    """Set the number of allowed states of u, and how many free variables its factors have."""
    before = node.counts[u]
    node.counts[u] = count
    if (before > 1) != (count > 1):
        for i in range(network.near_starts[u], network.near_starts[u + 1]):
            a = network.link_factors[node.near[i]]
            if count > 1:
                node.free[a] += 1
            else:
                node.free[a] -= 1


@routine(allocates=False)
def _order(network, node, a, is_idle):
    """Put the links of a factor behind the active links of their variables, or at the end of these."""
    for link in range(network.scope_starts[a], network.scope_starts[a + 1]):
        u = network.scopes[link]
        node.active[u] -= is_idle
        place, target = node.places[link], network.near_starts[u] + node.active[u]
        node.active[u] += not is_idle
        other = node.near[target]
        node.near[place], node.near[target] = other, link
        node.places[other], node.places[link] = place, target


@routine(allocates=False)
def set_idle(network, node, a, is_idle):
    """Make a factor idle, or active."""
    block = np.uint32(node.counts.shape[0] + node.stale.shape[0] + a)
    place = network.block_starts[block]
    if is_idle != (node.values[place] > 0.0):
        save(network, node, block)
        node.values[place] = is_idle
        _order(network, node, a, is_idle)


@routine(allocates=False)
def undo(network, node, top):
    """Restore the values saved since `trail_blocks` ended at `top`, and begin a new level."""
    n = node.counts.shape[0]
    while node.tops[1] > top:
        node.tops[1] -= 1
        block = node.trail_blocks[node.tops[1]]
        begin = network.block_starts[block]
        size = network.block_starts[block + 1] - begin
        node.tops[0] -= size
        saved = np.uint32(node.tops[0])
        a = block - n - node.stale.shape[0]
        if 0 <= a < node.free.shape[0] and node.values[begin] != node.trail[saved]:
            _order(network, node, np.uint32(a), node.trail[saved] > 0.0)
        for i in range(size):
            node.values[begin + i] = node.trail[saved + i]
        if block < n:
            count = 0
            for x in range(size):
                if node.values[begin + x] < np.inf:
                    node.alive[begin + count] = x
                    count += 1
            set_count(network, node, np.uint32(block), np.uint32(count))
    node.dirty[:] = False
    node.stale[:] = False
    node.tops[2] += 1


@routine(allocates=False)
def restrict(network, node, u, low, high, kept):
    """Keep the states of u from `low` to `high`, or remove them."""
    u, count = np.uint32(u), 0
    save(network, node, u)
    begin = network.block_starts[u]
    for i in range(node.counts[u]):
        x = node.alive[begin + i]
        if (low <= x <= high) == kept:
            node.alive[begin + count] = x
            count += 1
        else:
            node.values[begin + x] = np.inf
    set_count(network, node, u, np.uint32(count))
    mark(network, node, u)


@routine(allocates=False)
def follow(network, node, decisions):
    """Make decisions, one in each row: a variable, its states from low to high, and whether to keep them."""
    for i in range(decisions.shape[0]):
        restrict(network, node, decisions[i, 0], decisions[i, 1], decisions[i, 2], decisions[i, 3] == 1)


@routine(allocates=False)
def mark(network, node, u):
    """Mark u and its neighbours for another visit, and their links for another pull."""
    node.dirty[u] = True
    for i in range(network.near_starts[u], network.near_starts[u] + node.active[u]):
        a = network.link_factors[node.near[i]]
        for link in range(network.scope_starts[a], network.scope_starts[a + 1]):
            node.dirty[network.scopes[link]] = True
            node.stale[link] = True
