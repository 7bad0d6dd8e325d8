"""Compiled passes over the variables of a reparametrised model, and certified bounds of its costs.

The costs of a factor are its table plus the messages of its links, which are stored separately. Shifting
costs between a factor and a variable changes only a message. Factors can share tables, because no pass writes
to them.
"""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import NUMBERS, routine


@routine(fastmath=NUMBERS)
def sweep_pass(layout, tables, unaries, messages, variables, forward, buffer, index):
    """Visit ascending variables in order, or in reverse; return the rise of the bound (inf: infeasible).

    A visit pulls the min-marginals of the factors that earlier visits of this pass have changed, subtracts
    the minimum of the resulting costs, and pushes them in equal parts to the factors with later variables.
    """
    cardinalities, unary_starts, scope_starts, _, table_starts, starts, factors, places, links = layout
    n = variables.size
    raised = 0.0
    for i in range(n):
        u = variables[i] if forward else variables[n - 1 - i]
        begin, k = unary_starts[u], cardinalities[u]
        first, last = places[u], places[u + 1]
        n_sources, n_targets = 0, 0
        for j in range(first, last):
            link = links[j]
            a = factors[link]
            head, arity = scope_starts[a], scope_starts[a + 1] - scope_starts[a]
            is_source, is_target = _roles(head, link, head + arity - 1, forward)
            n_targets += is_target
            if is_source:
                n_sources += 1
                if arity == 2:
                    m0, m1, end = starts[head], starts[head + 1], starts[head + 2]
                    marginal_of_pair(tables, table_starts[a], messages, m0, m1, end, link == head, buffer)
                else:
                    marginal_of_any(
                        tables, table_starts[a], messages, starts, head, arity, link - head, index, buffer
                    )
                _pull(unaries, begin, messages, starts[link], k, buffer)
        low = _take_minimum(unaries, begin, k)
        if low == np.inf:
            return np.inf
        raised += low
        weight = 1.0 / max(n_sources, n_targets, 1)
        for j in range(first, last):
            link = links[j]
            a = factors[link]
            if _roles(scope_starts[a], link, scope_starts[a + 1] - 1, forward)[1]:
                _push(unaries, begin, messages, starts[link], k, weight)
        if n_targets:
            _scale(unaries, begin, k, 1.0 - n_targets * weight if n_targets < n_sources else 0.0)
    return raised


@routine(fastmath=NUMBERS)
def lowest_costs(layout, shared, own, messages, relative, index):
    """Return the least cost of each factor; shared entries are lowered by `relative` of their sizes.

    Places beyond the end of `shared` are in the other array of tables; `index` is a buffer for the positions
    in one factor.
    """
    scope_starts, starts = layout.scope_starts, layout.message_starts
    above, below = 1.0 - relative, 1.0 + relative
    lowest = np.full(layout.table_starts.size, np.inf)
    for a in range(lowest.size):
        first, last = scope_starts[a], scope_starts[a + 1] - 1
        columns, k = np.uint64(starts[last]), np.uint64(starts[last + 1] - starts[last])
        t = layout.table_starts[a]
        is_shared = t < shared.size
        entry = np.uint64(t if is_shared else t - shared.size)
        index[: last - first] = 0
        while True:
            extra = 0.0
            for p in range(last - first):
                extra += messages[starts[first + p] + index[p]]
            low = np.inf
            if is_shared:
                for y in range(k):
                    cost = shared[entry + y]
                    cost = (cost * above if cost > 0.0 else cost * below) + messages[columns + y]
                    low = cost if cost < low else low
            else:
                for y in range(k):
                    cost = own[entry + y] + messages[columns + y]
                    low = cost if cost < low else low
            lowest[a] = min(lowest[a], low + extra)
            entry += k
            if not next_states(index, last - first, starts, first):
                break
    return lowest


@routine
def factor_costs(layout, tables, messages, factors, starts, index):
    """Return the costs of these factors, each in C order from its start on."""
    costs = np.empty(starts[-1])
    for i in range(factors.size):
        set_costs(layout, tables, messages, factors[i], costs[starts[i] : starts[i + 1]], index)
    return costs


