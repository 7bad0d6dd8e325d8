"""Forms in which a piece of one's own is stated to masters."""

from cutplane.pieces.forms import DiagonalQuadratic, LinearForm, SeparableForm, bounds_only

__all__ = ["DiagonalQuadratic", "LinearForm", "SeparableForm", "bounds_only"]
