"""Masters, which solve the reduced problem: masters of the package, solvers of cvxpy, and masters of
users.
"""

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
