"""The public home of `Line`, which a risk with exact lines returns."""

from cutplane.pieces.lines import Line

__all__ = ["Line"]
