"""The certified lower bound: multipliers through the conjugate, never a solver's objective."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cutplane.engine.balance import balance
from cutplane.engine.declaration import separable_in_box
from cutplane.engine.tolerances import CANCELLED, LEFT, ORACLE, REACH, ROUNDING
from cutplane.masters.base import Least, MasterStatus, Prox, ReducedProblem
from cutplane.masters.select import Backend, first_candidate
from cutplane.pieces.capabilities import Capability, ability, ask, offers
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.proof.bound import Combination, bound_of, combination, combine
from cutplane.regularizers.base import Minimum, minimise_quadratic, unregularized_by
from cutplane.sets.base import size_of
from cutplane.sets.box import Box

if TYPE_CHECKING:
    from cutplane.engine.bundle import Bundle
    from cutplane.engine.declaration import Declaration
    from cutplane.masters.conic.certificates import InnerMinimum
    from cutplane.masters.lp.linear_minimum import LinearMinimum
    from cutplane.pieces.forms import DiagonalQuadratic

_NEARLY = 1e-9
"""Coordinates this small are kept at 0 while others are corrected, because a correction of the multipliers
that is smaller than `LEFT` changes them by less than it changes those."""
_SHARES = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.5)
_LARGE = 100_000
"""From so many entries of the cuts on, a linear programme takes longer than prox problems (measured)."""
_WEIGHTS = (1.0, 1e-2, 1e-4, 1e-6)
"""Prox weights in units of the steepest cut, because the slope that they leave has to be small."""


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


class DualFunction:
    """L(a) = <offsets, a> + min over x in X0 of g(x) + <slopes' a, x>, a lower bound of the optimum.

    It is one for all multipliers a >= 0 whose sum over each block is 1, because the offsets are rounded down.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Declaration):
        self.problem = problem
        self._inner: InnerMinimum | None = None
        self.free = _free_coordinates(problem)
        self.simple = None if self.free.size else separable_in_box(problem)
        self._open = _open_sides(problem, self.free)
        self._infimum = float(problem.risk.infima.sum())
        self.known: Least | None = None
        """An inner minimum that was found elsewhere, for the next call."""
        self._inside: tuple[Array, Array] = np.empty(0, dtype=np.int64), np.empty(0)
        self._attempt = self._share = 0

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
        found = combine(slopes, offsets, blocks, multipliers, self.problem.risk.n_blocks)
        if found is None:
            return DualValue(-math.inf, np.zeros_like(offsets), 1.0)
        if self.simple is not None:
            x = np.empty(self.problem.dim)
            least = self.simple.least(found.slope, found.error, self._budget(upper, found.size), x)
            value = bound_of(found, least)
            if value > -math.inf or self._open is None:
                return DualValue(value, found.multipliers, found.size + abs(least), x)
        free, charge = self.free, 0.0
        if self._open is not None:
            free = np.union1d(free, _nearly_flat(found, slopes, *self._open))
        v = found.slope
        if free.size:
            balanced = balance(found.multipliers, slopes, blocks, free)
            found = combination(slopes, offsets, balanced.weights)
            v, charge = found.slope, balanced.left * reach
            if balanced.distance is not None:
                v[free] = 0.0
        extent = reach / REACH
        budget = self._budget(upper, found.size)
        minimum = self._minimum(v, budget, held, extent, lower - found.constant)
        value = found.constant + minimum.value
        magnitude = found.size + abs(minimum.value)
        error = charge + CANCELLED * (magnitude + self._extent * float(np.abs(v).sum()))
        if math.isfinite(value):
            x = np.full(v.size, extent) if minimum.x is None else np.abs(minimum.x)
            error += float(found.error @ x)
            if free.size and balanced.distance is not None and balanced.distance.sum() > CANCELLED:
                rows = np.flatnonzero(balanced.distance)
                sizes = np.abs(offsets[rows]) + abs(slopes[rows]) @ x
                error += float(balanced.distance[rows] @ sizes)
        if self.problem.risk.linear and error <= ROUNDING * abs(value):
            error = 0.0  # because the least value over X0 is both bounds, with the same rounding error
        return DualValue(value - error, found.multipliers, magnitude, minimum.x, error)

    def evaluate(
        self,
        bundle: Bundle,
        multipliers: Array,
        upper: float,
        held: Array | None = None,
        reach: float = 0.0,
        lower: float = -math.inf,
    ) -> DualValue:
        """Return L(multipliers), or L of a mixture if that is -inf; see `__call__` for the parameters.

        For a regularizer that grows linearly (a norm), L is finite only for multipliers in a polar set, whose
        boundary is where the solutions lie. Multipliers of the reduced problem with half the weight of the
        regularizer, and a weak prox term where a linear programme would take long, lie well inside: a small
        share of them makes the bound finite, at a loss of that share.
        """
        rows = bundle.slopes, bundle.offsets, bundle.blocks
        if self.problem.regularizer.lam > 0.0:
            lower = -math.inf
        found = self(*rows, multipliers, upper, held, reach, lower)
        if found.value > -math.inf or not self.problem.regularizer.lam > 0.0:
            return found
        inside = self._multipliers_inside(bundle)
        if inside is None:
            return found
        for least in range(max(self._share - 1, 0), len(_SHARES)):
            if self(*rows, _mixed(found, inside, _SHARES[least]), upper, None, reach).value > -math.inf:
                self._share = least
                return self(*rows, _mixed(found, inside, 2.0 * _SHARES[least]), upper, None, reach)
        return found

    def at_infima(self) -> float:
        """Return L of the known infima, or -inf where that takes a solve."""
        zeros = np.zeros(self.problem.dim)
        if self.simple is not None:
            infima = self.problem.risk.infima
            blocks, ones = np.arange(infima.size), np.ones(infima.size)
            return self(np.zeros((infima.size, zeros.size)), infima, blocks, ones, math.inf).value
        self.known = Least(zeros, -math.inf if self.problem.regularizer.lam > 0.0 else 0.0, 0.0)
        least = self._minimum(zeros, math.inf, None, 0.0).value
        error = CANCELLED * (abs(self._infimum) + abs(least))
        value = self._infimum + least
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
        problem = self.problem
        closed_form = ability(problem.active_regularizer, Capability.CONJUGATE)
        minimum = None
        if closed_form is not None:
            minimum = closed_form(v, problem.simple_set, budget)
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
            if self._programme.is_at_most(v, lower):
                return Minimum(-math.inf, None)
            minimum = self._programme(v, held, REACH * extent)
            if minimum.value > -math.inf:
                return minimum
        if held is not None and self._form is not None:
            value = self._relaxed(v, held, REACH * extent)
            if value > -math.inf:
                return Minimum(value, None)
        if self._inner is None:
            from cutplane.masters.conic.certificates import InnerMinimum

            self._inner = InnerMinimum(problem.active_regularizer, problem.simple_set, problem.dim)
        return self._inner(v, budget, extent)

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
    def _quadratic(self) -> DiagonalQuadratic | None:
        """The regularizer, if it is a diagonal quadratic."""
        return ask(self.problem.active_regularizer, Capability.QUADRATIC, self.problem.dim)

    @cached_property
    def _extent(self) -> float:
        """The size of a set whose points are computed with errors of its last bits; 0 of a box."""
        simple_set, dim = self.problem.simple_set, self.problem.dim
        size = size_of(simple_set, dim)
        return size if simple_set.bounds(dim) is None and math.isfinite(size) else 0.0

    @cached_property
    def _form(self) -> LinearForm | None:
        """The linear form of X0 without auxiliaries, if g over its box has a closed form."""
        form = ask(self.problem.simple_set, Capability.LINEAR_FORM, self.problem.dim)
        closed = offers(self.problem.active_regularizer, Capability.CONJUGATE)
        return form if closed and form is not None and form.n_columns == self.problem.dim else None

    def _relaxed(self, v: Array, y: Array, reach: float) -> float:
        """Return a lower bound of min over x in X0 of g(x) + <v, x>, from any multipliers y of its rows R.

        It is sum_i (y_i > 0 ? row_lower_i : row_upper_i) y_i + min over the box of g(x) + <v - R'y, x>, whose
        last term has a closed form. The rounding error of the slope of coordinates that neither g nor the box
        bounds is charged over the distance `reach`.
        """
        form = self._form
        assert form is not None
        if y.shape != form.row_lower.shape or not np.isfinite(y).all():
            return -math.inf
        sides = np.where(y > 0.0, form.row_lower, form.row_upper)
        used = np.flatnonzero(np.isfinite(sides) & (y != 0.0))
        rows, y, sides = form.rows[used], y[used], sides[used]
        rest, terms = v - rows.T @ y, np.abs(v) + abs(rows).T @ np.abs(y)
        charge = CANCELLED * float(np.abs(y) @ np.abs(sides))
        unregularized = unregularized_by(self.problem.active_regularizer, v.size)
        free = np.zeros(v.size, dtype=bool) if unregularized is None else unregularized
        bits = free & np.isinf(np.where(rest > 0.0, form.lower, form.upper))
        bits &= np.abs(rest) <= CANCELLED * terms
        charge += reach * float(np.abs(rest[bits]).sum())
        rest[bits] = 0.0
        regularizer: Any = self.problem.active_regularizer
        minimum = regularizer.conjugate_minimiser(rest, Box(form.lower, form.upper))
        if minimum is None or not math.isfinite(minimum.value):
            return -math.inf
        if minimum.x is not None:
            charge += CANCELLED * float(terms @ np.abs(minimum.x))
        return float(sides @ y) + minimum.value - charge

    def _multipliers_inside(self, bundle: Bundle) -> Array | None:
        """Return multipliers well inside the domain, one per row of the bundle, or None if none are known."""
        ids, weights = self._inside
        if not ids.size or not np.isin(ids, bundle.ids).all():
            if len(bundle) < self._attempt:
                return None
            self._attempt = len(bundle) + len(bundle) // 4
            self._inside = ids, weights = self._with_half_weight(bundle)
        if not ids.size:
            return None
        inside = np.zeros(len(bundle))
        inside[np.searchsorted(bundle.ids, ids)] = weights
        return inside

    def _with_half_weight(self, bundle: Bundle) -> tuple[Array, Array]:
        problem = self.problem
        half = problem.regularizer.with_lam(0.5 * problem.regularizer.lam)
        reduced = ReducedProblem(problem.dim, problem.risk.n_blocks, half, problem.simple_set)
        weights = _WEIGHTS if bundle.slopes.size > _LARGE else ()
        proxes = [Prox(np.zeros(problem.dim), weight * bundle.steepest) for weight in weights]
        for prox in proxes or [None]:
            try:
                solution = (
                    first_candidate(reduced, prox and Prox, Backend()).build(reduced).solve(bundle, prox)
                )
            except Exception:
                break
            if solution.status is MasterStatus.SOLVED and solution.multipliers is not None:
                multipliers = np.maximum(solution.multipliers, 0.0)
                rows = bundle.slopes, bundle.offsets, bundle.blocks
                if not proxes or self(*rows, multipliers, math.inf).value > -math.inf:
                    return bundle.ids.copy(), multipliers
        return np.empty(0, dtype=np.int64), np.empty(0)


