"""Rounding inside an oracle that its answers do not show: terms that cancel in its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cutplane.engine.oracle_checks import Contradiction
from cutplane.engine.tolerances import CANCELLED, EPS

if TYPE_CHECKING:
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run
    from cutplane.pieces.validation import Array

_HALVINGS = 40
"""Over 2^-40 of the way a continuous function changes by less than answers may differ."""
_AGAIN = 4
_SHARE = 1e-3
"""A jump of more than this, of the terms that are known, is no rounding but a function that is not convex."""


def compare(run: Run, check: Callable[[float], None], *points: Point) -> None:
    """Compare answers; where they contradict one another, ask whether rounding inside the oracle explains it.

    `check` takes the size of terms that may have cancelled at `points`. A convex function does not jump: what
    a black box jumps by, on the way between both places, is what rounding leaves of larger terms. From then
    on it is charged to every cut.
    """
    try:
        check(0.0)
        return
    except Contradiction:
        noise = run.terms(*points)
    try:
        check(noise)
    except Contradiction as error:
        if not run.problem.risk.black_box or error.origin is None:
            raise
        jump = _jump(run, error.origin, error.x)
        hidden, terms = jump / EPS, noise - run.evaluator.hidden
        if not hidden > run.evaluator.hidden or jump > _SHARE * terms > 0.0:
            raise
        check(terms + hidden)
        run.evaluator.hidden = hidden
        run.bundle.lower(CANCELLED * hidden)


def _jump(run: Run, start: Array, end: Array) -> float:
    """Return by how much the risk jumps on the way; 0 if it does not, or gives other values when asked again.

    Of both halves, that with the larger error of a tangent holds the jump.
    """
    ask = run.evaluator.point
    first, last = ask(start), ask(end)
    for _ in range(_HALVINGS):
        middle = ask(first.x + 0.5 * (last.x - first.x))
        if not all(point.objective < float("inf") for point in (first, middle, last)):
            return 0.0
        slope = run.slopes(middle).sum(axis=0)
        errors = [
            abs(float((point.values - middle.values).sum() - slope @ (point.x - middle.x)))
            for point in (first, last)
        ]
        first, last = (first, middle) if errors[0] > errors[1] else (middle, last)
    if any((ask(point.x).values != point.values).any() for point in (first, last) for _ in range(_AGAIN)):
        return 0.0
    return abs(float((last.values - first.values).sum()))
