"""Forms that a user's regularizer or set returns to masters, for example `DiagonalQuadratic`."""

from cutplane.pieces.forms import DiagonalQuadratic, GroupedForm, LinearForm, SeparableForm, bounds_only

__all__ = ["DiagonalQuadratic", "GroupedForm", "LinearForm", "SeparableForm", "bounds_only"]
