"""How HiGHS is given a reduced problem: cuts as rows, as columns of the dual, or in the objective."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import highspy
import numpy as np
from scipy import sparse

from cutplane.masters.base import HALF_SPACE
from cutplane.masters.lp.highs_model import DUAL_SIMPLEX, PRIMAL_SIMPLEX, living_model
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array


class Reading(NamedTuple):
    """A solution: columns u, multipliers of the cuts, those of the form's rows, reduced costs of u."""

    u: Array
    multipliers: Array
    own: Array | None = None
    reduced_costs: Array | None = None


class RowLayout:
    """min cost'u + sum_k xi_k subject to the form's constraints and <slope_i, x> - xi_k <= -offset_i.

    The form is that of regularizer and simple set together. A new row leaves the last basis dual feasible, so
    the dual simplex method goes on from it.
    """

    def __init__(self, form: LinearForm, n_blocks: int):
        self.form = form
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

    def read(self, model: highspy.Highs) -> Reading:
        """Return the solution."""
        solution, own, columns = model.getSolution(), self.form.row_lower.size, self.form.n_columns
        duals = np.array(solution.row_dual)
        u, reduced_costs = np.array(solution.col_value)[:columns], np.array(solution.col_dual)[:columns]
        return Reading(u, -duals[own:], duals[:own], reduced_costs)


class SingleCutLayout(RowLayout):
    """min (cost + sum_k slope_k)'u subject to the form's constraints and the half-spaces as rows.

    This is the reduced problem while every block has exactly one cut, as a linear objective has for ever; no
    row holds a cut, whose multiplier is 1. `slope` is the sum of the cuts' slopes.
    """

    def __init__(self, form: LinearForm, slope: Array):
        cost = form.cost.copy()
        cost[: slope.size] += slope
        super().__init__(replace(form, cost=cost), 0)
        self._is_cut = np.empty(0, dtype=bool)

    def extend(self, model: highspy.Highs, slopes: Array, offsets: Array, blocks: Array) -> bool:
        """Append rows for the half-spaces; tell whether HiGHS took them."""
        self._is_cut = np.concatenate([self._is_cut, blocks != HALF_SPACE])
        new = blocks == HALF_SPACE
        return super().extend(model, slopes[new], offsets[new], blocks[new])

    def remove(self, model: highspy.Highs, gone: Array) -> None:
        """Delete the rows with these numbers, none of which is a cut."""
        super().remove(model, np.cumsum(~self._is_cut)[gone] - 1)
        self._is_cut = np.delete(self._is_cut, gone)

    def read(self, model: highspy.Highs) -> Reading:
        """Return the solution; the multiplier of a cut is 1."""
        found = super().read(model)
        multipliers = np.ones(self._is_cut.size)
        multipliers[~self._is_cut] = found.multipliers
        return found._replace(multipliers=multipliers)


class ColumnLayout:
    """min -<offsets, m> - <side, y> over multipliers m >= 0 of the cuts and y of the form's constraints.

    There is one equation per coordinate of u = (x, auxiliaries), whose multiplier is that coordinate, and one
    per block, by which the multipliers of its cuts sum to 1. A new column leaves the last basis primal
    feasible, so the primal simplex method goes on from it.
    """

    def __init__(self, form: LinearForm, n_blocks: int):
        self.form = form
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

    def read(self, model: highspy.Highs) -> Reading:
        """Return the solution; the multipliers of the form's constraints are not sorted out."""
        solution, columns = model.getSolution(), self.form.n_columns
        return Reading(-np.array(solution.row_dual)[:columns], np.array(solution.col_value)[self._first :])


class Entries(NamedTuple):
    """Compressed sparse rows (or columns) as HiGHS takes them: where each starts, indices and values."""

    starts: Array
    indices: Array
    values: Array


def entries(slopes: Any, blocks: Array, n_columns: int) -> Entries:
    """Return <slope, x> - xi_k for cuts, <slope, x> for half-spaces; xi_k has the index n_columns + k."""
    if sparse.issparse(slopes):
        if (blocks != HALF_SPACE).any():
            width = n_columns + int(blocks.max()) + 1
            cuts = np.flatnonzero(blocks != HALF_SPACE)
            marks = np.full(cuts.size, -1.0), (cuts, n_columns + blocks[cuts])
            slopes = sparse.csr_array((slopes.data, slopes.indices, slopes.indptr), (blocks.size, width))
            slopes = sparse.csr_array(slopes + sparse.csr_array(marks, shape=slopes.shape))
        return Entries(slopes.indptr[:-1].astype(np.int32), slopes.indices.astype(np.int32), slopes.data)
    numbers, indices = np.nonzero(slopes)
    cuts = np.flatnonzero(blocks != HALF_SPACE)
    numbers, indices = np.concatenate([numbers, cuts]), np.concatenate([indices, n_columns + blocks[cuts]])
    values = np.concatenate([slopes[slopes != 0.0], np.full(cuts.size, -1.0)])
    order = np.argsort(numbers, kind="stable")
    counts = np.bincount(numbers, minlength=blocks.size)
    starts = np.cumsum(counts) - counts
    return Entries(starts.astype(np.int32), indices[order].astype(np.int32), values[order])
