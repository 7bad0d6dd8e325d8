"""Compiled reduction of a model: variables that follow from others are removed one after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

MOST_NEIGHBOURS = 3
"""Most variables of a table that replaces an eliminated variable, because the search is fast up to three."""
_MOST_TABLES = 8
"""Most factors of a variable with `MOST_NEIGHBOURS` neighbours, because these have eight subsets."""


class Remainder(NamedTuple):
    """The model that remains, in arrays that are changed in place.

    Factor a has the ascending variables ``scopes[firsts[a]:firsts[a] + arities[a]]`` and `sizes` entries from
    ``places[a]`` on; its arity is 0 if it is removed. `heads` begin a list of links per variable: a link is a
    factor of `linked` and the link that follows, -1 at the end. The choice of a removed variable, as a table
    over the variables `near` (-1 for none), begins at its entry of `choice_starts`; `order` has the removed
    variables, and `totals` has their number, the entries in use of tables and of choices, and the numbers of
    factors, links and entries of `scopes`. All arrays have one axis, except `near` of shape (n_variables, 3).
    """

    counts: Array
    unary_starts: Array
    unaries: Array
    firsts: Array
    arities: Array
    scopes: Array
    places: Array
    sizes: Array
    heads: Array
    linked: Array
    following: Array
    near: Array
    choice_starts: Array
    order: Array
    is_removed: Array
    totals: Array


_REMOVED, _ENTRIES, _CHOICES, _FACTORS, _LINKS, _SCOPES = range(6)


@routine
def reduce(rest, constant, tables, choices):
    """Remove variables until none can be removed; return the constant, the tables and the choices."""
    n = rest.counts.size
    queue, is_queued = np.arange(n), np.ones(n, dtype=np.bool_)
    near, is_near = np.empty(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    waiting, largest = n, 1
    for k in rest.counts:
        largest = max(largest, k)
    while waiting:
        waiting -= 1
        u = queue[waiting]
        is_queued[u] = False
        count, entries = _neighbours(rest, u, near, is_near)
        is_fixed = rest.counts[u] == 1
        size = 0 if is_fixed else _message_size(rest, near, count, entries)
        if size > 0:
            tables = _with_room(tables, rest.totals[_ENTRIES] + size)
            choices = _with_room(choices, rest.totals[_CHOICES] + size)
            constant += _minimise(rest, u, near, count, size, tables, choices)
        else:
            choices = _with_room(choices, rest.totals[_CHOICES] + largest)
            states = choices[rest.totals[_CHOICES] :]
            states[0] = 0
            by = -1 if is_fixed else _determining(rest, u, tables, states)
            if by < 0 and not is_fixed:
                continue
            size = 1 if is_fixed else rest.counts[by]
            constant += _substitute_unary(rest, u, by, states)
            link = rest.heads[u]
            while link >= 0:
                own, link = link, rest.following[link]
                most = rest.totals[_ENTRIES] + rest.sizes[rest.linked[own]] * size
                tables = _with_room(tables, most)
                _substitute(rest, own, u, by, states, tables)
            rest.near[u, 0] = by
        rest.is_removed[u] = True
        rest.order[rest.totals[_REMOVED]] = u
        rest.choice_starts[u] = rest.totals[_CHOICES]
        rest.totals[_REMOVED] += 1
        rest.totals[_CHOICES] += size
        for v in near[:count]:
            if not is_queued[v]:
                is_queued[v] = True
                queue[waiting] = v
                waiting += 1
    return constant, tables[: rest.totals[_ENTRIES]], choices


@routine(allocates=False)
def expand(near, choice_starts, choices, order, counts, labelling):
    """Set the states of the removed variables, the last one that was removed first."""
    for i in range(order.size - 1, -1, -1):
        u, place = order[i], 0
        for v in near[order[i]]:
            if v >= 0:
                place = place * counts[v] + labelling[v]
        labelling[u] = choices[choice_starts[u] + place]


@routine
def _with_room(values, size):
    if size <= values.size:
        return values
    larger = np.empty(2 * size, dtype=values.dtype)
    for i in range(values.size):
        larger[i] = values[i]
    return larger


@routine(allocates=False)
def _neighbours(rest, u, near, is_near):
    """Write the neighbours of a variable; return their number, and the entries of its factors."""
    count, entries, link = 0, 0, rest.heads[u]
    while link >= 0:
        a, link = rest.linked[link], rest.following[link]
        entries += rest.sizes[a]
        for v in rest.scopes[rest.firsts[a] : rest.firsts[a] + rest.arities[a]]:
            if v != u and not is_near[v]:
                is_near[v] = True
                near[count] = v
                count += 1
    for v in near[:count]:
        is_near[v] = False
    return count, entries


@routine(allocates=False)
def _message_size(rest, near, count, entries):
    """Sort a few neighbours; return the size of a table over them, 0 if it would be larger than others."""
    if count > MOST_NEIGHBOURS:
        return 0
    size = 1
    for i in range(count):
        size *= rest.counts[near[i]]
        for j in range(i, 0, -1):
            if near[j] < near[j - 1]:
                near[j - 1], near[j] = near[j], near[j - 1]
    return size if count < 2 or size <= entries or _factor_over(rest, near, count, -1) >= 0 else 0


@routine(allocates=False)
def _factor_over(rest, scope, arity, apart):
    """Return a factor of this scope other than `apart`, -1 if there is none."""
    link = rest.heads[scope[0]]
    while link >= 0:
        a, link = rest.linked[link], rest.following[link]
        if a != apart and rest.arities[a] == arity:
            i = 0
            while i < arity and rest.scopes[rest.firsts[a] + i] == scope[i]:
                i += 1
            if i == arity:
                return a
    return -1


@routine(allocates=False)
def _add(values, start, size, out, at):
    for i in range(size):
        out[at + i] += values[start + i]


@routine(allocates=False)
def _advance(rest, scope, arity, digits):
    """Set the states of the next entry of a table."""
    axis = arity - 1
    while axis >= 0:
        digits[axis] += 1
        if digits[axis] < rest.counts[scope[axis]]:
            return
        digits[axis] = 0
        axis -= 1


@routine(allocates=False)
def _is_added(rest, scope, arity, apart, at, size, tables):
    """Add the table at `at` to the factor of this scope, in a new place, if there is one."""
    a = _factor_over(rest, scope, arity, apart)
    if a >= 0:
        _add(tables, rest.places[a], size, tables, at)
        rest.places[a] = at
    return a >= 0


@routine(allocates=False)
def _unlink(rest, u, a):
    """Remove a factor from the list of a variable."""
    before, link = -1, rest.heads[u]
    while rest.linked[link] != a:
        before, link = link, rest.following[link]
    if before < 0:
        rest.heads[u] = rest.following[link]
    else:
        rest.following[before] = rest.following[link]


@routine(allocates=False)
def _remove_factor(rest, a, u):
    """Remove a factor, but leave it in the list of u."""
    for v in rest.scopes[rest.firsts[a] : rest.firsts[a] + rest.arities[a]]:
        if v != u:
            _unlink(rest, v, a)
    rest.arities[a] = rest.sizes[a] = 0


@routine
def _minimise(rest, u, near, count, size, tables, choices):
    """Replace u and its factors by a table over its neighbours and a choice; return the table's constant."""
    k, states = rest.counts[u], rest.unary_starts[u]
    strides = np.zeros((_MOST_TABLES, MOST_NEIGHBOURS + 1), np.int64)
    starts = np.empty(_MOST_TABLES, np.int64)
    n_tables, link = 0, rest.heads[u]
    while link >= 0:
        a, link = rest.linked[link], rest.following[link]
        stride = 1
        for i in range(rest.arities[a] - 1, -1, -1):
            v, axis = rest.scopes[rest.firsts[a] + i], 0
            while axis < count and near[axis] != v:
                axis += 1
            strides[n_tables, axis if v != u else MOST_NEIGHBOURS] = stride
            stride *= rest.counts[v]
        starts[n_tables] = rest.places[a]
        n_tables += 1
    at, chosen = rest.totals[_ENTRIES], rest.totals[_CHOICES]
    digits, sources = np.zeros(MOST_NEIGHBOURS, np.int64), np.empty(_MOST_TABLES, np.int64)
    for entry in range(size):
        for j in range(n_tables):
            sources[j] = starts[j]
            for axis in range(count):
                sources[j] += strides[j, axis] * digits[axis]
        least, best = np.inf, 0
        for state in range(k):
            cost = rest.unaries[states + state]
            for j in range(n_tables):
                cost += tables[sources[j] + strides[j, MOST_NEIGHBOURS] * state]
            if cost < least:
                least, best = cost, state
        tables[at + entry], choices[chosen + entry] = least, best
        _advance(rest, near, count, digits)
    link = rest.heads[u]
    while link >= 0:
        a, link = rest.linked[link], rest.following[link]
        _remove_factor(rest, a, u)
    for i in range(count):
        rest.near[u, i] = near[i]
    if count == 0:
        return tables[at]
    if count == 1:
        _add(tables, at, size, rest.unaries, rest.unary_starts[near[0]])
        return 0.0
    rest.totals[_ENTRIES] += size
    if _is_added(rest, near, count, -1, at, size, tables):
        return 0.0
    a = rest.totals[_FACTORS]
    rest.firsts[a], rest.arities[a], rest.places[a], rest.sizes[a] = rest.totals[_SCOPES], count, at, size
    for v in near[:count]:
        link = rest.totals[_LINKS]
        rest.scopes[rest.totals[_SCOPES]], rest.linked[link] = v, a
        rest.following[link], rest.heads[v] = rest.heads[v], link
        rest.totals[_SCOPES] += 1
        rest.totals[_LINKS] += 1
    rest.totals[_FACTORS] += 1
    return 0.0


