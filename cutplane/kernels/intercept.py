"""The intercept that is best for given predictions, and the duality gap there, compiled.

With residuals r = linear - K a, the losses at the predictions K a + b are the maxima over s in the box of

    q(s) = (r_i - b) s - tube |s| - ridge_i/2 s^2,

and the duality gap is the sum of max q - q(a_i), without a difference of large numbers.

Its terms are at least 0 for every b: those of some of the examples alone, with the b that is best for them,
bound the gap of all from below.
"""

from __future__ import annotations

import math

import numpy as np

from cutplane.engine.selection import crossing
from cutplane.runtime.compiling import SUMS, routine


@routine
def best_intercept(r, tube, ridge, lower, upper, total, guess):
    """Return the b that minimises the sum of the losses plus b times `total`.

    `guess` is where to look first.
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
    """Set r = g + ridge a, and return the best intercept, the gap, and the size of a'(r + linear)."""
    if not _residuals(g, a, ridge, r):
        return guess, math.nan, math.nan
    b = best_intercept(r, tube, ridge, lower, upper, total, guess) if intercept else 0.0
    return b, gap_at(r, b, a, tube, ridge, lower, upper), abs(_product(a, r, linear))


@routine
def _residuals(g, a, ridge, r):
    finite = True
    for i in range(g.shape[0]):
        r[i] = g[i] + ridge[i] * a[i]
        finite &= abs(r[i]) < math.inf
    return finite


@routine(fastmath=SUMS)
def _product(a, r, linear):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * (r[i] + linear[i])
    return total


@routine(fastmath=SUMS)
def gap_at(r, b, a, tube, ridge, lower, upper):
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
