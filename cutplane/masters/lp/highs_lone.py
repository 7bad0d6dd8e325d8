"""The reduced problem as a linear programme whose objective is the only cut of each block."""

from __future__ import annotations

from dataclasses import replace

import highspy
import numpy as np

from cutplane.masters.base import HALF_SPACE
from cutplane.masters.lp.highs_model import DUAL_SIMPLEX, entries, living_model
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array


class LoneLayout:
    """min (cost + sum_k slope_k)'u subject to the form's constraints and the half-spaces as rows.

    This is the reduced problem while every block has exactly one cut, as a linear objective has for ever; no
    row holds a cut, whose multiplier is 1.

    Parameters
    ----------
    form : LinearForm
        Of regularizer and simple set together.
    dim : int
    slope : ndarray of shape (dim,)
        The sum of the cuts' slopes.
    """

    def __init__(self, form: LinearForm, dim: int, slope: Array):
        self.form = form
        self.dim = dim
        self.slope = slope
        self._is_cut = np.empty(0, dtype=bool)

    def build(self, scale: float) -> highspy.Highs:
        """Return a model without half-spaces, its costs multiplied by `scale`."""
        cost = self.form.cost.copy()
        cost[: self.dim] += self.slope
        return living_model(replace(self.form, cost=scale * cost), DUAL_SIMPLEX)

    def extend(self, model: highspy.Highs, slopes: Array, offsets: Array, blocks: Array) -> bool:
        """Append rows for the half-spaces; tell whether HiGHS took them."""
        self._is_cut = np.concatenate([self._is_cut, blocks != HALF_SPACE])
        new = blocks == HALF_SPACE
        starts, indices, values = entries(slopes[new], blocks[new], self.form.n_columns)
        lower = np.full(int(new.sum()), -np.inf)
        status = model.addRows(lower.size, lower, -offsets[new], values.size, starts, indices, values)
        return status != highspy.HighsStatus.kError

    def remove(self, model: highspy.Highs, gone: Array) -> None:
        """Delete the rows with these numbers, none of which is a cut."""
        places = np.cumsum(~self._is_cut)[gone] - 1
        numbers = (self.form.row_lower.size + places).astype(np.int32)
        model.deleteRows(numbers.size, numbers)
        self._is_cut = np.delete(self._is_cut, gone)

    def read(self, model: highspy.Highs) -> tuple[Array, Array, Array]:
        """Return x, the multipliers of the rows, and those of the form's constraints."""
        solution, own = model.getSolution(), self.form.row_lower.size
        duals = np.array(solution.row_dual)
        multipliers = np.ones(self._is_cut.size)
        multipliers[~self._is_cut] = -duals[own:]
        return np.array(solution.col_value)[: self.dim], multipliers, duals[:own]
