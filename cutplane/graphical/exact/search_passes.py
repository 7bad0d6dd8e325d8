"""Soft arc consistency of the nodes of a branch and bound search, undone by a trail; compiled.

A node is one array `values`: the unary costs of all variables, the messages of all links, and costs that are
added to tables of pairs. Together with the tables of the model they are the reparametrised costs, all >= 0
except for a constant, the bound of the node. Removed states have infinite unary costs; the others are listed
in `alive`.

If a factor of three or more variables has two free ones, it is added to the table of this pair, because
several factors give a worse bound than their sum. For example, the clauses (a or b), (a or not b), (not a or
b) and (not a or not b) have fractional marginals without a cost, but their sum costs 1 everywhere (Sanchez,
de Givry and Schiex 2008, doi:10.1007/s10601-007-9029-3). A factor without costs is idle, because it is
useless to shift costs to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

_NEGLIGIBLE = 0.3
"""Costs below this share of the missing bound, divided by the number of variables or factors, are not passed
on, because all of them together would raise the bound by no more than that."""


class Network(NamedTuple):
    """A graphical model as an argument of the passes; all tables are >= 0.

    The blocks of the values of a node begin at the entries of `block_starts`: unary costs of each variable,
    messages of each link, for each factor whether it is idle, and costs added to each pair. The links of
    variable u begin at ``near_starts[u]`` in the list `near` of a node. ``slots[slot_starts[a]:]`` are the
    pairwise factors of the variables (0, 1), (0, 2), ... of factor a, -1 for none. The costs added to factor
    a begin at ``added_starts[a]``, -1 for none. The other arrays are as in `GraphicalModel`.
    """

    block_starts: Array
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


class Node(NamedTuple):
    """State of the search at a node; the arrays are changed in place.

    The allowed states of variable u are the first ``counts[u]`` entries of its block of `alive`. `dirty` are
    the variables that must be visited again; `weights` count the nodes that ended at each variable. `trail`
    contains saved values, `trail_blocks` their blocks, `stamps` the level at which each block was last saved;
    `tops` are the ends of `trail` and `trail_blocks`, and the present level. `low` is a buffer for
    min-marginals, and `digits` for enumerating the states of a factor. `work` counts the table entries read
    so far. ``free[a]`` is the number of variables of factor a with several states. A link is `stale` if its
    factor may have costs to shift to its variable. `near` lists the links of each variable: first the
    ``active[u]`` links to factors that are not idle. `places` are the places of the links in this list.
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
    links, sizes = scopes.size, ks[pairs[:, 0]] * ks[pairs[:, 1]]
    blocks = [ks, ks[scopes], np.ones(n_factors, dtype=np.int64), sizes]
    block_starts = _starts(np.concatenate(blocks))
    added_starts = np.full(n_factors, -1)
    added_starts[pairs[:, 2]] = block_starts[n + links + n_factors : -1]
    zeros = np.zeros(sizes[is_new].max(initial=0))  # one zero table for all new pairs
    network = Network(
        block_starts=block_starts,
        scope_starts=scope_starts,
        scopes=scopes,
        strides=np.concatenate(
            [model.strides, np.stack([ks[new[:, 1]], np.ones_like(new[:, 1])], axis=1).ravel()]
        ),
        table_starts=np.append(model.table_starts, np.full(len(new), model.tables.size)),
        tables=np.append(model.tables, zeros),
        link_factors=np.repeat(np.arange(n_factors), arities),
        near_starts=_starts(np.bincount(scopes, minlength=n)),
        unaries=model.unaries,
        slot_starts=np.append(slot_starts, np.full(len(new), -1)),
        slots=slots,
        added_starts=added_starts,
    )
    finite = np.isfinite(model.unaries)
    states = np.arange(model.unaries.size) - np.repeat(model.unary_starts[:-1], ks)
    alive = np.zeros(model.unaries.size, dtype=np.int64)
    counts = np.zeros(n, dtype=np.int64)
    for u in range(n):
        begin, end = model.unary_starts[u], model.unary_starts[u + 1]
        kept = states[begin:end][finite[begin:end]]
        alive[begin : begin + kept.size] = kept
        counts[u] = kept.size
    values = np.concatenate([model.unaries, np.zeros(block_starts[-1] - model.unaries.size)])
    values[block_starts[n + links + model.n_factors : n + links + n_factors]] = 1.0
    is_idle = np.repeat(np.arange(n_factors) >= model.n_factors, arities)
    near = np.lexsort((is_idle, scopes))
    places = np.empty(links, dtype=np.int64)
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
        digits=np.zeros(arities.max(initial=0), dtype=np.int64),
        work=np.zeros(1),
        free=np.add.reduceat(counts[scopes] > 1, scope_starts[:-1], dtype=np.int64)
        if links
        else np.zeros(0, dtype=np.int64),
        stale=np.ones(links, dtype=bool),
        near=near,
        places=places,
        active=np.bincount(scopes[~is_idle], minlength=n),
    )
    return network, node


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