@routine(allocates=False)
def _determining(rest, u, tables, states):
    """Return a variable whose states each allow at most one of u, and write it; -1 if there is none."""
    link = rest.heads[u]
    while link >= 0:
        a, link = rest.linked[link], rest.following[link]
        if rest.arities[a] != 2:
            continue
        by = rest.scopes[rest.firsts[a]] + rest.scopes[rest.firsts[a] + 1] - u
        stride, along = rest.counts[by], 1
        if by < u:
            stride, along = 1, rest.counts[u]
        x, n_finite = 0, 0
        while x < rest.counts[by] and n_finite <= 1:
            states[x], n_finite = 0, 0
            for y in range(rest.counts[u]):
                if tables[rest.places[a] + x * along + y * stride] < np.inf:
                    states[x] = y
                    n_finite += 1
            x += 1
        if n_finite <= 1:
            return by
    return -1


@routine(allocates=False)
def _substitute_unary(rest, u, by, states):
    """Pass the unary costs of u on to the variable that determines it, or return the cost of its state."""
    own = rest.unary_starts[u]
    if by < 0:
        return rest.unaries[own]
    for x in range(rest.counts[by]):
        rest.unaries[rest.unary_starts[by] + x] += rest.unaries[own + states[x]]
    return 0.0


@routine
def _substitute(rest, link, u, by, states, tables):
    """Replace u in a factor by the variable that determines it, or fix it if there is none (-1)."""
    a = rest.linked[link]
    first, old = rest.firsts[a], rest.arities[a]
    source, is_there = np.zeros(old + 1, np.int64), False
    scope, arity, stride, own = np.empty(old + 1, np.int64), 0, rest.sizes[a], 0
    for i in range(old):
        v = rest.scopes[first + i]
        stride //= rest.counts[v]
        if v == u:
            own = stride
        else:
            scope[arity], source[arity] = v, stride
            arity += 1
            is_there |= v == by
    if by >= 0 and not is_there:
        place = arity
        while place > 0 and scope[place - 1] > by:
            scope[place], source[place] = scope[place - 1], source[place - 1]
            place -= 1
        scope[place], source[place] = by, 0
        arity += 1
        rest.following[link], rest.heads[by] = rest.heads[by], link
    size, at, axis_by = 1, rest.totals[_ENTRIES], -1
    for i in range(arity):
        size *= rest.counts[scope[i]]
        if scope[i] == by:
            axis_by = i
    digits = np.zeros(arity, np.int64)
    for entry in range(size):
        place = rest.places[a] + own * states[digits[axis_by] if axis_by >= 0 else 0]
        for i in range(arity):
            place += source[i] * digits[i]
        tables[at + entry] = tables[place]
        _advance(rest, scope, arity, digits)
    for i in range(arity):
        rest.scopes[first + i] = scope[i]
    rest.arities[a], rest.places[a], rest.sizes[a] = arity, at, size
    if arity == 1:
        _add(tables, at, size, rest.unaries, rest.unary_starts[scope[0]])
        _remove_factor(rest, a, u)
        return
    rest.totals[_ENTRIES] += size
    if _is_added(rest, scope, arity, a, at, size, tables):
        _remove_factor(rest, a, u)
