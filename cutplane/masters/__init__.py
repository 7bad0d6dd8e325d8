"""Masters, which solve the reduced problem: of the package, of cvxpy, and of users."""

from cutplane.masters.base import (
    HALF_SPACE,
    Level,
    Master,
    MasterKind,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
)
from cutplane.masters.select import Backend

__all__ = [
    "HALF_SPACE",
    "Backend",
    "Level",
    "Master",
    "MasterKind",
    "MasterSolution",
    "MasterStatus",
    "Prox",
    "ReducedProblem",
    "Rows",
]
