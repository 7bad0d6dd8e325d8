"""Decomposition: risks that are optimal values of other optimisation problems."""

from cutplane.decomposition.lagrangian import CvxpySubproblem, LagrangianDual, LinearSubproblem
from cutplane.decomposition.smps import read_smps
from cutplane.decomposition.stage import LinearStage
from cutplane.decomposition.two_stage import RandomEntries, TwoStageProgram
from cutplane.decomposition.value_function import ValueFunction

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