def _mixed(found: DualValue, inside: Array, share: float) -> Array:
    return (1.0 - share) * found.multipliers + share * inside


def _free_coordinates(problem: Declaration) -> Array:
    unregularized = unregularized_by(problem.active_regularizer, problem.dim)
    bounds = problem.simple_set.bounds(problem.dim)
    if unregularized is None or bounds is None:
        return np.empty(0, dtype=np.int64)
    free = unregularized & np.isinf(bounds[0]) & np.isinf(bounds[1])
    return np.empty(0, dtype=np.int64) if free.all() else np.flatnonzero(free)


def _open_sides(problem: Declaration, free: Array) -> tuple[Array, Array] | None:
    """Return the coordinates, except `free` ones, without a lower bound, and those without an upper bound.

    None if there are none, or if a regularizer or another set than a box bounds the problem.
    """
    bounds = problem.simple_set.bounds(problem.dim)
    if problem.active_regularizer.lam > 0.0 or bounds is None or np.isfinite(bounds).all():
        return None
    sides = np.isinf(bounds)
    sides[:, free] = False
    return (sides[0], sides[1]) if sides.any() else None


def _nearly_flat(found: Combination, slopes: Any, below: Array, above: Array) -> Array:
    """Return where a slope falls towards an open side, but by no more than the tolerance of a solver.

    With them come all that are almost 0. If one falls by more there is no finite bound, and none is returned.
    """
    v = found.slope
    falls = ((v > 0.0) & below) | ((v < 0.0) & above)
    if not falls.any():
        return np.empty(0, dtype=np.int64)
    rows = np.flatnonzero(found.multipliers)
    terms = found.multipliers[rows] @ abs(slopes[rows])
    if (np.abs(v) > LEFT * terms)[falls].any():
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(falls | ((below | above) & (np.abs(v) <= _NEARLY * terms)))
