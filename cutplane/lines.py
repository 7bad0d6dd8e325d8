"""Convex functions of one variable: the restrictions to a line that the ``line`` of a user's risk returns."""

from cutplane.pieces.lines import Derivative, DerivativeSum, Line, PiecewiseLinear, quadratic_line

__all__ = ["Derivative", "DerivativeSum", "Line", "PiecewiseLinear", "quadratic_line"]
