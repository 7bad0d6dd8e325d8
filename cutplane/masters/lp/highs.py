"""Linear programmes in a living HiGHS model: cuts as rows, as columns of the dual, or in the objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import highspy
import numpy as np
from scipy import sparse

from cutplane.masters.base import (
    HALF_SPACE,
    Kind,
    MasterSolution,
    MasterStatus,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.lp.highs_model import DUAL_SIMPLEX, PRIMAL_SIMPLEX, living_model, rerun
from cutplane.masters.rows import (
    is_finite,
    objective_scale,
    row_factors,
    scaled,
    survivors,
)
from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import row_sizes

_FEW_VARIABLES = 100  # where columns were faster than rows in runs of cutting planes


class HighsMaster:
    """Solves linear reduced problems in one HiGHS model that grows and shrinks and keeps its basis.

    Cuts are rows of the reduced problem (dual simplex) or columns of its dual (primal simplex). Columns are
    faster, up to twice, once there are several times more cuts than variables; rows, up to four times, where
    the variables outnumber the cuts. "auto" takes columns up to 100 variables.
    """

    name = "highs"
    exact = True
    sparse = True

    def __init__(self, reduced: ReducedProblem, orientation: str = "auto"):
        regularizer, simple_set = (
            ask(piece, Capability.LINEAR_FORM, reduced.dim)
            for piece in (reduced.regularizer, reduced.simple_set)
        )
        form = regularizer.merge(simple_set, reduced.dim)
        if orientation == "auto":
            orientation = "columns" if form.n_columns <= _FEW_VARIABLES else "rows"
        self.reduced = reduced
        self.orientation = orientation
        self._values = AbsoluteValues.of(form)
        self._settled = False

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: Kind) -> str | None:
        """Return None if the reduced problem is a linear programme, else why not."""
        if stabilization is not None:
            return f"a {stabilization.__name__.lower()} term makes the reduced problem quadratic"
        for piece in (reduced.regularizer, reduced.simple_set):
            if ask(piece, Capability.LINEAR_FORM, reduced.dim) is None:
                return f"{piece!r} has no linear form"
        return None

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `stabilization` must be None, and `accuracy` is not used: a basis is exact."""
        if not is_finite(rows) or not self._follow(rows):
            self._settled = False
            return MasterSolution(None, None, MasterStatus.FAILED, "HiGHS: a row is not finite, or too large")
        status, message = rerun(self.model)
        if status is MasterStatus.SOLVED:
            found, own = self._layout.read(), None
            if found.own is not None and found.reduced_costs is not None:
                own = self._values.multipliers(found.own / self._scale, found.reduced_costs / self._scale)
            x = self._values.point(found.u)[: self.reduced.dim]
            return MasterSolution(x, found.multipliers * self._factors / self._scale, set_multipliers=own)
        if self.orientation == "columns":
            return HighsMaster(self.reduced, "rows").solve(rows)
        return MasterSolution(None, None, status, message)

    def _follow(self, rows: Rows) -> bool:
        """Delete the rows that are gone from the model, append the new ones; tell whether HiGHS took them."""
        single = self._single_cuts(rows)
        if not self._settled or not np.array_equal(single, self._only_cuts):
            self._restart(rows, single)
        kept = survivors(self._known, rows.ids)
        if not kept.all():
            self._layout.remove(np.flatnonzero(~kept))
        new = slice(int(kept.sum()), None)
        slopes, offsets, blocks = rows.slopes[new], rows.offsets[new], rows.blocks[new]
        factors = row_factors(slopes, blocks, self._scale)
        self._factors = np.concatenate([self._factors[kept], factors])
        self._known = np.array(rows.ids)
        return not factors.size or self._layout.extend(
            self._values.columns(scaled(slopes, factors)), offsets * factors, blocks
        )

    def _single_cuts(self, rows: Rows) -> Array:
        """Return the ids of the cuts if every block has one and there are half-spaces or rows, or nothing."""
        cuts = rows.blocks != HALF_SPACE
        if (self.orientation == "columns" and cuts.all()) or cuts.sum() != self.reduced.n_blocks:
            return np.empty(0, dtype=np.int64)
        each = np.unique(rows.blocks[cuts]).size == self.reduced.n_blocks
        return rows.ids[cuts] if each else np.empty(0, dtype=np.int64)

    def _restart(self, rows: Rows, single: Array) -> None:
        """Begin a new model, in the layout and the scale that suit the rows."""
        cuts = rows.slopes[rows.blocks != HALF_SPACE]
        self._scale = objective_scale(rows.slopes, rows.offsets, rows.blocks)
        programme = self._values.form, self.reduced.n_blocks, self._scale
        self._layout: ColumnLayout | RowLayout
        if single.size:
            slope = np.ravel(cuts.sum(axis=0))
            self._layout = RowLayout(*programme, np.ravel(self._values.columns(slope[np.newaxis])))
        else:
            self._layout = (
                ColumnLayout(*programme) if self.orientation == "columns" else RowLayout(*programme)
            )
        self._settled = bool(row_sizes(cuts).any())
        self._only_cuts = single.copy()
        self._known = np.empty(0, dtype=np.int64)
        self._factors = np.empty(0)
        self.model = self._layout.model


