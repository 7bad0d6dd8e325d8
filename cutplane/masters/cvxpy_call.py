"""One call of a cvxpy problem: accurate options for each backend, and every outcome as a status."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import cvxpy as cp
from cvxpy.settings import USER_LIMIT

from cutplane.masters.base import MasterStatus
from cutplane.masters.cvxpy_osqp import CarefulOSQP

ACCURATE: dict[str, dict[str, Any]] = {
    "OSQP": {"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iter": 5_000, "polishing": True},
    "SCS": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 20_000},
}
"""Options that make a backend accurate, where its own are not."""

_LENIENT: dict[str, dict[str, Any]] = {
    "OSQP": {"eps_abs": 1e-6, "eps_rel": 1e-6, "max_iter": 20_000, "adaptive_rho_tolerance": 20.0}
}
"""Options for a second attempt, by backends that return nothing at their iteration limit.

OSQP adapts its step size; on linear programmes that makes it run in circles, unless it adapts only to large
imbalances.
"""

SLOPE_SIZES = {"CLARABEL": 64.0}
"""To what size the slopes of the cuts are best scaled, where it is not 1: tolerances are relative to 1."""

_SOLVERS = {"OSQP": CarefulOSQP()}
"""Solvers in the place of cvxpy's own."""

_RASH = ("HIGHS",)
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
    """Solve with `backend` (its name in cvxpy), without a warning or an exception.

    Returns
    -------
    status : MasterStatus
        SOLVED also if the solution is less accurate than asked for: the message says so then.
    message : str
    """
    accurate = {**ACCURATE.get(backend, {}), **options}
    lenient = {**accurate, **_LENIENT.get(backend, {}), **options}
    status, message = _attempt(problem, backend, accurate, how)
    if message.endswith(USER_LIMIT) and lenient != accurate:
        status, message = _attempt(problem, backend, lenient, {**how, "warm_start": False})
        message = message or f"{backend}: solved with a looser tolerance"
    return status, message


def _attempt(
    problem: cp.Problem, backend: str, settings: Mapping[str, Any], how: Mapping[str, Any]
) -> tuple[MasterStatus, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=_SOLVERS.get(backend, backend), **how, **settings)
        except Exception as error:
            return MasterStatus.FAILED, f"{backend}: {error}"
    status = _STATUSES.get(problem.status, MasterStatus.FAILED)
    if status is MasterStatus.UNBOUNDED and backend in _RASH and not problem.objective.expr.is_pwl():
        return MasterStatus.FAILED, f"{backend}: {problem.status}, which is not to be trusted here"
    return status, "" if problem.status == cp.OPTIMAL else f"{backend}: {problem.status}"
