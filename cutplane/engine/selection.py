"""The zero of a piecewise linear derivative, in time linear in the number of its kinks."""

from __future__ import annotations

import math

import numpy as np

from cutplane.runtime.compiling import SUMS, routine

_SAMPLE = 15
"""Number of kinks whose median is the pivot, because it splits all kinks about evenly."""
_NOISE = 2.0**-48
"""Error of a sum of jumps, relative to the sum of their sizes, because rounding errors accumulate."""


@routine(fastmath=SUMS)
def crossing(start, slope, curvature, kinks, slope_jumps, curvature_jumps, limit, guess):
    """Return the t in [start, limit] where the derivative of `PiecewiseLinear` changes its sign.

    A pivot splits the remaining kinks. The sign of the derivative at the pivot tells on which side the zero
    lies, and the kinks on the other side are dropped. The pivot is the zero of the secant over the bracket
    or, if the last one did not halve the kinks, the median of a few kinks. If the derivative stays negative,
    a finite t beyond the last kink is returned. `curvature_jumps` may be empty.
    """
    if slope >= 0.0 or limit <= start:
        return start
    low, at_low, high, at_high = start, slope, limit, math.inf
    size, bend = -slope, abs(curvature)
    left, curved = kinks.shape[0], curvature_jumps.shape[0] > 0
    times, jumps, bends = kinks, slope_jumps, curvature_jumps
    kept_times, kept_jumps, kept_bends = np.empty(left), np.empty(left), np.empty(left * curved)
    pivot = min(max(guess, start), limit)
    while left > 0:
        before, tie, turn, grown, turned = _sums(times[:left], jumps[:left], bends[: left * curved], pivot)
        after = at_low + curvature * (pivot - low) + before + grown
        size += before
        bend += turned
        upper = after >= 0.0
        if upper:
            if after - tie <= 0.0:
                return pivot
            high, at_high = pivot, after - tie
        else:
            if pivot == limit:
                return limit
            low, at_low = pivot, after
            curvature += turn
        old = times[:left], jumps[:left], bends[: left * curved]
        kept = _keep(*old, kept_times, kept_jumps, kept_bends, low, high)
        times, jumps, bends = kept_times, kept_jumps, kept_bends
        slow = 2 * kept > left
        left = kept
        pivot = low - at_low * (high - low) / (at_high - at_low)
        if left and (slow or not low < pivot < high):
            pivot = _middle(times[:left])
    if curvature <= _NOISE * bend:
        if at_low >= -_NOISE * size:
            return low
        return high if high < math.inf else max(1.0, 2.0 * low)
    return min(high, low - at_low / curvature)


@routine(fastmath=SUMS)
def _sums(kinks, jumps, bends, pivot):
    before = tie = turn = grown = turned = 0.0
    for j in range(kinks.shape[0]):
        before += jumps[j] if kinks[j] <= pivot else 0.0
        tie += jumps[j] if kinks[j] == pivot else 0.0
    for j in range(bends.shape[0]):
        bend = bends[j] if kinks[j] <= pivot else 0.0
        turn += bend
        turned += abs(bend)
        grown += bend * (pivot - kinks[j])
    return before, tie, turn, grown, turned


@routine(fastmath=SUMS)
def _keep(kinks, jumps, bends, kept_kinks, kept_jumps, kept_bends, low, high):
    count, curved = 0, bends.shape[0] > 0
    for j in range(kinks.shape[0]):
        kink = kinks[j]
        kept_kinks[count] = kink
        kept_jumps[count] = jumps[j]
        if curved:
            kept_bends[count] = bends[j]
        count += int((kink > low) & (kink < high))
    return count


@routine(fastmath=SUMS)
def _middle(kinks):
    """Return the median of a few kinks, taken at equal distances."""
    count = min(_SAMPLE, kinks.shape[0])
    sample = np.empty(count)
    for k in range(count):
        kink = kinks[k * kinks.shape[0] // count]
        j = k
        while j > 0 and sample[j - 1] > kink:
            sample[j] = sample[j - 1]
            j -= 1
        sample[j] = kink
    return sample[count // 2]
