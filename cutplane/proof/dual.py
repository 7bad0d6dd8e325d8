"""The certified lower bound: multipliers through the conjugate, never a solver's objective."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from cutplane.pieces.capabilities import Capability, ability, ask
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.proof.bound import Combination, bound_of, combine
from cutplane.proof.evidence import Problem, row_sizes
from cutplane.proof.free import Intervals, balanced
from cutplane.proof.rounding import ABOVE, CANCELLED, EPS, LEFT, ORACLE, REACH, ROUNDING, gamma
from cutplane.regularizers.base import Minimum, minimise_quadratic, unregularized_by
from cutplane.risks.base import Risk
from cutplane.sets.base import size_of

_NEARLY = 1e-9
"""Coordinates this small are kept at 0 while others are corrected, because a correction of the multipliers
that is smaller than `LEFT` changes them by less than it changes those."""


class DualValue(NamedTuple):
    """L(multipliers) and the multipliers as they were used: clipped, and normalised per block."""

    value: float
    """Less a bound of its rounding errors."""
    multipliers: Array
    magnitude: float
    """Size of the terms that `value` is the sum of: rounding errors are relative to it."""
    minimiser: Array | None = None
    """Where the inner minimum is attained; None if it is not."""
    error: float = 0.0
    """The bound of the rounding errors, where it was not proven term by term."""


class Known(Protocol):
    """A lower bound of the inner minimum that a solver has proven on its way."""

    @property
    def value(self) -> float:
        """The bound for the slope of the solver."""
        ...

    def at(self, slope: Array) -> float:
        """Return the bound for another slope."""
        ...


class DualFunction:
    """L(a) = <offsets, a> + min over x in X0 of g(x) + <slopes' a, x>, a lower bound of the optimum.

    It is one for all multipliers a >= 0 whose sum over each block is 1, because the offsets are rounded down.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem):
        self.problem = problem
        self.simple = problem.separable
        self.free = np.empty(0, dtype=np.int64)
        """The coordinates that are always taken to be free; all others, only if the slope is nearly flat."""
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
        self.known: Known | None = None
        """An inner minimum that was found elsewhere, for the next call."""

    @property
    def remembers(self) -> bool:
        """Whether intervals of earlier rows may be in a bound, which the rows in use alone may not prove."""
        return self._intervals is not None

    @property
    def doubt(self) -> float:
        """How far above the last value the true one may be: the gap that a solver left."""
        return self._solved.doubt if "_solved" in vars(self) else 0.0

    @property
    def calls_solver(self) -> bool:
        """Whether the inner minimum has no closed form, so that each evaluation is a small convex solve."""
        return "_solved" in vars(self) and self._solved.is_used

    def __call__(
        self,
        slopes: Any,
        offsets: Array,
        blocks: Array,
        multipliers: Array,
        upper: float,
        held: Array | None = None,
        reach: float = 0.0,
        lower: float = -math.inf,
    ) -> DualValue:
        """Evaluate L.

        Parameters
        ----------
        slopes : ndarray or csr_array of shape (K, dim)
        offsets, blocks, multipliers : ndarray of shape (K,)
            Multipliers as a solver found them; negative and non-finite entries count as zero.
        upper : float
            A value of the objective at a feasible point: no better point lies where g exceeds ``upper -
            sum(infima)``.
        held : ndarray, optional
            Multipliers of the rows of the simple set's linear form: any give a bound, good ones spare a
            linear programme.
        reach : float, default 0.0
            How far from zero the free coordinates of a solution may be. A residual slope there, of the size
            of the last bits of the slopes in use, is charged over this distance.
        lower : float, optional
            A value that need not be reached: -inf may be returned for one that is not above it.
        """
        rows = slopes, offsets, blocks
        found = self._combined(*rows, multipliers)
        if found is None:
            return DualValue(-math.inf, np.zeros_like(offsets), 1.0)
        free, extent = self.free, reach / REACH
        if self._intervals is not None and self._open.any():
            free = np.union1d(free, _nearly_flat(found, slopes, *self._open))
        if self._intervals is None or not free.size:
            return self._of(found, free, upper, held, extent, lower)
        found = balanced(found, rows, self._combined, free)
        value = self._of(found, free, upper, held, extent, lower)
        if value.value == -math.inf:
            return value

        def bound(rise: Combination) -> float:
            return self._of(rise, free, upper, held, extent, -math.inf).value

        error = self._intervals.charge(found, rows, free, upper, upper - value.value, reach, bound)
        if math.isinf(error):
            return value._replace(value=-math.inf)
        error += 2.0 * EPS * abs(value.value - error)
        return value._replace(value=value.value - error, error=value.error + error)

    def _combined(self, slopes: Any, offsets: Array, blocks: Array, multipliers: Array) -> Combination | None:
        """Return the combination of rows, with the errors of the slopes of data.

        By Fenchel's inequality the cut of a point lies below the infimum at zero by what the point lies above
        it, or more, so that offsets tell how steep the losses are.
        """
        found = combine(slopes, offsets, blocks, multipliers, self.problem.risk.n_blocks)
        if found is None or not self._states_terms or not (found.slope.any() or found.error.any()):
            return found  # rows that are zero, as those of known infima, are flat
        held = blocks < 0
        height = found.constant - (float(found.multipliers[held] @ offsets[held]) if held.any() else 0.0)
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
        held: Array | None,
        extent: float,
        lower: float,
    ) -> DualValue:
        """Return the bound of a combination, without its slope on the free coordinates."""
        budget, v, slack = self._budget(upper, found.size), found.slope, found.error
        if free.size:
            v, slack = v.copy(), slack.copy()
            v[free] = slack[free] = 0.0
        if self.simple is not None:
            x = np.empty(self.problem.dim)
            least = self.simple.least(v, slack, budget, x)
            return DualValue(bound_of(found, least), found.multipliers, found.size + abs(least), x)
        minimum = self._minimum(v, budget, held, extent, lower - found.constant)
        value = found.constant + minimum.value
        magnitude = found.size + abs(minimum.value)
        error = CANCELLED * (magnitude + self._extent * float(np.abs(v).sum()))
        if math.isfinite(value):
            error += float(slack @ (np.full(v.size, extent) if minimum.x is None else np.abs(minimum.x)))
        if self.problem.risk.linear and error <= ROUNDING * abs(value):
            error = 0.0  # because the least value over X0 is both bounds, with the same rounding error
        return DualValue(value - error, found.multipliers, magnitude, minimum.x, error)

    def at_infima(self) -> float:
        """Return L of the known infima, or -inf where that takes a solve."""
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
        """Return the inner minimum min over x in X0 of g(x) + <v, x>, as every bound uses it."""
        if self.simple is None:
            return self._minimum(v, math.inf, None, 0.0)
        x = np.empty(v.size)
        return Minimum(self.simple.least(v, np.zeros(v.size), x=x), x)

    def _budget(self, upper: float, terms: float) -> float:
        """Return an upper bound of g at every point with an objective of at most `upper`."""
        if not math.isfinite(upper) or self._infimum == -math.inf:
            return math.inf
        budget = max(upper - self._infimum, 0.0)
        return budget + ROUNDING * (budget + abs(upper) + abs(self._infimum) + terms)

    def _minimum(
        self, v: Array, budget: float, held: Array | None, extent: float, lower: float = -math.inf
    ) -> Minimum:
        minimum = self._closed(v, budget)
        if minimum is not None:
            return minimum
        known, self.known = self.known, None
        if known is not None:
            size = max(abs(known.value), abs(budget) if math.isfinite(budget) else 0.0)
            if (value := known.at(v)) >= known.value - ORACLE * size:
                return Minimum(value, None)
        return self._solved(v, budget, held, extent, lower)

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
        """The regularizer, if it is a diagonal quadratic."""
        return ask(self.problem.active_regularizer, Capability.QUADRATIC, self.problem.dim)

    @cached_property
    def _extent(self) -> float:
        """The size of a set whose points are computed with errors of its last bits; 0 of a box."""
        simple_set, dim = self.problem.simple_set, self.problem.dim
        size = size_of(simple_set, dim)
        return size if simple_set.bounds(dim) is None and math.isfinite(size) else 0.0


def _open_sides(problem: Problem) -> Array:
    """Return where neither regularizer nor set bounds x from below, and from above; shape (2, dim)."""
    unregularized = unregularized_by(problem.active_regularizer, problem.dim)
    bounds = problem.simple_set.bounds(problem.dim)
    if unregularized is None or bounds is None:
        return np.zeros((2, problem.dim), dtype=bool)
    return np.isinf(bounds) & unregularized


def _nearly_flat(found: Combination, slopes: Any, below: Array, above: Array) -> Array:
    """Return where a slope may fall towards an open side, but by no more than the tolerance of a solver.

    The tolerance is relative to the slopes of all rows, because a single row in use may be flat, and no less
    than their errors. With the coordinates that fall come all that are almost 0. If one falls by more, no
    bound is finite, and none is returned.
    """
    v = found.slope
    falls = ((v > -found.error) & below) | ((v < found.error) & above)
    if not falls.any():
        return np.empty(0, dtype=np.int64)
    terms = row_sizes(slopes.T)
    if (np.abs(v) > np.maximum(LEFT * terms, found.error))[falls].any():
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(falls | ((below | above) & (np.abs(v) <= _NEARLY * terms)))
