"""Sums of tables over different variables, entry by entry, compiled."""

from __future__ import annotations

from cutplane.runtime.compiling import routine


@routine
def add(total, shape, values, start, strides):
    """Add to a C-ordered total of `shape`, at least two axes, the entries of `values` at these strides."""
    last = shape.shape[0] - 1
    rows, columns = shape[last - 1], shape[last]
    down, right = strides[last - 1], strides[last]
    digits = shape[: last - 1] * 0
    place = 0
    while True:
        for i in range(rows):
            begin = start + i * down
            if right == 0:
                value = values[begin]
                for j in range(columns):
                    total[place + j] += value
            elif right == 1:
                for j in range(columns):
                    total[place + j] += values[begin + j]
            else:
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
def keep_least(best, choices, total, state):
    """Lower `best` to `total` where that is less, and note the state in `choices`."""
    for i in range(best.shape[0]):
        if total[i] < best[i]:
            best[i] = total[i]
            choices[i] = state
