"""Labellings read off a reparametrisation."""

from __future__ import annotations

import math

import numpy as np

from cutplane.graphical.sweeps.local_search import local_search
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.graphical.sweeps.variable_passes import marginal_of_pair
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.runtime.compiling import NUMBERS, routine


def decode(reparametrization: Reparametrization, deadline: float = math.inf) -> Array:
    """Return a labelling of low energy.

    Variables take their states one after the other, each the one of least reparametrised cost given those
    before it; this is done forward and backward, both are improved by `local_search`, and the better one is
    returned (Kolmogorov 2006, doi:10.1109/TPAMI.2006.200). States that were forbidden in the
    reparametrisation alone are still states of the model, and local search may come back to them.
    """
    model = reparametrization.model
    found = []
    for forward in (True, False):
        if not found or clock() <= deadline:
            found.append(local_search(model, reparametrization.greedy_labelling(forward), deadline))
    return found[int(np.argmin([model.energy(labelling) for labelling in found]))]


@routine(fastmath=NUMBERS)
def greedy(layout, tables, unaries, messages, forward, buffer, index):
    """Return the labelling that takes, in this order, the best state given those chosen before."""
    n = layout.cardinalities.size
    labelling = np.full(n, -1)
    finite, broken = np.empty(buffer.size), np.empty(buffer.size)
    for i in range(n):
        u = i if forward else n - 1 - i
        begin, k = layout.unary_starts[u], layout.cardinalities[u]
        for x in range(k):
            broken[x] = unaries[begin + x] == np.inf
            finite[x] = 0.0 if broken[x] else unaries[begin + x]
        for j in range(layout.variable_starts[u], layout.variable_starts[u + 1]):
            link = layout.variable_links[j]
            _marginal_given(layout, tables, messages, link, labelling, index, buffer)
            for x in range(k):
                if buffer[x] == np.inf:
                    broken[x] += 1.0
                else:
                    finite[x] += buffer[x]
        best = 0
        for x in range(1, k):
            if broken[x] < broken[best] or (broken[x] == broken[best] and finite[x] < finite[best]):
                best = x
        labelling[u] = best
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