class Reading(NamedTuple):
    """A solution: columns u, multipliers of the cuts, those of the form's rows, reduced costs of u."""

    u: Array
    multipliers: Array
    own: Array | None = None
    reduced_costs: Array | None = None


class RowLayout:
    """min cost'u + sum_k xi_k subject to the form's constraints and <slope_i, x> - xi_k <= -offset_i.

    The form is that of regularizer and simple set together, its costs multiplied by `scale`. A new row does
    not change that the last basis is dual feasible, so the dual simplex method goes on from it. While every
    block has exactly one cut, as a linear objective has for ever, `slope` is the sum of their slopes: it is
    added to the costs, and no row holds a cut, whose multiplier is 1.
    """

    def __init__(self, form: LinearForm, n_blocks: int, scale: float, slope: Array | None = None):
        self._own, self._width, self._single = form.row_lower.size, form.n_columns, slope is not None
        self._is_row = np.empty(0, dtype=bool)
        cost = form.cost.copy()
        if slope is not None:
            cost[: slope.size] += slope
            n_blocks = 0
        free = np.full(n_blocks, np.inf)
        programme = LinearForm(
            cost=np.concatenate([scale * cost, np.ones(n_blocks)]),
            lower=np.concatenate([form.lower, -free]),
            upper=np.concatenate([form.upper, free]),
            rows=sparse.csr_array(sparse.hstack([form.rows, sparse.csr_array((self._own, n_blocks))])),
            row_lower=form.row_lower,
            row_upper=form.row_upper,
        )
        self.model = living_model(programme, DUAL_SIMPLEX)

    def extend(self, slopes: Any, offsets: Array, blocks: Array) -> bool:
        """Append rows; tell whether HiGHS took them."""
        new = np.full(blocks.size, True)
        if self._single and (blocks != HALF_SPACE).any():
            new = blocks == HALF_SPACE
            slopes, offsets, blocks = slopes[new], offsets[new], blocks[new]
        self._is_row = np.concatenate([self._is_row, new])
        starts, indices, values = entries(slopes, blocks, self._width)
        lower = np.full(blocks.size, -np.inf)
        status = self.model.addRows(blocks.size, lower, -offsets, values.size, starts, indices, values)
        return status != highspy.HighsStatus.kError

    def remove(self, gone: Array) -> None:
        """Delete the rows with these numbers, none of which is a cut in the costs."""
        numbers = (self._own + np.cumsum(self._is_row)[gone] - 1).astype(np.int32)
        self._is_row = np.delete(self._is_row, gone)
        self.model.deleteRows(numbers.size, numbers)

    def read(self) -> Reading:
        """Return the solution."""
        solution, width = self.model.getSolution(), self._width
        duals, multipliers = np.array(solution.row_dual), np.ones(self._is_row.size)
        multipliers[self._is_row] = -duals[self._own :]
        u, reduced_costs = np.array(solution.col_value)[:width], np.array(solution.col_dual)[:width]
        return Reading(u, multipliers, duals[: self._own], reduced_costs)


