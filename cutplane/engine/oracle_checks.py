"""Notices answers of oracles that contradict one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.slopes import dense
from cutplane.engine.tolerances import INNER, ORACLE, ROUNDING
from cutplane.exceptions import OracleError
from cutplane.masters.base import HALF_SPACE
from cutplane.pieces.validation import Array
from cutplane.sets.base import HalfSpaces

if TYPE_CHECKING:
    from cutplane.engine.bundle import Bundle
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.evaluator import Point


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
    wrong = np.flatnonzero(violations > ORACLE * sizes + INNER * whole)
    if wrong.size:
        offset = half_spaces.offsets[wrong[0]]
        raise OracleError(
            f"The half-space returned at x = {show(x)} cuts off the point {show(inside)}, which the oracle "
            f"called inside: <normal, point> = {offset + violations[wrong[0]]:g} > {offset:g}. "
            "Check the oracle with cutplane.testing.check_separation; a tolerance for points that it calls "
            f"inside must be at most {INNER:g} times the size of the set."
        )


def name_of(piece: Any) -> str:
    """Return the name of a user's function or the class of a piece."""
    return getattr(piece, "__name__", None) or type(piece).__name__


def show(x: Array) -> str:
    """Return a point as a short string."""
    return np.array2string(x, precision=6, threshold=8)


def contradiction(problem: Declaration, origin: Array | None, x: Array, excess: float) -> Contradiction:
    """Return the error that names a cut, made at `origin`, that lies above the risk at x."""
    at = "an earlier point" if origin is None else f"x = {show(origin)}"
    return Contradiction(
        f"The cut of {name_of(problem.risk)} at {at} lies {excess:.3g} above its value at x = {show(x)}: "
        "the subgradient is wrong or the risk is not convex. Check it with cutplane.testing.check_risk.",
        origin,
        x,
    )
