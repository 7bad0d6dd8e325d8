"""The whole space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.pieces.forms import LinearForm, bounds_only
from cutplane.pieces.parameters import common_dim, read_only, short_repr
from cutplane.pieces.validation import Array
from cutplane.sets.base import AnyDimension, FeasibleSet

if TYPE_CHECKING:
    from fractions import Fraction

    from cutplane.pieces.capabilities import ExactTerms


@dataclass(frozen=True, eq=False)
class WholeSpace(AnyDimension):
    """R^dim: no constraint at all.

    Parameters
    ----------
    dim : int, optional
        Dimension; by default the set fits any.

    Examples
    --------
    >>> from cutplane.sets import Box, WholeSpace
    >>> WholeSpace() & Box(0, 1, dim=3)
    Box(0, 1, dim=3)
    """

    dim: int | None = None

    bounded = False
    __repr__ = short_repr

    def __post_init__(self) -> None:
        common_dim("WholeSpace", self.dim)

    def meet(self, other: FeasibleSet) -> FeasibleSet:
        """Return the other set."""
        return other

    def formula(self, x: str = "x") -> str:
        """Return nothing: every x is inside."""
        return ""

    def violation(self, x: Array) -> float:
        """Return 0."""
        return 0.0

    def project(self, x: Array) -> Array:
        """Return a copy of x."""
        return x.copy()

    def bounds(self, dim: int) -> tuple[Array, Array]:
        """Return (-inf, inf)."""
        form = _form(dim)
        return form.lower, form.upper

    def linear_form(self, dim: int) -> LinearForm:
        """Return a form without constraints."""
        return _form(dim)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """State nothing; see `ExactTerms`."""

    def in_unit(self, unit: float) -> WholeSpace:
        """Return {u : unit * u is in the set}."""
        return self

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return no constraints."""
        return []


@lru_cache(maxsize=8)
def _form(dim: int) -> LinearForm:
    """Return the form of R^dim: many ask for it in every solve."""
    return bounds_only(read_only(np.full(dim, -np.inf)), read_only(np.full(dim, np.inf)))
