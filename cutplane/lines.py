"""Lines along which pieces are followed: what a risk of one's own returns."""

from cutplane.pieces.lines import Derivative, DerivativeSum, Line, PiecewiseLinear, quadratic_line

__all__ = ["Derivative", "DerivativeSum", "Line", "PiecewiseLinear", "quadratic_line"]
