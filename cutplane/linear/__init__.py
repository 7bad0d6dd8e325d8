"""Fast moves for linear predictors, each a method, and the portfolio that composes them with cuts."""

from cutplane.linear.coordinate_ascent import CoordinateAscent
from cutplane.linear.coordinate_descent import CoordinateDescent, lam_max
from cutplane.linear.linear_system import LinearSystem
from cutplane.linear.newton import SemismoothNewton
from cutplane.linear.portfolio import Move, MoveState, Portfolio
from cutplane.linear.tracking import PathTracking

__all__ = [
    "CoordinateAscent",
    "CoordinateDescent",
    "LinearSystem",
    "Move",
    "MoveState",
    "PathTracking",
    "Portfolio",
    "SemismoothNewton",
    "lam_max",
]
