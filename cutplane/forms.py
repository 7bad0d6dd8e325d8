"""Forms in which a user's regularizer or set declares itself to masters, for example `DiagonalQuadratic`."""

from cutplane.pieces.forms import DiagonalQuadratic, GroupedForm, LinearForm, SeparableForm, bounds_only

__all__ = ["DiagonalQuadratic", "GroupedForm", "LinearForm", "SeparableForm", "bounds_only"]
