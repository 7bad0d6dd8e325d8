"""Methods, which choose the next point to evaluate and the rows of the reduced problem."""

from cutplane.methods.accelerated import AcceleratedGradient
from cutplane.methods.base import Estimate, Method, Refusal, Step
from cutplane.methods.block_frank_wolfe import BlockFrankWolfe
from cutplane.methods.direct import Direct
from cutplane.methods.frank_wolfe import FrankWolfe, ReducedGradient
from cutplane.methods.kelley import BMRM, Kelley
from cutplane.methods.lbfgs import LBFGS
from cutplane.methods.level import LevelBundle
from cutplane.methods.mirror_descent import MirrorDescent
from cutplane.methods.ocas import OCAS
from cutplane.methods.proximal import ProximalBundle
from cutplane.methods.race import Race, Relay

__all__ = [
    "BMRM",
    "LBFGS",
    "OCAS",
    "AcceleratedGradient",
    "BlockFrankWolfe",
    "Direct",
    "Estimate",
    "FrankWolfe",
    "Kelley",
    "LevelBundle",
    "Method",
    "MirrorDescent",
    "ProximalBundle",
    "Race",
    "ReducedGradient",
    "Refusal",
    "Relay",
    "Step",
]
