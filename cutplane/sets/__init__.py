"""Feasible sets: closed convex sets, intersected with ``&``."""

from cutplane.sets.balls import L1Ball, L2Ball, NonnegativeBall
from cutplane.sets.base import FeasibleSet, HalfSpace, HalfSpaces
from cutplane.sets.box import Box, LinfBall, NonnegativeOrthant, WholeSpace
from cutplane.sets.conic import CvxpySet, PSDCone
from cutplane.sets.intersection import Intersection
from cutplane.sets.polyhedron import Polyhedron
from cutplane.sets.separation import SeparationOracle, separation_oracle
from cutplane.sets.simplex import CappedSimplex, Simplex

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
