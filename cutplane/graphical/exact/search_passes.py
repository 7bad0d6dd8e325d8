"""Soft arc consistency of the nodes of a branch and bound search; compiled.

If a factor of three or more variables has two free ones, it is added to the table of this pair, because
several factors give a worse bound than their sum. For example, the clauses (a or b), (a or not b), (not a or
b) and (not a or not b) have fractional marginals without a cost, but their sum costs 1 everywhere (Sanchez,
de Givry and Schiex 2008, doi:10.1007/s10601-007-9029-3).
"""

from __future__ import annotations

import numpy as np

from cutplane.graphical.exact.search_node import mark, save, set_count, set_idle
from cutplane.runtime.compiling import NUMBERS, routine

_NEGLIGIBLE = 0.3
"""Costs below this share of the missing bound, divided by the number of variables or factors, are not passed
on, because all of them together would raise the bound by no more than that."""

_PULL = 40.0
"""Cost of reading a factor, in table entries, because the updates of messages take about as long."""


@routine(allocates=False, inlined=True, fastmath=NUMBERS)
def _pull(network, node, link):
    """Set `low` to the min-marginals of a factor for its variable; return entries read, and the largest."""
    values, alive, counts, low = node.values, node.alive, node.counts, node.low
    scopes, strides, tables = network.scopes, network.strides, network.tables
    starts, messages = network.block_starts, network.message_starts
    a = network.link_factors[link]
    first, end, table = network.scope_starts[a], network.scope_starts[a + 1], network.table_starts[a]
    count, stride = counts[scopes[link]], strides[link]
    states, own = starts[scopes[link]], messages[link]
    largest = 0.0
    if end - first == 2:
        other = first if link > first else end - np.uint32(1)
        added = network.added_starts[a]
        across, n_others = strides[other], counts[scopes[other]]
        theirs, incoming = starts[scopes[other]], messages[other]
        for i in range(count):
            x = alive[states + i]
            least, most = np.inf, 0.0
            for j in range(n_others):
                y = alive[theirs + j]
                cost = tables[table + x * stride + y * across] + values[incoming + y]
                if added >= 0:
                    cost += values[np.uint32(added) + x * stride + y * across]
                least, most = min(least, cost), max(most, cost)
            low[i] = least
            largest = max(largest, most + values[own + x])
        return count * n_others, largest
    if end - first == 3:
        one = first if link > first else first + np.uint32(1)
        two = end - np.uint32(1) if link < end - np.uint32(1) else end - np.uint32(2)
        along, across = strides[one], strides[two]
        ones, twos = starts[scopes[one]], starts[scopes[two]]
        from_one, from_two = messages[one], messages[two]
        n_ones, n_twos = counts[scopes[one]], counts[scopes[two]]
        for i in range(count):
            x = alive[states + i]
            least, most = np.inf, 0.0
            for j in range(n_ones):
                y = alive[ones + j]
                entry, base = table + x * stride + y * along, values[from_one + y]
                for k in range(n_twos):
                    z = alive[twos + k]
                    cost = base + tables[entry + z * across] + values[from_two + z]
                    least, most = min(least, cost), max(most, cost)
            low[i] = least
            largest = max(largest, most + values[own + x])
        return count * n_ones * n_twos, largest
    low[:count] = np.inf
    node.digits[: end - first] = 0
    read = np.uint32(0)
    other = first
    while other < end:
        place, base = table, 0.0
        for other in range(first, end):
            if other != link:
                y = alive[starts[scopes[other]] + node.digits[other - first]]
                place += y * strides[other]
                base += values[messages[other] + y]
        read += count
        for i in range(count):
            x = alive[states + i]
            cost = base + tables[place + x * stride]
            low[i] = min(low[i], cost)
            largest = max(largest, cost + values[own + x])
        other = first
        while other < end:
            if other != link:
                node.digits[other - first] += 1
                if node.digits[other - first] < counts[scopes[other]]:
                    break
                node.digits[other - first] = 0
            other += np.uint32(1)
    return read, largest


@routine(allocates=False)
def _joined(network, node, a):
    """Add a factor with two free variables to the table of this pair; return whether there is one."""
    starts, messages, values = network.block_starts, network.message_starts, node.values
    first, end = network.scope_starts[a], network.scope_starts[a + 1]
    i = j = end
    place, base = network.table_starts[a], 0.0
    for link in range(first, end):
        u = network.scopes[link]
        if node.counts[u] > 1:
            if i == end:
                i = link
            else:
                j = link
        elif node.counts[u] == 1:
            x = node.alive[starts[u]]
            place += x * network.strides[link]
            base += values[messages[link] + x]
        else:
            return False
    row, column = i - first, j - first
    before = row * (2 * (end - first) - row - 1) // 2 + column - row - 1
    slot = network.slots[network.slot_starts[a] + before]
    if slot < 0:
        return False
    pair = np.uint32(slot)
    u, v = network.scopes[i], network.scopes[j]
    link = network.scope_starts[pair]
    begin = network.added_starts[pair]
    across = network.strides[link]
    save(network, node, np.uint32(node.counts.shape[0] + node.stale.shape[0] + node.free.shape[0] + pair))
    for s in range(node.counts[u]):
        x = node.alive[starts[u] + s]
        for t in range(node.counts[v]):
            y = node.alive[starts[v] + t]
            cost = base + values[messages[i] + x] + values[messages[j] + y]
            cost += network.tables[place + x * network.strides[i] + y * network.strides[j]]
            values[begin + x * across + y] += cost
    set_idle(network, node, a, True)
    set_idle(network, node, pair, False)
    node.stale[link] = node.stale[link + 1] = True
    node.dirty[u] = node.dirty[v] = True
    return True


