"""Convex functions restricted to a line, t -> phi(t), for line searches."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array


class Derivative(ABC):
    """The right derivative of a piecewise linear or quadratic phi on t >= 0, interval by interval.

    A subclass computes only the requested interval, because each one may take a pass over many examples.
    """

    @abstractmethod
    def between(self, low: float, high: float) -> PiecewiseLinear:
        """Return the derivative on [low, high], with the kinks strictly between."""

    @abstractmethod
    def estimate(self) -> tuple[PiecewiseLinear, float]:
        """Return an approximation with few kinks, and the standard deviation of its error."""

    def __call__(self, t: float) -> tuple[float, float]:
        here = self.between(t, t)
        return here.slope, here.curvature

    def __add__(self, other: Derivative) -> Derivative:
        return DerivativeSum(((1.0, self), (1.0, other)))

    def __rmul__(self, factor: float) -> Derivative:
        return DerivativeSum(((factor, self),))


@dataclass(frozen=True, eq=False)
class PiecewiseLinear(Derivative):
    """The right derivative with all its kinks:

        slope + curvature (t - start)
            + sum over the kinks p_j <= t of slope_jumps_j + curvature_jumps_j (t - p_j).

    Parameters
    ----------
    slope, curvature : float
        The right derivatives of phi and of phi' at `start`.
    kinks : ndarray of shape (k,)
        Greater than `start`, in any order; a t at which several pieces end is repeated.
    slope_jumps : ndarray of shape (k,)
        Nonnegative, since phi is convex.
    curvature_jumps : ndarray of shape (k,) or None
        None if phi is a piecewise linear function plus a quadratic.
    start : float, default 0.0
        The least t of the derivative.
    """

    slope: float
    curvature: float
    kinks: Array
    slope_jumps: Array
    curvature_jumps: Array | None = None
    start: float = 0.0

    def between(self, low: float, high: float) -> PiecewiseLinear:
        slope, curvature, bends = self.slope + self.curvature * (low - self.start), self.curvature, None
        inside = (self.kinks > low) & (self.kinks < high)
        passed = self.kinks <= low
        slope += float(self.slope_jumps[passed].sum())
        if self.curvature_jumps is not None:
            bends = self.curvature_jumps[inside]
            slope += float(self.curvature_jumps[passed] @ (low - self.kinks[passed]))
            curvature += float(self.curvature_jumps[passed].sum())
        return PiecewiseLinear(slope, curvature, self.kinks[inside], self.slope_jumps[inside], bends, low)

    def estimate(self) -> tuple[PiecewiseLinear, float]:
        return self, 0.0

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, PiecewiseLinear) or other.start != self.start:
            return super().__add__(other)
        few, many = sorted((self, other), key=lambda part: part.kinks.size)
        slope, curvature = self.slope + other.slope, self.curvature + other.curvature
        if not few.kinks.size:
            return PiecewiseLinear(
                slope, curvature, many.kinks, many.slope_jumps, many.curvature_jumps, self.start
            )
        bends = None
        if few.curvature_jumps is not None or many.curvature_jumps is not None:
            bends = np.concatenate([_or_zeros(few), _or_zeros(many)])
        kinks = np.concatenate([few.kinks, many.kinks])
        jumps = np.concatenate([few.slope_jumps, many.slope_jumps])
        return PiecewiseLinear(slope, curvature, kinks, jumps, bends, self.start)

    def __rmul__(self, factor: float) -> PiecewiseLinear:
        jumps = None if self.curvature_jumps is None else factor * self.curvature_jumps
        slope, curvature = factor * self.slope, factor * self.curvature
        return PiecewiseLinear(slope, curvature, self.kinks, factor * self.slope_jumps, jumps, self.start)


@dataclass(frozen=True, eq=False)
class DerivativeSum(Derivative):
    """The sum of c_j times derivative j, for terms (c_j, derivative j) with c_j > 0."""

    terms: tuple[tuple[float, Derivative], ...]

    def between(self, low: float, high: float) -> PiecewiseLinear:
        return reduce(add, [c * derivative.between(low, high) for c, derivative in self.terms])

    def estimate(self) -> tuple[PiecewiseLinear, float]:
        estimates = [(c, *derivative.estimate()) for c, derivative in self.terms]
        deviation = math.hypot(*(c * deviation for c, _, deviation in estimates))
        return reduce(add, [c * copy for c, copy, _ in estimates]), deviation


def _or_zeros(part: PiecewiseLinear) -> Array:
    return np.zeros_like(part.kinks) if part.curvature_jumps is None else part.curvature_jumps


@dataclass(frozen=True)
class Line:
    """phi(t) along x0 + t (x1 - x0).

    Parameters
    ----------
    evaluate : callable
        ``evaluate(t)`` returns (phi(t), a right derivative of phi at t).
    kinks : ndarray or None
        Every t >= 0 at which a linear or quadratic piece of phi ends, in any order, for an exact line search;
        None if phi has other pieces. Ignored if `derivative` is given.
    derivative : Derivative or None
        The derivative of phi, for an exact line search without evaluations. If `newton` is given, too, phi is
        the sum of a piecewise part, with this derivative, and a smooth part.
    search : callable or None
        ``search(rest, limit)`` returns the minimiser over [0, limit] of this line plus the Line `rest`. It
        replaces the line search of the engine, for example where evaluations run on other machines.
    newton : callable or None
        ``newton(t)`` returns the first and the second derivative of phi, or of its smooth part, at t; inf or
        nan where they overflow. The search then takes Newton steps.
    costly : bool
        Whether an evaluation costs as much as a pass over the data. The search then takes few evaluations,
        and the engine adds a cut for each.
    """

    evaluate: Callable[[float], tuple[float, float]]
    kinks: Array | None = None
    derivative: Derivative | None = None
    search: Callable[[Line, float], float] | None = None
    newton: Callable[[float], tuple[float, float]] | None = None
    costly: bool = False

    def __call__(self, t: float) -> tuple[float, float]:
        """Return (phi(t), a right derivative of phi at t)."""
        return self.evaluate(t)

    def __add__(self, other: Line) -> Line:
        def evaluate(t: float) -> tuple[float, float]:
            value, slope = self(t)
            more, steeper = other(t)
            return value + more, slope + steeper

        derivative = newton = kinks = None
        if self._has_derivatives and other._has_derivatives:
            derivative = _sum_of_given(add, self.derivative, other.derivative)
            newton = _sum_of_given(_added, self.newton, other.newton)
        elif self._has_kinks and other._has_kinks:
            kinks = np.concatenate([line.all_kinks() for line in (self, other)])  # type: ignore[misc]
        costly = self.costly or other.costly
        return Line(evaluate, kinks, derivative, _search_of_sum(self, other), newton, costly)

    def __rmul__(self, factor: float) -> Line:
        def evaluate(t: float) -> tuple[float, float]:
            value, slope = self(t)
            return factor * value, factor * slope

        def search(rest: Line, limit: float) -> float:
            assert self.search is not None
            return self.search((1.0 / factor) * rest, limit)

        def newton(t: float) -> tuple[float, float]:
            assert self.newton is not None
            slope, curvature = self.newton(t)
            return factor * slope, factor * curvature

        derivative = None if self.derivative is None else factor * self.derivative
        scaled_search = search if self.search and factor > 0.0 else None
        scaled_newton = newton if self.newton else None
        return Line(evaluate, self.kinks, derivative, scaled_search, scaled_newton, self.costly)

    def all_kinks(self) -> Array | None:
        """Return every t >= 0 at which a linear or quadratic piece ends; None for other functions."""
        if self.derivative is None or self.newton is not None:
            return self.kinks
        return self.derivative.between(0.0, math.inf).kinks

    @property
    def _has_kinks(self) -> bool:
        return self.kinks is not None or (self.derivative is not None and self.newton is None)

    @property
    def _has_derivatives(self) -> bool:
        return self.derivative is not None or self.newton is not None


def _sum_of_given(plus: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    return plus(one, other) if one is not None and other is not None else one if other is None else other


def _added(one: Callable[[float], tuple[float, float]], other: Callable[[float], tuple[float, float]]) -> Any:
    def newton(t: float) -> tuple[float, float]:
        slope, curvature = one(t)
        more, bend = other(t)
        return slope + more, curvature + bend

    return newton


def _search_of_sum(one: Line, other: Line) -> Callable[[Line, float], float] | None:
    search = one.search
    if search is None:
        return None if other.search is None else _search_of_sum(other, one)
    return lambda rest, limit: search(other + rest, limit)


NO_KINKS = np.empty(0)


def quadratic_line(constant: float, linear: float, curvature: float) -> Line:
    """Return the line phi(t) = constant + linear t + curvature t^2 / 2."""

    def evaluate(t: float) -> tuple[float, float]:
        return constant + t * (linear + 0.5 * curvature * t), linear + curvature * t

    return Line(evaluate, NO_KINKS, PiecewiseLinear(linear, curvature, NO_KINKS, NO_KINKS))


def absolute_line(costs: Array, x0: Array, x1: Array) -> Line:
    """Return t -> sum_j costs_j |x0_j + t (x1_j - x0_j)|, with a kink where a term changes its sign."""
    direction = x1 - x0
    varying = np.flatnonzero((direction != 0.0) & (costs != 0.0))
    rates = costs[varying] * np.abs(direction[varying])
    with np.errstate(over="ignore"):
        kinks = -x0[varying] / direction[varying]
    ahead = (kinks > 0.0) & (kinks < np.inf)

    def evaluate(t: float) -> tuple[float, float]:
        return float(costs @ np.abs(x0 + t * direction)), float(rates @ np.where(t >= kinks, 1.0, -1.0))

    derivative = PiecewiseLinear(evaluate(0.0)[1], 0.0, kinks[ahead], 2.0 * rates[ahead])
    return Line(evaluate, derivative=derivative)


def shortfall_line(short: Array, shorter: Array, c: Array, level: float, rise: float) -> Line:
    """Return t -> sum_i c_i max(0, short_i + t shorter_i) + level + t rise."""

    def evaluate(t: float) -> tuple[float, float]:
        now = short + t * shorter
        counts = (now > 0.0) | ((now == 0.0) & (shorter > 0.0))
        return float(c @ np.maximum(0.0, now)) + (level + t * rise), float((c * shorter) @ counts + rise)

    crossing = np.flatnonzero((np.sign(short) * np.sign(shorter) < 0.0) & (c > 0.0))
    with np.errstate(over="ignore"):
        times = -short[crossing] / shorter[crossing]
    near = np.isfinite(times)
    kinks, jumps = np.maximum(times[near], 5e-324), (c * np.abs(shorter))[crossing[near]]
    return Line(evaluate, derivative=PiecewiseLinear(evaluate(0.0)[1], 0.0, kinks, jumps))


_ENTRIES = 2**18
"""Most entries of a table with a row per part and a column per kink, because 2 MB fit into a cache."""


def maximum_line(lines: Sequence[Line]) -> Line:
    """Return the maximum of several lines; it has a derivative if all lines have one and no `newton`."""
    if len(lines) == 1:
        return lines[0]
    derivatives = [line.derivative for line in lines if line.newton is None and line.derivative is not None]
    all_given = len(derivatives) == len(lines)
    derivative = MaximumDerivative(tuple(lines), tuple(derivatives)) if all_given else None
    costly = any(line.costly for line in lines)
    return Line(lambda t: max(line(t) for line in lines), derivative=derivative, costly=costly)


@dataclass(frozen=True, eq=False)
class MaximumDerivative(Derivative):
    """The right derivative of the maximum of several lines, given their derivatives."""

    lines: tuple[Line, ...]
    derivatives: tuple[Derivative, ...]

    def between(self, low: float, high: float) -> PiecewiseLinear:
        parts = [derivative.between(low, high) for derivative in self.derivatives]
        return envelope(parts, np.array([line(low)[0] for line in self.lines]), high)

    def estimate(self) -> tuple[PiecewiseLinear, float]:
        copies, deviations = zip(*(derivative.estimate() for derivative in self.derivatives), strict=True)
        values = np.array([line(0.0)[0] for line in self.lines])
        return envelope(copies, values, math.inf), max(deviations)


def envelope(parts: Sequence[PiecewiseLinear], values: Array, high: float) -> PiecewiseLinear:
    """Return the right derivative of max_j phi_j on [start, high], given phi_j' and phi_j(start)."""
    start = parts[0].start
    knots = np.unique(np.concatenate([[start], *(part.kinks for part in parts)]))
    pieces: list[tuple[Array, Array, Array]] = []
    size = max(1, _ENTRIES // len(parts))
    for first in range(0, knots.size, size):
        ends = np.append(knots[first : first + size + 1], high)[: size + 1]
        found, values = _segments(parts, values, ends)
        pieces.append(found)
    times, slopes, curvatures = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
    jumps = np.diff(slopes) - curvatures[:-1] * np.diff(times)
    bends = np.diff(curvatures)
    kept = (times[1:] > start) & (times[1:] < high) & ((jumps > 0.0) | (bends != 0.0))
    return PiecewiseLinear(
        float(slopes[0]),
        float(curvatures[0]),
        times[1:][kept],
        np.maximum(jumps[kept], 0.0),
        bends[kept] if bends.any() else None,
        start,
    )


def _segments(
    parts: Sequence[PiecewiseLinear], values: Array, ends: Array
) -> tuple[tuple[Array, Array, Array], Array]:
    """Return the starts, slopes and curvatures of the pieces of the maximum, and the parts at the last end.

    `ends` are the ends of consecutive intervals, in which no part has a kink; `values` are the values of the
    parts at the first end.
    """
    left, lengths = ends[:-1], np.diff(ends)
    slopes, curvatures = (np.array(rows) for rows in zip(*(_at(part, left) for part in parts), strict=True))
    with np.errstate(invalid="ignore", over="ignore"):
        rises = (slopes + 0.5 * curvatures * lengths) * lengths
        heights = values[:, np.newaxis] + np.cumsum(rises, axis=1) - rises
        last = heights[:, -1] + rises[:, -1]
    if not np.isfinite(lengths[-1]):
        heights[:, -1] = values + rises[:, :-1].sum(axis=1)
    steepest = np.where(heights == heights.max(axis=0), slopes, -np.inf)
    top = np.where(steepest == steepest.max(axis=0), curvatures, -np.inf).argmax(axis=0)
    here = np.arange(left.size)
    best = heights[top, here], slopes[top, here], curvatures[top, here]
    steps = _overtaken(heights - best[0], slopes - best[1], curvatures - best[2]).min(axis=0)
    crossed = np.flatnonzero(steps < lengths)
    columns = [left, best[1], best[2]]
    if crossed.size:
        more = [
            piece
            for i in crossed.tolist()
            for piece in _crossings(heights[:, i], slopes[:, i], curvatures[:, i], left[i], lengths[i])
        ]
        columns = [np.append(old, new) for old, new in zip(columns, zip(*more, strict=True), strict=True)]
        order = np.argsort(columns[0], kind="stable")
        columns = [column[order] for column in columns]
    return (columns[0], columns[1], columns[2]), last


def _at(part: PiecewiseLinear, times: Array) -> tuple[Array, Array]:
    """Return the right derivatives of phi and phi' at increasing times."""
    order = np.argsort(part.kinks)
    kinks, passed = part.kinks[order], np.searchsorted(part.kinks, times, side="right", sorter=order)
    slopes = part.slope + part.curvature * (times - part.start) + _sums(part.slope_jumps[order])[passed]
    curvatures = np.full(times.size, part.curvature)
    if part.curvature_jumps is not None:
        bends = part.curvature_jumps[order]
        since = kinks - part.start
        slopes += _sums(bends)[passed] * (times - part.start) - _sums(bends * since)[passed]
        curvatures += _sums(bends)[passed]
    return slopes, curvatures


def _sums(entries: Array) -> Array:
    return np.append(0.0, np.cumsum(entries))


def _overtaken(below: Array, slope: Array, curvature: Array) -> Array:
    """Return the first s > 0 after which below + slope s + curvature s^2 / 2 is positive, or inf.

    `below` is at most 0. If it is 0, the slope is at most 0; if both are 0, the curvature is at most 0.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.sqrt(slope * slope - 2.0 * curvature * below)
        rising = -2.0 * below / (slope + root)
        turning = (root - slope) / curvature
        steps = np.where(slope > 0.0, rising, np.where(curvature > 0.0, turning, np.inf))
    return np.where(np.isnan(steps), np.inf, steps)


def _crossings(
    heights: Array, slopes: Array, curvatures: Array, left: float, length: float
) -> list[tuple[float, float, float]]:
    """Return start, slope and curvature of the piece of the maximum after each crossing in an interval."""
    found: list[tuple[float, float, float]] = []
    t, top = 0.0, int(np.lexsort((curvatures, slopes, heights))[-1])
    while True:
        here, steep = heights + (slopes + 0.5 * curvatures * t) * t, slopes + curvatures * t
        below, ahead = np.minimum(here - here[top], 0.0), curvatures - curvatures[top]
        steps = _overtaken(below, steep - steep[top], ahead)
        steps[top] = np.inf
        t += float(steps.min())
        if not t < length or len(found) > 2 * heights.size:
            return found
        steep = slopes + curvatures * t
        rivals = np.flatnonzero(steps == steps.min())
        top = int(max(rivals.tolist(), key=lambda j: (steep[j], curvatures[j])))
        found.append((left + t, float(steep[top]), float(curvatures[top])))
