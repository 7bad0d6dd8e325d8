"""Minimisation of a convex function of one variable, exact where its pieces are known."""

from __future__ import annotations

import math

import numpy as np

from cutplane.lines import Line

_MAX_EVALUATIONS = 100
_FAR = 1e12


def minimise_on_line(line: Line, limit: float) -> float:
    """Return the t in [0, limit] that minimises the convex phi(t).

    With known kinks the answer is exact: the median of the remaining kinks is tested until the derivative is
    affine on the bracket (about log2 of their number evaluations). Without them the zero of the derivative is
    bracketed, then found by secant steps (Illinois), with bisection after one that did not halve the bracket,
    until t is known to a relative 1e-10, or phi(t) to rounding. Where phi falls for ever the step is finite.

    Parameters
    ----------
    line : Line
    limit : float
        Largest step allowed, possibly inf.
    """
    _, slope = line(0.0)
    if slope >= 0.0:
        return 0.0
    if line.kinks is None:
        return _safeguarded(line, slope, limit)
    return _exact(line, line.kinks, slope, limit)


def _exact(line: Line, kinks: np.ndarray, slope: float, limit: float) -> float:
    low, low_slope, high = 0.0, slope, limit
    inside = kinks[(kinks > low) & (kinks < high)]
    probe = 1.0 if limit > 1.0 else 0.5 * limit
    while inside.size:
        _, probe_slope = line(probe)
        if probe_slope >= 0.0:
            high = probe
            inside = inside[inside < high]
        else:
            low, low_slope = probe, probe_slope
            inside = inside[inside > low]
        if inside.size:
            middle = inside.size // 2
            probe = float(np.partition(inside, middle)[middle])
    probe = 0.5 * (low + high) if math.isfinite(high) else max(1.0, 2.0 * low)
    _, probe_slope = line(probe)
    if probe_slope <= low_slope:
        return high if math.isfinite(high) else probe
    return min(high, low - low_slope * (probe - low) / (probe_slope - low_slope))


def _safeguarded(line: Line, slope: float, limit: float) -> float:
    def probe(t: float) -> tuple[float, float]:
        value, slope = line(t)
        return (value, slope) if math.isfinite(value) and not math.isnan(slope) else (math.inf, math.inf)

    low, low_slope, high = 0.0, slope, min(1.0, limit)
    _, high_slope = probe(high)
    while high_slope < 0.0 and high < min(limit, _FAR):
        low, low_slope, high = high, high_slope, min(2.0 * high, limit)
        _, high_slope = probe(high)
    if high_slope <= 0.0:
        return high
    last, halved = 0.0, True
    for _ in range(_MAX_EVALUATIONS):
        width = high - low
        if width <= 1e-10 * high:
            break
        secant = low - low_slope * width / (high_slope - low_slope) if math.isfinite(high_slope) else math.nan
        t = secant if low < secant < high and halved else 0.5 * (low + high)
        value, at = probe(t)
        if abs(at) * width <= 1e-16 * abs(value) < math.inf:
            return t
        if at > 0.0:
            high, high_slope, low_slope = t, at, low_slope * (0.5 if last > 0.0 else 1.0)
        else:
            low, low_slope, high_slope = t, at, high_slope * (0.5 if last < 0.0 else 1.0)
        last, halved = at, high - low <= 0.5 * width
    return low
