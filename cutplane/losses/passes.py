"""Compiled loops over the examples: the built-in losses, their derivatives, and both along a line.

Every loop is written such that it is vectorised: choices are selects, exp and log1p are inlined, and an array
is cut to the range of the loop before it. An example without weight counts as if its prediction were 0, where
no loss overflows.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from cutplane.losses.elementary import exp, log1p
from cutplane.losses.kernels import EXPONENTIAL, LOGISTIC, PIECEWISE, KernelForm
from cutplane.validation import Array

_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
_BLOCK = 512
_NEAR = 2.0**-42


def profile(form: KernelForm) -> Array:
    """Return (low, high, left, right, a, centre, tail) of a piecewise phi with at most two knots.

    phi(s) is a (s - centre)^2 on [low, high], left (s - low) + tail (s - low)^2 more than that at low below
    it, and likewise above it. low and high can be infinite, or equal.
    """
    if form.kind != PIECEWISE:
        return np.zeros(7)
    knots, pieces = form.knots, form.pieces
    curved = np.flatnonzero(pieces[:, 0])
    if knots.size == 1 and curved.size != 1:
        low = high = knots[0]
        a = centre = 0.0
    else:
        middle = 1 if knots.size == 2 else int(np.append(curved, 0)[0])
        low, high = np.concatenate([[-np.inf], knots, [np.inf]])[middle : middle + 2]
        a, b, _ = pieces[middle]
        centre = -0.5 * b / a if a > 0.0 else 0.0
    left, right, tail = 0.0, 0.0, 0.0
    if low > -np.inf:
        tail = pieces[0, 0]
        left = 2.0 * tail * low + pieces[0, 1]
    if high < np.inf:
        tail = pieces[-1, 0]
        right = 2.0 * tail * high + pieces[-1, 1]
    return np.array([low, high, left, right, a, centre, tail])


@njit(**_OPTIONS)
def values(kind, shape, margin, z, y, weights, edges, out):
    """Set out[k] to the weighted loss of the predictions z over edges[k] <= i < edges[k + 1]."""
    for k in range(out.shape[0]):
        rows = slice(edges[k], edges[k + 1])
        out[k] = _value(kind, shape, margin, z[rows], y[rows], weights[rows])


@njit(**_OPTIONS)
def _value(kind, shape, margin, z, y, weights):
    total = 0.0
    if kind == PIECEWISE:
        low, high, left, right, a, centre, tail = shape
        for i in range(z.shape[0]):
            s = y[i] * z[i] if margin else z[i] - y[i]
            inside = low if s < low else (high if s > high else s)
            r = inside - centre
            beyond = s - inside
            total += weights[i] * (a * r * r + ((left if s < low else right) + tail * beyond) * beyond)
    elif kind == LOGISTIC:
        for i in range(z.shape[0]):
            s = y[i] * z[i]
            total += weights[i] * (log1p(exp(-abs(s))) - (s if s < 0.0 else 0.0))
    else:
        for i in range(z.shape[0]):
            t = z[i] if weights[i] > 0.0 else 0.0
            total += weights[i] * (exp(-y[i] * t) if kind == EXPONENTIAL else exp(t) - y[i] * t)
    return total


@njit(**_OPTIONS)
def derivatives(kind, shape, margin, z, y, weights, out):
    """Set out to the weighted right derivatives of the losses in the predictions z.

    A prediction within rounding of a kink counts as if it were there, so that the same point gives the same
    subgradient however its predictions were computed.
    """
    if kind == PIECEWISE:
        low, high, left, right, a, centre, tail = shape
        for i in range(z.shape[0]):
            sign = y[i] if margin else 1.0
            s = y[i] * z[i] if margin else z[i] - y[i]
            near_low, near_high = _NEAR * (abs(y[i]) + abs(low)), _NEAR * (abs(y[i]) + abs(high))
            before = s < low - near_low if sign > 0.0 else s <= low + near_low
            after = s >= high - near_high if sign > 0.0 else s > high + near_high
            outside = left + 2.0 * tail * (s - low) if before else right + 2.0 * tail * (s - high)
            out[i] = weights[i] * sign * (outside if before | after else 2.0 * a * (s - centre))
    elif kind == LOGISTIC:
        for i in range(z.shape[0]):
            out[i] = -weights[i] * y[i] / (1.0 + exp(y[i] * z[i]))
    else:
        for i in range(z.shape[0]):
            t = z[i] if weights[i] > 0.0 else 0.0
            out[i] = weights[i] * (-y[i] * exp(-y[i] * t) if kind == EXPONENTIAL else exp(t) - y[i])


@njit(**_OPTIONS)
def combine(z0, z1, t, out):
    """Set out to z0 + t (z1 - z0)."""
    for i in range(z0.shape[0]):
        out[i] = z0[i] + t * (z1[i] - z0[i])


@njit(**_OPTIONS)
def along(kind, z0, z1, y, weights, t):
    """Return the derivatives, first and second, of a smooth weighted loss of z0 + t (z1 - z0) in t."""
    slope = curvature = 0.0
    if kind == LOGISTIC:
        for i in range(z0.shape[0]):
            d = y[i] * (z1[i] - z0[i])
            s = y[i] * z0[i] + t * d
            e = exp(-abs(s))
            p = 1.0 / (1.0 + e)
            slope -= weights[i] * d * (e * p if s > 0.0 else p)
            curvature += weights[i] * d * d * (e * p * p)
    else:
        for i in range(z0.shape[0]):
            weighty = weights[i] > 0.0
            d = z1[i] - z0[i] if weighty else 0.0
            z = z0[i] + t * d if weighty else 0.0
            e = exp(-y[i] * z if kind == EXPONENTIAL else z)
            slope += weights[i] * d * (-y[i] * e if kind == EXPONENTIAL else e - y[i])
            curvature += weights[i] * d * d * e
    return slope, curvature


@njit(**_OPTIONS)
def between(shape, margin, z0, z1, y, weights, low_t, high_t, kinks, jumps, bends):
    """Set the kinks of a piecewise loss along the line in (low_t, high_t), and the jumps of both derivatives.

    Return the right derivatives, first and second, at low_t and the number of kinks. `bends` is empty if the
    second derivative does not jump; the other arrays have room for every kink that there could be. Whether
    an example is before or after a kink is decided by its t, since its prediction might differ by rounding.
    """
    low, high, left, right, a, centre, tail = shape
    single = low == high
    at_low, at_high = 2.0 * a * (low - centre) - left, right - 2.0 * a * (high - centre)
    slope = curvature = 0.0
    count = 0
    pace, first, second, hit = (
        np.empty(_BLOCK),
        np.empty(_BLOCK),
        np.empty(_BLOCK),
        np.empty(_BLOCK, np.uint8),
    )
    for start in range(0, z0.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        c = weights[rows]
        size = c.shape[0]
        d, enter, leave = pace[:size], first[:size], second[:size]
        _crossings(low, high, margin, z0[rows], z1[rows], y[rows], d, enter, leave)
        more, bend = _slopes_at(shape, margin, low_t, z0[rows], y[rows], c, d, enter, leave)
        slope += more
        curvature += bend
        found = hit[:size]
        _mark(low_t, high_t, enter, leave, found)
        for i in range(size):
            if found[i]:
                upward = d[i] > 0.0
                rate = c[i] * abs(d[i])
                if (enter[i] > low_t) & (enter[i] < high_t):
                    kinks[count] = enter[i]
                    jumps[count] = rate * (right - left if single else (at_low if upward else at_high))
                    if bends.shape[0]:
                        bends[count] = 2.0 * rate * abs(d[i]) * (0.0 if single else a - tail)
                    count += 1
                if (leave[i] > low_t) & (leave[i] < high_t) & (not single):
                    kinks[count] = leave[i]
                    jumps[count] = rate * (at_high if upward else at_low)
                    if bends.shape[0]:
                        bends[count] = 2.0 * rate * abs(d[i]) * (tail - a)
                    count += 1
    return slope, curvature, count


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _crossings(low, high, margin, z0, z1, y, pace, enter, leave):
    """Set ds/dt, and when s enters and leaves [low, high]."""
    for i in range(pace.shape[0]):
        d = y[i] * (z1[i] - z0[i]) if margin else z1[i] - z0[i]
        s = y[i] * z0[i] if margin else z0[i] - y[i]
        slowness = 1.0 / d
        at_low, at_high = (low - s) * slowness, (high - s) * slowness
        pace[i] = d
        enter[i] = at_low if d > 0.0 else at_high
        leave[i] = at_high if d > 0.0 else at_low


@njit(**_OPTIONS)
def _slopes_at(shape, margin, t, z0, y, weights, pace, enter, leave):
    low, high, left, right, a, centre, tail = shape
    slope = curvature = 0.0
    low, high = 0.0 if low == -math.inf else low, 0.0 if high == math.inf else high
    for i in range(weights.shape[0]):
        s = (y[i] * z0[i] if margin else z0[i] - y[i]) + t * pace[i]
        before, after = enter[i] > t, leave[i] <= t
        below = before == (pace[i] > 0.0)
        slope_outside = left + 2.0 * tail * (s - low) if below else right + 2.0 * tail * (s - high)
        slope += weights[i] * pace[i] * (slope_outside if before | after else 2.0 * a * (s - centre))
        curvature += weights[i] * pace[i] * pace[i] * 2.0 * (tail if before | after else a)
    return slope, curvature


@njit(**_OPTIONS)
def _mark(low_t, high_t, enter, leave, found):
    for i in range(found.shape[0]):
        entering = (enter[i] > low_t) & (enter[i] < high_t)
        leaving = (leave[i] > low_t) & (leave[i] < high_t)
        found[i] = entering | leaving
