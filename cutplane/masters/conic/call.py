"""One call of a cvxpy problem: accurate options for each backend, and every outcome as a status."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
import osqp
from cvxpy.reductions.solvers.qp_solvers.osqp_qpif import OSQP
from cvxpy.settings import USER_LIMIT

from cutplane.masters.base import MasterStatus
from cutplane.runtime.deadline import check_time, seconds_left

ACCURATE: dict[str, dict[str, Any]] = {
    "OSQP": {"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iter": 5_000, "polishing": True},
    "SCS": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 20_000},
}
"""Options that make a backend accurate, where its own are not."""

LAST_DIGITS = 1e-12
"""The tightest tolerance, because an interior point method returns the accuracy that it reaches."""

_OF_GAP = 1e-6
"""The share of a gap that a tolerance should be for it: residuals are charged over ten times the size of
solutions, and their sums, relative to the objective, are some thousand tolerances."""
_COARSEST = 1e-10
"""Interior points gain a digit in an iteration, or two, as long as there are digits to gain."""


def tolerance_for(gap: float) -> float:
    """Return the tolerance of a conic solve that is to prove a relative gap."""
    return min(max(_OF_GAP * gap, LAST_DIGITS), _COARSEST)


def tolerances(backend: str, tolerance: float = LAST_DIGITS) -> dict[str, float]:
    """Return the options of a backend that takes this one for gap and residuals; none for others."""
    names = ("tol_gap_abs", "tol_gap_rel", "tol_feas") if backend == "CLARABEL" else ()
    return dict.fromkeys(names, tolerance)


_LENIENT: dict[str, dict[str, Any]] = {
    "OSQP": {"eps_abs": 1e-6, "eps_rel": 1e-6, "max_iter": 20_000, "adaptive_rho_tolerance": 20.0}
}
"""Options for a second attempt, by backends that return nothing at their iteration limit.

OSQP adapts its step size; on linear programmes that makes it run in circles, unless it adapts only to large
imbalances.
"""

TIME_LIMITS = {
    "CLARABEL": "time_limit",
    "HIGHS": "time_limit",
    "OSQP": "time_limit",
    "SCS": "time_limit_secs",
}
"""What a backend calls its limit of seconds; others (ECOS) stop at their limit of iterations only."""

_LEAST = 1e-3
"""Least limit of seconds, because some backends take 0 for none."""

_UNTRUSTED = ("HIGHS",)
"""Backends that may call a bounded quadratic programme unbounded."""

_STATUSES = {
    cp.OPTIMAL: MasterStatus.SOLVED,
    cp.OPTIMAL_INACCURATE: MasterStatus.SOLVED,
    cp.INFEASIBLE: MasterStatus.INFEASIBLE,
    cp.INFEASIBLE_INACCURATE: MasterStatus.INFEASIBLE,
    cp.UNBOUNDED: MasterStatus.UNBOUNDED,
    cp.UNBOUNDED_INACCURATE: MasterStatus.UNBOUNDED,
}


def call(
    problem: cp.Problem, backend: str, options: Mapping[str, Any], **how: Any
) -> tuple[MasterStatus, str]:
    """Solve with `backend` (its name in cvxpy), without a warning or an exception but `OutOfTime`.

    The status is SOLVED also if the solution is less accurate than asked for: the message says so then.
    """
    accurate = {**ACCURATE.get(backend, {}), **options}
    if backend == "HIGHS":
        accurate = {**_iteration_limits(problem), **accurate}
    lenient = {**accurate, **_LENIENT.get(backend, {}), **options}
    status, message = _attempt(problem, backend, accurate, how)
    if message.endswith(USER_LIMIT) and lenient != accurate:
        status, message = _attempt(problem, backend, lenient, {**how, "warm_start": False})
        message = message or f"{backend}: solved with a looser tolerance"
    return status, message


def _iteration_limits(problem: cp.Problem) -> dict[str, int]:
    """Return limits for active-set methods of HiGHS, which runs in circles on some quadratic programmes.

    Those that end take at most about as many iterations as there are rows and columns.
    """
    size = sum(x.size for x in problem.variables()) + sum(c.size for c in problem.constraints)
    limit = 1000 + 20 * size
    return {"qp_iteration_limit": limit, "simplex_iteration_limit": limit}


def _attempt(
    problem: cp.Problem, backend: str, settings: Mapping[str, Any], how: Mapping[str, Any]
) -> tuple[MasterStatus, str]:
    check_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=_SOLVERS.get(backend, backend), **how, **timed(backend, settings))
        except Exception as error:
            check_time()
            return MasterStatus.FAILED, f"{backend}: {type(error).__name__}: {error}"
    status = _STATUSES.get(problem.status, MasterStatus.FAILED)
    if status is not MasterStatus.SOLVED:
        check_time()
    if status is MasterStatus.UNBOUNDED and backend in _UNTRUSTED and not problem.objective.expr.is_pwl():
        return MasterStatus.FAILED, f"{backend}: {problem.status}, which is not to be trusted here"
    return status, "" if problem.status == cp.OPTIMAL else f"{backend}: {problem.status}"


def timed(backend: str, settings: Mapping[str, Any], setup: float = 0.0) -> dict[str, Any]:
    """Return the settings, with the seconds until the deadline, less those of a set-up, as a limit."""
    name, seconds = TIME_LIMITS.get(backend), seconds_left()
    if name is None or seconds == math.inf:
        return dict(settings)
    return {**settings, name: min(max(seconds - setup, _LEAST), settings.get(name, math.inf))}


class CarefulOSQP(OSQP):
    """cvxpy's interface to OSQP, except that a warm start passes on both sides of the constraints.

    cvxpy passes on the side that changed. OSQP compares it with the other one, which it has scaled and
    rounded since, and may find an equation whose lower side is larger than the upper one by a rounding error.
    Then it rejects the update and solves the old problem, and cvxpy does not notice. Nor does it notice that
    OSQP has caught a Ctrl-C.
    """

    def name(self) -> str:
        """Return a name of its own, as cvxpy asks of custom solvers."""
        return "CAREFUL_OSQP"

    def solve_via_data(
        self, data: Any, warm_start: bool, verbose: bool, solver_opts: Any, solver_cache: Any = None
    ) -> Any:
        """Solve, having made cvxpy forget the sides it passed on last time."""
        if solver_cache and self.name() in solver_cache:
            _, last, _ = solver_cache[self.name()]
            for side in ("l", "u"):
                last[side] = np.full_like(last[side], np.nan)
        results = super().solve_via_data(data, warm_start, verbose, solver_opts, solver_cache)
        if results.info.status_val == osqp.SolverStatus.OSQP_SIGINT:  # pyright: ignore[reportAttributeAccessIssue]
            raise KeyboardInterrupt
        return results


_SOLVERS = {"OSQP": CarefulOSQP()}
"""Solvers in the place of cvxpy's own."""
