"""MAP inference in graphical models by cutting planes, in the primal and in the dual."""

from cutplane.graphical.disagreement import Disagreements
from cutplane.graphical.grids import chain, grid, potts, spin_glass
from cutplane.graphical.lagrangian import TreeLagrangian
from cutplane.graphical.lagrangian_ascent import LagrangianResult, solve_lagrangian
from cutplane.graphical.local_polytope import LocalPolytope
from cutplane.graphical.marginal_cuts import CycleInequalities
from cutplane.graphical.model import Factor, GraphicalModel
from cutplane.graphical.reparametrization import Reparametrization
from cutplane.graphical.result import MAPResult
from cutplane.graphical.uai import read_uai
from cutplane.graphical.uai_writer import write_uai
from cutplane.graphical.wcsp import read_wcsp

__all__ = [
    "CycleInequalities",
    "Disagreements",
    "Factor",
    "GraphicalModel",
    "LagrangianResult",
    "LocalPolytope",
    "MAPResult",
    "Reparametrization",
    "TreeLagrangian",
    "chain",
    "grid",
    "potts",
    "read_uai",
    "read_wcsp",
    "solve_lagrangian",
    "spin_glass",
    "write_uai",
]
