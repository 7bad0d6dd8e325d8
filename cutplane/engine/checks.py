"""Answers of oracles that contradict one another, beyond rounding inside an oracle that its answers hide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.pieces.answers import name_of, show
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import dense
from cutplane.proof.rounding import EPS, ORACLE, ROUNDING
from cutplane.sets.base import HalfSpaces

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.evaluator import Evaluator

_INNER = 1e-9
"""How far outside an oracle may call a point inside, relative to the numbers of the simple set: the tolerance
that separation oracles are usually written with, such as for the sign of an eigenvalue in a box of size 1."""
_HALVINGS = 40
"""Over 2^-40 of the way a continuous function changes by less than answers may differ."""
_AGAIN = 4


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


def check_cuts(
    problem: Declaration,
    cuts: tuple[Any, Array, Array | Sequence[int]],
    origin: Callable[[int], Array | None],
    X: Array,
    values: Array,
    noise: float = 0.0,
) -> None:
    """Raise `Contradiction` if a cut lies above the value of its block at a point.

    Parameters
    ----------
    problem : Declaration
    cuts : tuple of slopes, offsets, blocks
        Half-spaces among them are passed over.
    origin : callable
        Returns where the cut of a row was found, None if that is not known.
    X : ndarray of shape (dim,) or (k, dim)
        The points.
    values : ndarray of shape (n_blocks,) or (k, n_blocks)
        Of the risk at these points; inf where one is not known.
    noise : float, default 0.0
        The size of terms that may have cancelled in a value.
    """
    slopes, offsets, blocks = cuts[0], cuts[1], np.asarray(cuts[2])
    X, values = np.atleast_2d(X, values)
    there = np.concatenate([values.T, np.full((1, len(X)), np.inf)])[blocks]  # half-spaces have the block -1
    excess = slopes @ X.T + offsets[:, np.newaxis] - there
    suspects = np.argwhere(excess > ORACLE * np.abs(there))
    for row, place in suspects.tolist():
        found, x, above = origin(row), X[place], excess[row, place]
        size = np.abs(x) if found is None else np.abs(x) + np.abs(found)  # the offset is a sum of terms too
        terms = abs(there[row, place]) + abs(offsets[row]) + float(np.abs(dense(slopes[[row]])[0]) @ size)
        if above > allowed(terms, noise):
            at = "an earlier point" if found is None else f"x = {show(found)}"
            raise Contradiction(
                f"The cut of {name_of(problem.risk)} at {at} lies {above:.3g} above its value at x = "
                f"{show(x)}: the subgradient is wrong or the risk is not convex. Check it with "
                "cutplane.testing.check_risk.",
                found,
                x,
            )


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


def hidden_terms(evaluator: Evaluator, error: Contradiction) -> float:
    """Return the size of terms that cancel inside a black box, if these explain a contradiction; else 0.

    A convex function does not jump: a black box jumps, on the way between both places, by the last bits of
    larger terms. There is no such jump if it gives other values when it is called again. Of both halves of
    the way, the one with the larger error of a tangent holds the jump.
    """
    if not evaluator.risk.black_box or error.origin is None:
        return 0.0
    ask = evaluator.point
    first, last = ask(error.origin), ask(error.x)
    for _ in range(_HALVINGS):
        middle = ask(first.x + 0.5 * (last.x - first.x))
        if not all(point.objective < float("inf") for point in (first, middle, last)):
            return 0.0
        slope = evaluator.slopes(middle).sum(axis=0)
        errors = [
            abs(float((point.values - middle.values).sum() - slope @ (point.x - middle.x)))
            for point in (first, last)
        ]
        first, last = (first, middle) if errors[0] > errors[1] else (middle, last)
    if any((ask(point.x).values != point.values).any() for point in (first, last) for _ in range(_AGAIN)):
        return 0.0
    return abs(float((last.values - first.values).sum())) / EPS
