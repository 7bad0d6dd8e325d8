"""Linear programmes in a HiGHS model that is built once, changed in place, and solved from the last basis."""

from __future__ import annotations

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
from cutplane.masters.rows import is_finite, objective_scale, row_factors, scaled, sides_of, survivors
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import row_sizes
from cutplane.runtime.deadline import check_time, seconds_left

DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4
"""Values of the option `simplex_strategy`, because HiGHS takes numbers for it."""

_FEW_VARIABLES = 100
"""Most variables with which cuts are columns, because these were faster in runs of cutting planes."""
_TIGHT, _LOOSE = 1e-9, 1e-7
"""Tolerances of the first attempts and of the last one, because 1e-7 is the default of HiGHS and 1e-9 is more
exact."""
_SLICE = 1.0
"""Seconds between two checks of the clock and the keyboard, because each check costs a new factorisation."""
_FEW = 10
"""Number of iterations in a slice below which the next slice is twice as long, because factorisations take
most of the time."""
_CYCLING = 10
"""Iteration limit of a solve from scratch relative to the limit of a warm start, because a warm start needs
fewer."""
_VERDICTS = {
    highspy.HighsModelStatus.kOptimal: MasterStatus.SOLVED,
    highspy.HighsModelStatus.kInfeasible: MasterStatus.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: MasterStatus.UNBOUNDED,
}


class HighsMaster:
    """Solves linear reduced problems in one HiGHS model that grows and shrinks and keeps its basis.

    Cuts are rows of the reduced problem (dual simplex) or columns of its dual (primal simplex). Columns are
    up to twice as fast if there are several times more cuts than variables, rows up to four times as fast if
    there are more variables than cuts. "auto" uses columns up to 100 variables.
    """

    name = "highs"
    exact = True
    sparse = True

    def __init__(self, reduced: ReducedProblem, orientation: str = "auto"):
        self.reduced = reduced
        assert reduced.linear is not None, "refused"
        if orientation == "auto":
            orientation = "columns" if reduced.linear.n_columns <= _FEW_VARIABLES else "rows"
        self.orientation = orientation
        self._form = SplitColumns(reduced, split=orientation == "rows")
        self._settled = False

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: Kind) -> str | None:
        """Return None if the reduced problem is a linear programme, otherwise the reason, as a clause."""
        if stabilization is not None:
            return f"a {stabilization.__name__.lower()} term makes the reduced problem quadratic"
        if reduced.linear is None:
            piece = reduced.simple_set if reduced.polyhedron is None else reduced.regularizer
            return f"{piece!r} has no linear form"
        return None

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `stabilization` must be None, and `accuracy` is not used because a basis is exact."""
        if not is_finite(rows) or not self._follow(rows):
            self._settled = False
            return MasterSolution(None, None, MasterStatus.FAILED, "HiGHS: a row is not finite, or too large")
        status, message = rerun(self.model)
        if status is MasterStatus.SOLVED:
            u, multipliers, own = self._layout.read()
            x = self._form.point(u)[: self.reduced.dim]
            return MasterSolution(x, multipliers * self._factors / self._scale, set_multipliers=own)
        if self.orientation == "columns":
            return HighsMaster(self.reduced, "rows").solve(rows)
        return MasterSolution(None, None, status, message)

    def _follow(self, rows: Rows) -> bool:
        """Update the rows of the model; tell whether HiGHS accepted the new ones."""
        if not self._settled:
            cuts = rows.slopes[rows.blocks != HALF_SPACE]
            self._scale = objective_scale(rows.slopes, rows.offsets, rows.blocks)
            layout = ColumnLayout if self.orientation == "columns" else RowLayout
            self._layout = layout(self._form, self.reduced.n_blocks, self._scale)
            self.model = self._layout.model
            self._settled = bool(row_sizes(cuts).any())
            self._known, self._factors = np.empty(0, dtype=np.int64), np.empty(0)
        kept = survivors(self._known, rows.ids)
        if not kept.all():
            self._layout.remove(np.flatnonzero(~kept))
        new = slice(int(kept.sum()), None)
        slopes, offsets, blocks = rows.slopes[new], rows.offsets[new], rows.blocks[new]
        factors = row_factors(slopes, blocks, self._scale)
        self._factors = np.concatenate([self._factors[kept], factors])
        self._known = rows.ids.copy()
        if not factors.size:
            return True
        wide = self._form.columns(scaled(slopes, factors))
        return self._layout.extend(wide, offsets * factors, blocks)


class SplitColumns:
    """Regularizer and set as a linear programme in which x_j with a term c_j |x_j| is split into p_j - q_j.

    Both p_j and q_j are nonnegative and have the cost c_j; p_j has the column of x_j, and q_j one of the last
    columns. Then `programme` has only the rows of the set, which saves the simplex method a pivot for every
    row of an absolute value. Without `split`, it is `ReducedProblem.linear`, because p and q would double the
    entries of each cut in the dual.
    """

    def __init__(self, reduced: ReducedProblem, split: bool):
        whole, own, separable = reduced.linear, reduced.polyhedron, reduced.separable
        assert whole is not None and own is not None, "refused"
        self._costs = np.empty(0)
        self.programme = whole
        paid = np.flatnonzero(separable.costs) if split and separable else np.empty(0, np.int64)
        if paid.size and separable and whole.row_lower.size == own.row_lower.size + 2 * paid.size:
            self._costs = separable.costs[paid]
            lower, upper, cost = own.lower.copy(), own.upper.copy(), own.cost.copy()
            lower[paid], upper[paid] = np.maximum(lower[paid], 0.0), np.maximum(upper[paid], 0.0)
            cost[paid] += self._costs
            n, self._paid = own.n_columns, paid
            signs, places = np.append(np.ones(n), np.full(paid.size, -1.0)), np.append(np.arange(n), paid)
            self._signs = sparse.csr_array((signs, (places, np.arange(places.size))))
            self.programme = LinearForm(
                cost=np.append(cost, self._costs - own.cost[paid]),
                lower=np.append(lower, np.maximum(-own.upper[paid], 0.0)),
                upper=np.append(upper, np.maximum(-own.lower[paid], 0.0)),
                rows=sparse.csr_array(own.rows @ self._signs),
                row_lower=own.row_lower,
                row_upper=own.row_upper,
            )

    def columns(self, slopes: Any) -> Any:
        """Return the rows in terms of the columns, from rows in terms of x."""
        return slopes @ self._signs[: slopes.shape[1]] if self._costs.size else slopes

    def point(self, columns: Array) -> Array:
        """Return x and the auxiliaries."""
        return self._signs @ columns if self._costs.size else columns

    def multipliers(self, own: Array, reduced_costs: Array) -> Array:
        """Return the multipliers of the rows of `ReducedProblem.linear`, which include absolute values.

        The two rows of |x_j| combine to the residual slope along x_j, which is at most its cost.
        """
        if not self._costs.size:
            return own
        first = self.programme.n_columns - self._costs.size
        rest = 0.5 * (reduced_costs[self._paid] - reduced_costs[first:])
        rest = np.where(self.programme.lower[self._paid] > 0.0, -np.inf, rest)
        rest = np.where(self.programme.lower[first:] > 0.0, np.inf, rest)
        sides = np.clip(rest, -self._costs, 0.0), np.clip(rest, 0.0, self._costs)
        return np.concatenate([*sides, own])


class RowLayout:
    """min cost'u + sum_k xi_k subject to the form's constraints and <slope_i, x> - xi_k <= -offset_i.

    The costs of the form are multiplied by `scale`. When a row is added, the last basis stays dual feasible,
    so that the dual simplex method continues from it.
    """

    def __init__(self, form: SplitColumns, n_blocks: int, scale: float):
        self._form, self._scale, own = form, scale, form.programme
        self._own, self._width = own.row_lower.size, own.n_columns
        free = np.full(n_blocks, np.inf)
        programme = LinearForm(
            cost=np.concatenate([scale * own.cost, np.ones(n_blocks)]),
            lower=np.concatenate([own.lower, -free]),
            upper=np.concatenate([own.upper, free]),
            rows=sparse.csr_array(sparse.hstack([own.rows, sparse.csr_array((self._own, n_blocks))])),
            row_lower=own.row_lower,
            row_upper=own.row_upper,
        )
        self.model = living_model(programme, DUAL_SIMPLEX)

    def extend(self, slopes: Any, offsets: Array, blocks: Array) -> bool:
        """Append rows; tell whether HiGHS accepted them."""
        starts, indices, values = entries(slopes, blocks, self._width)
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
        own = self._form.multipliers(duals[: self._own] / self._scale, reduced_costs / self._scale)
        return u, -duals[self._own :], own


class ColumnLayout:
    """min <b, y> - <offsets, m> over multipliers m >= 0 of the cuts and y of the form's sides.

    There is one equation per coordinate of u = (x, auxiliaries), whose multiplier is this coordinate, and one
    per block, which makes the multipliers of its cuts sum to 1. When a column is added, the last basis stays
    primal feasible, so that the primal simplex method continues from it.
    """

    def __init__(self, form: SplitColumns, n_blocks: int, scale: float):
        self._width = form.programme.n_columns
        sides = sides_of(form.programme, bounds=True)
        self._first, no_blocks = sides.b.size, sparse.csr_array((n_blocks, sides.b.size))
        lower = np.zeros(self._first)
        lower[: sides.n_equations] = -np.inf
        right = np.concatenate([scale * form.programme.cost, np.ones(n_blocks)])
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
        """Append columns; tell whether HiGHS accepted them."""
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
    """Return rows (or columns) in the format of HiGHS: starts, indices and values.

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


