"""Soft arc consistency of the nodes of a branch and bound search; compiled.

If a factor of three or more variables has two free ones, it is added to the table of this pair, because
several factors give a worse bound than their sum. For example, the clauses (a or b), (a or not b), (not a or
b) and (not a or not b) have fractional marginals without a cost, but their sum costs 1 everywhere (Sanchez,
de Givry and Schiex 2008, doi:10.1007/s10601-007-9029-3).
"""

from __future__ import annotations

import numpy as np

from cutplane.graphical.exact.search_node import mark, save, set_count, set_idle
from cutplane.runtime.compiling import routine

_NEGLIGIBLE = 0.3
"""Costs below this share of the missing bound, divided by the number of variables or factors, are not passed
on, because all of them together would raise the bound by no more than that."""


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
    save(np.searchsorted(starts, begin), starts, values, stamps, trail, blocks, tops)
    for s in range(node.counts[u]):
        x = node.alive[starts[u] + s]
        for t in range(node.counts[v]):
            y = node.alive[starts[v] + t]
            cost = base + values[starts[n + i] + x] + values[starts[n + j] + y]
            cost += network.tables[place + x * network.strides[i] + y * network.strides[j]]
            values[begin + x * across + y] += cost
    set_idle(network, node, a, True)
    set_idle(network, node, pair, False)
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
            save(u, starts, values, stamps, trail, trail_blocks, tops)
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
                    save(n + link, starts, values, stamps, trail, trail_blocks, tops)
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
                        set_idle(network, node, a, True)
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
                set_count(network, node, u, kept)
                mark(network, node, u)
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
                save(n + link, starts, values, stamps, trail, trail_blocks, tops)
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
