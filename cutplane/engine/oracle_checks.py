"""Notices answers of oracles that contradict one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.masters.base import HALF_SPACE
from cutplane.sets.base import HalfSpaces
from cutplane.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.bundle import Bundle
    from cutplane.engine.evaluator import Point
    from cutplane.problem import Problem

TOLERANCE = 1e-7
"""Relative rounding error that an oracle's answer may have."""

_CANCELLED = 1e-8


def check_cut(
    problem: Problem, slopes: Array, offsets: Array, point: Point, known: Point, noise: float = 0.0
) -> None:
    """Raise `OracleError` if a new cut lies above the value at a point already evaluated.

    `noise` is the size of terms that may have cancelled in a value.
    """
    excess = slopes @ known.x + offsets - known.values
    if (excess <= 0.0).all():
        return
    scale = np.abs(known.values) + np.abs(point.values) + np.abs(slopes) @ (np.abs(known.x) + np.abs(point.x))
    scale += _CANCELLED * noise
    if (excess > TOLERANCE * scale).any():
        raise _contradiction(problem, point.x, known.x, float(excess.max()))


def check_model(problem: Problem, bundle: Bundle, point: Point, models: Array, noise: float = 0.0) -> None:
    """Raise `OracleError` if an earlier cut lies above the value at a point; `models` is the model there.

    `noise` is the size of terms that may have cancelled in a value.
    """
    excess = models - point.values
    suspects = excess > TOLERANCE * np.abs(point.values)
    if not suspects.any():
        return
    products = bundle.slopes @ point.x
    values = np.append(point.values, np.inf)[bundle.blocks]
    scale = np.abs(values) + np.abs(bundle.offsets) + abs(bundle.slopes) @ np.abs(point.x)
    scale += _CANCELLED * noise
    above = (bundle.blocks != HALF_SPACE) & (products + bundle.offsets - values > TOLERANCE * scale)
    if not above.any():
        return
    row = int(np.flatnonzero(above)[0])
    origin = bundle.points.get(int(bundle.queries[row]))
    raise _contradiction(problem, origin, point.x, float((products + bundle.offsets - values)[row]))


def check_separation(half_spaces: HalfSpaces, x: Array, inside: Array) -> None:
    """Raise `OracleError` if a half-space cuts off a point that was found feasible before."""
    violations = half_spaces.violations(inside)
    wrong = np.flatnonzero(violations > TOLERANCE * half_spaces.sizes(inside))
    if wrong.size:
        offset = half_spaces.offsets[wrong[0]]
        raise OracleError(
            f"The half-space returned at x = {show(x)} cuts off the point {show(inside)}, which the oracle "
            f"called inside: <normal, point> = {offset + violations[wrong[0]]:g} > {offset:g}. "
            "Check the oracle with cutplane.testing.check_separation."
        )


def name_of(piece: Any) -> str:
    """Return the name of a user's function or the class of a piece."""
    return getattr(piece, "__name__", None) or type(piece).__name__


def show(x: Array) -> str:
    """Return a point as a short string."""
    return np.array2string(x, precision=6, threshold=8)


def _contradiction(problem: Problem, origin: Array | None, x: Array, excess: float) -> OracleError:
    at = "an earlier point" if origin is None else f"x = {show(origin)}"
    return OracleError(
        f"The cut of {name_of(problem.risk)} at {at} lies {excess:.3g} above its value at x = {show(x)}: "
        "the subgradient is wrong or the risk is not convex. Check it with cutplane.testing.check_risk."
    )
