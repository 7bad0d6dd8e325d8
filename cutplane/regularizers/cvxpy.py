"""Regularizers given by a cvxpy expression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.cvxpy_tools import (
    at,
    check_convex,
    check_depends_only_on,
    check_variable,
    gradient,
    substitute,
)
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Regularizer, check_lam


@dataclass(frozen=True, eq=False, repr=False)
class CvxpyRegularizer(Regularizer):
    """g(x) = lam omega(x), with omega a cvxpy expression.

    Parameters
    ----------
    expression : cvxpy.Expression
        A scalar, convex by cvxpy's rules (DCP), in `variable` only.
    variable : cvxpy.Variable
        Without attributes. A matrix variable stands for the vector of its entries in column-major order.
    lam : float, default 1.0
        Nonnegative and finite.

    Raises
    ------
    NotConvexError
        If the expression is not convex; the message shows it.
    InvalidInputError
        If the expression is not a scalar or has other variables, or if the variable has attributes.

    Examples
    --------
    >>> import cvxpy as cp, numpy as np
    >>> from cutplane.regularizers import CvxpyRegularizer
    >>> w = cp.Variable(3, name="w")
    >>> omega = CvxpyRegularizer(cp.norm_inf(w), w, lam=0.5)
    >>> omega, float(omega.value(np.array([1.0, -4.0, 2.0])))
    (CvxpyRegularizer(norm_inf(w), w, lam=0.5), 2.0)
    """

    expression: Any
    variable: Any
    lam: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", check_lam(self.lam))
        check_variable("CvxpyRegularizer", self.variable)
        check_convex("CvxpyRegularizer", self.expression)
        check_depends_only_on("CvxpyRegularizer", self.expression, self.variable)

    def __repr__(self) -> str:
        return f"CvxpyRegularizer({self.expression}, {self.variable.name()}, lam={self.lam:g})"

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if the variable does not have `dim` entries."""
        if self.variable.size != dim:
            raise InvalidInputError(
                f"The variable of {self!r} has {self.variable.size} entries, "
                f"but the problem has dimension {dim}."
            )

    def value(self, x: Array) -> float:
        """Return g(x); inf outside the domain of an atom."""
        with at(self.variable, x):
            value = float(self.expression.value)
        return math.inf if math.isnan(value) else self.lam * value

    def subgradient(self, x: Array) -> Array:
        """Return a subgradient by cvxpy's chain rule."""
        with at(self.variable, x):
            return self.lam * gradient(self._differentiable, self.variable)

    def cvxpy_form(self, x: Any) -> Any:
        """Return lam times the expression with x in the place of the variable."""
        return self.lam * substitute(self.expression, self.variable, x)

    @cached_property
    def _differentiable(self) -> Any:
        from cutplane.pieces.cvxpy_gradients import with_usable_gradients

        return with_usable_gradients(self.expression)