@routine
def set_costs(layout, tables, messages, factor, costs, index):
    """Set the costs of a factor, in C order: its table plus its messages."""
    ends = layout.message_starts
    first, last = layout.scope_starts[factor], layout.scope_starts[factor + 1] - 1
    entry, place = layout.table_starts[factor], 0
    index[: last - first] = 0
    while place < costs.size:
        extra = 0.0
        for p in range(last - first):
            extra += messages[ends[first + p] + index[p]]
        for y in range(ends[last], ends[last + 1]):
            costs[place] = tables[entry + place] + extra + messages[y]
            place += 1
        next_states(index, last - first, ends, first)


@routine(inlined=True)
def next_states(index, count, starts, first):
    """Go to the next states of the first variables of a factor; return False if all have been visited."""
    for p in range(count - 1, -1, -1):
        index[p] += 1
        if index[p] < starts[first + p + 1] - starts[first + p]:
            return True
        index[p] = 0
    return False


@routine(fastmath=NUMBERS)
def _roles(first, link, last, forward):
    """Return whether earlier visits of the pass change the factor of a link, and whether later ones do."""
    return (link > first, link < last) if forward else (link < last, link > first)


# Unsigned indices, because the test for negative ones at every access prevents vectorisation.


@routine(fastmath=NUMBERS)
def _pull(unaries, begin, messages, start, k, marginal):
    """Shift a min-marginal from a factor to its variable; inf is copied instead."""
    begin, start, k = np.uint64(begin), np.uint64(start), np.uint64(k)
    for x in range(k):
        unaries[begin + x] += marginal[x]
        messages[start + x] -= marginal[x] if marginal[x] < np.inf else 0.0


@routine(fastmath=NUMBERS)
def _push(unaries, begin, messages, start, k, weight):
    """Add a part of the costs of a variable to one of its factors."""
    begin, start, k = np.uint64(begin), np.uint64(start), np.uint64(k)
    for x in range(k):
        messages[start + x] += weight * unaries[begin + x]


@routine(fastmath=NUMBERS)
def _take_minimum(unaries, begin, k):
    """Subtract the minimum from the costs of a variable, and return it."""
    begin, k = np.uint64(begin), np.uint64(k)
    low = np.inf
    for x in range(k):
        low = unaries[begin + x] if unaries[begin + x] < low else low
    if low < np.inf:
        for x in range(k):
            unaries[begin + x] -= low
    return low


@routine(fastmath=NUMBERS)
def _scale(unaries, begin, k, kept):
    """Multiply the costs of a variable by the fraction that it keeps."""
    begin, k = np.uint64(begin), np.uint64(k)
    for x in range(k):
        cost = unaries[begin + x]
        unaries[begin + x] = kept * cost if cost < np.inf else np.inf


@routine(fastmath=NUMBERS)
def marginal_of_pair(tables, t, messages, m0, m1, end, is_first, out):
    """Set out[x] to the least cost of a pair with one variable in state x; messages are from m0 to `end`."""
    entry, rows, columns = np.uint64(t), np.uint64(m0), np.uint64(m1)
    k0, k1 = np.uint64(m1 - m0), np.uint64(end - m1)
    if is_first:
        for x in range(k0):
            low = np.inf
            for y in range(k1):
                cost = tables[entry + y] + messages[columns + y]
                low = cost if cost < low else low
            out[x] = low + messages[rows + x]
            entry += k1
        return
    for y in range(k1):
        out[y] = np.inf
    for x in range(k0):
        extra = messages[rows + x]
        for y in range(k1):
            cost = tables[entry + y] + extra
            out[y] = cost if cost < out[y] else out[y]
        entry += k1
    for y in range(k1):
        out[y] += messages[columns + y]


@routine(fastmath=NUMBERS)
def marginal_of_any(tables, t, messages, starts, first, arity, position, index, out):
    """Do the same for a factor of any arity, row after row of its last variable."""
    last = arity - 1
    columns = np.uint64(starts[first + last])
    k = np.uint64(starts[first + arity] - starts[first + last])
    entry = np.uint64(t)
    for x in range(starts[first + position + 1] - starts[first + position]):
        out[x] = np.inf
    for p in range(last):
        index[p] = 0
    while True:
        extra = 0.0
        for p in range(last):
            extra += messages[starts[first + p] + index[p]]
        if position == last:
            for y in range(k):
                cost = tables[entry + y] + extra
                out[y] = cost if cost < out[y] else out[y]
        else:
            low = np.inf
            for y in range(k):
                cost = tables[entry + y] + messages[columns + y]
                low = cost if cost < low else low
            x = index[position]
            out[x] = min(out[x], low + extra)
        entry += k
        if not next_states(index, last, starts, first):
            break
    if position == last:
        for y in range(k):
            out[y] += messages[columns + y]


