"""Linear programmes in a living HiGHS model: built once, changed in place, solved from the last basis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from cutplane.masters.rows import (
    is_finite,
    objective_scale,
    row_factors,
    scaled,
    sides_of,
    survivors,
)
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import row_sizes
from cutplane.runtime.deadline import check_time, seconds_left

DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4

_FEW_VARIABLES = 100
"""Number of variables up to which columns are used, because they were faster in runs of cutting planes."""
_TIGHT, _LOOSE = 1e-9, 1e-7
"""Tolerances of the first attempts and of the last, which is HiGHS's default."""
_SLICE = 1.0
"""Seconds between two checks of the clock and the keyboard, because each costs a new factorisation."""
_FEW = 10
"""Iterations in a slice below which the next one is twice as long, because factorisations take most of it."""
_CYCLING = 10
"""Factor of the limit of iterations from scratch over the limit of a warm start."""
_VERDICTS = {
    highspy.HighsModelStatus.kOptimal: MasterStatus.SOLVED,
    highspy.HighsModelStatus.kInfeasible: MasterStatus.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: MasterStatus.UNBOUNDED,
}


class HighsMaster:
    """Solves linear reduced problems in one HiGHS model that grows and shrinks and keeps its basis.

    Cuts are rows of the reduced problem (dual simplex) or columns of its dual (primal simplex). Columns are
    faster, up to twice, once there are several times more cuts than variables; rows, up to four times, where
    the variables outnumber the cuts. "auto" takes columns up to 100 variables. While every block has exactly
    one cut beside half-spaces, as a linear objective has for ever, these are costs, with multipliers of 1.
    """

    name = "highs"
    exact = True
    sparse = True

    def __init__(self, reduced: ReducedProblem, orientation: str = "auto"):
        assert reduced.linear is not None, "refused"
        self._form = reduced.linear
        if orientation == "auto":
            orientation = "columns" if self._form.n_columns <= _FEW_VARIABLES else "rows"
        self.reduced = reduced
        self.orientation = orientation
        self._settled = False

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: Kind) -> str | None:
        """Return None if the reduced problem is a linear programme, else why not."""
        if stabilization is not None:
            return f"a {stabilization.__name__.lower()} term makes the reduced problem quadratic"
        if reduced.linear is None:
            piece = reduced.simple_set if reduced.polyhedron is None else reduced.regularizer
            return f"{piece!r} has no linear form"
        return None

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `stabilization` must be None, and `accuracy` is not used: a basis is exact."""
        if not is_finite(rows) or not self._follow(rows):
            self._settled = False
            return MasterSolution(None, None, MasterStatus.FAILED, "HiGHS: a row is not finite, or too large")
        status, message = rerun(self.model)
        if status is MasterStatus.SOLVED:
            u, found, own = self._layout.read()
            multipliers = np.ones(rows.ids.size)
            multipliers[self._stated(rows)] = found * self._factors / self._scale
            return MasterSolution(u[: self.reduced.dim], multipliers, set_multipliers=own)
        if self.orientation == "columns":
            return HighsMaster(self.reduced, "rows").solve(rows)
        return MasterSolution(None, None, status, message)

    def _follow(self, rows: Rows) -> bool:
        """Delete the rows that are gone from the model, append the new ones; tell whether HiGHS took them."""
        costs = self._cuts_in_costs(rows)
        if not self._settled or not np.array_equal(costs, self._in_costs):
            self._restart(rows, costs)
        stated = self._stated(rows)
        ids = rows.ids[stated]
        kept = survivors(self._known, ids)
        if not kept.all():
            self._layout.remove(np.flatnonzero(~kept))
        new = stated[int(kept.sum()) :]
        slopes, offsets, blocks = rows.slopes[new], rows.offsets[new], rows.blocks[new]
        factors = row_factors(slopes, blocks, self._scale)
        self._factors = np.concatenate([self._factors[kept], factors])
        self._known = ids
        return not factors.size or self._layout.extend(scaled(slopes, factors), offsets * factors, blocks)

    def _cuts_in_costs(self, rows: Rows) -> Array:
        """Return the ids of the cuts if every block has one and there are half-spaces or rows, or nothing."""
        cuts = rows.blocks != HALF_SPACE
        if (self.orientation == "columns" and cuts.all()) or cuts.sum() != self.reduced.n_blocks:
            return np.empty(0, dtype=np.int64)
        each = np.unique(rows.blocks[cuts]).size == self.reduced.n_blocks
        return rows.ids[cuts] if each else np.empty(0, dtype=np.int64)

    def _stated(self, rows: Rows) -> Array:
        """Return the numbers of the rows that are in the model."""
        return np.flatnonzero(rows.blocks == HALF_SPACE) if self._in_costs.size else np.arange(rows.ids.size)

    def _restart(self, rows: Rows, costs: Array) -> None:
        """Begin a new model, in the layout and the scale that suit the rows."""
        cuts = rows.slopes[rows.blocks != HALF_SPACE]
        self._scale = objective_scale(rows.slopes, rows.offsets, rows.blocks)
        form, n_blocks = self._form, self.reduced.n_blocks
        if costs.size:
            slope = np.zeros(form.n_columns)
            slope[: self.reduced.dim] = cuts.sum(axis=0)
            form, n_blocks = replace(form, cost=form.cost + slope), 0
        by_column = self.orientation == "columns" and not costs.size
        self._layout = (ColumnLayout if by_column else RowLayout)(form, n_blocks, self._scale)
        self._settled = bool(row_sizes(cuts).any())
        self._in_costs = costs.copy()
        self._known = np.empty(0, dtype=np.int64)
        self._factors = np.empty(0)
        self.model = self._layout.model


class RowLayout:
    """min cost'u + sum_k xi_k subject to the form's constraints and <slope_i, x> - xi_k <= -offset_i.

    The form is that of regularizer and simple set together, its costs multiplied by `scale`. A new row does
    not change that the last basis is dual feasible, so the dual simplex method goes on from it.
    """

    def __init__(self, form: LinearForm, n_blocks: int, scale: float):
        self._values, self._scale = AbsoluteValues(form), scale
        form = self._values.form
        self._own, self._width = form.row_lower.size, form.n_columns
        free = np.full(n_blocks, np.inf)
        programme = LinearForm(
            cost=np.concatenate([scale * form.cost, np.ones(n_blocks)]),
            lower=np.concatenate([form.lower, -free]),
            upper=np.concatenate([form.upper, free]),
            rows=sparse.csr_array(sparse.hstack([form.rows, sparse.csr_array((self._own, n_blocks))])),
            row_lower=form.row_lower,
            row_upper=form.row_upper,
        )
        self.model = living_model(programme, DUAL_SIMPLEX)

    def extend(self, slopes: Any, offsets: Array, blocks: Array) -> bool:
        """Append rows; tell whether HiGHS took them."""
        starts, indices, values = entries(self._values.columns(slopes), blocks, self._width)
        lower = np.full(blocks.size, -np.inf)
        status = self.model.addRows(blocks.size, lower, -offsets, values.size, starts, indices, values)
        return status != highspy.HighsStatus.kError

    def remove(self, gone: Array) -> None:
        """Delete the rows with these numbers."""
        self.model.deleteRows(gone.size, (self._own + gone).astype(np.int32))

    def read(self) -> tuple[Array, Array, Array]:
        """Return the solution, the multipliers of the cuts, and the multipliers of the rows of the form."""
        solution, width = self.model.getSolution(), self._width
        duals = np.array(solution.row_dual)
        u, reduced_costs = np.array(solution.col_value)[:width], np.array(solution.col_dual)[:width]
        own = self._values.multipliers(duals[: self._own] / self._scale, reduced_costs / self._scale)
        return self._values.point(u), -duals[self._own :], own


class ColumnLayout:
    """min <b, y> - <offsets, m> over multipliers m >= 0 of the cuts and y of the form's sides.

    There is one equation per coordinate of u = (x, auxiliaries), whose multiplier is that coordinate, and one
    per block, by which the multipliers of its cuts sum to 1. A new column does not change that the last basis
    is primal feasible, so the primal simplex method goes on from it.
    """

    def __init__(self, form: LinearForm, n_blocks: int, scale: float):
        self._width = form.n_columns
        sides = sides_of(form, bounds=True)
        self._first, no_blocks = sides.b.size, sparse.csr_array((n_blocks, sides.b.size))
        lower = np.zeros(self._first)
        lower[: sides.n_equations] = -np.inf
        right = np.concatenate([scale * form.cost, np.ones(n_blocks)])
        programme = LinearForm(
            cost=sides.b,
            lower=lower,
            upper=np.full(self._first, np.inf),
            rows=sparse.csr_array(sparse.vstack([-sides.A.T, no_blocks])),
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

    def read(self) -> tuple[Array, Array, None]:
        """Return the solution and the multipliers of the cuts, without multipliers of the form."""
        solution = self.model.getSolution()
        return -np.array(solution.row_dual)[: self._width], np.array(solution.col_value)[self._first :], None


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


class AbsoluteValues:
    """A linear form in which each pair x_j, t_k with t_k >= |x_j| at a cost has become p - q and p + q.

    From a cold start the simplex method takes a pivot for every such row, and none without them. The columns
    `x` and `t` hold p >= 0 and q >= 0. The rows `under` and `over`, x_j - t_k <= 0 and x_j + t_k >= 0, are
    not in the `form` any more.
    """

    def __init__(self, form: LinearForm):
        self.x, self.t, self.under, self.over = x, t, under, over = _pairs(form)
        ones, n = np.ones(x.size), form.n_columns
        entries = np.concatenate([np.ones(n), -ones, ones])
        places = np.concatenate([np.arange(n), x, t]), np.concatenate([np.arange(n), t, x])
        self._columns = sparse.csr_array((entries, places), shape=(n, n))
        lower, upper = form.lower.copy(), form.upper.copy()
        upper[t], lower[x], lower[t] = -lower[x], 0.0, 0.0
        self._kept = kept = np.ones(form.row_lower.size, dtype=bool)
        kept[under] = kept[over] = False
        cost, rows = self._columns.T @ form.cost, sparse.csr_array(form.rows[kept] @ self._columns)
        self.form = LinearForm(cost, lower, upper, rows, form.row_lower[kept], form.row_upper[kept])

    def columns(self, slopes: Any) -> Any:
        """Return rows over x as rows over the columns."""
        return slopes @ self._columns[: slopes.shape[1]] if self.x.size else slopes

    def point(self, columns: Array) -> Array:
        """Return x and the auxiliaries."""
        return self._columns @ columns

    def multipliers(self, kept: Array, reduced_costs: Array) -> Array:
        """Return the multipliers of all rows, from those of the rows that are left and the reduced costs.

        Those of a pair combine to what the other rows leave of the slope along x_j, at most its cost.
        """
        every = np.zeros(self._kept.size)
        every[self._kept] = kept
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


# ------------------------------------------------------------------ living models


class SilentHighs(highspy.Highs):
    """A HiGHS model that prints nothing, not even its name when callbacks are enabled, as they are first."""

    def enableCallbacks(self) -> None:
        """Be silent, then enable callbacks."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()


