"""Line searches between two evaluated points: exact from their images, else by calls of the oracle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cutplane.engine.evaluator import Point
from cutplane.engine.line_search import minimise_on_line
from cutplane.pieces.lines import Line

if TYPE_CHECKING:
    from cutplane.engine.run import Run

_CALLS, _FLAT = 3, 0.2
"""Calls of the oracle on a ray, and the share of the first slope at which they end, because each call is an
iteration that is not made, and a cut there says more of the ray than the last digits of its minimiser."""
_NOISE = 1e-13
"""Rise of the objective, as a share of it, that a step may take, because it may be a rounding error."""


def search_ray(run: Run, start: Point, end: Point) -> Point:
    """Return the best point on the ray from start through end (the segment, if X is not the whole space).

    A risk with images is searched without a pass over the data. Any other, and one whose lines are costly, is
    evaluated a few times on the segment, and every answer is kept as a cut.
    """
    found = _exact(run, start, end, math.inf if run.problem.is_unconstrained else 1.0)
    if found is None:
        _, visited = _by_calls(run, start, end, _FLAT, _CALLS)
        for t, point in visited.items():
            if t > 0.0 and math.isfinite(point.objective):
                run.add_cut(point)
        best = min(visited.values(), key=lambda point: point.objective)
    else:
        best = found[1] if found[1].objective <= start.objective else start
    run.mark("search", start.x, end.x, best.x)
    return best


def search_segment(
    run: Run, start: Point, end: Point, flat: float, accuracy: float | None = None
) -> tuple[float, Point]:
    """Return t in [0, 1] and the point start + t (end - start), evaluated, where the objective is least.

    If the risk has no images, or its lines are costly, the point is the first found that is no higher than
    the start, with a slope of the share `flat` of the slope there. `accuracy` is passed to a risk with
    on-demand accuracy.
    """
    found = _exact(run, start, end, 1.0)
    if found is None:
        t, visited = _by_calls(run, start, end, flat, accuracy=accuracy)
        found = t, visited[t]
    return found


def _exact(run: Run, start: Point, end: Point, limit: float) -> tuple[float, Point] | None:
    """Return t in [0, limit] and the best point, from the images of both ends; None if that is costly."""
    line = run.evaluator.line(start, end) if run.imaged else None
    if line is None or line.costly:
        return None
    t = run.timed(minimise_on_line, line, limit)
    return t, start if t == 0.0 else end if t == 1.0 else run.between(start, end, t)


def _by_calls(
    run: Run, start: Point, end: Point, flat: float, calls: float = math.inf, accuracy: float | None = None
) -> tuple[float, dict[float, Point]]:
    """Return t in [0, 1], and all points evaluated; the slope at t is flat, or the calls are used up."""
    direction = end.x - start.x
    regularizer = run.problem.regularizer.line(start.x, end.x)
    highest = start.objective + _NOISE * abs(start.objective)
    visited = {1.0: end, 0.0: start}

    def slope_at(t: float) -> float:
        if not math.isfinite(visited[t].objective):
            return math.inf
        return float(run.slopes(visited[t]).sum(axis=0) @ direction) + regularizer(t)[1]

    first = slope_at(0.0)

    def evaluate(t: float) -> tuple[float, float]:
        if t == 0.0:
            return start.objective, first
        if t not in visited:
            x = start.x + t * direction
            visited[t] = run.between(start, end, t) if accuracy is None else run.visit(x, accuracy)
        slope = slope_at(t)
        enough = abs(slope) <= flat * abs(first) and visited[t].objective <= highest
        if enough or len(visited) >= 2 + calls:
            return 0.0, 0.0  # without a slope the search ends
        return visited[t].objective, slope

    return minimise_on_line(Line(evaluate), 1.0), visited
