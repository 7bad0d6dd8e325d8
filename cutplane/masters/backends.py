"""Settings of convex solvers, and calls of Clarabel without cvxpy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cutplane.masters.base import MasterStatus
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time, seconds_left

ACCURATE: dict[str, dict[str, Any]] = {
    "OSQP": {"eps_abs": 1e-8, "eps_rel": 1e-8, "max_iter": 5_000, "polishing": True},
    "SCS": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 20_000},
}
"""Options of backends whose default tolerances are loose."""

LAST_DIGITS = 1e-12
"""The tightest tolerance, because an interior-point method stops at its best accuracy if it does not reach
this."""

_TIME_LIMITS = {
    "CLARABEL": "time_limit",
    "HIGHS": "time_limit",
    "OSQP": "time_limit",
    "SCS": "time_limit_secs",
}
"""The option of each backend for a time limit in seconds; other backends, for example ECOS, only limit
iterations."""

_LEAST_SECONDS = 1e-3
"""Smallest time limit in seconds, because some backends interpret 0 as no limit."""

STATUSES = {
    "optimal": MasterStatus.SOLVED,
    "optimal_inaccurate": MasterStatus.SOLVED,
    "infeasible": MasterStatus.INFEASIBLE,
    "infeasible_inaccurate": MasterStatus.INFEASIBLE,
    "unbounded": MasterStatus.UNBOUNDED,
    "unbounded_inaccurate": MasterStatus.UNBOUNDED,
}
"""The master's status for each status of cvxpy that is not a failure."""
_CLARABELS: dict[str, str] = {
    "Solved": "optimal",
    "AlmostSolved": "optimal_inaccurate",
    "PrimalInfeasible": "infeasible",
    "AlmostPrimalInfeasible": "infeasible_inaccurate",
    "DualInfeasible": "unbounded",
    "AlmostDualInfeasible": "unbounded_inaccurate",
}


def tolerances(backend: str, tolerance: float = LAST_DIGITS) -> dict[str, float]:
    """Return the options of Clarabel for a tolerance of gap and residuals; no options for other backends."""
    names = ("tol_gap_abs", "tol_gap_rel", "tol_feas") if backend == "CLARABEL" else ()
    return dict.fromkeys(names, tolerance)


def timed(backend: str, settings: Mapping[str, Any], setup: float = 0.0) -> dict[str, Any]:
    """Return the settings with a time limit: the seconds until the deadline, minus the time of the set-up."""
    name, seconds = _TIME_LIMITS.get(backend), seconds_left()
    if name is None or seconds == math.inf:
        return dict(settings)
    return {**settings, name: min(max(seconds - setup, _LEAST_SECONDS), settings.get(name, math.inf))}


def by_clarabel(
    P: Any, c: Array, A: Any, b: Array, cones: list[Any], settings: Mapping[str, Any]
) -> tuple[MasterStatus, str, Array, Array]:
    """Minimise 1/2 v'Pv + c'v subject to A v + s = b, s in the cones; P is an upper triangle.

    Return the status, a message (empty if the status is "optimal"), the primal point, and the multipliers.
    """
    import clarabel

    check_time()
    solver: Any = clarabel
    chosen = solver.DefaultSettings()
    chosen.verbose = False
    for name, value in timed("CLARABEL", settings).items():
        setattr(chosen, name, value)
    answer = solver.DefaultSolver(P, c, A, b, cones, chosen).solve()
    said = _CLARABELS.get(str(answer.status), str(answer.status))
    status = STATUSES.get(said, MasterStatus.FAILED)
    if status is not MasterStatus.SOLVED:
        check_time()
    message = "" if said == "optimal" else f"clarabel: {said}"
    return status, message, np.array(answer.x), np.array(answer.z)
