"""The inner minimum over a polyhedron, bounded from multipliers of its rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cutplane.engine.tolerances import CANCELLED
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Regularizer, unregularized_by
from cutplane.sets.box import Box


class RelaxedRows:
    """(v, y) -> a lower bound of min over x in X0 of g(x) + <v, x>, for any multipliers y of the rows of X0.

    With X0 = {row_lower <= R x <= row_upper, lower <= x <= upper} it is

        sum_i (y_i > 0 ? row_lower_i : row_upper_i) y_i + min over the box of g(x) + <v - R'y, x>,

    whose last term is a closed form of g. It is the minimum itself for the best y.

    Parameters
    ----------
    regularizer : Regularizer
        With a closed form of its conjugate.
    form : LinearForm
        Of X0, without auxiliaries.
    """

    def __init__(self, regularizer: Regularizer, form: LinearForm):
        self._regularizer: Any = regularizer
        self._form = form
        self._box = Box(form.lower, form.upper)
        unregularized = unregularized_by(regularizer, form.n_columns)
        self._free = np.zeros(form.n_columns, dtype=bool) if unregularized is None else unregularized

    def __call__(self, v: Array, multipliers: Array, reach: float) -> float:
        """Evaluate; -inf if there is no finite bound.

        What rounding leaves of the slope of coordinates that neither g nor the box holds is charged over the
        distance `reach`, and the rounding of the sums as well.
        """
        form = self._form
        if multipliers.shape != form.row_lower.shape or not np.isfinite(multipliers).all():
            return -math.inf
        sides = np.where(multipliers > 0.0, form.row_lower, form.row_upper)
        y = np.where(np.isfinite(sides), multipliers, 0.0)
        used = np.flatnonzero(y)
        rows, y, sides = form.rows[used], y[used], sides[used]
        rest, terms = v - rows.T @ y, np.abs(v) + abs(rows).T @ np.abs(y)
        charge = CANCELLED * float(np.abs(y) @ np.abs(sides))
        open_side = self._free & np.isinf(np.where(rest > 0.0, form.lower, form.upper))
        left = open_side & (np.abs(rest) <= CANCELLED * terms)
        charge += reach * float(np.abs(rest[left]).sum())
        rest[left] = 0.0
        minimum = self._regularizer.conjugate_minimiser(rest, self._box)
        if minimum is None or not math.isfinite(minimum.value):
            return -math.inf
        if minimum.x is not None:
            charge += CANCELLED * float(terms @ np.abs(minimum.x))
        return float(sides @ y) + minimum.value - charge
