"""The squared Euclidean norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.latex import minus, number
from cutplane.pieces.lines import Line, quadratic_line
from cutplane.pieces.parameters import as_optional_vector, set_fields, short_repr
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Minimum, Regularizer, check_fits, check_lam, minimise_quadratic

if TYPE_CHECKING:
    from cutplane.pieces.capabilities import ExactTerms
    from cutplane.sets.base import FeasibleSet


@dataclass(frozen=True, eq=False)
class L2(Regularizer):
    """g(x) = lam/2 sum_j weights_j (x_j - centre_j)^2.

    Parameters
    ----------
    lam : float, default 1.0
        Nonnegative and finite.
    centre : array_like of shape (dim,), optional
        By default the origin.
    weights : array_like of shape (dim,), optional
        Nonnegative; by default all 1. A zero leaves a coordinate, such as a bias, unregularised.

    Raises
    ------
    InvalidInputError
        If `centre` or `weights` do not have the dimension of the problem.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import L2
    >>> from cutplane.sets import WholeSpace
    >>> L2(0.5).value(np.array([3.0, 4.0]))
    6.25
    >>> L2(0.5).conjugate_minimiser(np.array([1.0, 2.0]), WholeSpace())
    Minimum(value=-5.0, x=array([-2., -4.]))
    """

    lam: float = 1.0
    centre: Any = None
    weights: Any = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        set_fields(
            self,
            lam=check_lam(self.lam),
            centre=as_optional_vector("L2.centre", self.centre),
            weights=as_optional_vector("L2.weights", self.weights, low=0.0),
        )
        if self.weights is not None and self.centre is not None and self.weights.shape != self.centre.shape:
            raise InvalidInputError(
                f"L2.centre and L2.weights must agree, got shapes {self.centre.shape}, {self.weights.shape}."
            )

    def formula(self, x: str = "x") -> str:
        """Return g(x) in LaTeX."""
        inner = rf"\lVert {minus(x, self.centre)} \rVert" + ("_2^2" if self.weights is None else "_W^2")
        return rf"\frac{{{number(self.lam)}}}{{2}} {inner}"

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if `centre` or `weights` do not have shape (dim,)."""
        check_fits("L2.centre", self.centre, dim)
        check_fits("L2.weights", self.weights, dim)

    @property
    def dim(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the centre or the weights."""
        array = self.weights if self.centre is None else self.centre
        return None if array is None else array.size

    def value(self, x: Array) -> float:
        """Return g(x)."""
        offset = self._offset(x)
        return 0.5 * float(self._scaled(offset) @ offset)

    def subgradient(self, x: Array) -> Array:
        """Return the gradient."""
        return self._scaled(self._offset(x))

    def line(self, x0: Array, x1: Array) -> Line:
        """Return a parabola."""
        slope, direction = self.subgradient(x0), x1 - x0
        return quadratic_line(
            self.value(x0), float(slope @ direction), float(self._scaled(direction) @ direction)
        )

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of g(x) + <v, x>: over a box, or, with equal weights, by a projection."""
        return minimise_quadratic(self.quadratic(v.shape[0]), v, feasible_set)

    def quadratic(self, dim: int) -> DiagonalQuadratic:
        """Return lam times the weights, and the centre."""
        if dim not in self._forms:
            centre = np.zeros(dim) if self.centre is None else self.centre
            self._forms[dim] = DiagonalQuadratic(self._scaled(np.ones(dim)), centre)
        return self._forms[dim]

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """State the quadratic; see `ExactTerms`."""
        found.quadratic(self.weights, self.centre, factor * Fraction(self.lam))

    def in_unit(self, unit: float) -> L2:
        """Return u -> g(unit * u)."""
        centre = None if self.centre is None else self.centre / unit
        return replace(self, lam=unit * unit * self.lam, centre=centre)

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as a sum of squares."""
        import cvxpy as cp

        if self.lam == 0.0:
            return cp.Constant(0.0)
        offset = self._offset(x)
        if self.weights is not None:
            offset = cp.multiply(np.sqrt(self.weights), offset)
        return 0.5 * self.lam * cp.sum_squares(offset)

    @cached_property
    def _forms(self) -> dict[int, DiagonalQuadratic]:
        """The forms by dimension: a solve asks for them with every bound."""
        return {}

    def _offset(self, x: Any) -> Any:
        return x if self.centre is None else x - self.centre

    def _scaled(self, x: Array) -> Array:
        return self.lam * x if self.weights is None else self.lam * self.weights * x
