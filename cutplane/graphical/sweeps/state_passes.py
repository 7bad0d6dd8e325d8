"""Compiled sweeps around single variables, which bound the energies with each of their states."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.sweeps.variable_passes import sweep_pass
from cutplane.runtime.compiling import NUMBERS, routine


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
