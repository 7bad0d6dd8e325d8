"""The certified lower bound: multipliers through the conjugate, never a solver's objective."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.engine.relaxed_rows import RelaxedRows
from cutplane.engine.repair import Balanced, balance
from cutplane.engine.tolerances import CANCELLED, EPS, LEFT, ORACLE, REACH, ROUNDING
from cutplane.masters.base import HALF_SPACE, Least
from cutplane.masters.rows import parts_of, row_sizes
from cutplane.pieces.capabilities import Capability, ability, ask, offers
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Minimum, minimise_quadratic, unregularized_by
from cutplane.sets.base import size_of

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.masters.conic.certificates import InnerMinimum
    from cutplane.masters.lp.linear_minimum import LinearMinimum
    from cutplane.pieces.forms import DiagonalQuadratic

_NEGLIGIBLE = 1e-14
"""Multipliers below this share of the largest one are what a solver leaves of zero."""


_NEARLY = 1e-9
"""Coordinates this small are kept at 0 while others are corrected: a correction of the multipliers that is
smaller than `LEFT` moves them by less than it moves those."""


class DualValue(NamedTuple):
    """L(multipliers) and the multipliers as they were used: clipped, and normalised per block."""

    value: float
    """Less what rounding may have added to it, where that is more than `ROUNDING` of it."""
    multipliers: Array
    magnitude: float
    """Size of the terms that `value` is the sum of: rounding errors are relative to it."""
    minimiser: Array | None = None
    """Where the inner minimum is attained; None if it is not."""
    error: float = 0.0
    """What rounding may have added to the sum."""
    slope: Array | None = None
    """The aggregate slope."""


class DualFunction:
    """L(alpha, mu) = <offsets, multipliers> + min over x in X0 of g(x) + <slopes' multipliers, x>.

    For any multipliers >= 0 whose sum over each block is 1, L is at most the optimum.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Declaration):
        self.problem = problem
        self._inner: InnerMinimum | None = None
        self.free = _free_coordinates(problem)
        self._open = _open_sides(problem, self.free)
        self._infimum = float(problem.risk.infima.sum())
        self.known: Least | None = None
        """An inner minimum that was found elsewhere, for the next call."""

    @cached_property
    def _programme(self) -> LinearMinimum | None:
        """The inner minimum as a linear programme, if it is one."""
        pieces: Any = self.problem.active_regularizer, self.problem.simple_set
        if not all(offers(piece, Capability.LINEAR_FORM) for piece in pieces):
            return None
        regularizer, simple_set = (piece.linear_form(self.problem.dim) for piece in pieces)
        if regularizer is None or simple_set is None:
            return None
        from cutplane.masters.lp.linear_minimum import LinearMinimum

        return LinearMinimum(regularizer.merge(simple_set, self.problem.dim))

    @cached_property
    def _relaxed(self) -> RelaxedRows | None:
        """The inner minimum with the rows of X0 relaxed, if what is left has a closed form."""
        problem = self.problem
        form = ask(problem.simple_set, Capability.LINEAR_FORM, problem.dim)
        if form is None or form.n_columns > problem.dim:
            return None
        if not offers(problem.active_regularizer, Capability.CONJUGATE):
            return None
        return RelaxedRows(problem.active_regularizer, form)

    @cached_property
    def _quadratic(self) -> DiagonalQuadratic | None:
        """The regularizer, if it is a diagonal quadratic."""
        regularizer: Any = self.problem.active_regularizer
        return regularizer.quadratic(self.problem.dim) if offers(regularizer, Capability.QUADRATIC) else None

    @cached_property
    def _extent(self) -> float:
        """The size of a set whose points are computed with errors of its last bits; 0 of a box."""
        simple_set, dim = self.problem.simple_set, self.problem.dim
        size = size_of(simple_set, dim)
        return size if simple_set.bounds(dim) is None and math.isfinite(size) else 0.0

    @property
    def doubt(self) -> float:
        """How far above the last value the true one may be: the gap that a solver left."""
        return 0.0 if self._inner is None else self._inner.doubt

    @property
    def calls_solver(self) -> bool:
        """Whether the inner minimum has no closed form, so that each evaluation is a small convex solve."""
        return self._inner is not None or "_programme" in vars(self)

    def __call__(
        self,
        slopes: Any,
        offsets: Array,
        blocks: Array,
        multipliers: Array,
        upper: float,
        set_multipliers: Array | None = None,
        reach: float = 0.0,
        sizes: Array | None = None,
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
        set_multipliers : ndarray, optional
            Of the rows of the simple set's linear form: any give a bound, good ones spare a linear programme.
        reach : float, default 0.0
            How far from zero the free coordinates of a solution may be. A residual slope there, of the size
            of the last bits of the slopes in use, is charged over this distance.
        sizes : ndarray of shape (K,), optional
            The largest entry of each row of the slopes, if they are known.
        lower : float, optional
            A value that need not be reached: -inf may be returned for one that is not above it.
        """
        weights = normalise(multipliers, blocks, self.problem.risk.n_blocks)
        if weights is None:
            return DualValue(-math.inf, np.zeros_like(offsets), 1.0)
        balanced = Balanced(weights, None)
        free = self.free
        if self._open is not None:
            free = np.union1d(free, _nearly_flat(weights, slopes, *self._open))
        if free.size:
            balanced = balance(weights, slopes, blocks, free)
        weights = balanced.weights
        v = combine(weights, slopes)
        if balanced.distance is not None:
            v[free] = 0.0
        constant = float(weights @ offsets)
        extent = reach / REACH
        minimum = self._minimum(v, upper - self._infimum, set_multipliers, extent, lower - constant)
        value = constant + minimum.value
        magnitude = float(weights @ np.abs(offsets)) + abs(minimum.value)
        error = CANCELLED * (magnitude + self._extent * float(np.abs(v).sum())) + balanced.left * reach
        if math.isfinite(value):
            x = np.full(v.size, reach / REACH) if minimum.x is None else minimum.x
            error += _error_of_slopes(balanced, slopes, offsets, x, sizes)
        if error > ROUNDING * abs(value):
            value -= error
        return DualValue(value, weights, magnitude, minimum.x, error, v)

    def at_infima(self) -> float:
        """Return L of the known infima, or -inf where that takes a solve."""
        zeros = np.zeros(self.problem.dim)
        self.known = Least(zeros, -math.inf if self.problem.regularizer.lam > 0.0 else 0.0, 0.0)
        least = self._minimum(zeros, math.inf, None, 0.0).value
        error = CANCELLED * (abs(self._infimum) + abs(least))
        value = self._infimum + least
        return value - error if error > ROUNDING * abs(value) else value

    def is_finite(self, v: Array, upper: float, reach: float) -> bool | None:
        """Tell whether an aggregate slope leaves a finite bound; None if that depends on its rows."""
        if self.free.size or self._open is not None:
            return None
        return self._minimum(v, upper - self._infimum, None, reach / REACH).value > -math.inf

    def least(self, v: Array) -> Minimum:
        """Return the inner minimum min over x in X0 of g(x) + <v, x>, as every bound uses it."""
        return self._minimum(v, math.inf, None, 0.0)

    def _minimum(
        self,
        v: Array,
        budget: float,
        set_multipliers: Array | None,
        extent: float,
        least: float = -math.inf,
    ) -> Minimum:
        problem = self.problem
        closed_form = ability(problem.active_regularizer, Capability.CONJUGATE)
        if closed_form is not None:
            minimum = closed_form(v, problem.simple_set, budget if math.isfinite(budget) else math.inf)
            if minimum is not None:
                return minimum
        elif self._quadratic is not None:
            minimum = minimise_quadratic(self._quadratic, v, problem.simple_set)
            if minimum is not None:
                return minimum
        known, self.known = self.known, None
        if known is not None:
            size = max(abs(known.value), abs(budget) if math.isfinite(budget) else 0.0)
            if (value := known.at(v)) >= known.value - ORACLE * size:
                return Minimum(value, None)
        if self._programme is not None:
            if self._programme.is_at_most(v, least):
                return Minimum(-math.inf, None)
            minimum = self._programme(v, set_multipliers, REACH * extent)
            if minimum.value > -math.inf:
                return minimum
        if set_multipliers is not None and self._relaxed is not None:
            value = self._relaxed(v, set_multipliers, REACH * extent)
            if value > -math.inf:
                return Minimum(value, None)
        if self._inner is None:
            from cutplane.masters.conic.certificates import InnerMinimum

            self._inner = InnerMinimum(problem.active_regularizer, problem.simple_set, problem.dim)
        return self._inner(v, budget, extent)


def combine(weights: Array, slopes: Any) -> Array:
    """Return weights @ slopes; rows without weight are skipped where that saves more than gathering costs."""
    support = np.flatnonzero(weights)
    if 3 * support.size >= weights.size:
        return weights @ slopes
    used = weights[support]
    if sparse.issparse(slopes):
        return used @ slopes[support]
    parts = parts_of(np.arange(slopes.shape[1]), slopes.shape[1])
    return np.concatenate([used @ slopes[support, part] for part in parts])


def _error_of_slopes(balanced: Balanced, slopes: Any, offsets: Array, x: Array, sizes: Array | None) -> float:
    """Return what the last bits of the aggregate slope, and of multipliers that balance, are worth at x."""
    weights, distance, _ = balanced
    support = np.flatnonzero(weights)
    used = row_sizes(slopes[support]) if sizes is None else sizes[support]
    error = EPS * float(np.abs(x).sum()) * float(weights[support] @ used)
    if distance is not None and distance.sum() > CANCELLED:
        rows = np.flatnonzero(distance)
        error += float(distance[rows] @ (np.abs(offsets[rows]) + abs(slopes[rows]) @ np.abs(x)))
    return error


def normalise(multipliers: Array, blocks: Array, n_blocks: int) -> Array | None:
    """Clip at zero and make each block sum to 1; None if a block has no positive multiplier.

    If the blocks sum to a common factor (as with a level constraint), half-spaces are divided by it too.
    """
    weights = np.where(multipliers > 0.0, multipliers, 0.0)
    largest = weights.max(initial=0.0)
    if not math.isfinite(largest):
        weights[~np.isfinite(weights)] = 0.0
        largest = weights.max(initial=0.0)
    if largest > 1.0:
        weights /= largest
    if n_blocks == 1 and blocks.min() != HALF_SPACE:
        weights[weights < _NEGLIGIBLE * min(largest, 1.0)] = 0.0
        total = weights.sum()
        return weights / total if total > 0.0 else None
    cuts = blocks != HALF_SPACE
    for kind in (cuts, ~cuts):  # where slopes are small, so are the weights of half-spaces
        least = _NEGLIGIBLE * min(weights[kind].max(initial=0.0), 1.0)
        weights[kind & (weights < least)] = 0.0
    sums = np.bincount(blocks[cuts], weights=weights[cuts], minlength=n_blocks)
    if not (sums > 0.0).all():
        return None
    weights[cuts] /= sums[blocks[cuts]]
    weights[~cuts] /= sums.mean()
    return weights


def _free_coordinates(problem: Declaration) -> Array:
    unregularized = unregularized_by(problem.active_regularizer, problem.dim)
    bounds = problem.simple_set.bounds(problem.dim)
    if unregularized is None or bounds is None:
        return np.empty(0, dtype=np.int64)
    free = unregularized & np.isinf(bounds[0]) & np.isinf(bounds[1])
    return np.empty(0, dtype=np.int64) if free.all() else np.flatnonzero(free)


def _open_sides(problem: Declaration, free: Array) -> tuple[Array, Array] | None:
    """Return where a box that no regularizer helps is open below, and above, but for `free` coordinates.

    None if it is nowhere, and for other problems.
    """
    bounds = problem.simple_set.bounds(problem.dim)
    if problem.active_regularizer.lam > 0.0 or bounds is None or np.isfinite(bounds).all():
        return None
    sides = np.isinf(bounds)
    sides[:, free] = False
    return (sides[0], sides[1]) if sides.any() else None


def _nearly_flat(weights: Array, slopes: Any, below: Array, above: Array) -> Array:
    """Return the coordinates of an aggregate slope that would be 0 but for the tolerance of a solver.

    They are those that fall towards an open side, and with them all that are almost 0, unless one falls by
    more than a solver leaves: then there is no finite bound.
    """
    v = combine(weights, slopes)
    falls = ((v > 0.0) & below) | ((v < 0.0) & above)
    if not falls.any():
        return np.empty(0, dtype=np.int64)
    rows = np.flatnonzero(weights)
    terms = weights[rows] @ abs(slopes[rows])
    if (np.abs(v) > LEFT * terms)[falls].any():
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(falls | ((below | above) & (np.abs(v) <= _NEARLY * terms)))
