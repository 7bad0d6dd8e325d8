"""Minimisation of a sum over partitions along a line, in few rounds of queries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cutplane.engine.line_search import minimise_on_line
from cutplane.pieces.lines import NO_KINKS, Derivative, Line, PiecewiseLinear
from cutplane.pieces.validation import Array

FEW = 4096
"""Kinks up to which a derivative is sent in full, because such a message costs as much as a short one."""
_PROBES = 64
"""Points to which a longer list is reduced, because two neighbours then enclose FEW of 64 * FEW kinks."""
_LONGEST = 2 * _PROBES + 2
"""Points up to which a grid is sent in full, because a summary has as many: probes, quantiles, two ends."""
_ROUNDS = 60
"""Most rounds of a search, because 7 find a bracket below _FAR and 53 halve it to a rounding error."""
_DEVIATIONS = 4.0
"""Half-width of the first bracket, in standard deviations of the estimate, because a miss costs one more
round."""
_FAR = 1e12
"""Step, in units of the direction, at which a search ends, because a function may decrease without end."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Bounds of the right derivative of a convex function at increasing points."""

    points: Array
    lower: Array
    upper: Array


Reply = PiecewiseLinear | Summary
Estimate = tuple[PiecewiseLinear, float]


def estimate(derivative: Derivative) -> Estimate:
    """Return an approximate copy with few kinks, and an estimate of its deviation."""
    copy, deviation = derivative.estimate()
    step = -(-copy.kinks.size // FEW)
    if step < 2:
        return copy, deviation
    kinks, jumps, bends = copy.kinks[::step], step * copy.slope_jumps[::step], copy.curvature_jumps
    deviation = math.hypot(deviation, float(np.linalg.norm(jumps)))
    bends = None if bends is None else step * bends[::step]
    return replace(copy, kinks=kinks, slope_jumps=jumps, curvature_jumps=bends), deviation


def add_estimates(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    """Return an estimate of the sum of two derivatives; None if one is missing.

    If there are too many kinks, neighbours are merged such that the derivative behind them is unchanged.
    """
    if one is None or other is None:
        return None
    copy, deviation = one[0] + other[0], math.hypot(one[1], other[1])
    step = -(-copy.kinks.size // FEW)
    if step < 2:
        return copy, deviation
    order = np.argsort(copy.kinks)
    starts = np.arange(0, order.size, step)
    kinks, jumps, bends = copy.kinks[order], copy.slope_jumps[order], copy.curvature_jumps
    places = kinks[np.minimum(starts + step, kinks.size) - 1]
    if bends is not None:
        bends = bends[order]
        jumps = jumps + bends * (np.repeat(places, step)[: order.size] - kinks)
        bends = np.add.reduceat(bends, starts)
    jumps = np.add.reduceat(jumps, starts)
    deviation = math.hypot(deviation, float(np.abs(jumps).max()))
    return replace(copy, kinks=places, slope_jumps=jumps, curvature_jumps=bends), deviation


def add_replies(one: Reply, other: Reply, probes: Array) -> Reply:
    """Return the reply for the sum of two derivatives; it is no longer than the reply for one."""
    if isinstance(one, PiecewiseLinear) and isinstance(other, PiecewiseLinear):
        return summarise(one + other, probes)
    lists = [reply.points for reply in (one, other) if isinstance(reply, Summary)]
    grid = np.unique(np.concatenate(lists))
    if grid.size > _LONGEST:
        ends = [each[i] for each in lists for i in (0, -1)]
        grid = np.unique(np.concatenate([ends, probes, _thin(grid)]))
    return Summary(grid, *np.add(_bounds(one, grid), _bounds(other, grid)))


def summarise(part: PiecewiseLinear, probes: Array) -> Reply:
    """Return the derivative itself if it has few kinks, otherwise its values at some points.

    The points are its start, the probes, and quantiles of a sample of the kinks.
    """
    if part.kinks.size <= FEW:
        return part
    own = _quantiles(part.kinks)
    if own.size < _PROBES // 2:
        part = _merge(part)
        if part.kinks.size <= FEW:
            return part
        own = _quantiles(part.kinks)
    points = np.unique(np.concatenate([[part.start], probes, own, [part.kinks.max()]]))
    slopes = slopes_at(part, points)
    return Summary(points, slopes, slopes)


def slopes_at(part: PiecewiseLinear, points: Array) -> Array:
    """Return the right derivative at increasing points, none before its start."""
    bins = np.searchsorted(points, part.kinks)

    def passed(jumps: Array) -> Array:
        return np.bincount(bins, jumps, points.size + 1)[:-1].cumsum()

    slopes = part.slope + part.curvature * (points - part.start) + passed(part.slope_jumps)
    bends = part.curvature_jumps
    return slopes if bends is None else slopes + (passed(bends) * points - passed(bends * part.kinks))


def search_pieces(
    estimate: Estimate, ask: Callable[[float, float, Array], Reply], rest: Derivative, limit: float
) -> float:
    """Return the exact minimiser over [0, limit], in one or two rounds of queries after the estimates.

    Because derivatives increase, values at some points bound them everywhere. Each round ends with a bracket
    of a few cells, whose points are queried in the next round.
    """
    copy, deviation = estimate[0] + rest.estimate()[0], math.hypot(estimate[1], rest.estimate()[1])
    low = _crossing(copy + _constant(_DEVIATIONS * deviation), limit)
    high = _crossing(copy + _constant(-_DEVIATIONS * deviation), limit)
    if deviation == 0.0:
        return low
    left, right, probes = 0.0, limit, NO_KINKS
    while True:
        reply, own = ask(low, high, probes), rest.between(low, high)
        if isinstance(reply, PiecewiseLinear):
            whole = reply + own
            if whole.slope >= 0.0:
                if low == left:
                    return low
                low, high, right = left, low, low
            else:
                t = _crossing(whole, high)
                if t < high or high == right:
                    return t
                low, high, left = high, right, high
            probes = NO_KINKS
            continue
        grid = reply.points
        lower, upper = np.add(_bounds(reply, grid), _bounds(own, grid))
        left = float(grid[upper < 0.0].max(initial=left))
        right = float(grid[lower >= 0.0].min(initial=right))
        low, high = left, min(high, right)
        if low >= high:
            return low
        probes = _thin(grid[(grid > low) & (grid < high)])


def search_probes(sample: Callable[[Array], Array], rest: Line, limit: float) -> float:
    """Return the minimiser over [0, limit], from values and slopes at three points per round.

    The zero of the derivative is bracketed, then found by inverse interpolation: the points of a round are
    the estimate of the zero and a point on either side, at the distance of its error. If the bracket did not
    shrink, the points are farther apart, and one is the middle of the bracket. The search ends at a relative
    accuracy of 1e-10, or when phi changes by rounding errors only.
    """
    points, values, slopes = np.empty((3, 0))
    probes, last = np.unique(np.minimum([0.0, 0.25, 1.0, 2.0], limit)), np.inf
    best = 0.0
    for _ in range(_ROUNDS):
        more, steeper = sample(probes) + np.array([rest(t) for t in probes.tolist()]).T
        usable = np.isfinite(more) & ~np.isnan(steeper)
        order = np.argsort(np.concatenate([points, probes]))
        points = np.concatenate([points, probes])[order]
        values = np.concatenate([values, np.where(usable, more, np.inf)])[order]
        slopes = np.concatenate([slopes, np.where(usable, steeper, np.inf)])[order]
        end = int(np.searchsorted(slopes >= 0.0, True))
        if end == points.size:
            if points[-1] >= min(limit, _FAR):
                return float(points[-1])
            probes = np.unique(np.minimum(points[-1] * np.array([2.0, 8.0, 64.0]), limit))
            continue
        if end == 0 or slopes[end] == 0.0:
            return float(points[end])
        best = float(points[end] if values[end] < values[end - 1] else points[end - 1])
        width = float(points[end] - points[end - 1])
        doubt = np.abs(slopes[end - 1 : end + 1]) * width <= 1e-16 * np.abs(values[end - 1 : end + 1])
        if width <= 1e-10 * points[end] or (doubt & np.isfinite(values[end - 1 : end + 1])).any():
            return best
        probes = _next_probes(points, slopes, end, shrunk=width <= 0.125 * last)
        if not probes.size:
            return best
        last = width
    return best


def _next_probes(points: Array, slopes: Array, end: int, shrunk: bool) -> Array:
    low, high = points[end - 1], points[end]
    width, middle = high - low, 0.5 * (low + high)
    estimate, error = middle, 0.25 * width
    if np.isfinite(slopes[end - 1 : end + 1]).all():
        near = slice(max(0, end - 2), end + 2)
        secant = low - slopes[end - 1] * width / (slopes[end] - slopes[end - 1])
        estimate = _inverse_interpolation(points[near], slopes[near])
        if not low < estimate < high:
            estimate = secant
        error = max(4.0 * (estimate - secant) ** 2 / width, 1e-11 * high)
    if shrunk:
        probes = [estimate - error, estimate, estimate + error]
    else:
        error = np.sqrt(error * width)
        probes = [estimate - error, middle, estimate + error]
    return np.unique([probe for probe in probes if low < probe < high])


def _inverse_interpolation(points: Array, slopes: Array) -> float:
    """Return the value at slope zero of the polynomial that interpolates points(slope)."""
    points, slopes = points[np.isfinite(slopes)], slopes[np.isfinite(slopes)]
    with np.errstate(all="ignore"):
        ratios = slopes / (slopes - slopes[:, np.newaxis] + np.diag(slopes))
        return float(points @ ratios.prod(axis=1))


def _bounds(reply: Reply, grid: Array) -> tuple[Array, Array]:
    """Return a lower and an upper bound of the right derivative at the points of the grid."""
    if isinstance(reply, PiecewiseLinear):
        slopes = slopes_at(reply, grid)
        return slopes, slopes
    before = np.searchsorted(reply.points, grid, side="right") - 1
    after = np.searchsorted(reply.points, grid)
    return reply.lower[before], np.append(reply.upper, np.inf)[after]


def _constant(slope: float) -> PiecewiseLinear:
    return PiecewiseLinear(slope, 0.0, NO_KINKS, NO_KINKS)


def _crossing(derivative: Derivative, limit: float) -> float:
    """Return where a derivative changes sign, between its start and the limit."""
    return minimise_on_line(Line(lambda t: (math.nan, math.nan), derivative=derivative), limit)


def _quantiles(kinks: Array) -> Array:
    sample = np.sort(kinks[:: -(-kinks.size // FEW)])
    return np.unique(_thin(sample))


def _thin(points: Array) -> Array:
    return points[np.linspace(0, points.size - 1, min(points.size, _PROBES)).astype(int)]


def _merge(part: PiecewiseLinear) -> PiecewiseLinear:
    """Return the same derivative with each kink listed once."""
    kinks, where = np.unique(part.kinks, return_inverse=True)
    bends = None if part.curvature_jumps is None else np.bincount(where, part.curvature_jumps)
    return replace(part, kinks=kinks, slope_jumps=np.bincount(where, part.slope_jumps), curvature_jumps=bends)
