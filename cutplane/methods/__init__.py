"""Methods: where to query next, how to move the centre, what the reduced problem adds."""

from cutplane.methods.accelerated import AcceleratedGradient
from cutplane.methods.base import Estimate, Method, Refusal, Step
from cutplane.methods.block_frank_wolfe import BlockFrankWolfe
from cutplane.methods.bmrm import BMRM
from cutplane.methods.direct import Direct
from cutplane.methods.frank_wolfe import FrankWolfe
from cutplane.methods.kelley import Kelley
from cutplane.methods.lbfgs import LBFGS
from cutplane.methods.level import LevelBundle
from cutplane.methods.mirror_descent import MirrorDescent
from cutplane.methods.ocas import OCAS
from cutplane.methods.proximal import ProximalBundle
from cutplane.methods.race import Race
from cutplane.methods.reduced_gradient import ReducedGradient
from cutplane.methods.relay import Relay

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
