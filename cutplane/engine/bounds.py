"""Both bounds on the optimum, which never become worse, and checks for contradictory answers of oracles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.bundle import Proof
from cutplane.engine.evaluator import Evaluator, Point
from cutplane.exceptions import OracleError
from cutplane.pieces.answers import name_of, show
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import dense
from cutplane.proof.rounding import EPS, ORACLE, ROUNDING
from cutplane.sets.base import HalfSpaces

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

_NOISE = 1e-13
"""Relative change of a bound that counts as no progress, because it may be a rounding error."""
_INNER = 1e-9
"""Distance outside the set, relative to its numbers, at which an oracle may call a point inside, because
oracles have such tolerances, for example for eigenvalues."""
_HALVINGS = 40
"""Number of halvings of a segment, because a continuous function changes on 2^-40 of it by less than its
rounding errors."""
_AGAIN = 4
"""Number of repeated calls at a point, because a random oracle gives another value within a few calls."""


class Contradiction(OracleError):
    """The error that a cut, computed at `origin` (None if unknown), lies above the value at `x`."""

    def __init__(self, message: str, origin: Array | None, x: Array):
        super().__init__(message)
        self.origin, self.x = origin, x


class Bounds:
    """Both bounds on the optimum: the best feasible point, its objective, the lower bound and its proof.

    A lower bound above the objective of a point is a contradiction. If the errors of an oracle or of rounding
    can explain it, the lower bound is set below the objective by the same difference, because nothing better
    is proven. A larger contradiction raises `OracleError`; if the oracles are not exact, the lower bound is
    dropped instead. `scale` is the largest absolute objective of the points offered.
    """

    def __init__(self, exact: bool = True) -> None:
        self._settles = exact
        self.best: Point | None = None
        self.lower, self.upper = -math.inf, math.inf
        self.proof = Proof()
        self.scale = 0.0
        self._computed, self._magnitude = -math.inf, 0.0
        self._known: tuple[float, Proof] = -math.inf, Proof()

    def terms(self) -> float:
        """Return the size of the terms of the objective, which may cancel."""
        return self.scale

    def slack(self) -> float:
        """Return the size of terms that may have relative errors as large as the tolerance of a set."""
        return 0.0

    def offer_point(self, point: Point) -> bool:
        """Keep the point if it is feasible and better; tell whether it is better beyond rounding errors."""
        if math.isfinite(point.objective):
            self.scale = max(self.scale, abs(point.objective))
        if not (point.feasible and point.objective < self.upper):
            return False
        better = not self.upper - point.objective <= _NOISE * abs(self.upper)
        if not self._settles and self.lower > point.objective:
            self._computed, self.proof = -math.inf, Proof()
        self.replace_best(point)
        if self.lower < self._known[0]:
            self.offer_known(*self._known)
        return better

    def replace_best(self, point: Point) -> None:
        """Replace the best point by another evaluation of it, whose objective may be larger."""
        self.best, self.upper = point, point.objective
        self.lower = self._settled(self._computed, self._magnitude)

    def raise_best(self, slopes: Array, offsets: Array) -> None:
        """Raise the values at the best point where the new cuts, one per block, are higher."""
        assert self.best is not None
        values = np.maximum(self.best.values, slopes @ self.best.x + offsets)
        rise = float((values - self.best.values).sum())
        if rise > 0.0:
            self.upper += rise
            self.best = replace(self.best, values=values, objective=self.upper)

    def offer_known(self, value: float, proof: Proof) -> None:
        """Keep a lower bound that is given before the solve, and has no rounding error."""
        self._known = value, proof
        self._computed, self._magnitude, self.proof = value, 0.0, proof
        self.lower = self._settled(value, 0.0)

    def offer_bound(self, value: float, magnitude: float, proof: Proof) -> bool:
        """Keep the lower bound if it is better; tell whether it is better by more than rounding errors.

        `magnitude` is the sum of the absolute terms of `value`.
        """
        if value > self.upper and not self._settles:
            return False
        settled = self._settled(value, magnitude)
        if not settled > self.lower:
            if self.lower == -math.inf:
                self.proof = proof
            return False
        better = not settled - self.lower <= _NOISE * magnitude
        self.lower, self.proof = settled, proof
        self._computed, self._magnitude = value, magnitude
        return better

    def _settled(self, value: float, magnitude: float) -> float:
        """Return the proven part of a computed bound, which may exceed the best objective; see the class."""
        excess = value - self.upper
        if self.best is None or not excess > 0.0:
            return value
        if excess > allowed(magnitude + abs(self.upper) + self.slack(), self.terms()):
            raise OracleError(
                f"The lower bound {value:.10g} exceeds the objective {self.upper:.10g} at x = "
                f"{show(self.best.x)}: a cut lies above the risk. Check the subgradients with "
                "cutplane.testing.check_risk."
            )
        return self.upper - excess


def allowed(scale: Any, noise: float) -> Any:
    """Return the difference allowed between answers; `noise` is the size of terms that may have cancelled."""
    return ORACLE * scale + ROUNDING * noise


def check_cuts(
    problem: Declaration,
    cuts: tuple[Any, Array, Array | Sequence[int]],
    origin: Callable[[int], Array | None],
    X: Array,
    values: Array,
    noise: float = 0.0,
) -> None:
    """Raise `Contradiction` if a cut (slopes, offsets, blocks) lies above the value of its block at a point.

    `origin` returns the query point of a row, or None. `X` is one point or an array of points, `values` has
    inf where a value was not computed, `noise` is the size of terms that may have cancelled in a value.
    """
    slopes, offsets, blocks = cuts[0], cuts[1], np.asarray(cuts[2])
    X, values = np.atleast_2d(X, values)
    there = np.concatenate([values.T, np.full((1, len(X)), np.inf)])[blocks]  # half-spaces: inf
    excess = slopes @ X.T + offsets[:, np.newaxis] - there
    for row, place in np.argwhere(excess > ORACLE * np.abs(there)).tolist():
        found, x, above = origin(row), X[place], excess[row, place]
        size = np.abs(x) if found is None else np.abs(x) + np.abs(found)  # the offset is a sum of terms, too
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

    The tolerance is relative to `extent`, the size of the points at which the oracle was called, and to
    `scale`, the size of the simple set.
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
    """Return the size of terms that cancel inside a black box, if they explain a contradiction; else 0.

    A convex function is continuous. If large terms cancel in a black box, its values jump by their rounding
    errors somewhere between both points, and are the same when it is called again. The jump is found by
    bisection: it lies in the half of the segment with the larger error of a tangent.
    """
    if not evaluator.risk.black_box or error.origin is None:
        return 0.0
    ask = evaluator.point
    first, last = ask(error.origin), ask(error.x)
    for _ in range(_HALVINGS):
        middle = ask(first.x + 0.5 * (last.x - first.x))
        if not all(point.objective < math.inf for point in (first, middle, last)):
            return 0.0
        slope = evaluator.slopes(middle).sum(axis=0)
        before, after = (
            abs(float((point.values - middle.values).sum() - slope @ (point.x - middle.x)))
            for point in (first, last)
        )
        first, last = (first, middle) if before > after else (middle, last)
    if any((ask(point.x).values != point.values).any() for point in (first, last) for _ in range(_AGAIN)):
        return 0.0
    return abs(float((last.values - first.values).sum())) / EPS
