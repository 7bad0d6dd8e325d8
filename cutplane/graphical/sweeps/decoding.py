"""Labellings decoded from a reparametrisation, and improved by changing one or two variables at a time.

In the local search a cost is a pair of numbers, which are compared in this order: the number of infinite
terms, and the sum of the others.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.sweeps.layout import Layout, make_layout
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.graphical.sweeps.variable_passes import marginal_of_pair, next_states
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.runtime.compiling import NUMBERS, routine


def decode(reparametrization: Reparametrization, deadline: float = math.inf) -> Array:
    """Return a labelling of low energy.

    Variables take their states one after the other, each the state of least reparametrised cost given the
    states before it. `local_search` improves a forward and a backward labelling, and the better one is
    returned (Kolmogorov 2006, doi:10.1109/TPAMI.2006.200). Local search may use states that only the
    reparametrisation forbids, because they are allowed in the model.
    """
    model = reparametrization.model
    layout, found = make_layout(model), []
    for forward in (True, False):
        if not found or clock() <= deadline:
            found.append(_improved(model, layout, reparametrization.greedy_labelling(forward), deadline))
    return min(found, key=itemgetter(0))[1]


_DEAD_ENDS = 1000
"""Dead ends after which no consistent labelling is searched for, because they take as long as some sweeps."""


@routine
def consistent(layout, tables, unaries, messages, forward, buffer, index):
    """Return a labelling of finite cost, chosen like a greedy one; it is incomplete (-1) if none was found.

    After each choice, states without support in some factor are removed (arc consistency). A dead end undoes
    the last choice. Variables of dead ends are chosen first, the more often they had one (Boussemart et al.
    2004, "Boosting systematic search by weighting constraints").
    """
    n = layout.cardinalities.size
    alive, counts = unaries < np.inf, np.zeros(n, dtype=np.int64)
    labelling, weights = np.full(n, -1), np.zeros(n, dtype=np.int64)
    hot, n_hot = np.empty(n, dtype=np.int64), 0
    trail, decisions = np.empty((unaries.size, 2), dtype=np.int64), np.empty((n + 1, 4), dtype=np.int64)
    tops, depth, at, dead = np.zeros(2, dtype=np.int64), 0, 0, 0
    queue, queued = np.empty(layout.scopes.size, dtype=np.int64), np.zeros(layout.scopes.size, dtype=np.bool_)
    is_hard = _summaries(layout, tables)[1]
    for u in range(n):
        for x in range(layout.cardinalities[u]):
            counts[u] += alive[layout.unary_starts[u] + x]
        if counts[u] == 0:
            return labelling
    for u in range(n):
        if counts[u] == 1:
            _set_only_state(layout, alive, u, labelling)
    for link in range(queued.size):
        a = layout.link_factors[link]
        first = layout.scope_starts[a]
        if is_hard[a] and (link == first or layout.scope_starts[a + 1] == first + 2):
            queue[tops[1]], queued[link] = link, True
            tops[1] += 1
    state = layout, tables, alive, counts, labelling, trail, tops, queue, queued, is_hard
    supported = np.empty(layout.message_starts[-1], dtype=np.bool_)
    room = np.empty((2, buffer.size))
    while True:
        conflict = _propagate(state, supported, index)
        while conflict >= 0:
            dead += 1
            for i in range(layout.scope_starts[conflict], layout.scope_starts[conflict + 1]):
                v = layout.scopes[i]
                if weights[v] == 0:
                    hot[n_hot] = v
                    n_hot += 1
                weights[v] += 1
            if depth == 0 or dead > _DEAD_ENDS:
                _undo(state, 0)
                labelling[:] = -1
                return labelling
            depth -= 1
            u, x, top, at = decisions[depth]
            _undo(state, top)
            _remove(state, u, x)
            _enqueue(state, u, -1)
            conflict = _propagate(state, supported, index)
        chosen = -1
        for i in range(n_hot):
            if labelling[hot[i]] < 0 and (chosen < 0 or weights[hot[i]] > weights[chosen]):
                chosen = hot[i]
        while chosen < 0 and at < n:
            u = at if forward else n - 1 - at
            if labelling[u] < 0:
                chosen = u
            else:
                at += 1
        if chosen < 0:
            return labelling
        best = _best_state(layout, tables, unaries, messages, labelling, alive, chosen, room, buffer, index)
        decisions[depth, 0], decisions[depth, 1] = chosen, best
        decisions[depth, 2], decisions[depth, 3] = tops[0], at
        depth += 1
        for x in range(layout.cardinalities[chosen]):
            if x != best and alive[layout.unary_starts[chosen] + x]:
                _remove(state, chosen, x)
        _enqueue(state, chosen, -1)


@routine
def _set_only_state(layout, alive, u, labelling):
    for x in range(layout.cardinalities[u]):
        if alive[layout.unary_starts[u] + x]:
            labelling[u] = x


@routine
def _remove(state, u, x):
    """Remove a state of a variable; the last one is its label."""
    layout, _, alive, counts, labelling, trail, tops, _, _, _ = state
    alive[layout.unary_starts[u] + x] = False
    counts[u] -= 1
    trail[tops[0], 0], trail[tops[0], 1] = u, x
    tops[0] += 1
    if counts[u] == 1:
        _set_only_state(layout, alive, u, labelling)


@routine
def _undo(state, top):
    """Restore the states removed since the trail had this length."""
    layout, _, alive, counts, labelling, trail, tops, _, _, _ = state
    while tops[0] > top:
        tops[0] -= 1
        u, x = trail[tops[0], 0], trail[tops[0], 1]
        alive[layout.unary_starts[u] + x] = True
        counts[u] += 1
        labelling[u] = x if counts[u] == 1 else -1


@routine
def _enqueue(state, u, except_for):
    """Add the other links of hard pairs of a variable to the queue, and first links of larger factors."""
    layout, _, _, _, _, _, tops, queue, queued, is_hard = state
    for j in range(layout.variable_starts[u], layout.variable_starts[u + 1]):
        link = layout.variable_links[j]
        a = layout.link_factors[link]
        first = layout.scope_starts[a]
        other = 2 * first + 1 - link if layout.scope_starts[a + 1] == first + 2 else first
        if a != except_for and is_hard[a] and not queued[other]:
            queue[tops[1]], queued[other] = other, True
            tops[1] += 1


@routine
def _propagate(state, supported, index):
    """Remove states without support; return a factor that supports no state of a variable, or -1."""
    layout, tables, alive, counts, _, _, tops, queue, queued, _ = state
    starts, unary_starts, scopes = layout.message_starts, layout.unary_starts, layout.scopes
    conflict = -1
    while tops[1] > 0:
        tops[1] -= 1
        link = queue[tops[1]]
        queued[link] = False
        if conflict >= 0:
            continue
        a = layout.link_factors[link]
        first, end = layout.scope_starts[a], layout.scope_starts[a + 1]
        if end == first + 2:
            other = 2 * first + 1 - link
            n, k, there = (
                starts[other + 1] - starts[other],
                starts[end] - starts[first + 1],
                unary_starts[scopes[other]],
            )
            across, along = (k, 1) if link == first else (1, k)
            for x in range(starts[link + 1] - starts[link]):
                place, y = layout.table_starts[a] + x * across, 0
                while y < n and not (alive[there + y] and tables[place + y * along] < np.inf):
                    y += 1
                supported[starts[link] + x] = y < n
            first, end = link, link + 1
        else:
            _support(layout, tables, alive, a, supported, index)
        for i in range(first, end):
            v, before = scopes[i], counts[scopes[i]]
            for x in range(starts[i + 1] - starts[i]):
                if alive[unary_starts[v] + x] and not supported[starts[i] + x]:
                    _remove(state, v, x)
            if counts[v] == 0:
                conflict = a
                break
            if counts[v] < before:
                _enqueue(state, v, a)
    return conflict


@routine
def _support(layout, tables, alive, a, supported, index):
    """Set which states of the links of a factor are part of an entry of finite cost."""
    first, end = layout.scope_starts[a], layout.scope_starts[a + 1]
    starts, last = layout.message_starts, end - first - 1
    supported[starts[first] : starts[end]] = False
    index[: last + 1] = 0
    place = layout.table_starts[a]
    while True:
        is_possible = tables[place] < np.inf
        for p in range(last + 1):
            is_possible &= alive[layout.unary_starts[layout.scopes[first + p]] + index[p]]
        if is_possible:
            for p in range(last + 1):
                supported[starts[first + p] + index[p]] = True
        place += 1
        if not next_states(index, last + 1, starts, first):
            return


@routine(fastmath=NUMBERS)
def _best_state(layout, tables, unaries, messages, labelling, alive, u, room, buffer, index):
    """Return the allowed state of least cost, given the states chosen so far; fewest infinite terms first."""
    begin, k = layout.unary_starts[u], layout.cardinalities[u]
    broken, finite = room
    for x in range(k):
        broken[x], finite[x] = (0.0, unaries[begin + x]) if alive[begin + x] else (np.inf, 0.0)
    for j in range(layout.variable_starts[u], layout.variable_starts[u + 1]):
        _marginal_given(layout, tables, messages, layout.variable_links[j], labelling, index, buffer)
        for x in range(k):
            if buffer[x] == np.inf:
                broken[x] += 1.0
            else:
                finite[x] += buffer[x]
    best = 0
    for x in range(1, k):
        if broken[x] < broken[best] or (broken[x] == broken[best] and finite[x] < finite[best]):
            best = x
    return best


@routine(fastmath=NUMBERS)
def greedy(layout, tables, unaries, messages, forward, buffer, index):
    """Return the labelling in which each variable takes the best state given the states chosen before."""
    n = layout.cardinalities.size
    labelling, alive, room = np.full(n, -1), unaries < np.inf, np.empty((2, buffer.size))
    for i in range(n):
        u = i if forward else n - 1 - i
        labelling[u] = _best_state(
            layout, tables, unaries, messages, labelling, alive, u, room, buffer, index
        )
    return labelling


@routine(fastmath=NUMBERS)
def _marginal_given(layout, tables, messages, link, labelling, index, out):
    """Set out[x] to the least cost of the factor with x at the link and the states chosen so far."""
    a = layout.link_factors[link]
    first, starts = layout.scope_starts[a], layout.message_starts
    arity = layout.scope_starts[a + 1] - first
    if arity > 2:
        _marginal_of_any_given(layout, tables, messages, a, link, labelling, index, out)
        return
    m0, m1, end = starts[first], starts[first + 1], starts[first + 2]
    t, k1 = layout.table_starts[a], end - m1
    state = labelling[layout.scopes[2 * first + 1 - link]]
    if state < 0:
        marginal_of_pair(tables, t, messages, m0, m1, end, link == first, out)
    elif link == first:
        for x in range(m1 - m0):
            out[x] = tables[t + x * k1 + state] + messages[m0 + x] + messages[m1 + state]
    else:
        for x in range(k1):
            out[x] = tables[t + state * k1 + x] + messages[m0 + state] + messages[m1 + x]


@routine(fastmath=NUMBERS)
def _marginal_of_any_given(layout, tables, messages, a, link, labelling, index, out):
    first, last = layout.scope_starts[a], layout.scope_starts[a + 1] - 1
    for x in range(layout.message_starts[link + 1] - layout.message_starts[link]):
        out[x] = np.inf
    for i in range(first, last + 1):
        index[i - first] = max(0, labelling[layout.scopes[i]])
    while True:
        place, cost, stride = layout.table_starts[a], 0.0, 1
        for i in range(last, first - 1, -1):
            x = index[i - first]
            place += x * stride
            cost += messages[layout.message_starts[i] + x]
            stride *= layout.message_starts[i + 1] - layout.message_starts[i]
        x = index[link - first]
        out[x] = min(out[x], cost + tables[place])
        i = last
        while i >= first:
            if labelling[layout.scopes[i]] < 0:
                index[i - first] += 1
                if index[i - first] < layout.message_starts[i + 1] - layout.message_starts[i]:
                    break
                index[i - first] = 0
            i -= 1
        if i < first:
            return


_PASSES = 9000
"""Most passes, because only rounding errors of costs that cancel could need as many."""
_TOLERANCE = 1e-12
"""Least improvement relative to a cost, because rounding errors could repeat a smaller one for ever."""


def local_search(model: FactorGraph, labelling: Any, deadline: float = math.inf) -> Array:
    """Return a labelling that no change of one variable, or of both variables of a pair, improves.

    Iterated conditional modes (Besag 1986) and the best joint change of each pair alternate, until neither
    helps or the deadline has passed. If the labelling breaks hard constraints, their number is reduced first.
    The energy never rises.
    """
    return _improved(model, make_layout(model), labelling, deadline)[1]


def _improved(model: FactorGraph, layout: Layout, labelling: Any, deadline: float) -> tuple[float, Array]:
    """Return the energy of the labelling that `local_search` finds, and this labelling."""
    found = np.array(labelling, dtype=np.int64)
    start = model.energy(found), found.copy()
    stale, paired = np.ones((2, model.n_variables), dtype=bool)
    given = layout, *map(read_only, (model.strides, model.tables, model.unaries))
    state = *given, found, stale, paired, *np.empty((2, model.unaries.size))
    degree, widest = np.diff(layout.variable_starts).max(initial=0), model.cardinalities.max(initial=1)
    room = _summaries(layout, given[2])[0], np.empty((degree, 3), dtype=np.int64), np.empty((2, widest))
    for _ in range(_PASSES):
        if clock() > deadline or not (_single_pass(*state) or _pair_pass(*state, *room)):
            break
    return min((model.energy(found), found), start, key=itemgetter(0))


@routine
def _single_pass(layout, strides, tables, unaries, labelling, stale, paired, broken, finite):
    """Set each variable, near which a state has changed, to its best state."""
    changed = False
    for u in range(stale.size):
        if not stale[u]:
            continue
        _refresh(layout, strides, tables, unaries, labelling, stale, u, broken, finite)
        begin = layout.unary_starts[u]
        best = begin + labelling[u]
        for place in range(begin, layout.unary_starts[u + 1]):
            size = abs(finite[best])
            if _is_better(broken[place], finite[place], broken[best], finite[best], size):
                best = place
        if best != begin + labelling[u]:
            labelling[u] = best - begin
            changed = True
            _wake(layout, u, stale, paired)
    return changed


@routine
def _pair_pass(
    layout, strides, tables, unaries, labelling, stale, paired, broken, finite, least, shared, row
):
    """Make the best joint change of each pair, near which a state has changed.

    The costs in the tables that contain both variables are read only for states that may be better, because
    these tables cost at least the sum of their `least` costs.
    """
    changed = False
    pending = paired.copy()
    for u in range(paired.size):
        paired[u] = False
    for a in range(layout.table_starts.size):
        first = layout.scope_starts[a]
        if layout.scope_starts[a + 1] != first + 2:
            continue
        u, v = layout.scopes[first], layout.scopes[first + 1]
        if not (pending[u] or pending[v] or paired[u] or paired[v]):
            continue
        for w in (u, v):
            if stale[w]:
                _refresh(layout, strides, tables, unaries, labelling, stale, w, broken, finite)
        n, lowest = _set_shared(layout, strides, labelling, u, v, least, shared)
        of_u, of_v, old_u, old_v = layout.unary_starts[u], layout.unary_starts[v], labelling[u], labelling[v]
        for x in range(layout.cardinalities[u]):
            number, cost = _joint_cost(tables, shared, n, x, old_v)
            row[0, x], row[1, x] = broken[of_u + x] - number, finite[of_u + x] - cost
        best_u, best_v = old_u, old_v
        best_broken = row[0, old_u] + broken[of_v + old_v]
        best_finite = row[1, old_u] + finite[of_v + old_v]
        for y in range(layout.cardinalities[v]):
            number, cost = _joint_cost(tables, shared, n, old_u, y)
            broken_v, finite_v = broken[of_v + y] - number, finite[of_v + y] - cost
            for x in range(layout.cardinalities[u]):
                number, cost = row[0, x] + broken_v, row[1, x] + finite_v
                if number > best_broken or (number == best_broken and cost + lowest >= best_finite):
                    continue
                more_broken, more = _joint_cost(tables, shared, n, x, y)
                size = abs(finite[of_u + x]) + abs(finite[of_v + y])
                if _is_better(number + more_broken, cost + more, best_broken, best_finite, size):
                    best_u, best_v, best_broken, best_finite = x, y, number + more_broken, cost + more
        labelling[u], labelling[v] = best_u, best_v
        if best_u != old_u:
            changed = True
            _wake(layout, u, stale, paired)
        if best_v != old_v:
            changed = True
            _wake(layout, v, stale, paired)
    return changed


@routine
def _set_shared(layout, strides, labelling, u, v, least, shared):
    """Set the place and two strides of each table with u and v; return their number and least sum."""
    n, lowest = 0, 0.0
    for j in range(layout.variable_starts[u], layout.variable_starts[u + 1]):
        link = layout.variable_links[j]
        a = layout.link_factors[link]
        place, other = layout.table_starts[a], -1
        for i in range(layout.scope_starts[a], layout.scope_starts[a + 1]):
            if layout.scopes[i] == v:
                other = i
            elif i != link:
                place += labelling[layout.scopes[i]] * strides[i]
        if other >= 0:
            shared[n, 0], shared[n, 1], shared[n, 2] = place, strides[link], strides[other]
            lowest += least[a]
            n += 1
    return n, lowest


@routine
def _summaries(layout, tables):
    """Return the least cost of each factor, where infinite costs count as zero, and whether it has any."""
    least, is_hard = (
        np.full(layout.table_starts.size, np.inf),
        np.zeros(layout.table_starts.size, dtype=np.bool_),
    )
    for a in range(least.size):
        size = 1
        for i in range(layout.scope_starts[a], layout.scope_starts[a + 1]):
            size *= layout.message_starts[i + 1] - layout.message_starts[i]
        for cost in tables[layout.table_starts[a] : layout.table_starts[a] + size]:
            is_hard[a] |= cost == np.inf
            least[a] = min(least[a], 0.0 if cost == np.inf else cost)
    return least, is_hard


@routine
def _joint_cost(tables, shared, n, x, y):
    """Return the cost of two states in n shared tables: infinite terms, and the sum of the others."""
    broken, finite = 0.0, 0.0
    for i in range(n):
        cost = tables[shared[i, 0] + x * shared[i, 1] + y * shared[i, 2]]
        if cost == np.inf:
            broken += 1.0
        else:
            finite += cost
    return broken, finite


@routine
def _refresh(layout, strides, tables, unaries, labelling, stale, u, broken, finite):
    """Compute the costs of the states of u again."""
    begin, end = layout.unary_starts[u], layout.unary_starts[u + 1]
    costs_of_states(layout, strides, tables, unaries, labelling, u, broken[begin:end], finite[begin:end])
    stale[u] = False


@routine
def _is_better(broken, finite, best_broken, best_finite, size):
    if broken != best_broken:
        return broken < best_broken
    return finite < best_finite - _TOLERANCE * (1.0 + size)


@routine
def _wake(layout, u, stale, paired):
    """Mark the variables whose best state may have changed because the state of u did."""
    paired[u] = True
    for j in range(layout.variable_starts[u], layout.variable_starts[u + 1]):
        a = layout.link_factors[layout.variable_links[j]]
        for i in range(layout.scope_starts[a], layout.scope_starts[a + 1]):
            v = layout.scopes[i]
            paired[v] = True
            if v != u:
                stale[v] = True


@routine
def costs_of_states(layout, strides, tables, unaries, labelling, u, broken, finite):
    """Set the cost of each state of u given the states of the others."""
    begin = layout.unary_starts[u]
    for x in range(layout.cardinalities[u]):
        cost = unaries[begin + x]
        broken[x] = cost == np.inf
        finite[x] = 0.0 if cost == np.inf else cost
    for j in range(layout.variable_starts[u], layout.variable_starts[u + 1]):
        _add_costs(layout, strides, tables, labelling, layout.variable_links[j], broken, finite)


@routine
def _add_costs(layout, strides, tables, labelling, link, broken, finite):
    """Add the cost of each state of the variable of a link in its factor, given the states of the others."""
    a = layout.link_factors[link]
    place = layout.table_starts[a]
    for i in range(layout.scope_starts[a], layout.scope_starts[a + 1]):
        if i != link:
            place += labelling[layout.scopes[i]] * strides[i]
    for x in range(layout.cardinalities[layout.scopes[link]]):
        cost = tables[place + x * strides[link]]
        if cost == np.inf:
            broken[x] += 1.0
        else:
            finite[x] += cost
