"""Forms in which a piece of one's own is stated to masters."""

from cutplane.pieces.forms import DiagonalQuadratic, GroupedForm, LinearForm, SeparableForm, bounds_only

__all__ = ["DiagonalQuadratic", "GroupedForm", "LinearForm", "SeparableForm", "bounds_only"]
