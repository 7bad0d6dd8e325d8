"""Minimisation of a convex function of one variable; exact if its pieces are given."""

from __future__ import annotations

import math

import numpy as np

from cutplane.pieces.lines import NO_KINKS, Derivative, Line, PiecewiseLinear, quadratic_line

_MAX_EVALUATIONS = 100
"""Largest number of evaluations, because bisection alone finds all digits with fewer."""
_FAR = 1e12
"""Step length that counts as infinite, because the function still decreases there."""
_DEVIATIONS = 2.5
"""Half-width of an interval around an estimated slope, in standard deviations, because it then almost surely
contains the exact slope."""
_CLOSE = 1e-6
"""Relative length of a Newton step after which the search ends, because the next step is about its square."""
_FEW = 8
"""Number of Newton steps after which a gain within rounding errors ends the search, because later steps gain
no more."""
_NOTHING = PiecewiseLinear(0.0, 0.0, NO_KINKS, NO_KINKS)


def minimise_on_line(line: Line, limit: float) -> float:
    """Return the t in [0, limit] that minimises the convex phi(t).

    The search depends on the members of the line:

    * a derivative: its zero is computed in time linear in the number of kinks, without an evaluation;
    * Newton derivatives: Newton steps kept in a bracket, each to the zero of the model with a parabola for
      the smooth part and exact kinks, to a relative accuracy of 1e-10 of t;
    * kinks: the median of the kinks in the bracket is tested, until the derivative is affine on the bracket;
    * neither: the zero of the derivative is bracketed, then found by secant steps (Illinois), with bisection
      after a step that did not halve the bracket, to a relative accuracy of 1e-10 of t, or rounding of phi.

    If phi decreases without bound, a finite step is returned.

    Parameters
    ----------
    line : Line
    limit : float
        Largest step allowed, possibly inf.
    """
    if line.search is not None:
        return line.search(quadratic_line(0.0, 0.0, 0.0), limit)
    if line.newton is not None:
        return _newton(line, limit)
    if line.derivative is not None:
        return _crossing(line.derivative, limit)
    _, slope = line(0.0)
    if slope >= 0.0:
        return 0.0
    if line.kinks is None:
        return _safeguarded(line, slope, limit)
    return _exact(line, line.kinks, slope, limit)


def _crossing(derivative: Derivative, limit: float) -> float:
    if isinstance(derivative, PiecewiseLinear):
        return _select(derivative, limit)
    copy, deviation = derivative.estimate()
    low, high = 0.0, limit
    if deviation > 0.0:
        spread = PiecewiseLinear(_DEVIATIONS * deviation, 0.0, NO_KINKS, NO_KINKS)
        low = _select(copy + spread, limit)
        high = max(low, _select(copy + -1.0 * spread, limit))
    part = derivative.between(low, high)
    if part.slope >= 0.0 and low > 0.0:
        return _select(derivative.between(0.0, low), low)
    t = _select(part, high)
    return _select(derivative.between(high, limit), limit) if t == high < limit else t


def _select(part: PiecewiseLinear, limit: float) -> float:
    from cutplane.engine.selection import crossing

    bends = NO_KINKS if part.curvature_jumps is None else part.curvature_jumps
    guess = 1.0 if part.start < 1.0 < limit else min(0.5 * (part.start + limit), 2.0 * part.start)
    return crossing(part.start, part.slope, part.curvature, part.kinks, part.slope_jumps, bends, limit, guess)


def _newton(line: Line, limit: float) -> float:
    smooth, pieces = line.newton, line.derivative or _NOTHING
    assert smooth is not None
    low, high, bounded = 0.0, limit, False
    t = last_step = 0.0
    for count in range(_MAX_EVALUATIONS):
        slope, curvature = smooth(t)
        known = math.isfinite(slope) and math.isfinite(curvature)
        total = slope + pieces(t)[0] if known else math.inf
        if total >= 0.0:
            high, bounded = t, True
        else:
            low = t
        if high - low <= 1e-10 * low or high == 0.0 or low >= _FAR:
            break
        target = 0.5 * (low + high)
        if known:
            tangent = PiecewiseLinear(slope + curvature * (low - t), curvature, NO_KINKS, NO_KINKS, None, low)
            target = _select(pieces.between(low, high) + tangent, high)
            step = abs(target - t)
            if step <= _CLOSE * t or (count > _FEW and abs(total) * step <= 1e-16 * abs(line(t)[0])):
                return target
            if not bounded:
                target = min(target, 10.0 * max(low, 0.1))
            elif not low < target < high or step > 0.5 * last_step > 0.0:
                target = 0.5 * (low + high)
        last_step, t = abs(target - t), target
    return low


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
