"""Decomposition: risks that are optimal values of other problems."""

from typing import TYPE_CHECKING, Any

from cutplane.decomposition.lagrangian import LagrangianDual
from cutplane.decomposition.stage import LinearStage
from cutplane.decomposition.subproblems import CvxpySubproblem, LinearSubproblem
from cutplane.decomposition.two_stage import RandomEntries, TwoStageProgram
from cutplane.decomposition.value_function import ValueFunction

if TYPE_CHECKING:
    from cutplane.decomposition.smps import read_smps

__all__ = [
    "CvxpySubproblem",
    "LagrangianDual",
    "LinearStage",
    "LinearSubproblem",
    "RandomEntries",
    "TwoStageProgram",
    "ValueFunction",
    "read_smps",
]


def __getattr__(name: str) -> Any:
    if name == "read_smps":  # it loads HiGHS
        from cutplane.decomposition.smps import read_smps

        return read_smps
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
