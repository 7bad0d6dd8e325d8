"""Feasible sets: closed convex sets, intersected with ``&``."""

from cutplane.sets.ball import L1Ball, L2Ball
from cutplane.sets.base import FeasibleSet, HalfSpace, HalfSpaces
from cutplane.sets.box import Box, LinfBall, NonnegativeOrthant
from cutplane.sets.cvxpy import CvxpySet
from cutplane.sets.intersection import Intersection
from cutplane.sets.lp_ball import NonnegativeBall
from cutplane.sets.polyhedron import Polyhedron
from cutplane.sets.semidefinite import PSDCone
from cutplane.sets.separation import SeparationOracle, separation_oracle
from cutplane.sets.simplex import CappedSimplex, Simplex
from cutplane.sets.whole import WholeSpace

__all__ = [
    "Box",
    "CappedSimplex",
    "CvxpySet",
    "FeasibleSet",
    "HalfSpace",
    "HalfSpaces",
    "Intersection",
    "L1Ball",
    "L2Ball",
    "LinfBall",
    "NonnegativeBall",
    "NonnegativeOrthant",
    "PSDCone",
    "Polyhedron",
    "SeparationOracle",
    "Simplex",
    "WholeSpace",
    "separation_oracle",
]