def living_model(programme: LinearForm, strategy: int) -> highspy.Highs:
    """Return a silent HiGHS model, without presolve so that its basis is kept.

    The simplex methods are serial ones. The option `threads` is left alone: HiGHS refuses to solve with other
    threads than those of the first model of the process, which need not be ours.
    """
    model = SilentHighs()
    options = {
        "presolve": "off",
        "solver": "simplex",
        "simplex_strategy": strategy,
        "small_matrix_value": 1e-12,  # the least that HiGHS takes
    }
    for name, value in options.items():
        model.setOptionValue(name, value)
    lp: Any = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = programme.n_columns, programme.row_lower.shape[0]
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = programme.cost, programme.lower, programme.upper
    lp.row_lower_, lp.row_upper_ = programme.row_lower, programme.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = programme.rows.indptr
    lp.a_matrix_.index_ = programme.rows.indices
    lp.a_matrix_.value_ = programme.rows.data
    model.passModel(lp)
    return model


def rerun(model: highspy.Highs) -> tuple[MasterStatus, str]:
    """Solve from the last basis; if that fails, from scratch, then from scratch with a looser tolerance.

    HiGHS perturbs costs and bounds against cycling. A warm start loses by that, up to a factor 2 on
    degenerate problems, so the first attempt does without, within a limit of iterations. The others have a
    more generous one: the simplex method takes a few times as many iterations as there are rows and columns,
    or it runs in circles.

    Only a solve from scratch is believed when it says infeasible or unbounded. The message is what HiGHS
    said, unless it found an optimum.
    """
    limit = _usual_iterations(model)
    _configure(model, _TIGHT, perturbation=0.0)
    _run(model, limit)
    if model.getModelStatus() == highspy.HighsModelStatus.kOptimal:
        return MasterStatus.SOLVED, ""
    verdict = None
    for tolerance in (_TIGHT, _LOOSE):
        _configure(model, tolerance, perturbation=1.0)
        model.clearSolver()
        _run(model, _CYCLING * limit)
        verdict = _VERDICTS.get(model.getModelStatus())
        if verdict is not None:
            break
    said = model.modelStatusToString(model.getModelStatus())
    if verdict is None and model.getModelStatus() == highspy.HighsModelStatus.kUnboundedOrInfeasible:
        verdict = _without_costs(model)
    message = "" if verdict is MasterStatus.SOLVED else f"HiGHS: {said}"
    return verdict or MasterStatus.FAILED, message


