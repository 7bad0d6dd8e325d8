"""No regularizer."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.forms import DiagonalQuadratic, LinearForm, bounds_only
from cutplane.pieces.lines import Line, quadratic_line
from cutplane.pieces.parameters import short_repr
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Minimum, Regularizer, check_lam, minimise_linear

if TYPE_CHECKING:
    from fractions import Fraction

    from cutplane.pieces.capabilities import ExactTerms
    from cutplane.sets.base import FeasibleSet


@dataclass(frozen=True, eq=False)
class NoRegularizer(Regularizer):
    """g(x) = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import NoRegularizer
    >>> from cutplane.sets import Box
    >>> NoRegularizer().conjugate_minimiser(np.array([1.0, -2.0]), Box(-1, 1)).value
    -3.0
    """

    lam: float = field(default=0.0, init=False, repr=False)

    __repr__ = short_repr

    def with_lam(self, lam: float) -> NoRegularizer:
        """Return this regularizer for ``lam=0``; it has no weight to change."""
        if check_lam(lam) > 0.0:
            raise InvalidInputError(
                f"NoRegularizer has no weight to set to {lam:g}; choose a regularizer, such as L2(lam)."
            )
        return self

    def formula(self, x: str = "x") -> str:
        """Return nothing: g is zero."""
        return ""

    def value(self, x: Array) -> float:
        return 0.0

    def subgradient(self, x: Array) -> Array:
        return np.zeros(x.shape[0])

    def line(self, x0: Array, x1: Array) -> Line:
        return quadratic_line(0.0, 0.0, 0.0)

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of <v, x> over a box, or over a set with a linear minimisation oracle."""
        return minimise_linear(v, feasible_set)

    def quadratic(self, dim: int) -> DiagonalQuadratic:
        return DiagonalQuadratic(np.zeros(dim), np.zeros(dim))

    def linear_form(self, dim: int) -> LinearForm:
        return bounds_only(np.full(dim, -np.inf), np.full(dim, np.inf))

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """State nothing; see `ExactTerms`."""

    def in_unit(self, unit: float) -> NoRegularizer:
        """Return u -> g(unit * u)."""
        return self

    def cvxpy_form(self, x: Any) -> Any:
        """Return the constant 0."""
        import cvxpy as cp

        return cp.Constant(0.0)
