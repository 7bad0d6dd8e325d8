"""Steps of sequential minimal optimisation on the dual of a kernel machine, compiled.

    minimise  F(a) = 1/2 a'Ka + 1/2 sum_i ridge_i a_i^2 - linear'a + tube ||a||_1   over  lower <= a <= upper,

with sum a = 0 for the steps on pairs. The state is a and g = linear - ridge a - K a; `diagonal` is that of K
plus the ridge. Coordinate k goes up at
the rate g_k - rise_k and down at the rate fall_k - g_k, where rise_k and fall_k are the one-sided slopes of
tube |a_k|, and infinite at the bounds.

Row i of K is rows[where[i]], if where[i] >= 0; else the steps return and ask for it. The pair is chosen by
second-order information: Fan, Chen, Lin, JMLR 6 (2005), 1889-1918. The loops go over blocks, so that the
sums and the search for the largest entry are vectorised, and look for its place in the best block alone.
Nothing here may be NaN.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import intrinsic

from cutplane.runtime.compiling import routine

_SELECT = ("nnan", "nsz")
_FLAGS = frozenset({"contract", "nnan", "nsz"})
_BLOCK = 1024
_TIE = 1.0 - 1e-12


@intrinsic
def _larger(typing_context, x, y):
    def codegen(context, builder, signature, arguments):
        x, y = arguments
        return builder.select(builder.fcmp_ordered(">", x, y, flags=_SELECT), x, y, flags=_SELECT)

    return types.float64(types.float64, types.float64), codegen


@routine(plain=max)
def larger(x, y) -> float:
    """Return the larger of two numbers, neither of them NaN; unlike max(x, y) it leaves no branch."""
    return _larger(x, y)  # pyright: ignore[reportCallIssue]


OPTIMAL, MORE, ROW = 0, 1, 2


@routine(fastmath=_FLAGS)
def set_slopes(a, tube, lower, upper, rise, fall, k):
    """Set rise_k and fall_k."""
    rise[k] = math.inf if a[k] >= upper[k] else (tube if a[k] >= 0.0 else -tube)
    fall[k] = -math.inf if a[k] <= lower[k] else (tube if a[k] > 0.0 else -tube)


@routine(fastmath=_FLAGS)
def set_all_slopes(a, tube, lower, upper, rise, fall):
    """Set all of rise and fall."""
    for k in range(a.shape[0]):
        set_slopes(a, tube, lower, upper, rise, fall, k)


@routine(fastmath=_FLAGS)
def pair_steps(
    rows, where, used, clock, diagonal,
    ridge, tube, lower, upper, a, g, rise, fall, floor, tolerance, most,
):  # fmt: skip
    """Do at most `most` steps on pairs."""
    decrease = 0.0
    i, high = _first(g, rise)
    for step in range(most):
        if i < 0:
            return OPTIMAL, i, step, decrease
        if where[i] < 0:
            return ROW, i, step, decrease
        row_i = rows[where[i]]
        used[where[i]] = clock + step
        j, violation = second(g, fall, row_i, diagonal, high, diagonal[i], floor)
        if j < 0 or violation <= tolerance:
            return OPTIMAL, i, step, decrease
        if where[j] < 0:
            return ROW, j, step, decrease
        row_j = rows[where[j]]
        used[where[j]] = clock + step
        curvature = max(diagonal[i] + diagonal[j] - 2.0 * row_i[j], floor)
        rate = high - (g[j] - fall[j])
        t = 0.0
        while True:
            room_i = -a[i] if tube > 0.0 and a[i] < 0.0 else upper[i] - a[i]
            room_j = a[j] if tube > 0.0 and a[j] > 0.0 else a[j] - lower[j]
            move = rate / curvature
            room = min(room_i, room_j)
            if move < room:
                a[i] += move
                a[j] -= move
                t += move
                decrease += 0.5 * rate * move
                break
            end_i = 0.0 if tube > 0.0 and a[i] < 0.0 else upper[i]
            end_j = 0.0 if tube > 0.0 and a[j] > 0.0 else lower[j]
            a[i] = end_i if room_i <= room else a[i] + room
            a[j] = end_j if room_j <= room else a[j] - room
            t += room
            decrease += room * (rate - 0.5 * curvature * room)
            rate -= curvature * room
            if a[i] >= upper[i] or a[j] <= lower[j]:
                break
            rate -= 2.0 * tube * ((room_i <= room) + (room_j <= room))
            if rate <= 0.0:
                break
        set_slopes(a, tube, lower, upper, rise, fall, i)
        set_slopes(a, tube, lower, upper, rise, fall, j)
        g[i] -= ridge[i] * t
        g[j] += ridge[j] * t
        i, high = _first_after(g, rise, row_i, row_j, t)
    return MORE, i, most, decrease


@routine(fastmath=_FLAGS)
def _first(g, rise):
    """Return argmax and max of g - rise; -1 if every coordinate is at its upper bound."""
    i, best = -1, -math.inf
    for k in range(g.shape[0]):
        if g[k] - rise[k] > best:
            i, best = k, g[k] - rise[k]
    return i, best


@routine(fastmath=_FLAGS)
def _first_after(g, rise, row_i, row_j, t):
    """Subtract t (row_i - row_j) from g, and return argmax and max of g - rise."""
    best, where = -math.inf, 0
    for start in range(0, g.shape[0], _BLOCK):
        part = slice(start, min(start + _BLOCK, g.shape[0]))
        largest = _lower_block(g[part], rise[part], row_i[part], row_j[part], t)
        if largest > best:
            best, where = largest, start
    for k in range(where, min(where + _BLOCK, g.shape[0])):
        if g[k] - rise[k] >= best and best > -math.inf:
            return k, best
    return -1, best


@routine(fastmath=_FLAGS)
def _lower_block(g, rise, row_i, row_j, t):
    largest = -math.inf
    for k in range(g.shape[0]):
        new = g[k] - t * (row_i[k] - row_j[k])
        g[k] = new
        largest = larger(new - rise[k], largest)
    return largest


@routine(fastmath=_FLAGS)
def second(g, fall, row, diagonal, high, own, floor):
    """Return the coordinate that, going down, gives the largest decrease, and the largest violation."""
    best, violation, where = 0.0, 0.0, -1
    for start in range(0, g.shape[0], _BLOCK):
        part = slice(start, min(start + _BLOCK, g.shape[0]))
        gain, rate = _largest_gain(g[part], fall[part], row[part], diagonal[part], high, own, floor)
        violation = larger(violation, rate)
        if gain > best:
            best, where = gain, start
    bar = _TIE * best
    if where >= 0:
        for k in range(where, min(where + _BLOCK, g.shape[0])):
            rate = larger(high - g[k] + fall[k], 0.0)
            if rate * rate >= bar * larger(own + diagonal[k] - 2.0 * row[k], floor):
                return k, violation
    return -1, violation


@routine(fastmath=_FLAGS)
def _largest_gain(g, fall, row, diagonal, high, own, floor):
    gain = violation = 0.0
    for k in range(g.shape[0]):
        rate = larger(high - g[k] + fall[k], 0.0)
        violation = larger(rate, violation)
        gain = larger(rate * rate / larger(own + diagonal[k] - 2.0 * row[k], floor), gain)
    return gain, violation


@routine(fastmath=_FLAGS)
def single_steps(
    rows, where, used, clock, diagonal,
    ridge, tube, lower, upper, a, g, rise, fall, floor, tolerance, most,
):  # fmt: skip
    """Do at most `most` steps on single coordinates; as `pair_steps`."""
    decrease = 0.0
    curvatures = np.maximum(diagonal, floor)
    lengths = 1.0 / curvatures
    k, violation = _best_after(g, rise, fall, a, lower, upper, curvatures, lengths, lengths, 0.0)
    for step in range(most):
        if k < 0 or violation <= tolerance:
            return OPTIMAL, k, step, decrease
        if where[k] < 0:
            return ROW, k, step, decrease
        used[where[k]] = clock + step
        curvature = curvatures[k]
        up = g[k] > rise[k]
        rate = g[k] - rise[k] if up else fall[k] - g[k]
        t = 0.0
        while True:
            before = tube > 0.0 and (a[k] < 0.0 if up else a[k] > 0.0)
            end = 0.0 if before else (upper[k] if up else lower[k])
            room = abs(end - a[k])
            move = rate / curvature
            if move < room:
                a[k] += move if up else -move
                t += move
                decrease += 0.5 * rate * move
                break
            a[k] = end
            t += room
            decrease += room * (rate - 0.5 * curvature * room)
            rate -= curvature * room + 2.0 * tube
            if not before or rate <= 0.0:
                break
        set_slopes(a, tube, lower, upper, rise, fall, k)
        t = t if up else -t
        g[k] -= ridge[k] * t
        row = rows[where[k]]
        k, violation = _best_after(g, rise, fall, a, lower, upper, curvatures, lengths, row, t)
    return MORE, k, most, decrease


@routine(fastmath=_FLAGS)
def _best_after(g, rise, fall, a, lower, upper, curvatures, lengths, row, t):
    """Subtract t row from g, and return the coordinate with the largest decrease, and the largest rate."""
    best, violation, where = 0.0, 0.0, -1
    for start in range(0, g.shape[0], _BLOCK):
        part = slice(start, min(start + _BLOCK, g.shape[0]))
        g_part = g[part]
        _subtract(g_part, row[part], t)
        gain, rate = _largest_single_gain(
            g_part, rise[part], fall[part], a[part], lower[part], upper[part], curvatures[part], lengths[part]
        )
        violation = larger(violation, rate)
        if gain > best:
            best, where = gain, start
    if where >= 0:
        for k in range(where, min(where + _BLOCK, g.shape[0])):
            gain, _ = _single_gain(
                g[k], rise[k], fall[k], a[k], lower[k], upper[k], curvatures[k], lengths[k]
            )
            if gain >= _TIE * best:
                return k, violation
    return -1, violation


@routine(fastmath=_FLAGS)
def _subtract(g, row, t):
    for k in range(g.shape[0]):
        g[k] -= t * row[k]


@routine(fastmath=_FLAGS)
def _largest_single_gain(g, rise, fall, a, lower, upper, curvatures, lengths):
    largest = violation = 0.0
    for k in range(g.shape[0]):
        gain, rate = _single_gain(g[k], rise[k], fall[k], a[k], lower[k], upper[k], curvatures[k], lengths[k])
        violation = larger(rate, violation)
        largest = larger(gain, largest)
    return largest, violation


@routine(fastmath=_FLAGS)
def _single_gain(g, rise, fall, a, lower, upper, curvature, length):
    up = larger(g - rise, 0.0)
    rate = larger(up, fall - g)
    above, below = upper - a, a - lower
    move = -larger(-rate * length, -(above if up > 0.0 else below))
    return move * (rate - 0.5 * curvature * move), rate
