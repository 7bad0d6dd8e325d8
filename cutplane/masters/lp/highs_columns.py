"""The dual of the reduced problem as a linear programme in which every cut is a column."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np
from scipy import sparse

from cutplane.masters.lp.highs_model import PRIMAL_SIMPLEX, entries, living_model
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array


class ColumnLayout:
    """min -<offsets, m> - <side, y> over multipliers m >= 0 of the cuts and y of the form's constraints.

    There is one equation per coordinate of u = (x, auxiliaries), whose multiplier is that coordinate, and one
    per block, by which the multipliers of its cuts sum to 1. A new column leaves the last basis primal
    feasible, so the primal simplex method goes on from it.

    Parameters
    ----------
    form : LinearForm
        Of regularizer and simple set together.
    dim : int
    n_blocks : int
    """

    def __init__(self, form: LinearForm, dim: int, n_blocks: int):
        self.form = form
        self.dim = dim
        self.n_blocks = n_blocks
        self._first = 0

    def build(self, scale: float) -> highspy.Highs:
        """Return a model without cuts, the costs of the form multiplied by `scale`."""
        form = self.form
        sides: Any = sparse.csr_array(sparse.vstack([form.rows, sparse.eye_array(form.n_columns)]))
        low = np.concatenate([form.row_lower, form.lower])
        high = np.concatenate([form.row_upper, form.upper])
        fixed = low == high
        below, above = np.isfinite(low) & ~fixed, np.isfinite(high) & ~fixed
        columns: Any = sparse.vstack([sides[fixed], sides[below], -sides[above]]).T
        self._first = columns.shape[1]
        signed = np.zeros(self._first)
        signed[: fixed.sum()] = -np.inf
        right = np.concatenate([scale * form.cost, np.ones(self.n_blocks)])
        programme = LinearForm(
            cost=np.concatenate([-low[fixed], -low[below], high[above]]),
            lower=signed,
            upper=np.full(self._first, np.inf),
            rows=sparse.csr_array(sparse.vstack([columns, sparse.csr_array((self.n_blocks, self._first))])),
            row_lower=right,
            row_upper=right,
        )
        return living_model(programme, PRIMAL_SIMPLEX)

    def extend(self, model: highspy.Highs, slopes: Array, offsets: Array, blocks: Array) -> bool:
        """Append columns; tell whether HiGHS took them."""
        starts, indices, values = entries(slopes, blocks, self.form.n_columns)
        lower, upper = np.zeros(blocks.size), np.full(blocks.size, np.inf)
        status = model.addCols(blocks.size, -offsets, lower, upper, values.size, starts, indices, -values)
        return status != highspy.HighsStatus.kError

    def remove(self, model: highspy.Highs, gone: Array) -> None:
        """Delete the columns with these numbers."""
        numbers = (self._first + gone).astype(np.int32)
        model.deleteCols(numbers.size, numbers)

    def read(self, model: highspy.Highs) -> tuple[Array, Array, None]:
        """Return x and the multipliers of the rows; those of the form's constraints are not sorted out."""
        solution = model.getSolution()
        return -np.array(solution.row_dual)[: self.dim], np.array(solution.col_value)[self._first :], None