@routine(allocates=False, inlined=True)
def _roles(network, node, link, forward):
    """Return whether earlier visits of the pass change the factor of a link, and whether later ones do."""
    a = network.link_factors[link]
    first, end = network.scope_starts[a], network.scope_starts[a + 1]
    last = end - np.uint32(1)
    if node.free[a] < end - first:
        while node.counts[network.scopes[first]] < 2 and first < last:
            first += np.uint32(1)
        while node.counts[network.scopes[last]] < 2 and first < last:
            last -= np.uint32(1)
    return (link > first, link < last) if forward else (link < last, link > first)


@routine(allocates=False, inlined=True)
def _collect(network, node, u, forward, idle):
    """Shift costs from factors with earlier variables to u.

    Return the number of links to later variables, listed in `targets`, the number of links to earlier ones,
    and whether the table of a pair has changed.
    """
    values, alive, begin = node.values, node.alive, network.block_starts[u]
    ahead, behind, is_joined = 0, 0, False
    is_free = node.counts[u] > 1
    i = network.near_starts[u]
    while i < network.near_starts[u] + node.active[u]:
        link = node.near[i]
        a = network.link_factors[link]
        if node.free[a] == 2 and network.slot_starts[a] >= 0 and _joined(network, node, a):
            is_joined = True  # another link has replaced this one
            continue
        is_shared = node.free[a] > is_free
        is_source, is_target = _roles(network, node, link, forward) if is_shared else (True, False)
        if is_source and node.stale[link]:
            node.stale[link] = False
            read, largest = _pull(network, node, link)
            node.work[0] += read + _PULL
            save(network, node, np.uint32(node.counts.shape[0] + link))
            message = network.message_starts[link]
            for j in range(node.counts[u]):
                x = alive[begin + j]
                if node.low[j] == np.inf:
                    values[begin + x] = np.inf
                else:
                    least = node.low[j] + values[message + x]
                    values[begin + x] += least
                    values[message + x] -= least
            if largest <= idle or not is_shared:
                set_idle(network, node, a, True)
                continue
        i += np.uint32(1)
        if is_shared and is_target:
            node.targets[ahead] = link
            ahead += 1
        behind += is_shared and is_source
    return ahead, behind, is_joined


@routine(allocates=False, inlined=True)
def _distribute(network, node, u, ahead, share, is_large):
    """Shift this share of the costs of u to each factor of `targets`."""
    begin = network.block_starts[u]
    for i in range(ahead):
        link = node.targets[i]
        save(network, node, np.uint32(node.counts.shape[0] + link))
        message = network.message_starts[link]
        for j in range(node.counts[u]):
            x = node.alive[begin + j]
            node.values[message + x] += share * node.values[begin + x]
        a = network.link_factors[link]
        for other in range(network.scope_starts[a], network.scope_starts[a + 1]):
            node.stale[other] = True
            node.dirty[network.scopes[other]] |= is_large and other != link


@routine(allocates=False, fastmath=NUMBERS)
def propagate(network, node, bound, limit, passes, progress):
    """Sweep over dirty variables until the bound rises by less than `progress` of the missing bound.

    A pass visits the variables in order, then in reverse. A variable collects the min-marginals of its
    factors with earlier variables, adds its least cost to the bound, and distributes the remaining costs in
    equal parts to its factors with later variables. States that raise the bound to the limit are removed.
    Return the bound; inf if it has reached the limit or no labelling exists.
    """
    values, alive, counts, dirty = node.values, node.alive, node.counts, node.dirty
    n = np.uint32(counts.shape[0])
    for _ in range(passes):
        before = bound
        negligible = _NEGLIGIBLE * (limit - bound) / n if limit < np.inf else 0.0
        idle = negligible * n / max(counts.shape[0], node.free.shape[0])
        for step in range(n + n):
            forward = step < n
            u = np.uint32(step if forward else n + n - 1 - step)
            if not dirty[u]:
                continue
            begin = network.block_starts[u]
            save(network, node, u)
            ahead, behind, is_joined = _collect(network, node, u, forward, idle)
            least = np.inf
            for i in range(counts[u]):
                least = min(least, values[begin + alive[begin + i]])
            bound += least
            if not bound < limit:
                node.weights[u] += 1.0
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
                set_count(network, node, u, np.uint32(kept))
                mark(network, node, u)
            dirty[u] = is_joined
            if kept == 1 or largest <= negligible:
                continue
            share = 1.0 / max(ahead, behind, 1)
            residual = max(0.0, 1.0 - ahead * share)
            dirty[u] |= behind > 0 and residual * largest > negligible
            if ahead > 0:
                _distribute(network, node, u, ahead, share, share * largest > idle)
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
    """Return the variable that needs the fewest halvings relative to its dead ends, factors, and usefulness.

    A factor counts by its strength, and half as much for each further free variable, because then its least
    cost rises later (Jeroslow and Wang 1990, doi:10.1007/BF01531077). The logarithm of the number of dead
    ends counts, because thousands of them would decide alone.
    """
    chosen, best = -1, np.inf
    for u in range(node.counts.shape[0]):
        if node.counts[u] < 2:
            continue
        failures, factors = 1.0 + np.log(1.0 + node.weights[u]), 1.0
        for i in range(network.near_starts[u], network.near_starts[u] + node.active[u]):
            a = network.link_factors[node.near[i]]
            factors += network.strengths[a] * 2.0 ** (2.0 - node.free[a])
        score = np.log2(np.float64(node.counts[u])) / (failures * factors * (1.0 + usefulness[u]))
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