def _usual_iterations(model: highspy.Highs) -> int:
    """Return a limit that a warm start which makes progress keeps: it takes fewer, by experience."""
    return 1000 + 20 * (model.getNumRow() + model.getNumCol())


def _without_costs(model: highspy.Highs) -> MasterStatus | None:
    """Tell an unbounded from an infeasible programme: only the latter stays unsolved without costs."""
    cost = np.array(model.getLp().col_cost_)
    set_costs(model, np.zeros_like(cost))
    _run(model, _CYCLING * _usual_iterations(model))
    verdict = _VERDICTS.get(model.getModelStatus())
    set_costs(model, cost)
    return MasterStatus.UNBOUNDED if verdict is MasterStatus.SOLVED else verdict


def set_costs(model: highspy.Highs, cost: Array) -> None:
    """Replace the costs of all columns."""
    model.changeColsCost(cost.size, np.arange(cost.size, dtype=np.int32), cost)


def _run(model: highspy.Highs, limit: int) -> None:
    """Solve within a limit of iterations, in slices of time that go on from each other's basis."""
    seconds = _SLICE
    while limit > 0:
        model.setOptionValue("simplex_iteration_limit", limit)
        model.setOptionValue("time_limit", model.getRunTime() + min(seconds, seconds_left()))
        model.run()
        if model.getModelStatus() != highspy.HighsModelStatus.kTimeLimit:
            return
        check_time()
        done = max(model.getInfo().simplex_iteration_count, 0)
        limit -= done
        seconds *= 2.0 if done < _FEW else 1.0


def _configure(model: highspy.Highs, tolerance: float, perturbation: float) -> None:
    model.setOptionValue("primal_feasibility_tolerance", tolerance)
    model.setOptionValue("dual_feasibility_tolerance", tolerance)
    model.setOptionValue("dual_simplex_cost_perturbation_multiplier", perturbation)
    model.setOptionValue("primal_simplex_bound_perturbation_multiplier", perturbation)
