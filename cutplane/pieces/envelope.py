"""The largest of several lines, exact where their pieces are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cutplane.pieces.lines import Derivative, Line, PiecewiseLinear
from cutplane.pieces.validation import Array

_ENTRIES = 2**18  # of a table of parts times kinks: 2 MB, which a cache holds


def maximum_line(lines: Sequence[Line]) -> Line:
    """Return the largest of several lines; its derivative is known if those of all are."""
    if len(lines) == 1:
        return lines[0]
    derivatives = [line.derivative for line in lines if line.newton is None and line.derivative is not None]
    known = len(derivatives) == len(lines)
    derivative = MaximumDerivative(tuple(lines), tuple(derivatives)) if known else None
    costly = any(line.costly for line in lines)
    return Line(lambda t: max(line(t) for line in lines), derivative=derivative, costly=costly)


@dataclass(frozen=True, eq=False)
class MaximumDerivative(Derivative):
    """The right derivative of the largest of several lines, whose derivatives are known."""

    lines: tuple[Line, ...]
    derivatives: tuple[Derivative, ...]

    def between(self, low: float, high: float) -> PiecewiseLinear:
        """Return it on [low, high], with the kinks strictly inside: those of the largest, and crossings."""
        parts = [derivative.between(low, high) for derivative in self.derivatives]
        return envelope(parts, np.array([line(low)[0] for line in self.lines]), high)

    def estimate(self) -> tuple[PiecewiseLinear, float]:
        """Return that of the largest of the estimates, with the largest of their deviations."""
        copies, deviations = zip(*(derivative.estimate() for derivative in self.derivatives), strict=True)
        values = np.array([line(0.0)[0] for line in self.lines])
        return envelope(copies, values, math.inf), max(deviations)


def envelope(parts: Sequence[PiecewiseLinear], values: Array, high: float) -> PiecewiseLinear:
    """Return the right derivative of max_j phi_j on [start, high], from those of phi_j and phi_j(start)."""
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
    """Return times, slopes and curvatures of the pieces of the maximum between the ends of intervals.

    No part has a kink inside an interval; `values` are those of the parts at the first end. The second answer
    are the values at the last one.
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
    """Return the first s > 0 from which below + slope s + curvature s^2 / 2 is positive; inf if none is.

    `below` is at most 0; where it is 0, the slope is at most 0, and where that is 0, too, the curvature.
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
    """Return time, slope and curvature of the maximum from each crossing in an interval on."""
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
