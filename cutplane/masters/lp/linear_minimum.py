"""The minimum of a piecewise linear function over a polyhedron, certified by the multipliers of its rows."""

from __future__ import annotations

import math
from collections import deque
from functools import cached_property

import highspy
import numpy as np

from cutplane.masters.base import MasterStatus
from cutplane.masters.lp.highs_model import PRIMAL_SIMPLEX, living_model, rerun, set_costs
from cutplane.masters.units import unit_of
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Minimum

_FARTHER = 10.0
"""How much larger than in the solution an auxiliary is taken to be at most."""
_SIZES = 1.0, 2.0**20
"""Of the largest cost as HiGHS sees it. Its reduced costs may have the wrong sign by 1e-9, which is charged
over the whole range of a variable; the larger size makes them last bits, where the smaller is not enough."""
_KEPT = 30
"""Solutions that are kept: a product with them takes a hundredth of a linear programme."""
_BITS = 2.0**-48
"""What rounding leaves of terms that cancel, relative to them."""


class LinearMinimum:
    """v -> a lower bound of min over u = (x, auxiliaries) of cost'u + <v, x> subject to a linear form.

    Any multipliers y of the rows give the bound

        sum_i (y_i > 0 ? row_lower_i : row_upper_i) y_i
            + min over lower <= u <= upper of <cost + (v, 0) - rows' y, u>,

    which is the minimum for those of an optimal basis. They are found by HiGHS unless they are given. The
    form is the regularizer's, merged with the set's.
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

        What rounding leaves of the slope where u is unbounded is charged: that of x over the distance
        `reach`, that of auxiliaries over ten times their size in the solution, which is needed for it.
        """
        dim, more = v.size, self.form.n_columns - v.size
        distances = np.full(dim + more, reach)
        distances[dim:] = np.inf
        v = self.form.cost + (np.concatenate([v, np.zeros(more)]) if more else v)
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
            distances[dim:] = np.maximum(reach, _FARTHER * np.abs(u[dim:]))
            value = self._bound(v, np.array(solution.row_dual) / (size * unit), distances)
            best = max(best, Minimum(value, u[:dim]), key=lambda minimum: minimum.value)
            if float(v @ u) - value <= _BITS * float(np.abs(v) @ np.abs(u)):
                break
        return best

    def is_at_most(self, v: Array, value: float) -> bool:
        """Tell whether a solution of an earlier call shows that the minimum is at most this value."""
        if not self._solutions or value == -math.inf:
            return False
        more = self.form.n_columns - v.size
        v = self.form.cost + (np.concatenate([v, np.zeros(more)]) if more else v)
        return bool((np.array(self._solutions) @ v).min() <= value)

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
            last_bits = unbounded & (np.abs(rest) <= _BITS * (np.abs(v) + self._sizes @ np.abs(y)))
            if (unbounded > last_bits).any():
                return -math.inf
            charge = float(distances[last_bits] @ np.abs(rest[last_bits]))
            rest[last_bits] = 0.0
        used = np.flatnonzero(y)
        rows = np.where(y > 0.0, form.row_lower, form.row_upper)[used] @ y[used]
        moved = np.flatnonzero(rest)
        return float(rows + sides[moved] @ rest[moved]) - charge
