"""Answers of oracles that contradict one another, beyond rounding inside an oracle that its answers hide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.masters.base import HALF_SPACE
from cutplane.pieces.answers import name_of, show
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import dense
from cutplane.proof.rounding import CANCELLED, EPS, ORACLE, ROUNDING
from cutplane.sets.base import HalfSpaces

if TYPE_CHECKING:
    from cutplane.engine.bundle import Bundle
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run

_INNER = 1e-9
"""How far outside an oracle may call a point inside, relative to the numbers of the simple set: the tolerance
that separation oracles are usually written with, such as for the sign of an eigenvalue in a box of size 1."""
_HALVINGS = 40
"""Over 2^-40 of the way a continuous function changes by less than answers may differ."""
_AGAIN = 4
_SHARE = 1e-3
"""A jump of more than this, of the terms that are known, is no rounding but a function that is not convex."""


class Contradiction(OracleError):
    """A cut that lies above a value.

    Parameters
    ----------
    message : str
    origin : ndarray of shape (dim,) or None
        Where the cut was found, if that is known.
    x : ndarray of shape (dim,)
        Where the value was found.
    """

    def __init__(self, message: str, origin: Array | None, x: Array):
        super().__init__(message)
        self.origin, self.x = origin, x


def allowed(scale: Any, noise: float) -> Any:
    """Return by how much answers may differ; `noise` is the size of terms that may have cancelled in them."""
    return ORACLE * scale + ROUNDING * noise


def check_cut(
    problem: Declaration,
    slopes: Array,
    offsets: Array,
    point: Point,
    known: Point,
    noise: float = 0.0,
    blocks: Sequence[int] | slice = slice(None),
) -> None:
    """Raise `OracleError` if a new cut lies above the value at a point already evaluated.

    `noise` is the size of terms that may have cancelled in a value; `blocks` are those of the cuts.
    """
    here, there = point.values[blocks], known.values[blocks]
    excess = slopes @ known.x + offsets - there
    if (excess <= 0.0).all():
        return
    scale = np.abs(there) + np.abs(here) + np.abs(slopes) @ (np.abs(known.x) + np.abs(point.x))
    if (excess > allowed(scale, noise)).any():
        raise contradiction(problem, point.x, known.x, float(excess.max()))


def check_model(
    problem: Declaration, bundle: Bundle, point: Point, models: Array, noise: float = 0.0
) -> None:
    """Raise `OracleError` if an earlier cut lies above the value at a point; `models` is the model there.

    `noise` is the size of terms that may have cancelled in a value.
    """
    excess = models - point.values
    suspects = excess > ORACLE * np.abs(point.values)
    if not suspects.any():
        return
    products = bundle.slopes @ point.x
    values = np.append(point.values, np.inf)[bundle.blocks]
    scale = np.abs(values) + np.abs(bundle.offsets) + abs(bundle.slopes) @ np.abs(point.x)
    excess = products + bundle.offsets - values
    above = (bundle.blocks != HALF_SPACE) & (excess > allowed(scale, noise))
    for row in np.flatnonzero(above).tolist():
        origin = bundle.points.get(int(bundle.queries[row]))
        slope = dense(bundle.slopes[[row]])[0]
        terms = 0.0 if origin is None else float(np.abs(slope) @ np.abs(origin))  # its offset is a sum of
        if excess[row] > allowed(scale[row] + terms, noise):
            raise contradiction(problem, origin, point.x, float(excess[row]))


def check_separation(half_spaces: HalfSpaces, x: Array, inside: Array, extent: float, scale: float) -> None:
    """Raise `OracleError` if a half-space cuts off a point that was found feasible before.

    Its tolerance is relative to `extent`, the size of the points that it was asked about, or to `scale`, that
    of the simple set.
    """
    violations = half_spaces.violations(inside)
    sizes = half_spaces.sizes(np.full_like(inside, extent))
    whole = half_spaces.sizes(np.full_like(inside, scale))
    wrong = np.flatnonzero(violations > ORACLE * sizes + _INNER * whole)
    if wrong.size:
        offset = half_spaces.offsets[wrong[0]]
        raise OracleError(
            f"The half-space returned at x = {show(x)} cuts off the point {show(inside)}, which the oracle "
            f"called inside: <normal, point> = {offset + violations[wrong[0]]:g} > {offset:g}. "
            "Check the oracle with cutplane.testing.check_separation; a tolerance for points that it calls "
            f"inside must be at most {_INNER:g} times the size of the set."
        )


def contradiction(problem: Declaration, origin: Array | None, x: Array, excess: float) -> Contradiction:
    """Return the error that names a cut, made at `origin`, that lies above the risk at x."""
    at = "an earlier point" if origin is None else f"x = {show(origin)}"
    return Contradiction(
        f"The cut of {name_of(problem.risk)} at {at} lies {excess:.3g} above its value at x = {show(x)}: "
        "the subgradient is wrong or the risk is not convex. Check it with cutplane.testing.check_risk.",
        origin,
        x,
    )


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
