"""Inner minima without a closed form, with proofs by the multipliers of a solver."""

from __future__ import annotations

import math
from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np

from cutplane.masters.base import MasterStatus, ReducedProblem
from cutplane.masters.highs import PRIMAL_SIMPLEX, living_model, rerun, set_costs
from cutplane.masters.units import unit_of
from cutplane.pieces.capabilities import Capability, ability, offers
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import CANCELLED, REACH
from cutplane.regularizers.base import Minimum, Regularizer, unregularized_by
from cutplane.sets.base import FeasibleSet
from cutplane.sets.box import Box
from cutplane.sets.intersection import Intersection

if TYPE_CHECKING:
    from cutplane.masters.certificates import InnerMinimum

_SIZES = 1.0, 2.0**20
"""Sizes to which the largest cost is scaled for HiGHS. Reduced costs may have the wrong sign by 1e-9, which
lowers the bound by this times the range of a variable. The second size is used if the first is not enough,
because it makes these errors as small as rounding."""
_KEPT = 30
"""Solutions that are kept, because comparing v with them costs a hundredth of a linear programme."""


class SolvedMinimum:
    """v -> a lower bound of min over x in X0 of g(x) + <v, x>.

    The proof consists of multipliers of the rows of X0, from a master or a linear programme, or of the dual
    point of a cone programme.

    Parameters
    ----------
    regularizer : Regularizer
    simple_set : FeasibleSet
    dim : int

    Attributes
    ----------
    is_used : bool
        Whether a solver was called.
    """

    def __init__(self, regularizer: Regularizer, simple_set: FeasibleSet, dim: int):
        self.regularizer, self.simple_set, self.dim = regularizer, simple_set, dim
        self._reduced = ReducedProblem(dim, 1, regularizer, simple_set)
        self._inner: InnerMinimum | None = None
        self.is_used = False

    @property
    def solver_gap(self) -> float:
        """The gap of the solver of the last value, a bound of its error."""
        return 0.0 if self._inner is None else self._inner.solver_gap

    def __call__(
        self,
        v: Array,
        budget: float,
        set_multipliers: Array | None = None,
        extent: float = 0.0,
        lower: float = -math.inf,
    ) -> Minimum:
        """Evaluate.

        Parameters
        ----------
        v : ndarray of shape (dim,)
        budget : float
            An upper bound of g at the solution of the whole problem.
        set_multipliers : ndarray, optional
            Multipliers of the rows of the set's linear form, which may save a solve.
        extent : float, default 0.0
            An estimate of the largest absolute coordinate of the solution of the whole problem.
        lower : float, optional
            A minimum of at most this value may be returned as -inf.
        """
        if self._programme is not None:
            self.is_used = True
            if self._programme.is_at_most(v, lower):
                return Minimum(-math.inf, None)
            minimum = self._programme(v, set_multipliers, REACH * extent)
            if minimum.value > -math.inf:
                return minimum
        if set_multipliers is not None and self._form is not None:
            value = self._relaxed(v, set_multipliers, REACH * extent)
            if value > -math.inf:
                return Minimum(value, None)
        if self._inner is None:
            from cutplane.masters.certificates import InnerMinimum

            self._inner = InnerMinimum(self.regularizer, self.simple_set, self.dim)
        self.is_used = True
        minimum = self._inner(v, budget, extent)
        return minimum if minimum.value > -math.inf else self._over_one_part(v, budget)

    def _over_one_part(self, v: Array, budget: float) -> Minimum:
        """Return the largest minimum over one part of an intersection, as a bound if cone solvers fail."""
        conjugate = ability(self.regularizer, Capability.CONJUGATE)
        parts = self.simple_set.simple if isinstance(self.simple_set, Intersection) and conjugate else ()
        minima = (conjugate(v, part, budget) for part in parts)  # pyright: ignore[reportOptionalCall]
        known = [minimum.value for minimum in minima if minimum is not None]
        return Minimum(max(known, default=-math.inf), None)

    @cached_property
    def _programme(self) -> LinearMinimum | None:
        """The minimum as a linear programme; None if it is not one."""
        form = self._reduced.linear
        return None if form is None else LinearMinimum(form)

    @cached_property
    def _form(self) -> LinearForm | None:
        """The linear form of X0, if it has no auxiliaries and g over its box has a closed form."""
        form = self._reduced.polyhedron
        closed = offers(self.regularizer, Capability.CONJUGATE)
        return form if closed and form is not None and form.n_columns == self.dim else None

    def _relaxed(self, v: Array, y: Array, reach: float) -> float:
        """Return a lower bound of min over x in X0 of g(x) + <v, x>, from any multipliers y of its rows R.

        It is sum_i (y_i > 0 ? row_lower_i : row_upper_i) y_i + min over the box of g(x) + <v - R'y, x>, whose
        last term has a closed form. In coordinates that neither g nor the box bounds, the rounding error of
        the slope times `reach` is subtracted.
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
        unregularized = unregularized_by(self.regularizer, v.size)
        free = np.zeros(v.size, dtype=bool) if unregularized is None else unregularized
        bits = free & np.isinf(np.where(rest > 0.0, form.lower, form.upper))
        bits &= np.abs(rest) <= CANCELLED * terms
        charge += reach * float(np.abs(rest[bits]).sum())
        rest[bits] = 0.0
        regularizer: Any = self.regularizer
        minimum = regularizer.conjugate_minimiser(rest, Box(form.lower, form.upper))
        if minimum is None or not math.isfinite(minimum.value):
            return -math.inf
        if minimum.x is not None:
            charge += CANCELLED * float(terms @ np.abs(minimum.x))
        return float(sides @ y) + minimum.value - charge


class LinearMinimum:
    """v -> a lower bound of min over u = (x, auxiliaries) of cost'u + <v, x> subject to a linear form.

    Any multipliers y of the rows give the bound

        sum_i (y_i > 0 ? row_lower_i : row_upper_i) y_i
            + min over lower <= u <= upper of <cost + (v, 0) - rows' y, u>,

    which is the minimum if y belongs to an optimal basis. HiGHS computes y if it is not given. The linear
    form combines the forms of regularizer and set.
    """

    def __init__(self, form: LinearForm):
        self.form = form
        self._transposed = form.rows.T.tocsr()
        self._sizes = abs(self._transposed)
        self._has_lower, self._has_upper = np.isfinite(form.row_lower), np.isfinite(form.row_upper)
        self._unit = unit_of(form.scale or 1.0)
        self._solutions: deque[Array] = deque(maxlen=_KEPT)

    def __call__(self, v: Array, multipliers: Array | None = None, reach: float = 0.0) -> Minimum:
        """Evaluate; the value is -inf if no finite bound is found.

        If u_j is unbounded, the rounding error of its slope, times a bound of u_j, is subtracted: `reach` for
        x, and ten times the solution for auxiliary variables, which have no other bound.
        """
        dim, v = v.size, self._costs(v)
        distances = np.full(v.size, reach)
        distances[dim:] = np.inf
        if multipliers is not None and multipliers.shape == self.form.row_lower.shape:
            value = self._bound(v, multipliers, distances)
            if value > -math.inf:
                return Minimum(value, None)
        unit = math.ldexp(1.0, -math.frexp(float(np.abs(v).max(initial=0.0)))[1])
        best = Minimum(-math.inf, None)
        for size in _SIZES:
            set_costs(self._model, size * unit * v)
            status, _ = rerun(self._model)
            if status is not MasterStatus.SOLVED:
                infeasible = status is MasterStatus.INFEASIBLE and best.x is None
                return Minimum(math.inf, None) if infeasible else best
            solution = self._model.getSolution()
            u = self._unit * np.array(solution.col_value)
            self._solutions.append(u)
            distances[dim:] = np.maximum(reach, REACH * np.abs(u[dim:]))
            value = self._bound(v, np.array(solution.row_dual) / (size * unit), distances)
            best = max(best, Minimum(value, u[:dim]), key=lambda minimum: minimum.value)
            if float(v @ u) - value <= CANCELLED * float(np.abs(v) @ np.abs(u)):
                break
        return best

    def is_at_most(self, v: Array, value: float) -> bool:
        """Tell whether a solution of an earlier call proves that the minimum is at most this value."""
        if not self._solutions or value == -math.inf:
            return False
        return bool((np.array(self._solutions) @ self._costs(v)).min() <= value)

    def _costs(self, v: Array) -> Array:
        more = self.form.n_columns - v.size
        return self.form.cost + (np.append(v, np.zeros(more)) if more else v)

    @cached_property
    def _model(self) -> highspy.Highs:
        return living_model(self.form.in_unit(self._unit), PRIMAL_SIMPLEX)

    def _bound(self, v: Array, y: Array, distances: Array) -> float:
        form = self.form
        y = np.where((y > 0.0) & self._has_lower | (y < 0.0) & self._has_upper, y, 0.0)
        rest = v - self._transposed @ y
        sides = np.where(rest > 0.0, form.lower, form.upper)
        unbounded = np.isinf(sides) & (rest != 0.0)
        charge = 0.0
        if unbounded.any():
            last_bits = unbounded & (np.abs(rest) <= CANCELLED * (np.abs(v) + self._sizes @ np.abs(y)))
            if (unbounded > last_bits).any():
                return -math.inf
            charge = float(distances[last_bits] @ np.abs(rest[last_bits]))
            rest[last_bits] = 0.0
        used = np.flatnonzero(y)
        rows = np.where(y > 0.0, form.row_lower, form.row_upper)[used] @ y[used]
        moved = np.flatnonzero(rest)
        return float(rows + sides[moved] @ rest[moved]) - charge