def _starts(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


@routine(allocates=False)
def _save(block, block_starts, values, stamps, trail, trail_blocks, tops):
    """Save the values of a block for `undo`, once per level."""
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


@routine(allocates=False)
def _set_count(network, node, u, count):
    change = int(count > 1) - int(node.counts[u] > 1)
    node.counts[u] = count
    if change != 0:
        for i in range(network.near_starts[u], network.near_starts[u + 1]):
            node.free[network.link_factors[node.near[i]]] += change


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
def _set_idle(network, node, a, is_idle):
    """Make a factor idle, or active."""
    block = node.counts.shape[0] + node.stale.shape[0] + a
    place = network.block_starts[block]
    if is_idle != (node.values[place] > 0.0):
        _save(block, network.block_starts, node.values, node.stamps, node.trail, node.trail_blocks, node.tops)
        node.values[place] = is_idle
        _order(network, node, a, is_idle)


@routine(allocates=False)
def undo(network, node, top):
    """Restore the values saved since `trail_blocks` ended at `top`, and begin a new level."""
    n = node.counts.shape[0]
    while node.tops[1] > top:
        node.tops[1] -= 1
        block = node.trail_blocks[node.tops[1]]
        begin, end = network.block_starts[block], network.block_starts[block + 1]
        node.tops[0] -= end - begin
        saved = node.tops[0]
        a = block - n - node.stale.shape[0]
        if 0 <= a < node.free.shape[0] and node.values[begin] != node.trail[saved]:
            _order(network, node, a, node.trail[saved] > 0.0)
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


@routine(allocates=False)
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


@routine(allocates=False)
def _mark(network, node, u):
    """Mark u and its neighbours for another visit, and their links for another pull."""
    node.dirty[u] = True
    for i in range(network.near_starts[u], network.near_starts[u] + node.active[u]):
        a = network.link_factors[node.near[i]]
        for link in range(network.scope_starts[a], network.scope_starts[a + 1]):
            node.dirty[network.scopes[link]] = True
            node.stale[link] = True


@routine(allocates=False)
def _pull(
    link,
    u,
    added,
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
    """Set `low` to the min-marginals of a factor for the states of u; return entries read and the largest."""
    a = link_factors[link]
    n = counts.shape[0]
    unary = starts[u]
    count, stride = counts[u], strides[link]
    first, end = scope_starts[a], scope_starts[a + 1]
    table, own, largest = table_starts[a], starts[n + link], 0.0
    if end - first == 2:
        other = first + end - 1 - link
        v, across = scopes[other], strides[other]
        theirs, incoming = starts[v], starts[n + other]
        for i in range(count):
            place = table + alive[unary + i] * stride
            least = np.inf
            for j in range(counts[v]):
                y = alive[theirs + j]
                cost = tables[place + y * across] + values[incoming + y]
                if added >= 0:
                    cost += values[added + place - table + y * across]
                least = min(least, cost)
                largest = max(largest, cost + values[own + alive[unary + i]])
            low[i] = least
        return count * counts[v], largest
    low[:count] = np.inf
    if end - first == 3:
        one, two = first + (link == first), end - 1 - (link == end - 1)
        along, across = strides[one], strides[two]
        ones, twos = starts[scopes[one]], starts[scopes[two]]
        from_one, from_two = starts[n + one], starts[n + two]
        n_ones, n_twos = counts[scopes[one]], counts[scopes[two]]
        for i in range(count):
            place = table + alive[unary + i] * stride
            least, most = np.inf, 0.0
            for j in range(n_ones):
                y = alive[ones + j]
                entry, base = place + y * along, values[from_one + y]
                for k in range(n_twos):
                    z = alive[twos + k]
                    cost = base + tables[entry + z * across] + values[from_two + z]
                    least, most = min(least, cost), max(most, cost)
            low[i] = least
            largest = max(largest, most + values[own + alive[unary + i]])
        return count * n_ones * n_twos, largest
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
            cost = base + tables[place + alive[unary + i] * stride]
            low[i] = min(low[i], cost)
            largest = max(largest, cost + values[own + alive[unary + i]])
        other = first
        while other < end:
            if other != link:
                digits[other - first] += 1
                if digits[other - first] < counts[scopes[other]]:
                    break
                digits[other - first] = 0
            other += 1
    return work, largest


@routine(allocates=False)
def _joined(network, node, a):
    """Add a factor with two free variables to the table of this pair; return whether there is one."""
    n = node.counts.shape[0]
    starts, values = network.block_starts, node.values
    first, end = network.scope_starts[a], network.scope_starts[a + 1]
    i = j = -1
    place, base = network.table_starts[a], 0.0
    for link in range(first, end):
        u = network.scopes[link]
        if node.counts[u] > 1:
            i, j = (link, j) if i < 0 else (i, link)
        elif node.counts[u] == 1:
            x = node.alive[starts[u]]
            place += x * network.strides[link]
            base += values[starts[n + link] + x]
        else:
            return False
    row, column = i - first, j - first
    before = row * (2 * (end - first) - row - 1) // 2 + column - row - 1
    pair = network.slots[network.slot_starts[a] + before]
    if pair < 0:
        return False
    u, v = network.scopes[i], network.scopes[j]
    link = network.scope_starts[pair]
    begin = network.added_starts[pair]
    across = network.strides[link]
    stamps, trail, blocks, tops = node.stamps, node.trail, node.trail_blocks, node.tops
    _save(np.searchsorted(starts, begin), starts, values, stamps, trail, blocks, tops)
    for s in range(node.counts[u]):
        x = node.alive[starts[u] + s]
        for t in range(node.counts[v]):
            y = node.alive[starts[v] + t]
            cost = base + values[starts[n + i] + x] + values[starts[n + j] + y]
            cost += network.tables[place + x * network.strides[i] + y * network.strides[j]]
            values[begin + x * across + y] += cost
    _set_idle(network, node, a, True)
    _set_idle(network, node, pair, False)
    node.stale[link] = node.stale[link + 1] = True
    node.dirty[u] = node.dirty[v] = True
    return True


@routine(allocates=False)
def _free_ends(first, end, scopes, counts):
    """Return the first and the last link of a factor to variables with several states."""
    last = end - 1
    while counts[scopes[first]] < 2 and first < last:
        first += 1
    while counts[scopes[last]] < 2 and first < last:
        last -= 1
    return first, last


@routine(allocates=False)
def propagate(network, node, bound, limit, passes, progress):
    """Sweep over dirty variables until the bound rises by less than `progress` of the missing bound.

    A pass visits the variables in order, then in reverse. A variable collects the min-marginals of its
    factors with earlier variables, adds its least cost to the bound, and distributes the remaining costs in
    equal parts to its factors with later variables. States that raise the bound to the limit are removed.
    Return the bound; inf if it has reached the limit or no labelling exists.
    """
    starts, scope_starts, scopes, strides, table_starts, tables, link_factors, near_starts = network[:8]
    slot_starts, added_starts = network.slot_starts, network.added_starts
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
        near,
        _,
        active,
    ) = node
    n = counts.shape[0]
    for _ in range(passes):
        before = bound
        negligible = _NEGLIGIBLE * (limit - bound) / n if limit < np.inf else 0.0
        idle = negligible * n / max(n, free.shape[0])
        for step in range(2 * n):
            forward = step < n
            u = step if forward else 2 * n - 1 - step
            if not dirty[u]:
                continue
            begin = starts[u]
            _save(u, starts, values, stamps, trail, trail_blocks, tops)
            ahead = behind = 0
            choice, is_joined = counts[u] > 1, False
            i = near_starts[u]
            while i < near_starts[u] + active[u]:
                link = near[i]
                a = link_factors[link]
                if free[a] == 2 and slot_starts[a] >= 0 and _joined(network, node, a):
                    is_joined = True  # another link has replaced this one
                    continue
                is_shared, source, target = free[a] > choice, True, False
                if is_shared:
                    first, last = _free_ends(scope_starts[a], scope_starts[a + 1], scopes, counts)
                    source, target = (link > first, link < last) if forward else (link < last, link > first)
                if source and stale[link]:
                    stale[link] = False
                    read, largest = _pull(
                        link,
                        u,
                        added_starts[a],
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
                    work[0] += read
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
                    if largest <= idle or not is_shared:
                        _set_idle(network, node, a, True)
                        continue
                i += 1
                ahead += is_shared and target
                behind += is_shared and source
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
            dirty[u] = is_joined
            if kept == 1 or largest <= negligible:
                continue
            share = 1.0 / max(ahead, behind, 1)
            residual = max(0.0, 1.0 - ahead * share)
            dirty[u] |= behind > 0 and residual * largest > negligible
            if ahead == 0:
                continue
            for i in range(near_starts[u], near_starts[u] + active[u]):
                link = near[i]
                a = link_factors[link]
                if free[a] < 2:
                    continue
                first, last = _free_ends(scope_starts[a], scope_starts[a + 1], scopes, counts)
                if link == (last if forward else first):
                    continue
                _save(n + link, starts, values, stamps, trail, trail_blocks, tops)
                message = starts[n + link]
                for j in range(kept):
                    x = alive[begin + j]
                    values[message + x] += share * values[begin + x]
                for other in range(scope_starts[a], scope_starts[a + 1]):
                    stale[other] = True
                    dirty[scopes[other]] |= other != link and share * largest > idle
            for i in range(kept):
                values[begin + alive[begin + i]] *= residual
        if bound - before <= progress * (limit - before):
            break
    return bound


@routine(allocates=False)
def cheapest(network, node, labelling):
    """Set `labelling` to the cheapest states; return whether each variable has only one state."""
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


@routine(allocates=False)
def branching_variable(network, node, usefulness):
    """Return the variable with the fewest states relative to usefulness, nodes ended at it, and factors.

    The logarithm of the number of nodes counts, because after thousands of nodes the number would decide
    alone.
    """
    chosen, best = -1, np.inf
    for u in range(node.counts.shape[0]):
        if node.counts[u] < 2:
            continue
        failures, factors = 1.0 + np.log(1.0 + node.weights[u]), 1.0 + node.active[u]
        score = node.counts[u] / (failures * factors * (1.0 + usefulness[u]))
        if score < best:
            chosen, best = u, score
    return chosen


@routine(allocates=False)
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
