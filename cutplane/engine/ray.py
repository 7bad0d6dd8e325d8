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


def least_share(run: Run, start: Point, end: Point, limit: float = 1.0) -> float:
    """Return the t in [0, limit] at which start + t (end - start) is best, from the images of both."""
    return run.timed(minimise_on_line, run.evaluator.line(start, end), limit)


def search_ray(run: Run, start: Point, end: Point) -> Point:
    """Return the best point on the ray from start through end (the segment, if X is not the whole space).

    A risk with images is searched without a pass over the data; any other is asked a few times more, and
    every answer is kept as a cut.
    """
    if not run.imaged:
        return _search_with_oracle(run, start, end)
    limit = math.inf if run.problem.is_unconstrained else 1.0
    t = least_share(run, start, end, limit)
    if t == 0.0:
        return start
    best = end if t == 1.0 else run.between(start, end, t)
    return best if best.objective <= start.objective else start


class _Enough(Exception):
    """The search has used its oracle calls."""


def _search_with_oracle(run: Run, start: Point, end: Point) -> Point:
    direction = end.x - start.x
    regularizer = run.problem.regularizer.line(start.x, end.x)
    visited = {0.0: start, 1.0: end}
    run.add_cut(end)

    def evaluate(t: float) -> tuple[float, float]:
        if t not in visited:
            if len(visited) >= 2 + _ORACLE_CALLS:
                raise _Enough
            visited[t] = run.between(start, end, t)
            if math.isfinite(visited[t].objective):
                run.add_cut(visited[t])
        if not math.isfinite(visited[t].objective):
            return math.inf, math.inf
        slope = run.slopes(visited[t]).sum(axis=0) @ direction
        return visited[t].objective, float(slope) + regularizer(t)[1]

    try:
        minimise_on_line(Line(evaluate), 1.0)
    except _Enough:
        pass
    return min(visited.values(), key=lambda point: point.objective)
