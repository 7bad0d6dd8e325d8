"""Compiled passes over the cliques of a `CliqueTree`, up to the roots and back."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.exact.elimination import add_entries
from cutplane.runtime.compiling import routine


@routine
def collect(cliques, unary_starts, unaries, values, n_tables, soft, totals):
    """Set the totals of all cliques and the messages after the tables; return the sum of the roots' messages.

    A message is the least entry over the last axis, or -log of the sum of exp(-entry) if `soft`.
    """
    n = cliques.variables.size
    starts = cliques.message_starts
    is_root = np.full(n, True)
    for i in range(n):
        k = cliques.counts[i]
        total = totals[cliques.clique_starts[i] : cliques.clique_starts[i + 1]]
        _add_tables(cliques, i, unary_starts, unaries, values, total)
        for j in range(cliques.operand_starts[i], cliques.operand_starts[i + 1]):
            if cliques.children[j] >= 0:
                is_root[cliques.children[j]] = False
                _add_operand(cliques, j, values, total)
        for e in range(starts[i + 1] - starts[i]):
            low = total[e * k]
            for x in range(1, k):
                low = min(low, total[e * k + x])
            if soft and low < np.inf:
                weight = 0.0
                for x in range(k):
                    weight += np.exp(low - total[e * k + x])
                low -= np.log(weight)
            values[n_tables + starts[i] + e] = low
    least = 0.0
    for i in range(n):
        if is_root[i]:
            least += values[n_tables + starts[i]]
    return least


@routine
def distribute(cliques, unary_starts, unaries, values, n_tables, marginals):
    """Set the least energy of each state, from the messages of `collect`, and messages back.

    Those back follow the others; the ones to the roots are given, all others inf.
    """
    n = cliques.variables.size
    starts = cliques.message_starts
    room = 0
    for i in range(n):
        n_children = 0
        for j in range(cliques.operand_starts[i], cliques.operand_starts[i + 1]):
            n_children += cliques.children[j] >= 0
        room = max(room, n_children * (cliques.clique_starts[i + 1] - cliques.clique_starts[i]))
    rest, totals = np.empty(room), np.empty(np.diff(cliques.clique_starts).max())
    for i in range(n - 1, -1, -1):
        size, k = cliques.clique_starts[i + 1] - cliques.clique_starts[i], cliques.counts[i]
        total = totals[:size]
        _add_tables(cliques, i, unary_starts, unaries, values, total)
        down = n_tables + starts[n] + starts[i]
        for e in range(size):
            total[e] += values[down + e // k]
        first, end = cliques.operand_starts[i], cliques.operand_starts[i + 1]
        while first < end and cliques.children[first] < 0:
            first += 1
        for j in range(end - 1, first - 1, -1):  # the sum of the messages of the children after this one
            later = rest[(j - first) * size : (j - first + 1) * size]
            if j == end - 1:
                later[:] = 0.0
            else:
                later[:] = rest[(j - first + 1) * size : (j - first + 2) * size]
                _add_operand(cliques, j + 1, values, later)
        for j in range(first, end):
            later = rest[(j - first) * size : (j - first + 1) * size]
            for e in range(size):
                later[e] += total[e]
            back = cliques.offsets[j] + starts[n]
            shape = slice(cliques.shape_starts[j], cliques.shape_starts[j + 1])
            _least_entries(later, cliques.shapes[shape], values, back, cliques.strides[shape])
            _add_operand(cliques, j, values, total)
        begin = unary_starts[cliques.variables[i]]
        for x in range(k):
            marginals[begin + x] = total[x]
        for e in range(k, size):
            marginals[begin + e % k] = min(marginals[begin + e % k], total[e])


@routine
def draw(cliques, totals, uniforms, labellings):
    """Set labellings by the totals of `collect`: the best one, or draws by uniform numbers if there are."""
    is_random = uniforms.shape[1] > 0
    for row in range(labellings.shape[0]):
        for i in range(cliques.variables.size - 1, -1, -1):
            place, k, u = cliques.clique_starts[i], cliques.counts[i], cliques.variables[i]
            for j in range(cliques.axis_starts[i], cliques.axis_starts[i + 1] - 1):
                place += labellings[row, cliques.axes[j]] * cliques.axis_strides[j]
            state = 0
            for x in range(1, k):
                if totals[place + x] < totals[place + state]:
                    state = x
            if is_random:
                low, weight, part = totals[place + state], 0.0, 0.0
                for x in range(k):
                    weight += np.exp(low - totals[place + x])
                for x in range(k):
                    part += np.exp(low - totals[place + x])
                    if part > uniforms[row, u] * weight:
                        state = x
                        break
            labellings[row, u] = state


@routine
def _add_tables(cliques, i, unary_starts, unaries, values, total):
    """Set the total of a clique to the sum of its unary costs and its tables."""
    k, begin = cliques.counts[i], unary_starts[cliques.variables[i]]
    for e in range(total.size):
        total[e] = unaries[begin + e % k]
    for j in range(cliques.operand_starts[i], cliques.operand_starts[i + 1]):
        if cliques.children[j] < 0:
            _add_operand(cliques, j, values, total)


@routine
def _add_operand(cliques, j, values, total):
    part = slice(cliques.shape_starts[j], cliques.shape_starts[j + 1])
    add_entries(total, cliques.shapes[part], values, cliques.offsets[j], cliques.strides[part])


@routine
def _least_entries(total, shape, out, start, strides):
    """Lower the entries of `out`, at these strides, to the entries of `total`, in C order of `shape`."""
    last = shape.shape[0] - 1
    digits = shape * 0
    place = 0
    while place < total.size:
        for x in range(shape[last]):
            entry = start + x * strides[last]
            out[entry] = min(out[entry], total[place + x])
        place += shape[last]
        axis = last - 1
        while axis >= 0:
            digits[axis] += 1
            start += strides[axis]
            if digits[axis] < shape[axis]:
                break
            start -= strides[axis] * shape[axis]
            digits[axis] = 0
            axis -= 1