class ColumnLayout:
    """min -<offsets, m> - <side, y> over multipliers m >= 0 of the cuts and y of the form's constraints.

    There is one equation per coordinate of u = (x, auxiliaries), whose multiplier is that coordinate, and one
    per block, by which the multipliers of its cuts sum to 1. A new column does not change that the last basis
    is primal feasible, so the primal simplex method goes on from it.
    """

    def __init__(self, form: LinearForm, n_blocks: int, scale: float):
        self._width = form.n_columns
        sides: Any = sparse.csr_array(sparse.vstack([form.rows, sparse.eye_array(form.n_columns)]))
        low = np.concatenate([form.row_lower, form.lower])
        high = np.concatenate([form.row_upper, form.upper])
        fixed = low == high
        below, above = np.isfinite(low) & ~fixed, np.isfinite(high) & ~fixed
        columns: Any = sparse.vstack([sides[fixed], sides[below], -sides[above]]).T
        self._first = columns.shape[1]
        signed = np.zeros(self._first)
        signed[: fixed.sum()] = -np.inf
        right = np.concatenate([scale * form.cost, np.ones(n_blocks)])
        programme = LinearForm(
            cost=np.concatenate([-low[fixed], -low[below], high[above]]),
            lower=signed,
            upper=np.full(self._first, np.inf),
            rows=sparse.csr_array(sparse.vstack([columns, sparse.csr_array((n_blocks, self._first))])),
            row_lower=right,
            row_upper=right,
        )
        self.model = living_model(programme, PRIMAL_SIMPLEX)

    def extend(self, slopes: Any, offsets: Array, blocks: Array) -> bool:
        """Append columns; tell whether HiGHS took them."""
        starts, indices, values = entries(slopes, blocks, self._width)
        ends = np.zeros(blocks.size), np.full(blocks.size, np.inf)
        status = self.model.addCols(blocks.size, -offsets, *ends, values.size, starts, indices, -values)
        return status != highspy.HighsStatus.kError

    def remove(self, gone: Array) -> None:
        """Delete the columns with these numbers."""
        self.model.deleteCols(gone.size, (self._first + gone).astype(np.int32))

    def read(self) -> Reading:
        """Return the solution; the multipliers of the form's constraints are not sorted out."""
        solution = self.model.getSolution()
        return Reading(
            -np.array(solution.row_dual)[: self._width], np.array(solution.col_value)[self._first :]
        )


def entries(slopes: Any, blocks: Array, n_columns: int) -> tuple[Array, Array, Array]:
    """Return rows (or columns) as HiGHS takes them: where each starts, indices and values.

    They are <slope, x> - xi_k for cuts, <slope, x> for half-spaces; xi_k has the index n_columns + k.
    """
    if sparse.issparse(slopes):
        numbers = np.repeat(np.arange(blocks.size), np.diff(slopes.indptr))
        indices, values = slopes.indices, slopes.data
    else:
        numbers, indices = np.nonzero(slopes)
        values = slopes[numbers, indices]
    cuts = np.flatnonzero(blocks != HALF_SPACE)
    numbers, indices = np.concatenate([numbers, cuts]), np.concatenate([indices, n_columns + blocks[cuts]])
    values = np.concatenate([values, np.full(cuts.size, -1.0)])
    order = np.argsort(numbers, kind="stable")
    counts = np.bincount(numbers, minlength=blocks.size)
    starts = np.cumsum(counts) - counts
    return starts.astype(np.int32), indices[order].astype(np.int32), values[order]


