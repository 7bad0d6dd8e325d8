"""The reduced problem as a linear programme in which every cut is a row."""

from __future__ import annotations

import highspy
import numpy as np
from scipy import sparse

from cutplane.masters.lp.highs_model import DUAL_SIMPLEX, entries, living_model
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array


class RowLayout:
    """min cost'u + sum_k xi_k subject to the form's constraints and <slope_i, x> - xi_k <= -offset_i.

    A new row leaves the last basis dual feasible, so the dual simplex method goes on from it.

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

    def build(self, scale: float) -> highspy.Highs:
        """Return a model without cuts, its costs multiplied by `scale`."""
        form, free = self.form, np.full(self.n_blocks, np.inf)
        epigraph = sparse.csr_array((form.row_lower.size, self.n_blocks))
        programme = LinearForm(
            cost=np.concatenate([scale * form.cost, np.ones(self.n_blocks)]),
            lower=np.concatenate([form.lower, -free]),
            upper=np.concatenate([form.upper, free]),
            rows=sparse.csr_array(sparse.hstack([form.rows, epigraph])),
            row_lower=form.row_lower,
            row_upper=form.row_upper,
        )
        return living_model(programme, DUAL_SIMPLEX)

    def extend(self, model: highspy.Highs, slopes: Array, offsets: Array, blocks: Array) -> bool:
        """Append rows; tell whether HiGHS took them."""
        starts, indices, values = entries(slopes, blocks, self.form.n_columns)
        lower = np.full(blocks.size, -np.inf)
        status = model.addRows(blocks.size, lower, -offsets, values.size, starts, indices, values)
        return status != highspy.HighsStatus.kError

    def remove(self, model: highspy.Highs, gone: Array) -> None:
        """Delete the rows with these numbers."""
        numbers = (self.form.row_lower.size + gone).astype(np.int32)
        model.deleteRows(numbers.size, numbers)

    def read(self, model: highspy.Highs) -> tuple[Array, Array, Array]:
        """Return x, the multipliers of the rows, and those of the form's constraints."""
        solution, own = model.getSolution(), self.form.row_lower.size
        duals = np.array(solution.row_dual)
        return np.array(solution.col_value)[: self.dim], -duals[own:], duals[:own]
