"""Calls the user's oracles: times them, counts them, and checks every answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.oracle_checks import name_of, show
from cutplane.engine.solutions import per_block
from cutplane.engine.tolerances import CANCELLED, DRIFTED, EPS, FAR, ORACLE, OVERFLOWS
from cutplane.exceptions import InfeasibleError, OracleError
from cutplane.pieces.capabilities import Capability, ability, offers
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import gamma, offsets_down
from cutplane.risks.base import Estimate, ImagedRisk, OnDemandRisk, Risk
from cutplane.runtime.blas import usual_blas_threads
from cutplane.runtime.clock import clock
from cutplane.sets.base import HalfSpace, HalfSpaces, Separator

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.pieces.forms import DiagonalQuadratic


_SHORT = 2e-4
"""Seconds of a call of a user's oracle below which BLAS keeps one thread, because changing their number twice
takes 8 microseconds, and products that end so soon gain nothing from threads."""


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
        What the risk's `image` returned; None for a risk without images.
    slopes : ndarray of shape (n_blocks, dim) or None
        Subgradients, if they came with the value; `Evaluator.slopes` gives them at any rate.
    offsets : ndarray of shape (n_blocks,) or None
        Those of the cuts, if these may lie below the values at x.
    multipliers : ndarray of shape (m,) or None
        Of the examples, if the cuts come from these.
    solutions : tuple or None
        One per block, if the oracle returned its solution.
    feasible : bool
        False if a separation oracle cut the point off, so that its objective is no upper bound.
    drift : float
        A bound of the relative error of the image.
    cancelled : float, or ndarray of shape (n_blocks,)
        What the risk's `cancelled` returned, of a risk without images.
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


class Evaluator:
    """The only caller of the oracles of a problem."""

    def __init__(self, problem: Declaration):
        self.problem = problem
        self.risk = problem.risk
        self.imaged = isinstance(problem.risk, ImagedRisk)
        self.combines = True
        """Whether images of points on a line are combined, which is cheap, and rounds some last bits."""
        self.seconds = 0.0
        self.calls = 0
        self.separations = 0
        self.hidden = 0.0
        """The size of terms inside a black box that cancel in its values, as far as answers show it."""
        self._last: Estimate | None = None
        self._sloped: tuple[Point, Array] | None = None
        self._doubted: tuple[Point, Any] | None = None
        self._is_on_demand = isinstance(problem.risk, OnDemandRisk)
        self._has_cancelled = type(problem.risk).cancelled is not Risk.cancelled
        self._pieces = ability(problem.risk, Capability.PIECES)
        users = problem.risk.black_box or problem.separators
        self._is_users = bool(users)
        self._took = math.inf  # seconds of the last call of an oracle

    def point(self, x: Array, accuracy: float = 0.0) -> Point:
        """Evaluate the objective at x: one pass over the data, or one call of the oracle.

        `accuracy` is that of a risk with on-demand accuracy.
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
            solutions = per_block(third[0], risk.n_blocks, name_of(risk)) if third else None
        values = self._values(values, x)
        cancelled, total = 0.0, float(values.sum()) if values.size > 1 else values.item()
        if not self.imaged:
            slopes = self._check_slopes(slopes, x) if total < math.inf else None
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
        values, slopes = self._values(answer.values, x), self._check_slopes(answer.slopes, x)
        offsets = self._check_values(answer.offsets, x)
        objective = float(values.sum()) + self.problem.regularizer.value(x)
        cancelled = self._cancelled(values, x)
        return Point(x, objective, values, None, slopes, offsets, answer.multipliers, cancelled=cancelled)

    def _cancelled(self, values: Array, x: Array) -> Any:
        """Ask what cancelled in the values of a risk without images, right after they were computed."""
        return self._call(self.risk.cancelled, x) if self._has_cancelled and _is_finite(values) else 0.0

    def between(self, start: Point, end: Point, t: float, accuracy: float = 0.0) -> Point:
        """Evaluate start + t (end - start): no pass over the data if the risk has images.

        Images combined from others drift away from those of their points; far ones are computed afresh.
        """
        x = start.x + t * (end.x - start.x)
        risk = self.risk
        drift = _drift(start, end, t, x) if self.imaged else np.inf
        if not isinstance(risk, ImagedRisk) or drift > DRIFTED or not self.combines:
            return self.point(x, accuracy)
        image = self._call(risk.combine, start.image, end.image, t)
        values = self._values(self._call(risk.values, image), x)
        objective = float(values.sum()) + self.problem.regularizer.value(x)
        return Point(x, objective, values, image, drift=drift)

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
            self._sloped = point, self._check_slopes(self._call(self.risk.slopes, point.image), point.x)
        return self._sloped[1]

    def cut(self, point: Point) -> tuple[Array, Array]:
        """Return slopes and offsets of the cuts, one per block, at an evaluated point.

        The offsets are rounded down, because a stored cut must be true.
        """
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
        if slopes.shape != (values.size, point.x.size) or not (_is_finite(slopes) and _is_finite(values)):
            raise OracleError(
                f"{name_of(self.risk)}.pieces must return finite values, shape (k,), and slopes, shape "
                f"(k, dim), got {_describe(values)} and {_describe(slopes)} at x = {show(point.x)}."
            )
        cancelled = np.broadcast_to(self.cancelled(point), self.risk.n_blocks)[blocks]
        return slopes, self._offsets(point, slopes, values, cancelled), blocks.tolist()

    def _offsets(self, point: Point, slopes: Array, values: Array, cancelled: Any) -> Array:
        """Return values - <slopes, x>, rounded down by the errors of the values and of this difference.

        The only cut of a linear risk is the risk itself: the value at zero has no error of a difference.
        """
        if self.risk.linear:
            return self._at_zero
        share, beside = CANCELLED + gamma(point.x.size + 6), np.empty(values.size)
        beside[:] = CANCELLED * (cancelled + self.hidden)
        offsets = np.empty(values.size)
        offsets_down(*map(np.ascontiguousarray, (values, slopes, point.x)), beside, share, offsets)
        return offsets

    def cancelled(self, point: Point) -> Any:
        """Return the size of the terms that cancel in the values at a point, as far as the risk says."""
        if point.image is None or not self._has_cancelled:
            return point.cancelled
        if self._doubted is None or self._doubted[0] is not point:
            self._doubted = point, self._call(self.risk.cancelled, point.image)
        return self._doubted[1]

    def dual_cut(self, multipliers: Array, *sizes: float) -> tuple[Array, Array]:
        """Return slopes and offsets of the cuts, one per block, that multipliers of the examples give.

        Those of a risk that knows no multipliers but has a cvxpy form are the slope of its highest cut;
        `sizes` are those of solutions, of slopes and of offsets, as far as they are known.
        """
        self.calls += 1
        cut = ability(self.risk, Capability.DUAL_CUT)
        slopes, offsets = self._call(cut, multipliers) if cut else self._highest_cut(multipliers, *sizes)
        x = np.zeros(self.problem.dim)
        return self._check_slopes(slopes, x), self._check_values(offsets, x)

    @property
    def doubt(self) -> float:
        """How far above the offset of the last dual cut the highest one may be, where a solver found it."""
        return self._conjugate.doubt if "_conjugate" in vars(self) else 0.0

    @cached_property
    def _conjugate(self) -> Any:
        from cutplane.masters.conic.whole import Conjugate

        return Conjugate(self.risk, self.problem.simple_set, self.problem.dim)

    def _highest_cut(self, slope: Array, *sizes: float) -> tuple[Array, Array]:
        offset = self._call(self._conjugate, slope, *sizes)
        if offset == -np.inf:
            raise OracleError(f"{name_of(self.risk)} has no cut with the slope {show(slope)}.")
        return slope[np.newaxis], np.array([offset])

    def line(self, start: Point, end: Point) -> Line:
        """Return the objective on the line through two points of a risk with images."""
        assert isinstance(self.risk, ImagedRisk)
        line = self._call(self.risk.line, start.image, end.image)
        return line + self.problem.regularizer.line(start.x, end.x)

    def curvature(self, x: Array, direction: Array) -> float:
        """Return c with f(x + t direction) <= f(x) + t <f'(x), direction> + c t^2 / 2 for all t in [0, 1]."""
        risk: Any = self.risk
        bound = self._call(risk.curvature_bound, x, direction)
        if not 0.0 <= bound < np.inf:
            raise OracleError(f"The curvature bound of {name_of(self.risk)} is {bound}, not a number >= 0.")
        return float(bound)

    def minimiser(self, quadratic: DiagonalQuadratic) -> Array | None:
        """Return the minimiser of f(x) + quadratic(x), of a risk that knows it; or None."""
        risk: Any = self.risk
        x = self._call(risk.minimise_with, quadratic)
        if x is None:
            return None
        array, shape = _as_own_floats(x), (self.problem.dim,)
        if array is None or array.shape != shape or not _is_finite(array):
            raise OracleError(
                f"{name_of(risk)}.minimise_with must return a finite point of shape "
                f"{shape} or None, got {_describe(x)}."
            )
        return array

    def separate(self, x: Array, separators: Sequence[Separator] | None = None) -> HalfSpaces:
        """Ask separation oracles, by default all, about x; no half-space says that x is inside.

        Half-spaces that x violates by rounding alone do not count.
        """
        found: list[HalfSpaces] = []
        for separator in self.problem.separators if separators is None else separators:
            self.separations += 1
            answer = self._call(separator.separate, x.copy())
            found.append(self._check_half_spaces(separator, answer, x))
        return HalfSpaces.stack(found, x.size)

    @property
    def knows_nearby(self) -> bool:
        """Whether a separation oracle can move a point into its set."""
        return any(offers(separator, Capability.NEARBY) for separator in self.problem.separators)

    def nearby(self, x: Array) -> Array | None:
        """Return a point of X close to x, as the separation oracles that can propose one do; or None."""
        for separator in self.problem.separators:
            function = ability(separator, Capability.NEARBY)
            if function is None:
                continue
            found = self._call(function, x)
            if found is not None and np.shape(found) != x.shape:
                raise OracleError(
                    f"{name_of(separator)}.nearby must return a point of shape {x.shape} or None, got "
                    f"{_describe(found)}."
                )
            if found is not None and self.problem.in_simple_set(found) and not len(self.separate(found)):
                return found
        return None

    def _call(self, function: Any, *arguments: Any) -> Any:
        start = clock()
        try:
            if not self._is_users or self._took < _SHORT:
                return function(*arguments)
            with usual_blas_threads():
                return function(*arguments)
        except (OracleError, InfeasibleError, MemoryError):
            raise
        except Exception as error:
            raise OracleError(
                f"{name_of(getattr(function, '__self__', function))} raised {type(error).__name__}: {error}"
            ) from error
        finally:
            self._took = clock() - start
            self.seconds += self._took

    def _values(self, values: Any, x: Array) -> Array:
        """Return the values; inf for those that are so large that subgradients and sums overflow."""
        if self.risk.n_blocks == 1 and isinstance(values, float) and -math.inf < values <= OVERFLOWS:
            return np.array([values])
        array = self._check_values(values, x)
        array[array > OVERFLOWS] = np.inf
        return array

    def _check_values(self, values: Any, x: Array) -> Array:
        shape = (self.risk.n_blocks,)
        array = _as_own_floats(values)
        if array is not None and array.size == 1 and shape == (1,):
            array = array.reshape(1)
        if array is None or array.shape != shape:
            wanted = "a float" if shape == (1,) else f"an array of shape {shape}"
            raise OracleError(f"The value of {name_of(self.risk)} must be {wanted}, got {_describe(values)}.")
        if not _is_finite(array) and (np.isnan(array).any() or (array == -np.inf).any()):
            raise OracleError(
                f"The value of {name_of(self.risk)} is {array} at x = {show(x)}; it must be a number."
            )
        return array

    def _check_slopes(self, slopes: Any, x: Array) -> Array:
        blocks, dim = self.risk.n_blocks, self.problem.dim
        array = _as_own_floats(slopes)
        if array is not None and blocks == 1 and array.shape == (dim,):
            array = array.reshape(1, dim)
        if array is None or array.shape != (blocks, dim):
            wanted = (dim,) if blocks == 1 else (blocks, dim)
            raise OracleError(
                f"The subgradient of {name_of(self.risk)} must have shape {wanted}, got {_describe(slopes)}."
            )
        if not _is_finite(array):
            raise OracleError(
                f"The subgradient of {name_of(self.risk)} has entries that are not finite at x = {show(x)}."
            )
        return array

    def _check_half_spaces(self, separator: Separator, answer: Any, x: Array) -> HalfSpaces:
        if isinstance(answer, HalfSpaces):
            found = HalfSpaces(answer.normals.copy(), np.array(answer.offsets, dtype=np.float64))
        else:
            self._check_each(separator, answer, x)
            found = HalfSpaces.of(answer, x.size)
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

    def _check_each(self, separator: Separator, answer: Any, x: Array) -> None:
        for half_space in answer:
            if not isinstance(half_space, HalfSpace):
                raise OracleError(
                    f"{name_of(separator)} must return HalfSpace objects, got {_describe(half_space)}."
                )
            if half_space.normal.shape != x.shape:
                raise OracleError(
                    f"{name_of(separator)} returned a HalfSpace of dimension {half_space.normal.shape[0]}; "
                    f"the problem has dimension {x.shape[0]}."
                )


def _drift(start: Point, end: Point, t: float, x: Array) -> float:
    """Return a bound of the relative error of a combined image: errors grow as the terms cancel."""
    if not -FAR <= t <= FAR:
        return np.inf
    size = float(np.abs(x).max())
    if size == 0.0:
        return np.inf
    inherited = abs(1.0 - t) * start.extent * start.drift + abs(t) * end.extent * end.drift
    rounding = EPS * (start.extent + abs(t) * (start.extent + end.extent))  # of z0 + t (z1 - z0)
    return (inherited + rounding) / size


def _as_own_floats(value: Any) -> Array | None:
    """Return a copy, since an oracle may use its array again; None if it does not hold real numbers."""
    if isinstance(value, np.ndarray | float) and (isinstance(value, float) or value.dtype == np.float64):
        return np.array(value)
    try:
        return None if np.iscomplexobj(value) else np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def largest(sizes: Any) -> float:
    """Return the largest of one number or several."""
    return sizes if isinstance(sizes, float) else float(np.max(sizes))


def _is_finite(array: Array) -> bool:
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def _describe(value: Any) -> str:
    return f"shape {np.shape(value)}" if _as_own_floats(value) is not None else repr(value)
