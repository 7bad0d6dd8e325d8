"""A living HiGHS model: built once, changed in place, solved again from its last basis."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from cutplane.masters.base import MasterStatus
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time, seconds_left

DUAL_SIMPLEX, PRIMAL_SIMPLEX = 1, 4

_TIGHT, _LOOSE = 1e-9, 1e-7  # tolerances of the first attempts, and of the last: HiGHS's own default
_SLICE = 1.0  # seconds between two looks at the clock and at the keyboard; each costs a new factorisation,
_FEW = 10  # so a slice with fewer iterations than this is followed by a longer one
_CYCLING = 10  # from scratch a simplex method may take so many times the iterations that a warm start may
_VERDICTS = {
    highspy.HighsModelStatus.kOptimal: MasterStatus.SOLVED,
    highspy.HighsModelStatus.kInfeasible: MasterStatus.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: MasterStatus.UNBOUNDED,
}


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