# ------------------------------------------------------------------ living models


class SilentHighs(highspy.Highs):
    """A HiGHS model that prints nothing, not even its name when callbacks are enabled."""

    def enableCallbacks(self) -> None:
        """Switch output off, then enable callbacks."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()


def living_model(programme: LinearForm, strategy: int) -> highspy.Highs:
    """Return a silent HiGHS model, without presolve, because presolve would discard its basis.

    The simplex methods are serial. The option `threads` is not set, because HiGHS refuses a number that
    differs from the first model in the process, and another package may have built that model.
    """
    model = SilentHighs()
    options = {
        "presolve": "off",
        "solver": "simplex",
        "simplex_strategy": strategy,
        "small_matrix_value": 1e-12,  # the smallest value that HiGHS accepts
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

    HiGHS perturbs costs and bounds against cycling, which makes a warm start up to twice as slow on
    degenerate problems. Therefore the first attempt does not perturb, and has a limit of iterations. The
    limit of the other attempts is larger, because the simplex method takes a few times as many iterations as
    there are rows and columns, unless it cycles. "Infeasible" and "unbounded" are accepted only after a solve
    from scratch. The message is the status of HiGHS, unless it found an optimum.
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
    """Return a limit of iterations that warm starts reach only if they cycle, according to measurements."""
    return 1000 + 20 * (model.getNumRow() + model.getNumCol())


def _without_costs(model: highspy.Highs) -> MasterStatus | None:
    """Distinguish an unbounded from an infeasible programme: only the former has a solution without costs."""
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
    """Run the solver within a limit of iterations, in slices of time that continue from the last basis."""
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