@dataclass(frozen=True)
class AbsoluteValues:
    """A linear form in which each pair x_j, t_k with t_k >= |x_j| at a cost has become p - q and p + q.

    From a cold start the simplex method takes a pivot for every such row, and none without them. The columns
    `x` and `t` hold p >= 0 and q >= 0. The rows `under` and `over`, x_j - t_k <= 0 and x_j + t_k >= 0, are
    not in the form any more.
    """

    form: LinearForm
    x: Array
    t: Array
    under: Array
    over: Array
    n_rows: int

    @classmethod
    def of(cls, form: LinearForm) -> AbsoluteValues:
        """Find the pairs; there may be none."""
        x, t, under, over = _pairs(form)
        if not x.size:
            return cls(form, x, t, under, over, form.row_lower.size)
        cost, lower, upper = form.cost.copy(), form.lower.copy(), form.upper.copy()
        cost[x], cost[t] = form.cost[t] + form.cost[x], form.cost[t] - form.cost[x]
        upper[t], lower[x], lower[t] = -lower[x], 0.0, 0.0
        kept = np.ones(form.row_lower.size, dtype=bool)
        kept[under] = kept[over] = False
        rows = sparse.csc_array(form.rows[kept])
        apart = sparse.csr_array((-np.ones(x.size), (x, t)), shape=(cost.size, cost.size))
        split: Any = rows + rows @ apart
        left = LinearForm(
            cost, lower, upper, sparse.csr_array(split), form.row_lower[kept], form.row_upper[kept]
        )
        return cls(left, x, t, under, over, form.row_lower.size)

    def columns(self, slopes: Any) -> Any:
        """Return rows over x as rows over the columns."""
        if not self.x.size:
            return slopes
        dim, wide = slopes.shape[1], self.form.n_columns
        ones = np.ones(dim), (np.arange(dim), np.arange(dim))
        own = self.x < dim  # the others are pairs of auxiliaries
        pairs = self.x[own], self.t[own]
        apart = sparse.csr_array((-np.ones(pairs[0].size), pairs), shape=(dim, wide))
        return slopes @ (sparse.csr_array(ones, shape=(dim, wide)) + apart)

    def point(self, columns: Array) -> Array:
        """Return the columns with x where p is."""
        columns[self.x] -= columns[self.t]
        return columns

    def multipliers(self, kept: Array, reduced_costs: Array) -> Array:
        """Return the multipliers of all rows, from those of the rows that are left and the reduced costs.

        Those of a pair combine to what the other rows leave of the slope along x_j, at most its cost.
        """
        if not self.x.size:
            return kept
        every = np.zeros(self.n_rows)
        others = np.ones(self.n_rows, dtype=bool)
        others[self.under] = others[self.over] = False
        every[others] = kept
        rest = 0.5 * (reduced_costs[self.x] - reduced_costs[self.t])
        price = 0.5 * (self.form.cost[self.x] + self.form.cost[self.t])
        every[self.over] = np.clip(rest, 0.0, price)
        every[self.under] = np.clip(rest, -price, 0.0)
        return every


def _pairs(form: LinearForm) -> tuple[Array, Array, Array, Array]:
    """Return columns x and t, and rows x - t <= 0 and x + t >= 0, where nothing else asks for t."""
    rows = form.rows
    rows.sort_indices()
    two = np.flatnonzero(np.diff(rows.indptr) == 2)
    at = rows.indptr[two]
    first, second = rows.indices[at], rows.indices[at + 1]
    ones = rows.data[at] == 1.0
    low, high = form.row_lower[two], form.row_upper[two]
    under = ones & (rows.data[at + 1] == -1.0) & (high == 0.0) & np.isinf(low)
    over = ones & (rows.data[at + 1] == 1.0) & (low == 0.0) & np.isinf(high)
    count = np.bincount(rows.indices, minlength=form.n_columns)
    auxiliary = (count == 2) & (form.lower == 0.0) & np.isinf(form.upper) & (form.cost >= 0.0)
    straddles = (form.lower <= 0.0) & (form.upper >= 0.0)
    keys = first.astype(np.int64) * form.n_columns + second
    fits = auxiliary[second] & straddles[first]
    _, mine, theirs = np.intersect1d(keys[under & fits], keys[over & fits], return_indices=True)
    mine, theirs = np.flatnonzero(under & fits)[mine], np.flatnonzero(over & fits)[theirs]
    _, single = np.unique(first[mine], return_index=True)
    mine, theirs = mine[single], theirs[single]
    return first[mine], second[mine], two[mine], two[theirs]
