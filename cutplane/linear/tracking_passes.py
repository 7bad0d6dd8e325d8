"""The end of a linear piece of a path: where a coordinate or an example changes; see `tracking`."""

from __future__ import annotations

import math

from cutplane.runtime.compiling import routine

NONE, JOINS, LEAVES, CROSSES = 0, 1, 2, 3

_ROUNDING = 1e-11
"""A rate this small, relative to its terms, is zero but for rounding."""
_NOW = 1e-13
"""An event so close, relative to the weight, is now."""


@routine
def next_event(t, pace, x, slopes, v, changes, costs, signs, z, moves, low, high):
    """Return the distance, the kind, the index and the side of the first event ahead.

    The weight is t, and falls at the pace of 1, or stays where it is if the pace is 0; points move along v,
    slopes of what is smooth along `changes`, predictions along `moves`. Of events that happen now the first
    one is taken: with a positive definite matrix a sequence of such choices ends (the least-index rule of
    Murty for linear complementarity problems).
    """
    best, kind, index, side = math.inf, NONE, -1, 0.0
    now = _NOW * t
    largest = 0.0
    for j in range(x.shape[0]):
        largest = max(largest, abs(v[j]))
    for j in range(x.shape[0]):
        cost = costs[j]
        if cost == 0.0 or (best <= now and pace > 0.0):
            continue
        if signs[j] != 0.0:
            if v[j] * signs[j] < -_ROUNDING * largest:
                tau = max(0.0, -x[j] / v[j])
                if tau < best:
                    best, kind, index = tau, LEAVES, j
        elif pace > 0.0:
            for k in range(2):
                s = 1.0 - 2.0 * k
                rate = cost + s * changes[j]
                if rate > _ROUNDING * (cost + abs(changes[j])):
                    room = t * cost - s * slopes[j]
                    tau = max(0.0, room) / rate if room > _NOW * t * cost else 0.0
                    if tau < best and not best <= now:
                        best, kind, index, side = tau, JOINS, j, -s
    if best <= now and pace > 0.0:
        return best, kind, index, side
    largest = 0.0
    for i in range(z.shape[0]):
        largest = max(largest, abs(moves[i]))
    for i in range(z.shape[0]):
        if abs(moves[i]) > _ROUNDING * largest:
            end = high[i] if moves[i] > 0.0 else low[i]
            tau = max(0.0, (end - z[i]) / moves[i])
            if tau < best:
                best, kind, index, side = tau, CROSSES, i, math.copysign(1.0, moves[i])
                if tau <= now and pace > 0.0:
                    return best, kind, index, side
    return best, kind, index, side
