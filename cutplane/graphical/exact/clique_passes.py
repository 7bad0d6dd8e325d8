"""Compiled passes over the cliques of a `CliqueTree`, up to the roots and back."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import routine

_BLOCK = 1024
"""Entries that are minimised at a time, because their states need 8 kB, a part of the fastest cache."""
_TILE = 64
"""Entries of a short row that is repeated before it is added many times, because short loops are slow."""


@routine
def restrict(scope_starts, scopes, strides, table_starts, tables, state_starts, states, starts, out):
    """Copy the entries of all tables whose variables take one of their `states`."""
    for a in range(table_starts.size):
        first, end = scope_starts[a], scope_starts[a + 1]
        digits = np.zeros(end - first, dtype=np.int64)
        for place in range(starts[a], starts[a + 1]):
            source = table_starts[a]
            for i in range(end - first):
                source += states[state_starts[scopes[first + i]] + digits[i]] * strides[first + i]
            out[place] = tables[source]
            axis = end - first - 1
            while axis >= 0:
                u = scopes[first + axis]
                digits[axis] += 1
                if digits[axis] < state_starts[u + 1] - state_starts[u]:
                    break
                digits[axis] = 0
                axis -= 1


@routine
def set_strides(starts, scopes, cardinalities, strides, sizes):
    """Set the strides of the variables of C-ordered tables, and the sizes of the tables."""
    for block in range(sizes.size):
        size = 1
        for link in range(starts[block + 1] - 1, starts[block] - 1, -1):
            strides[link] = size
            size *= cardinalities[scopes[link]]
        sizes[block] = size


@routine
def collect(cliques, begin, end, unaries, tables, messages, places, totals, starts, choices, soft):
    """Set the total and the message of some cliques, from the messages of their children.

    A message is the least entry over the first axis, or -log of the sum of exp(-entry) if `soft`. If there
    are `choices`, set the bits of the states that attain the least entries.
    """
    for i in range(begin, end):
        total = totals[starts[i] : starts[i] + cliques.sizes[i]]
        _sum(cliques, i, True, unaries, tables, messages, places, total)
        k = _states(cliques, i)
        message = messages[places[i] : places[i] + total.size // k]
        bits = choices[cliques.choice_starts[i] : cliques.choice_starts[i + 1]] if choices.size else choices
        _minimise(total, k, message, bits)
        if soft:
            for e in range(message.size):
                weight = 0.0
                for place in range(e, total.size, message.size):
                    weight += np.exp(message[e] - total[place])
                if message[e] < np.inf:
                    message[e] -= np.log(weight)


@routine
def _minimise(total, k, message, bits):
    """Write the least entries over the first axis, and the bits of their states, one plane per bit."""
    plane = (message.size + 7) // 8
    states = np.empty(_BLOCK, dtype=np.int64)
    for begin in range(0, message.size, _BLOCK):
        size = min(_BLOCK, message.size - begin)
        least = message[begin : begin + size]
        least[:] = total[begin : begin + size]
        states[:] = 0
        for x in range(1, k):
            row = total[x * message.size + begin : x * message.size + begin + size]
            for e in range(size):
                is_less = row[e] < least[e]
                least[e] = row[e] if is_less else least[e]
                states[e] = x if is_less else states[e]
        for bit in range(bits.size // plane):
            place = bit * plane + begin // 8
            for e in range(0, size, 8):
                byte = 0
                for j in range(8):
                    byte |= (states[e + j] >> bit & 1) << j
                bits[place + e // 8] = byte


@routine
def choose(cliques, choices, labelling):
    """Set a labelling of least energy by the choices of `collect`."""
    for i in range(cliques.variables.size - 1, -1, -1):
        place, k = _place(cliques, i, labelling), _states(cliques, i)
        plane = (cliques.sizes[i] // k + 7) // 8
        state, bit = 0, 1
        for start in range(cliques.choice_starts[i], cliques.choice_starts[i + 1], plane):
            state += bit * (choices[start + place // 8] >> place % 8 & 1)
            bit *= 2
        labelling[cliques.variables[i]] = state


@routine
def draw(cliques, totals, starts, uniforms, labellings):
    """Set labellings by the totals of `collect` and a row of uniform numbers each."""
    for row in range(labellings.shape[0]):
        for i in range(cliques.variables.size - 1, -1, -1):
            u, k = cliques.variables[i], _states(cliques, i)
            step = cliques.sizes[i] // k
            place = starts[i] + _place(cliques, i, labellings[row])
            low, weight, part, state = np.inf, 0.0, 0.0, 0
            for x in range(k):
                low = min(low, totals[place + x * step])
            for x in range(k):
                weight += np.exp(low - totals[place + x * step])
            for x in range(k):
                part += np.exp(low - totals[place + x * step])
                if part > uniforms[row, u] * weight:
                    state = x
                    break
            labellings[row, u] = state


@routine
def _place(cliques, i, labelling):
    """Return the entry of a message at a labelling."""
    place = 0
    for j in range(cliques.axis_starts[i] + 1, cliques.axis_starts[i + 1]):
        place += labelling[cliques.scopes[j]] * cliques.strides[j]
    return place


@routine
def distribute(cliques, unaries, tables, messages, back, places, marginals):
    """Set the least energy of each state, from the messages of `collect`, and the messages back.

    The messages back to the roots are given, all others inf.
    """
    totals, indices = np.empty((2, cliques.sizes.max()))
    numbers = np.arange(float(cliques.sizes.max()))
    for i in range(cliques.variables.size - 1, -1, -1):
        size, k = cliques.sizes[i], _states(cliques, i)
        total, index, entries = totals[:size], indices[:size], size // k
        _sum(cliques, i, False, unaries, tables, messages, places, total)
        for e in range(size):
            total[e] += back[places[i] + e % entries]
        operands = np.arange(cliques.operand_starts[i], cliques.operand_starts[i + 1])
        operands = operands[cliques.children[operands] >= 0]
        rest = np.zeros((operands.size, size))
        for number in range(operands.size - 1, 0, -1):  # the sum of the messages of later children
            j = operands[number]
            rest[number - 1] = rest[number]
            _add(cliques, i, j, messages, places[cliques.children[j]], rest[number - 1])
        for number, j in enumerate(operands):
            start = places[cliques.children[j]]
            index[:] = 0.0
            _add(cliques, i, j, numbers, 0, index)
            for e in range(size):
                place = start + int(index[e])
                back[place] = min(back[place], total[e] + rest[number, e])
            _add(cliques, i, j, messages, start, total)
        begin = cliques.unary_starts[i]
        for x in range(k):
            marginals[begin + x] = np.min(total[x * entries : (x + 1) * entries])


@routine
def _sum(cliques, i, with_children, unaries, tables, messages, places, total):
    """Set the total of a clique to the sum of its unary costs, its tables and the messages of its children.

    It grows by one axis after the other, and an operand is added when its last axis is there, because fewer
    entries are changed then.
    """
    axis, start = cliques.axis_starts[i], cliques.unary_starts[i]
    size = _states(cliques, i)
    for x in range(size):
        total[x] = unaries[start + x]
    for j in range(cliques.operand_starts[i], cliques.operand_starts[i + 1]):
        child = cliques.children[j]
        if child >= 0 and not with_children:
            continue
        while cliques.scopes[axis] != cliques.lasts[j]:
            axis += 1
        wanted = total.size // cliques.strides[axis]
        _grow(total, size, wanted)
        size = wanted
        if child >= 0:
            _add(cliques, i, j, messages, places[child], total[:size])
        else:
            _add(cliques, i, j, tables, cliques.table_starts[j], total[:size])
    _grow(total, size, total.size)


@routine
def _states(cliques, i):
    return cliques.cardinalities[cliques.variables[i]]


@routine
def _grow(total, size, wanted):
    """Repeat each of the first `size` entries, so that they become `wanted` entries."""
    run = wanted // size
    if run == 2:
        for place in range(size - 1, -1, -1):
            total[2 * place] = total[2 * place + 1] = total[place]
    elif run > 1:
        for place in range(size - 1, -1, -1):
            value = total[place]
            for e in range(place * run, (place + 1) * run):
                total[e] = value


@routine
def _add(cliques, i, j, values, start, total):
    """Add an operand to the total of a clique, or of its first axes; neighbouring axes are merged."""
    first, rest = cliques.axis_starts[i], total.size
    n_axes = cliques.axis_starts[i + 1] - first
    shape = np.ones(n_axes + 3, dtype=np.int64)
    strides = np.zeros(n_axes + 3, dtype=np.int64)
    last, axis = 1, 0
    while rest > 1:
        u, k, stride = cliques.scopes[first + axis], rest, 0
        is_beyond = axis > 0 and cliques.scopes[first + axis - 1] == cliques.lasts[j]
        if not is_beyond:
            k = cliques.cardinalities[u]
            for link in range(cliques.link_starts[j], cliques.link_ends[j]):
                if cliques.scopes[link] == u:
                    stride = cliques.strides[link]
        if strides[last] != stride * k:
            last += 1
        shape[last] *= k
        strides[last] = stride
        rest //= k
        axis += 1
    _add_entries(total, shape[: last + 1], values, start, strides[: last + 1])


@routine
def _add_entries(total, shape, values, start, strides):
    """Add to a C-ordered total of `shape`, at least two axes, the entries of `values` at these strides."""
    last = shape.shape[0] - 1
    rows, columns = shape[last - 1], shape[last]
    down, right = strides[last - 1], strides[last]
    digits = shape[: last - 1] * 0
    place = 0
    while True:
        if down == 0 and columns < _TILE:
            _add_repeated(total[place : place + rows * columns], rows, values, start, right)
            place += rows * columns
        else:
            for i in range(rows):
                begin = start + i * down
                for j in range(columns):
                    total[place + j] += values[begin + j * right]
                place += columns
        axis = last - 2
        while axis >= 0:
            digits[axis] += 1
            start += strides[axis]
            if digits[axis] < shape[axis]:
                break
            start -= strides[axis] * shape[axis]
            digits[axis] = 0
            axis -= 1
        if axis < 0:
            return


@routine
def _add_repeated(total, rows, values, start, step):
    """Add a short row of entries to each of the rows of a total, several copies at a time."""
    columns = total.size // rows
    tile = np.empty(min(rows, _TILE // columns) * columns)
    for j in range(tile.size):
        tile[j] = values[start + j % columns * step]
    for begin in range(0, total.size, tile.size):
        for j in range(min(tile.size, total.size - begin)):
            total[begin + j] += tile[j]
