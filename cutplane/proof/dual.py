"""The certified lower bound: the dual function at given multipliers, never the objective of a solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np

from cutplane.pieces.capabilities import Capability, ability, ask
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.proof.bound import Combination, bound_of, combine
from cutplane.proof.evidence import HALF_SPACE, ProvableProblem, dense, row_sizes
from cutplane.proof.rounding import ABOVE, CANCELLED, EPS, FLAT, ORACLE, REACH, RESIDUAL, ROUNDING, gamma
from cutplane.regularizers.base import Minimum, minimise_quadratic, unregularized_by
from cutplane.risks.base import Risk
from cutplane.sets.base import size_of

_NEARLY = 1e-9
"""Slopes below this share of the largest one are kept at 0 while others are corrected, because the correction
changes them even less."""

Combiner = Callable[[Any, Array, Array, Array], Combination | None]

_ROUNDS = 4
"""Number of corrections of the multipliers, because each corrects the rounding error of the previous one."""
_LITTLE = 0.01
"""Share of the gap from which shorter intervals are computed to reduce the error, because this is slow."""
_STEP = 0.5
"""Share of the step at which the first multiplier becomes 0, because the interval is long near both ends."""


class DualValue(NamedTuple):
    """L(multipliers) minus a bound of its rounding errors, and the multipliers, clipped and normalised.

    `magnitude` is the sum of the absolute terms, `minimiser` the inner minimiser if it was computed, and
    `error` a bound of the rounding errors that the terms do not include yet.
    """

    value: float
    multipliers: Array
    magnitude: float
    minimiser: Array | None = None
    error: float = 0.0


class KnownMinimum(Protocol):
    """A proven lower bound of the inner minimum, as a function of the slope."""

    @property
    def value(self) -> float:
        """The bound for the slope of the solver."""
        ...

    def at(self, slope: Array) -> float:
        """Return the bound for another slope."""
        ...


class DualFunction:
    """L(a) = <offsets, a> + min over x in X0 of g(x) + <slopes' a, x>, a lower bound of the optimum.

    It is a lower bound for all multipliers a >= 0 with sum 1 over each block, because the offsets are rounded
    down.

    Parameters
    ----------
    problem : Problem
    charged : bool, default True
        Whether the rounding errors of slopes are subtracted. If they are not, the value is no lower bound,
        but up to other rounding errors no lower bound from these multipliers exceeds it.
    """

    def __init__(self, problem: ProvableProblem, charged: bool = True):
        self.problem = problem
        self._charged = charged
        self.simple = problem.separable
        self.free = np.empty(0, dtype=np.int64)
        """Coordinates without bounds and without regularizer, unless all are; coordinates open on one side
        are added if nearly flat."""
        self._intervals: Intervals | None = None
        sides = _open_sides(problem) if self.simple is None else self.simple.open_sides
        if sides.any():
            free = sides.all(axis=0)
            self.free = np.flatnonzero(free & ~free.all())
            self._open = np.where(np.isin(np.arange(free.size), self.free), False, sides)
            bounds = np.array(problem.simple_set.bounds(problem.dim))
            self._intervals = Intervals(bounds, self._combined)
        self._infimum = float(problem.risk.infima.sum())
        self._states_terms = type(problem.risk).rounded_terms is not Risk.rounded_terms
        self._zero = np.zeros(problem.dim)
        self.known: KnownMinimum | None = None
        """A proven inner minimum, used by the next call."""

    @property
    def remembers(self) -> bool:
        """Whether a bound may depend on intervals that were computed from rows of earlier calls."""
        return self._intervals is not None

    def forget(self) -> None:
        """Bound the free coordinates from now on only by the rows in use, as a certificate does."""
        if self._intervals is not None:
            self._intervals.forgets = True

    @property
    def solver_gap(self) -> float:
        """The gap of the solver of the last inner minimum, by which the value may be too low."""
        return self._solved.solver_gap if "_solved" in vars(self) else 0.0

    @property
    def calls_solver(self) -> bool:
        """Whether an evaluation solves a convex problem, because the inner minimum has no closed form."""
        return "_solved" in vars(self) and self._solved.is_used

    def __call__(
        self,
        slopes: Any,
        offsets: Array,
        blocks: Array,
        multipliers: Array,
        upper: float,
        set_multipliers: Array | None = None,
        reach: float = 0.0,
        lower: float = -math.inf,
    ) -> DualValue:
        """Evaluate L.

        Parameters
        ----------
        slopes : ndarray or csr_array of shape (K, dim)
        offsets, blocks, multipliers : ndarray of shape (K,)
            Negative and non-finite multipliers count as zero.
        upper : float
            The objective at a feasible point, because no better point has g above ``upper - sum(infima)``.
        set_multipliers : ndarray, optional
            Multipliers of the rows of the simple set's linear form, which may save a linear programme.
        reach : float, default 0.0
            Bound of the free coordinates of solutions. A slope that is a rounding error, times this distance,
            is subtracted from the bound.
        lower : float, optional
            A value of at most this may be replaced by -inf.
        """
        rows = slopes, offsets, blocks
        found = self._combined(*rows, multipliers)
        if found is None:
            return DualValue(-math.inf, np.zeros_like(offsets), 1.0)
        free, extent = self.free, reach / REACH
        if self._intervals is not None and self._open.any():
            free = np.union1d(free, _nearly_flat(found, slopes, *self._open))
        if self._intervals is None or not free.size:
            return self._of(found, free, upper, set_multipliers, extent, lower)
        found = balanced(found, rows, self._combined, free)
        value = self._of(found, free, upper, set_multipliers, extent, lower)
        if value.value == -math.inf:
            return value

        def bound(rise: Combination) -> float:
            return self._of(rise, free, upper, set_multipliers, extent, -math.inf).value

        error = self._intervals.charge(found, rows, free, upper, upper - value.value, reach, bound)
        if math.isinf(error):
            return value._replace(value=-math.inf)
        error += 2.0 * EPS * abs(value.value - error)
        return value._replace(value=value.value - error, error=value.error + error)

    def _combined(self, slopes: Any, offsets: Array, blocks: Array, multipliers: Array) -> Combination | None:
        """Return the combination of rows; its error includes the errors of slopes computed from data.

        By Fenchel's inequality, f at the query point of a cut exceeds inf f by at most inf f minus the offset
        of the cut. This bounds the slopes of smooth losses there.
        """
        found = combine(slopes, offsets, blocks, multipliers, self.problem.risk.n_blocks)
        if found is None or not self._states_terms or not (found.slope.any() or found.error.any()):
            return found
        rows = blocks < 0
        height = found.constant - (float(found.multipliers[rows] @ offsets[rows]) if rows.any() else 0.0)
        excess = max(self._infimum - height, 0.0) if self._infimum > -math.inf else math.inf
        terms = self.problem.risk.rounded_terms(self._zero, ABOVE * excess)
        if terms is None:
            return found
        return found._replace(error=found.error + gamma(terms.count) * terms.slope)

    def _of(
        self,
        found: Combination,
        free: Array,
        upper: float,
        set_multipliers: Array | None,
        extent: float,
        lower: float,
    ) -> DualValue:
        """Return the bound of a combination whose slope on the free coordinates is set to 0."""
        budget, v, slack = self._budget(upper, found.size), found.slope, found.error
        if free.size:
            v, slack = v.copy(), slack.copy()
            v[free] = slack[free] = 0.0
        if not self._charged:
            slack = np.zeros_like(slack)
        if self.simple is not None:
            x = np.empty(self.problem.dim)
            least = self.simple.least(v, slack, budget, x)
            return DualValue(bound_of(found, least), found.multipliers, found.size + abs(least), x)
        minimum = self._minimum(v, budget, set_multipliers, extent, lower - found.constant)
        value = found.constant + minimum.value
        magnitude = found.size + abs(minimum.value)
        error = CANCELLED * (magnitude + self._extent * float(np.abs(v).sum()))
        if math.isfinite(value):
            error += float(slack @ (np.full(v.size, extent) if minimum.x is None else np.abs(minimum.x)))
        if self.problem.risk.linear and error <= ROUNDING * abs(value):
            error = 0.0  # both bounds are this minimum, with the same rounding error
        return DualValue(value - error, found.multipliers, magnitude, minimum.x, error)

    def at_infima(self) -> float:
        """Return L of the infima of the blocks; -inf if it has no closed form."""
        zeros, infima = np.zeros(self.problem.dim), self.problem.risk.infima
        if self.simple is not None:
            blocks, ones = np.arange(infima.size), np.ones(infima.size)
            return self(np.zeros((infima.size, zeros.size)), infima, blocks, ones, math.inf).value
        found = self._closed(zeros, math.inf)
        if found is None:
            found = Minimum(-math.inf if self.problem.regularizer.lam > 0.0 else 0.0, None)
        error = CANCELLED * (abs(self._infimum) + abs(found.value))
        value = self._infimum + found.value
        return value - error if error > ROUNDING * abs(value) else value

    def least(self, v: Array) -> Minimum:
        """Return the inner minimum min over x in X0 of g(x) + <v, x>."""
        if self.simple is None:
            return self._minimum(v, math.inf, None, 0.0)
        x = np.empty(v.size)
        return Minimum(self.simple.least(v, np.zeros(v.size), x=x), x)

    def _budget(self, upper: float, terms: float) -> float:
        """Return an upper bound of g at points with an objective of at most `upper`."""
        if not math.isfinite(upper) or self._infimum == -math.inf:
            return math.inf
        budget = max(upper - self._infimum, 0.0)
        return budget + ROUNDING * (budget + abs(upper) + abs(self._infimum) + terms)

    def _minimum(
        self, v: Array, budget: float, set_multipliers: Array | None, extent: float, lower: float = -math.inf
    ) -> Minimum:
        minimum = self._closed(v, budget)
        if minimum is not None:
            return minimum
        known, self.known = self.known, None
        if known is not None:
            size = max(abs(known.value), abs(budget) if math.isfinite(budget) else 0.0)
            if (value := known.at(v)) >= known.value - ORACLE * size:
                return Minimum(value, None)
        return self._solved(v, budget, set_multipliers, extent, lower)

    def _closed(self, v: Array, budget: float) -> Minimum | None:
        """Return the inner minimum by a closed form; None if there is none."""
        closed_form = ability(self.problem.active_regularizer, Capability.CONJUGATE)
        if closed_form is not None:
            return closed_form(v, self.problem.simple_set, budget)
        return self._quadratic and minimise_quadratic(self._quadratic, v, self.problem.simple_set)

    @cached_property
    def _solved(self) -> Any:
        return self.problem.solved_minimum()

    @cached_property
    def _quadratic(self) -> DiagonalQuadratic | None:
        return ask(self.problem.active_regularizer, Capability.QUADRATIC, self.problem.dim)

    @cached_property
    def _extent(self) -> float:
        """The size of a set whose points have rounding errors relative to this size; 0 for a box."""
        simple_set, dim = self.problem.simple_set, self.problem.dim
        size = size_of(simple_set, dim)
        return size if simple_set.bounds(dim) is None and math.isfinite(size) else 0.0


def _open_sides(problem: ProvableProblem) -> Array:
    """Return where x is bounded neither by regularizer nor set, from below and from above; shape (2, dim)."""
    unregularized = unregularized_by(problem.active_regularizer, problem.dim)
    bounds = problem.simple_set.bounds(problem.dim)
    if unregularized is None or bounds is None:
        return np.zeros((2, problem.dim), dtype=bool)
    return np.isinf(bounds) & unregularized


def _nearly_flat(found: Combination, slopes: Any, below: Array, above: Array) -> Array:
    """Return the coordinates whose slope falls towards an open side by at most the tolerance of a solver.

    The tolerance is relative to the slopes of all rows, because the rows in use may be flat. Coordinates with
    a slope of almost 0 are added. If a slope falls by more than the tolerance, no coordinate is returned,
    because no bound is finite.
    """
    v = found.slope
    falls = ((v > -found.error) & below) | ((v < found.error) & above)
    if not falls.any():
        return np.empty(0, dtype=np.int64)
    terms = row_sizes(slopes.T)
    if (np.abs(v) > np.maximum(RESIDUAL * terms, found.error))[falls].any():
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(falls | ((below | above) & (np.abs(v) <= _NEARLY * terms)))


# --------------------------------------------- coordinates that neither regularizer nor set bounds
#
# A bound is finite only if the slope of the combination of cuts is 0 there, up to rounding errors. Suppose
# that a combination rises by delta along coordinate j, and has the bound c without this slope. Points with an
# objective of at most `upper` then have x_j <= (upper - c) / delta. The bound of another combination is
# lowered by its residual slope times this length.


def balanced(
    found: Combination, rows: tuple[Any, Array, Array], combined: Combiner, free: Array
) -> Combination:
    """Return a nearby combination whose slope on the free coordinates is 0 up to rounding, if possible."""
    for _ in range(_ROUNDS + free.size):
        if (np.abs(found.slope[free]) <= found.error[free]).all():
            break
        columns = _in_units(dense(rows[0][:, free]))
        residual = found.multipliers @ columns
        changes = -directions(found.multipliers, columns, rows[2]) @ residual
        nearer = combined(*rows, found.multipliers + changes)
        if nearer is None or np.abs(nearer.multipliers @ columns).max() > 0.5 * np.abs(residual).max():
            if _is_rounding(np.abs(found.slope[free]), found, rows, free):
                break
            nearer = combined(*rows, _tilted(found.multipliers, columns, rows[2], residual))
        if nearer is None or not np.abs(nearer.multipliers @ columns).sum() < np.abs(residual).sum():
            break
        found = nearer
    return found


def _in_units(columns: Array) -> Array:
    """Return each column in units of its largest entry."""
    units = np.abs(columns).max(axis=0)
    return columns / np.where(units > 0.0, units, 1.0)


def _is_rounding(residual: Array, found: Combination, rows: tuple[Any, Array, Array], free: Array) -> bool:
    """Tell whether slopes are rounding errors, relative to the largest slope in use or by a proven bound."""
    flat = FLAT * float(found.multipliers @ row_sizes(rows[0]))
    return bool((residual <= np.maximum(flat, 2.0 * found.error[free])).all())


def directions(weights: Array, columns: Array, blocks: Array) -> Array:
    """Return changes of multipliers that keep the sums of blocks; column j raises only slope j, by 1."""
    centred = columns - _means(weights, columns, blocks)
    weighed = weights[:, np.newaxis] * centred
    spread = centred.T @ weighed
    if spread.size > 1:
        return weighed @ np.linalg.pinv(spread, hermitian=True)
    return weighed / spread if spread > 0.0 else np.zeros_like(weighed)


def _means(weights: Array, columns: Array, blocks: Array) -> Array:
    """Return the mean slope of the block of each row; 0 for half-spaces."""
    sums = np.array([np.bincount(blocks + 1, weights * column) for column in columns.T]).T
    sums[HALF_SPACE + 1] = 0.0
    return sums[blocks + 1]


def _tilted(weights: Array, columns: Array, blocks: Array, residual: Array) -> Array:
    """Return multipliers with more weight on the row that reduces the largest residual most."""
    j = int(np.abs(residual).argmax())
    gains = -np.sign(residual[j]) * (columns - _means(weights, columns, blocks))[:, j]
    row = int(gains.argmax())
    share = min(1.0, abs(residual[j]) / gains[row]) if gains[row] > 0.0 else 0.0
    mine = (blocks == blocks[row]) & (blocks != HALF_SPACE)
    tilted = np.where(mine, (1.0 - share) * weights, weights)
    tilted[row] += share
    return tilted


class Intervals:
    """Bounds of the free coordinates of points whose objective is at most `upper`, derived from cuts.

    `sides`, shape (2, dim), are the bounds of the set; `combined` combines rows by multipliers.
    """

    def __init__(self, sides: Array, combined: Combiner):
        self.sides, self.combined = sides, combined
        self._ends = np.full(sides.shape[1], math.inf)
        self._upper = self._height = math.inf
        self.forgets = False

    def charge(
        self,
        found: Combination,
        rows: tuple[Any, Array, Array],
        free: Array,
        upper: float,
        height: float,
        reach: float,
        bound: Callable[[Combination], float],
    ) -> float:
        """Return the decrease of the bound by the residual slope; inf if the coordinates are unbounded.

        `bound` computes the bound of a combination whose slope on the free coordinates is set to 0, `height`
        is its distance below `upper`, and `reach` replaces an infinite interval if the slope is a rounding
        error.
        """
        residual = np.abs(found.slope[free]) + found.error[free]
        if not residual.any():
            return 0.0
        columns = dense(rows[0][:, free])[found.multipliers > 0.0]
        lower, above = np.isinf(self.sides[:, free])
        if (lower & (columns.min(axis=0) >= 0.0)).any() or (above & (columns.max(axis=0) <= 0.0)).any():
            ends = np.full(free.size, math.inf)
        else:
            if self.forgets or upper > self._upper:  # a new evaluation of the best point may be larger
                self._ends[:] = math.inf
            ends = self._ends[free]
            least = residual @ ends <= _LITTLE * height or height > 0.5 * self._height
            if not (least and np.isfinite(ends).all()):
                farthest = self._farthest(found, rows, free, upper, bound)
                self._ends[free] = ends = np.minimum(ends, farthest)
                self._upper, self._height = upper, height
        if np.isinf(ends).any():
            if not _is_rounding(residual, found, rows, free):
                return math.inf
            ends = np.minimum(ends, reach)
        return ABOVE * float(residual @ ends)

    def _farthest(
        self,
        found: Combination,
        rows: tuple[Any, Array, Array],
        free: Array,
        upper: float,
        bound: Callable[[Combination], float],
    ) -> float:
        """Return a bound of the free coordinates, by combinations that increase towards each open side."""
        used = np.flatnonzero(found.multipliers)
        mine = rows[0][used], rows[1][used], rows[2][used]
        weights, columns = found.multipliers[used], dense(mine[0][:, free])
        ways = directions(weights, _in_units(columns), mine[2])
        sides = self.sides[:, free]
        farthest = known = np.where(np.isfinite(sides), np.abs(sides), 0.0).max(initial=0.0)
        for j, sign in product(range(free.size), (-1.0, 1.0)):
            way = sign * ways[:, j]
            falls = way < 0.0
            if math.isinf(sides[int(sign > 0.0), j]):
                step = _STEP * float((weights[falls] / -way[falls]).min()) if falls.any() else 0.0
                rise = self.combined(*mine, weights + step * way)
                farthest = max(farthest, _end(rise, free, j, sign, known, upper, bound))
        return farthest


def _end(
    rise: Combination | None,
    free: Array,
    j: int,
    sign: float,
    known: float,
    upper: float,
    bound: Callable[[Combination], float],
) -> float:
    """Return a bound of the free coordinates, by a combination that increases along one of them."""
    if rise is None:
        return math.inf
    others = np.abs(rise.slope[free]) + rise.error[free]
    delta = sign * float(rise.slope[free[j]]) - float(rise.error[free[j]])
    across = float(others.sum() - others[j])
    height = max(upper - bound(rise), 0.0) + across * known
    return height / (delta - across) if delta > across else math.inf
