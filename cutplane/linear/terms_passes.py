"""The outlook of terms of the coordinates, compiled; see `terms`."""

from __future__ import annotations

import math

from cutplane.runtime.compiling import routine

_ABOVE = 1.0 + 4.0 * 2.0**-52
"""A factor is smaller by some last bits, because the largest ratio is rounded."""


@routine
def outlook(x, g, terms, free):
    """Return the factor of multipliers with slopes g that gives the best bound, and the gap with it.

    Slopes of free coordinates count as zero.
    """
    costs, weights, centre, low, high = terms
    excess = 0.0
    curved = False
    for j in range(x.shape[0]):
        curved |= weights[j] > 0.0
        if costs[j] > 0.0:
            held = costs[j] + weights[j] * abs(x[j] - centre[j])
            if g[j] > 0.0 and low[j] == -math.inf:
                excess = max(excess, g[j] / held)
            if g[j] < 0.0 and high[j] == math.inf:
                excess = max(excess, -g[j] / held)
    factor = 1.0 / (excess * _ABOVE) if excess > 1.0 else 1.0
    gap, whole = 0.0, 0.0
    for j in range(x.shape[0]):
        for k in range(2 if curved and factor < 1.0 else 1):
            v = 0.0 if free[j] else g[j] * (factor if k == 0 else 1.0)
            cost, weight, away = costs[j], weights[j], x[j] - centre[j]
            best = 0.0
            if weight > 0.0:
                slope = v - weight * centre[j]
                if abs(slope) > cost:
                    best = (cost - slope if slope > 0.0 else -cost - slope) / weight
            elif abs(v) > cost:
                best = low[j] if v > 0.0 else high[j]
            best = min(max(best, low[j]), high[j])
            term = math.inf
            if abs(best) < math.inf:
                there = best - centre[j]
                term = cost * (abs(x[j]) - abs(best)) + v * (x[j] - best)
                term += 0.5 * weight * (away - there) * (away + there)
            if k == 0:
                gap += term
            else:
                whole += term
    if curved and factor < 1.0 and whole < gap:
        return 1.0, whole
    return factor, gap
