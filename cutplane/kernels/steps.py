"""Compiled steps of sequential minimal optimisation on a `DualForm`, its optimal intercepts and its gap.

The state consists of the coefficients a and of g = linear - ridge c - K c, where c is the sum of the groups
of a. `diagonal` is the diagonal of K plus the ridge. The dual decreases at the rate g_k - rise_k if
coefficient k rises, and at the rate fall_k - g_k if it falls. Here rise_k and fall_k are the one-sided
derivatives of tube |a_k|, and infinite at the bounds.

Row i of K is rows[where[i]] if where[i] >= 0; else the steps end and return i, so that the caller computes
this row. The pair is chosen by second-order information: Fan, Chen, Lin, JMLR 6 (2005), 1889-1918. The loops
run over blocks because the sums and the maximum are then vectorised; the index of the maximum is searched
only in the best block. No entry may be NaN.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import intrinsic

from cutplane.engine.selection import crossing
from cutplane.runtime.compiling import SUMS, routine

_SELECT = ("nnan", "nsz")
_FLAGS = frozenset({"contract", "nnan", "nsz"})
_BLOCK = 1024
"""Number of entries of a block, because five arrays of this size stay in the first-level cache."""
_TIE = 1.0 - 1e-12
"""Share of the largest gain at which an index is accepted, because the second computation of the gain may
round differently."""


@intrinsic
def _larger(typing_context, x, y):
    def codegen(context, builder, signature, arguments):
        x, y = arguments
        return builder.select(builder.fcmp_ordered(">", x, y, flags=_SELECT), x, y, flags=_SELECT)

    return types.float64(types.float64, types.float64), codegen


@routine(plain=max)
def larger(x, y) -> float:
    """Return the larger of two numbers that are not NaN, without the branch of a compiled max(x, y)."""
    return _larger(x, y)  # pyright: ignore[reportCallIssue]


OPTIMAL, MORE, ROW = 0, 1, 2
"""Reasons why the steps end: no violation, the number of steps reached, a row of K missing; numbers, because
compiled code cannot return an enum."""


@routine(fastmath=_FLAGS)
def set_slopes(a, tube, lower, upper, rise, fall, k):
    """Set rise_k and fall_k from a_k."""
    rise[k] = math.inf if a[k] >= upper[k] else (tube if a[k] >= 0.0 else -tube)
    fall[k] = -math.inf if a[k] <= lower[k] else (tube if a[k] > 0.0 else -tube)


@routine(fastmath=_FLAGS)
def set_all_slopes(a, tube, lower, upper, rise, fall):
    """Set rise and fall of all coefficients."""
    for k in range(a.shape[0]):
        set_slopes(a, tube, lower, upper, rise, fall, k)


@routine(fastmath=_FLAGS)
def _search(a, i, j, rate, curvature, tube, lower, upper):
    """Raise a_i and lower a_j by the t that decreases the dual most; return t and the decrease.

    A negative index stands for no coefficient. At each zero of a coefficient, where tube |a| has a kink, the
    rate decreases by 2 tube.
    """
    t = gain = 0.0
    while True:
        end_i = end_j = 0.0
        room_i = room_j = math.inf
        if i >= 0:
            end_i = 0.0 if tube > 0.0 and a[i] < 0.0 else upper[i]
            room_i = end_i - a[i]
        if j >= 0:
            end_j = 0.0 if tube > 0.0 and a[j] > 0.0 else lower[j]
            room_j = a[j] - end_j
        length, room = rate / curvature, min(room_i, room_j)
        if length < room:
            if i >= 0:
                a[i] += length
            if j >= 0:
                a[j] -= length
            return t + length, gain + 0.5 * rate * length
        if i >= 0:
            a[i] = end_i if room_i <= room else a[i] + room
        if j >= 0:
            a[j] = end_j if room_j <= room else a[j] - room
        t += room
        gain += room * (rate - 0.5 * curvature * room)
        rate -= curvature * room
        if (i >= 0 and a[i] >= upper[i]) or (j >= 0 and a[j] <= lower[j]):
            return t, gain
        rate -= 2.0 * tube * ((room_i <= room) + (room_j <= room))
        if rate <= 0.0:
            return t, gain


@routine(fastmath=_FLAGS)
def pair_steps(
    rows, where, used, clock, diagonal,
    ridge, tube, lower, upper, a, g, rise, fall, floor, tolerance, most,
):  # fmt: skip
    """Do at most `most` steps on pairs, each in the group that violates the optimality conditions most."""
    gain = 0.0
    m = g.shape[0]
    highs, lows = np.empty(a.shape[0] // m), np.empty(a.shape[0] // m)
    places, nothing = np.empty(highs.shape[0], np.int64), np.zeros(m, rows.dtype)
    _subtract_pair(g, rise, fall, nothing, nothing, 0.0, highs, lows, places)
    for step in range(most):
        s = 0
        for q in range(1, highs.shape[0]):
            if highs[q] - lows[q] > highs[s] - lows[s]:
                s = q
        i, high, part = places[s], highs[s], slice(s * m, s * m + m)
        if i < 0:
            return OPTIMAL, i, step, gain
        if where[i] < 0:
            return ROW, i, step, gain
        row_i = rows[where[i]]
        used[where[i]] = clock + step
        j, violation = _second(g, fall[part], row_i, diagonal, high, diagonal[i], floor)
        if j < 0 or violation <= tolerance:
            return OPTIMAL, i, step, gain
        if where[j] < 0:
            return ROW, j, step, gain
        row_j = rows[where[j]]
        used[where[j]] = clock + step
        curvature = max(diagonal[i] + diagonal[j] - 2.0 * row_i[j], floor)
        rate = high - (g[j] - fall[s * m + j])
        t, gained = _search(a[part], i, j, rate, curvature, tube, lower[part], upper[part])
        gain += gained
        set_slopes(a, tube, lower, upper, rise, fall, s * m + i)
        set_slopes(a, tube, lower, upper, rise, fall, s * m + j)
        g[i] -= ridge[i] * t
        g[j] += ridge[j] * t
        _subtract_pair(g, rise, fall, row_i, row_j, t, highs, lows, places)
    return MORE, -1, most, gain


@routine(fastmath=_FLAGS)
def _subtract_pair(g, rise, fall, row_i, row_j, t, highs, lows, places):
    """Subtract t (row_i - row_j) from g; set the largest g - rise of each group and its index, or -1.

    With several groups, also set the least g - fall of each, which is needed to choose a group.
    """
    m = g.shape[0]
    for s in range(highs.shape[0]):
        highs[s], lows[s], places[s] = -math.inf, math.inf, -1
    for start in range(0, m, _BLOCK):
        stop = min(start + _BLOCK, m)
        g_part = g[start:stop]
        high = _subtract_block(g_part, rise[start:stop], row_i[start:stop], row_j[start:stop], t)
        for s in range(highs.shape[0]):
            if highs.shape[0] > 1:
                part = slice(s * m + start, s * m + stop)
                high, low = _extremes(g_part, rise[part], fall[part])
                lows[s] = min(lows[s], low)
            if high > highs[s]:
                highs[s], places[s] = high, start
    for s in range(highs.shape[0]):
        if places[s] >= 0:
            part = slice(s * m, s * m + m)
            places[s] = _place(g, rise[part], highs[s], places[s])


@routine(fastmath=_FLAGS)
def _place(g, rise, high, start):
    for k in range(start, g.shape[0]):
        if g[k] - rise[k] >= high:
            return k
    return -1


@routine(fastmath=_FLAGS)
def _subtract_block(g, rise, row_i, row_j, t):
    largest = -math.inf
    for k in range(g.shape[0]):
        new = g[k] - t * (row_i[k] - row_j[k])
        g[k] = new
        largest = larger(new - rise[k], largest)
    return largest


@routine(fastmath=_FLAGS)
def _extremes(g, rise, fall):
    high, opposite = -math.inf, -math.inf
    for k in range(g.shape[0]):
        high = larger(g[k] - rise[k], high)
        opposite = larger(fall[k] - g[k], opposite)
    return high, -opposite


@routine(fastmath=_FLAGS)
def _second(g, fall, row, diagonal, high, curvature, floor):
    """Return the coefficient to lower for the largest decrease of the dual, and the largest violation.

    `high` is the rate of the raised coefficient, `curvature` its diagonal entry.
    """
    best, violation, where = 0.0, 0.0, -1
    for start in range(0, g.shape[0], _BLOCK):
        part = slice(start, min(start + _BLOCK, g.shape[0]))
        gain, rate = _largest_gain(g[part], fall[part], row[part], diagonal[part], high, curvature, floor)
        violation = larger(violation, rate)
        if gain > best:
            best, where = gain, start
    bar = _TIE * best
    if where >= 0:
        for k in range(where, min(where + _BLOCK, g.shape[0])):
            rate = larger(high - g[k] + fall[k], 0.0)
            if rate * rate >= bar * larger(curvature + diagonal[k] - 2.0 * row[k], floor):
                return k, violation
    return -1, violation


@routine(fastmath=_FLAGS)
def _largest_gain(g, fall, row, diagonal, high, curvature, floor):
    gain = violation = 0.0
    for k in range(g.shape[0]):
        rate = larger(high - g[k] + fall[k], 0.0)
        violation = larger(rate, violation)
        gain = larger(rate * rate / larger(curvature + diagonal[k] - 2.0 * row[k], floor), gain)
    return gain, violation


@routine(fastmath=_FLAGS)
def single_steps(
    rows, where, used, clock, diagonal,
    ridge, tube, lower, upper, a, g, rise, fall, floor, tolerance, most,
):  # fmt: skip
    """Do at most `most` steps on single coefficients; results as for `pair_steps`."""
    gain = 0.0
    curvatures = np.maximum(diagonal, floor)
    lengths = 1.0 / curvatures
    k, violation = _subtract_single(g, rise, fall, a, lower, upper, curvatures, lengths, lengths, 0.0)
    for step in range(most):
        if k < 0 or violation <= tolerance:
            return OPTIMAL, k, step, gain
        if where[k] < 0:
            return ROW, k, step, gain
        used[where[k]] = clock + step
        if g[k] > rise[k]:
            t, gained = _search(a, k, -1, g[k] - rise[k], curvatures[k], tube, lower, upper)
        else:
            t, gained = _search(a, -1, k, fall[k] - g[k], curvatures[k], tube, lower, upper)
            t = -t
        gain += gained
        set_slopes(a, tube, lower, upper, rise, fall, k)
        g[k] -= ridge[k] * t
        row = rows[where[k]]
        k, violation = _subtract_single(g, rise, fall, a, lower, upper, curvatures, lengths, row, t)
    return MORE, k, most, gain


@routine(fastmath=_FLAGS)
def _subtract_single(g, rise, fall, a, lower, upper, curvatures, lengths, row, t):
    """Subtract t row from g; return the coefficient with the largest decrease, and the largest rate."""
    best, violation, where = 0.0, 0.0, -1
    for start in range(0, g.shape[0], _BLOCK):
        part = slice(start, min(start + _BLOCK, g.shape[0]))
        g_part, row_part = g[part], row[part]
        for k in range(g_part.shape[0]):
            g_part[k] -= t * row_part[k]
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


@routine
def best_intercept(r, tube, ridge, lower, upper, total, guess):
    """Return the b that minimises b times `total` plus the losses at residuals r - b, searching from `guess`.

    The loss of example i is the maximum over s within its bounds of (r_i - b) s - tube |s| - ridge_i/2 s^2.
    """
    kinks, jumps, bends = np.empty(4 * r.shape[0]), np.empty(4 * r.shape[0]), np.empty(4 * r.shape[0])
    count = 0
    for i in range(r.shape[0]):
        if ridge[i] == 0.0:
            if upper[i] > 0.0:
                kinks[count], jumps[count] = r[i] - tube, upper[i]
                count += 1
            if lower[i] < 0.0:
                kinks[count], jumps[count] = r[i] + tube, -lower[i]
                count += 1
        else:
            both = lower[i] < 0.0 < upper[i]
            if upper[i] > 0.0 and upper[i] < math.inf:
                kinks[count], bends[count] = r[i] - tube - ridge[i] * upper[i], 1.0 / ridge[i]
                count += 1
            if upper[i] > 0.0 and (tube > 0.0 or not both):
                kinks[count], bends[count] = r[i] - tube, -1.0 / ridge[i]
                count += 1
            if lower[i] < 0.0 and (tube > 0.0 or not both):
                kinks[count], bends[count] = r[i] + tube, 1.0 / ridge[i]
                count += 1
            if lower[i] < 0.0 and lower[i] > -math.inf:
                kinks[count], bends[count] = r[i] + tube - ridge[i] * lower[i], -1.0 / ridge[i]
                count += 1
    kinks = kinks[:count]
    start = 0.0 if count == 0 else kinks.min()
    start -= max(1.0, abs(start))
    slope, curvature = total, 0.0
    for i in range(r.shape[0]):
        slope -= _maximiser(r[i] - start, tube, ridge[i], lower[i], upper[i])
        if upper[i] == math.inf:
            curvature += 1.0 / ridge[i]
    if slope > 0.0 and curvature > 0.0:
        return start - slope / curvature
    if ridge[0] == 0.0:
        return crossing(start, slope, 0.0, kinks, jumps[:count], bends[:0], math.inf, guess)
    jumps[:] = 0.0
    return crossing(start, slope, curvature, kinks, jumps[:count], bends[:count], math.inf, guess)


@routine
def measure(g, a, linear, tube, ridge, lower, upper, intercept, total, guess, r):
    """Set r = g + ridge a, and return the optimal intercept, the gap, and |a'(r + linear)|.

    An example adds to the gap its loss minus the expression that the loss maximises, at s = a_i; see
    `best_intercept`. This term is nonnegative for every b, and is computed without a difference of large
    numbers. Therefore the gap of a subset of the examples, with its optimal b, is a lower bound of the whole
    gap.
    """
    finite = True
    for i in range(g.shape[0]):
        r[i] = g[i] + ridge[i] * a[i]
        finite &= abs(r[i]) < math.inf
    if not finite:
        return guess, math.nan, math.nan
    b = best_intercept(r, tube, ridge, lower, upper, total, guess) if intercept else 0.0
    return b, _gap_at(r, b, a, tube, ridge, lower, upper), abs(_product(a, r, linear))


@routine(fastmath=SUMS)
def _product(a, r, linear):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * (r[i] + linear[i])
    return total


@routine(fastmath=SUMS)
def _gap_at(r, b, a, tube, ridge, lower, upper):
    """Return the duality gap with the intercept b."""
    total = 0.0
    for i in range(r.shape[0]):
        s = r[i] - b
        best = _maximiser(s, tube, ridge[i], lower[i], upper[i])
        more = best - a[i]
        total += more * (s - 0.5 * ridge[i] * (best + a[i])) - tube * (abs(best) - abs(a[i]))
    return total


@routine(fastmath=SUMS)
def _maximiser(s, tube, ridge, lower, upper):
    beyond = s - tube if s > tube else (s + tube if s < -tube else 0.0)
    if ridge > 0.0:
        return min(max(beyond / ridge, lower), upper)
    return upper if beyond > 0.0 else (lower if beyond < 0.0 else 0.0)
