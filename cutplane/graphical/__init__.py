"""MAP inference in graphical models by cutting planes, in the primal and in the dual."""

from cutplane.graphical.factor_graph import Factor
from cutplane.graphical.files.boolean import read_qpbo, read_wcnf
from cutplane.graphical.files.cfn import read_cfn, write_cfn
from cutplane.graphical.files.libraries import from_networkx, from_pgmpy, read_opengm
from cutplane.graphical.files.uai import read_evidence, read_uai, write_uai
from cutplane.graphical.files.wcsp import read_wcsp, write_wcsp
from cutplane.graphical.grids import chain, grid, potts, spin_glass
from cutplane.graphical.k_best import KBestResult
from cutplane.graphical.lagrangian import LagrangianResult, TreeLagrangian, solve_lagrangian
from cutplane.graphical.marginals import MinMarginals
from cutplane.graphical.model import GraphicalModel
from cutplane.graphical.primal.disagreement import Disagreements
from cutplane.graphical.primal.local_polytope import LocalPolytope
from cutplane.graphical.primal.marginal_cuts import CycleInequalities
from cutplane.graphical.result import MAPResult
from cutplane.graphical.sampling import LogPartitionBound
from cutplane.graphical.sweeps.reparametrization import Reparametrization

__all__ = [
    "CycleInequalities",
    "Disagreements",
    "Factor",
    "GraphicalModel",
    "KBestResult",
    "LagrangianResult",
    "LocalPolytope",
    "LogPartitionBound",
    "MAPResult",
    "MinMarginals",
    "Reparametrization",
    "TreeLagrangian",
    "chain",
    "from_networkx",
    "from_pgmpy",
    "grid",
    "potts",
    "read_cfn",
    "read_evidence",
    "read_opengm",
    "read_qpbo",
    "read_uai",
    "read_wcnf",
    "read_wcsp",
    "solve_lagrangian",
    "spin_glass",
    "write_cfn",
    "write_uai",
    "write_wcsp",
]
