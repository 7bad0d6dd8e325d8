"""Inner minima without a closed form, proven by multipliers that a solver found."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.pieces.capabilities import Capability, ability, ask, offers
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import CANCELLED, REACH
from cutplane.regularizers.base import Minimum, Regularizer, unregularized_by
from cutplane.sets.base import FeasibleSet
from cutplane.sets.box import Box
from cutplane.sets.intersection import Intersection

if TYPE_CHECKING:
    from cutplane.masters.conic.certificates import InnerMinimum
    from cutplane.masters.lp.linear_minimum import LinearMinimum


class SolvedMinimum:
    """v -> a lower bound of min over x in X0 of g(x) + <v, x>.

    It is proven by multipliers of the rows of X0, which a master has found already or a linear programme
    finds, or by the dual point of a cone programme.

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
        self._inner: InnerMinimum | None = None
        self.is_used = False

    @property
    def doubt(self) -> float:
        """How far above the last value the true one may be: the gap that a solver left."""
        return 0.0 if self._inner is None else self._inner.doubt

    def __call__(
        self,
        v: Array,
        budget: float,
        held: Array | None = None,
        extent: float = 0.0,
        lower: float = -math.inf,
    ) -> Minimum:
        """Evaluate.

        Parameters
        ----------
        v : ndarray of shape (dim,)
        budget : float
            An upper bound of g at the solution of the whole problem.
        held : ndarray, optional
            Multipliers of the rows of the set's linear form, which may spare a solve.
        extent : float, default 0.0
            What is known of the size of the solution of the whole problem, in its largest coordinate.
        lower : float, optional
            A value that need not be reached: -inf may be returned for one that is not above it.
        """
        if self._programme is not None:
            self.is_used = True
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

            self._inner = InnerMinimum(self.regularizer, self.simple_set, self.dim)
        self.is_used = True
        minimum = self._inner(v, budget, extent)
        return minimum if minimum.value > -math.inf else self._over_one_part(v, budget)

    def _over_one_part(self, v: Array, budget: float) -> Minimum:
        """Return the highest minimum over one part of an intersection: a bound where cone solvers fail."""
        conjugate = ability(self.regularizer, Capability.CONJUGATE)
        parts = self.simple_set.simple if isinstance(self.simple_set, Intersection) and conjugate else ()
        minima = (conjugate(v, part, budget) for part in parts)  # pyright: ignore[reportOptionalCall]
        known = [minimum.value for minimum in minima if minimum is not None]
        return Minimum(max(known, default=-math.inf), None)

    @cached_property
    def _programme(self) -> LinearMinimum | None:
        """The minimum as a linear programme, if it is one."""
        pieces = self.regularizer, self.simple_set
        forms = [ask(piece, Capability.LINEAR_FORM, self.dim) for piece in pieces]
        if any(form is None for form in forms):
            return None
        from cutplane.masters.lp.linear_minimum import LinearMinimum

        return LinearMinimum(forms[0].merge(forms[1], self.dim))

    @cached_property
    def _form(self) -> LinearForm | None:
        """The linear form of X0 without auxiliaries, if g over its box has a closed form."""
        form = ask(self.simple_set, Capability.LINEAR_FORM, self.dim)
        closed = offers(self.regularizer, Capability.CONJUGATE)
        return form if closed and form is not None and form.n_columns == self.dim else None

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
