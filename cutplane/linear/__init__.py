"""Fast methods for linear predictors, and the portfolio that combines them with cuts."""

from typing import TYPE_CHECKING, Any

from cutplane.linear.moves import (
    CoordinateAscent,
    CoordinateDescent,
    LinearSystem,
    SemismoothNewton,
    lam_max,
)
from cutplane.linear.portfolio import Move, MoveState, Portfolio

if TYPE_CHECKING:
    from cutplane.tracking.methods import PathTracking

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


def __getattr__(name: str) -> Any:
    """Import `PathTracking` on first use, because it imports this package."""
    if name != "PathTracking":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cutplane.tracking.methods import PathTracking

    return PathTracking
