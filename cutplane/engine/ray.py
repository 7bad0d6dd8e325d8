"""The search for the best point on the ray through two evaluated points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cutplane.engine.evaluator import Point
from cutplane.engine.line_search import minimise_on_line
from cutplane.pieces.lines import Line

if TYPE_CHECKING:
    from cutplane.engine.run import Run

_ORACLE_CALLS = 3
_FLAT = 0.2
"""Share of the first slope at which a search is over where each step costs a query: a cut there says more
of the line than the last digits of its minimiser would."""


def least_share(run: Run, start: Point, end: Point, limit: float = 1.0) -> float:
    """Return the t in [0, limit] at which start + t (end - start) is best, from the images of both."""
    return run.timed(minimise_on_line, run.evaluator.line(start, end), limit)


def search_ray(run: Run, start: Point, end: Point) -> Point:
    """Return the best point on the ray from start through end (the segment, if X is not the whole space).

    A risk with images is searched without a pass over the data. Any other, and one whose lines are costly, is
    asked a few times more on the segment, and every answer is kept as a cut.
    """
    found = _search(run, start, end)
    run.mark("search", start.x, end.x, found.x)
    return found


def _search(run: Run, start: Point, end: Point) -> Point:
    if not run.imaged or run.evaluator.line(start, end).costly:
        return _search_with_oracle(run, start, end)
    limit = math.inf if run.problem.is_unconstrained else 1.0
    t = least_share(run, start, end, limit)
    if t == 0.0:
        return start
    best = end if t == 1.0 else run.between(start, end, t)
    return best if best.objective <= start.objective else start


class _Enough(Exception):
    """The search has used its oracle calls, or found where the line is nearly flat."""


def _search_with_oracle(run: Run, start: Point, end: Point) -> Point:
    direction = end.x - start.x
    regularizer = run.problem.regularizer.line(start.x, end.x)
    visited: dict[float, Point] = {}
    known: dict[float, tuple[float, float]] = {}

    def visit(t: float, point: Point) -> None:
        visited[t], known[t] = point, (math.inf, math.inf)
        if not math.isfinite(point.objective):
            return
        if t > 0.0:
            run.add_cut(point)
        slope = run.slopes(point).sum(axis=0) @ direction
        known[t] = point.objective, float(slope) + regularizer(t)[1]

    def evaluate(t: float) -> tuple[float, float]:
        if t not in known:
            if len(known) >= 2 + _ORACLE_CALLS:
                raise _Enough
            visit(t, run.between(start, end, t))
        if t > 0.0 and abs(known[t][1]) <= _FLAT * abs(known[0.0][1]):
            raise _Enough
        return known[t]

    visit(1.0, end)
    visit(0.0, start)
    try:
        minimise_on_line(Line(evaluate), 1.0)
    except _Enough:
        pass
    return min(visited.values(), key=lambda point: point.objective)