@routine(fastmath=NUMBERS)
def probe(layout, tables, unaries, messages, begin, end, size, rounds, buffer, index, rises):
    """Set `rises`: of the bound, if a variable from `begin` to before `end` has only one state.

    Passes visit at most `size` variables near it. Costs and messages are restored in the end.
    """
    n = layout.cardinalities.size
    near, stamps = np.empty(size, dtype=np.int64), np.full(n, -1)
    for u in range(begin, end):
        count = _nearest(layout, u, near, stamps)
        ball = np.sort(near[:count])
        saved = _copied(layout, unaries, messages, ball, np.empty(0))
        first, k = layout.unary_starts[u], layout.cardinalities[u]
        for state in range(k):
            if unaries[first + state] == np.inf:
                rises[first + state] = np.inf
                continue
            for x in range(k):
                if x != state:
                    unaries[first + x] = np.inf
            rise = 0.0
            for step in range(2 * rounds):
                if rise < np.inf:
                    rise += sweep_pass(layout, tables, unaries, messages, ball, step % 2 == 0, buffer, index)
            rises[first + state] = rise
            _copied(layout, unaries, messages, ball, saved)


@routine(fastmath=NUMBERS)
def _nearest(layout, u, near, stamps):
    """Set `near` to the variables nearest to u, with u first, and return their number."""
    near[0], stamps[u] = u, u
    head, tail = 0, 1
    while head < tail < near.size:
        v = near[head]
        head += 1
        for j in range(layout.variable_starts[v], layout.variable_starts[v + 1]):
            a = layout.link_factors[layout.variable_links[j]]
            for i in range(layout.scope_starts[a], layout.scope_starts[a + 1]):
                w = layout.scopes[i]
                if stamps[w] != u and tail < near.size:
                    stamps[w] = u
                    near[tail] = w
                    tail += 1
    return tail


@routine(fastmath=NUMBERS)
def _copied(layout, unaries, messages, ball, saved):
    """Return the costs and messages that a pass over these variables may change, or restore saved ones."""
    size = 0
    for u in ball:
        size += layout.cardinalities[u] * (1 + layout.variable_starts[u + 1] - layout.variable_starts[u])
    is_saved = saved.size > 0
    out = saved if is_saved else np.empty(size)
    place = 0
    for u in ball:
        for j in range(layout.variable_starts[u] - 1, layout.variable_starts[u + 1]):
            is_unary = j < layout.variable_starts[u]
            costs = unaries if is_unary else messages
            start = layout.unary_starts[u] if is_unary else layout.message_starts[layout.variable_links[j]]
            for x in range(layout.cardinalities[u]):
                if is_saved:
                    costs[start + x] = out[place]
                else:
                    out[place] = costs[start + x]
                place += 1
    return out


_EPS = float(np.finfo(np.float64).eps)


@routine(fastmath=NUMBERS)
def lower(costs, sizes, places, starts, messages, relative):
    """Subtract the messages, each from its place on, and `relative` times the sum of all absolute values."""
    for link in range(places.size):
        begin, start = places[link], starts[link]
        for x in range(starts[link + 1] - start):
            costs[begin + x] -= messages[start + x]
            sizes[begin + x] += abs(messages[start + x])
    for x in range(costs.size):
        costs[x] = costs[x] - relative * sizes[x] if sizes[x] < np.inf else np.inf


@routine(fastmath=NUMBERS)
def lower_bound_of_sum(values):
    """Return a lower bound of the exact sum, by compensated summation (Neumaier 1974)."""
    total, lost, sizes = 0.0, 0.0, 0.0
    for value in values:
        if value == np.inf:
            return np.inf
        after = total + value
        lost += (total - after) + value if abs(total) >= abs(value) else (value - after) + total
        total = after
        sizes += abs(value)
    return (total + lost) - 2.0 * _EPS * abs(total + lost) - values.size * _EPS * _EPS * sizes
