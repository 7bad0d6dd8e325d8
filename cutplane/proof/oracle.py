"""Evaluations of oracles, with a check of every answer, and every cut rounded down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cutplane.exceptions import InfeasibleError, OracleError
from cutplane.pieces.answers import describe, is_finite, name_of, show, slopes_of, solutions_of, values_of
from cutplane.pieces.capabilities import Capability, ability, offers
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import ProvableProblem
from cutplane.proof.rounding import ABOVE, CANCELLED, EPS, ORACLE, OVERFLOWS, gamma
from cutplane.risks.base import Estimate, ImagedRisk, Risk
from cutplane.sets.base import HalfSpaces, Separator


@dataclass(eq=False)
class Point:
    """An evaluated point.

    Attributes
    ----------
    x : ndarray of shape (dim,)
    objective : float
        f(x) + g(x).
    values : ndarray of shape (n_blocks,)
        The blocks of f(x).
    image : object
        The answer of the risk's `image`; None for a risk without images.
    slopes : ndarray of shape (n_blocks, dim) or None
        Subgradients, if the oracle returned them with the value; otherwise see `Oracle.slopes`.
    offsets : ndarray of shape (n_blocks,) or None
        Offsets of cuts that may lie below the values at x.
    multipliers : ndarray of shape (m,) or None
        Multipliers of the examples that define the cuts.
    solutions : tuple or None
        One per block, if the oracle returned its solution.
    feasible : bool
        False if a separation oracle cut the point off, so that its objective is no upper bound.
    drift : float
        A bound of the relative error of the image.
    cancelled : float, or ndarray of shape (n_blocks,)
        The answer of the risk's `cancelled`, for a risk without images.
    """

    x: Array
    objective: float
    values: Array
    image: Any = None
    slopes: Array | None = None
    offsets: Array | None = None
    multipliers: Array | None = None
    solutions: tuple[Any, ...] | None = None
    feasible: bool = True
    drift: float = EPS
    cancelled: Any = 0.0

    @cached_property
    def extent(self) -> float:
        """The largest absolute entry of x."""
        return float(np.abs(self.x).max())


class Oracle:
    """Evaluate the oracles of a problem, and check their answers."""

    def __init__(self, problem: ProvableProblem):
        self.problem = problem
        self.risk = problem.risk
        self.imaged = isinstance(problem.risk, ImagedRisk)
        self.calls = 0
        self.separations = 0
        self.hidden = 0.0
        """An estimate of the size of terms that cancel inside a black box, from its answers."""
        self.states_terms = type(problem.risk).rounded_terms is not Risk.rounded_terms
        self._least = float(problem.risk.infima.sum())
        self._last: Estimate | None = None
        self._sloped: tuple[Point, Array] | None = None
        self._cancelled_at: tuple[Point, Any] | None = None
        self._is_on_demand = offers(problem.risk, Capability.ON_DEMAND)
        self._has_cancelled = type(problem.risk).cancelled is not Risk.cancelled
        self._pieces = ability(problem.risk, Capability.PIECES)

    def point(self, x: Array, accuracy: float = 0.0) -> Point:
        """Evaluate the objective at x: one pass over the data, or one call of the oracle.

        `accuracy` is passed to a risk with on-demand accuracy.
        """
        risk: Any = self.risk
        image = slopes = solutions = None
        if self._is_on_demand:
            return self._estimated(risk, x, accuracy)
        if self.imaged:
            image = self._call(risk.image, x.copy())
            values = self._call(risk.values, image)
        else:
            self.calls += 1
            answer = self._call(risk.oracle, x.copy())
            if not isinstance(answer, Sequence) or len(answer) not in (2, 3):
                raise OracleError(
                    f"{name_of(risk)} must return (value, subgradient), or (value, subgradient, solution), "
                    f"got {answer!r}."
                )
            values, slopes, *third = answer
            solutions = solutions_of(name_of(risk), third[0], risk.n_blocks) if third else None
        values = self._values(values, x)
        cancelled, total = 0.0, float(values.sum()) if values.size > 1 else values.item()
        if not self.imaged:
            slopes = self._checked(slopes, x) if total < math.inf else None
            cancelled = self._cancelled(values, x)
        objective = total + self.problem.regularizer.value(x)
        return Point(x, objective, values, image, slopes, None, None, solutions, cancelled=cancelled)

    @cached_property
    def _at_zero(self) -> Array:
        """The values at zero, rounded down."""
        zero = np.zeros(self.problem.dim)
        values = self._values(self._call(self.risk.oracle, zero)[0], zero)
        return values - CANCELLED * np.abs(values)

    def _estimated(self, risk: Any, x: Array, accuracy: float) -> Point:
        self.calls += 1
        self._last = answer = self._call(risk.estimate, x, accuracy, self._last)
        values, slopes = self._values(answer.values, x), self._checked(answer.slopes, x)
        offsets = values_of(name_of(risk), answer.offsets, risk.n_blocks, x)
        objective = float(values.sum()) + self.problem.regularizer.value(x)
        cancelled = self._cancelled(values, x)
        return Point(x, objective, values, None, slopes, offsets, answer.multipliers, cancelled=cancelled)

    def _cancelled(self, values: Array, x: Array) -> Any:
        """Return the size of cancelled terms of a risk without images, directly after its values."""
        return self._call(self.risk.cancelled, x) if self._has_cancelled and is_finite(values) else 0.0

    def slopes(self, point: Point) -> Array:
        """Return one subgradient per block at an evaluated point, shape (n_blocks, dim)."""
        if point.slopes is not None:
            return point.slopes
        if not isinstance(self.risk, ImagedRisk):
            raise OracleError(
                f"The value of {name_of(self.risk)} is {point.values} at x = {show(point.x)}: no cut is there"
            )
        if self._sloped is None or self._sloped[0] is not point:
            self.calls += 1
            self._sloped = point, self._checked(self._call(self.risk.slopes, point.image), point.x)
        return self._sloped[1]

    def cut(self, point: Point) -> tuple[Array, Array]:
        """Return slopes and offsets, rounded down, of the cuts at an evaluated point, one per block."""
        slopes = self.slopes(point)
        if point.offsets is None:
            return slopes, self._offsets(point, slopes, point.values, self.cancelled(point))
        terms = np.abs(point.offsets) + self.cancelled(point)
        if point.multipliers is None:
            terms = terms + np.abs(slopes) @ np.abs(point.x)
        return slopes, point.offsets - CANCELLED * terms

    def cuts(self, point: Point, every: bool = True) -> tuple[Array, Array, Sequence[int]]:
        """Return slopes, offsets and blocks of the cuts at an evaluated point: all, or one per block."""
        pieces = self._pieces if every else None
        if pieces is None or not math.isfinite(point.objective):
            return *self.cut(point), range(self.risk.n_blocks)
        self.calls += self.imaged
        answer = self._call(pieces, point.image if self.imaged else point.x.copy())
        values, slopes, blocks = (np.array(part) for part in answer)
        if slopes.shape != (values.size, point.x.size) or not (is_finite(slopes) and is_finite(values)):
            raise OracleError(
                f"{name_of(self.risk)}.pieces must return finite values, shape (k,), and slopes, shape "
                f"(k, dim), got {describe(values)} and {describe(slopes)} at x = {show(point.x)}."
            )
        cancelled = np.broadcast_to(self.cancelled(point), self.risk.n_blocks)[blocks]
        return slopes, self._offsets(point, slopes, values, cancelled), blocks.tolist()

    def _offsets(self, point: Point, slopes: Array, values: Array, cancelled: Any) -> Array:
        """Return values - <slopes, x>, rounded down by the errors of the values and of this difference.

        The only cut of a linear risk is the risk itself, whose offset is the value at zero, without a
        difference.
        """
        if self.risk.linear:
            return self._at_zero
        from cutplane.proof.bound import offsets_down  # not at the top, because it needs numba

        share, beside = CANCELLED + gamma(point.x.size + 6), np.empty(values.size)
        beside[:] = CANCELLED * (cancelled + self.hidden)
        beside += self.rounding(point)
        offsets = np.empty(values.size)
        offsets_down(*map(np.ascontiguousarray, (values, slopes, point.x)), beside, share, offsets)
        return offsets

    def rounding(self, point: Point) -> float:
        """Return a bound of the rounding error of the values at a point, with the drift of its scores."""
        if not self.states_terms:
            return 0.0
        terms = self.risk.rounded_terms(point.x, ABOVE * max(float(point.values.sum()) - self._least, 0.0))
        if terms is None:
            return 0.0
        scores = (point.drift - EPS) * point.extent * float(terms.slope.sum())
        return gamma(terms.count) * terms.value + scores

    def cancelled(self, point: Point) -> Any:
        """Return the size of the terms that cancel in the values at a point, if the risk gives it."""
        if point.image is None or not self._has_cancelled:
            return point.cancelled
        if self._cancelled_at is None or self._cancelled_at[0] is not point:
            self._cancelled_at = point, self._call(self.risk.cancelled, point.image)
        return self._cancelled_at[1]

    def dual_cut(self, multipliers: Array, *sizes: float) -> tuple[Array, Array]:
        """Return slopes and offsets of the cuts that multipliers of the examples define, one per block.

        If the risk has only a cvxpy form, `multipliers` is the slope of its highest cut. `sizes` are the
        sizes of solutions, slopes and offsets, or 0.
        """
        self.calls += 1
        cut = ability(self.risk, Capability.DUAL_CUT)
        slopes, offsets = self._call(cut, multipliers) if cut else self._highest_cut(multipliers, *sizes)
        x = np.zeros(self.problem.dim)
        return self._checked(slopes, x), values_of(name_of(self.risk), offsets, self.risk.n_blocks, x)

    @property
    def solver_gap(self) -> float:
        """The gap of the solver that computed the offset of the last dual cut."""
        return self._conjugate.solver_gap if "_conjugate" in vars(self) else 0.0

    @cached_property
    def _conjugate(self) -> Any:
        return self.problem.conjugate()

    def _highest_cut(self, slope: Array, *sizes: float) -> tuple[Array, Array]:
        offset = self._call(self._conjugate, slope, *sizes)
        if offset == -np.inf:
            raise OracleError(f"{name_of(self.risk)} has no cut with the slope {show(slope)}.")
        return slope[np.newaxis], np.array([offset])

    def separate(self, x: Array, separators: Sequence[Separator] | None = None) -> HalfSpaces:
        """Return the half-spaces that x violates by more than rounding errors; none if x is inside."""
        found: list[HalfSpaces] = []
        for separator in self.problem.separators if separators is None else separators:
            self.separations += 1
            answer = self._call(separator.separate, x.copy())
            found.append(self._check_half_spaces(separator, answer, x))
        return HalfSpaces.stack(found, x.size)

    def _call(self, function: Any, *arguments: Any) -> Any:
        """Call a function of a piece; turn its errors into `OracleError`."""
        try:
            return function(*arguments)
        except (OracleError, InfeasibleError, MemoryError):
            raise
        except Exception as error:
            raise OracleError(
                f"{name_of(getattr(function, '__self__', function))} raised {type(error).__name__}: {error}"
            ) from error

    def _values(self, values: Any, x: Array) -> Array:
        """Return the values, with inf where subgradients and sums would overflow."""
        if self.risk.n_blocks == 1 and isinstance(values, float) and -math.inf < values <= OVERFLOWS:
            return np.array([values])
        array = values_of(name_of(self.risk), values, self.risk.n_blocks, x)
        array[array > OVERFLOWS] = np.inf
        return array

    def _checked(self, slopes: Any, x: Array) -> Array:
        return slopes_of(name_of(self.risk), slopes, self.risk.n_blocks, x)

    def _check_half_spaces(self, separator: Separator, answer: Any, x: Array) -> HalfSpaces:
        found = HalfSpaces.of(answer, x.size, name_of(separator))
        if found.normals.shape[1] != x.size:
            raise OracleError(
                f"{name_of(separator)} returned half-spaces of dimension {found.normals.shape[1]}; the "
                f"problem has dimension {x.size}."
            )
        violations = found.violations(x)
        if not np.isfinite(violations).all():
            raise OracleError(f"{name_of(separator)} returned half-spaces whose entries are not finite.")
        wrong = np.flatnonzero(-violations > ORACLE * found.sizes(x))
        if wrong.size:
            offset = found.offsets[wrong[0]]
            raise OracleError(
                f"{name_of(separator)} returned a half-space that does not separate: <normal, x> = "
                f"{offset + violations[wrong[0]]:g} <= {offset:g} = offset at x = {show(x)}. "
                "Return no half-space for a point inside."
            )
        outside = (violations <= 0.0) | (violations > CANCELLED * found.sizes(x))
        return found if outside.all() else HalfSpaces(found.normals[outside], found.offsets[outside])
