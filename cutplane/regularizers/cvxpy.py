"""Regularizers given by a cvxpy expression."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.cvxpy_tools import (
    as_variables,
    check_convex,
    check_depends_only_on,
    names,
    shortened,
    substitute,
    total_size,
)
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Regularizer, check_lam


@dataclass(frozen=True, eq=False, repr=False)
class CvxpyRegularizer(Regularizer):
    """g(x) = lam omega(x), with omega a cvxpy expression.

    Parameters
    ----------
    expression : cvxpy.Expression
        A scalar, convex by cvxpy's rules (DCP), in `variable` only.
    variable : cvxpy.Variable or sequence of them
        Without attributes. x is their concatenation, matrices in row-major order.
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
    cvxpy_variables: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        variables = as_variables("CvxpyRegularizer", self.variable)
        check_convex("CvxpyRegularizer", self.expression)
        check_depends_only_on("CvxpyRegularizer", self.expression, variables)
        set_fields(self, lam=check_lam(self.lam), cvxpy_variables=variables)

    def __repr__(self) -> str:
        return f"CvxpyRegularizer({self.expression}, {names(self.cvxpy_variables)}, lam={self.lam:g})"

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if the variable does not have `dim` entries."""
        size = total_size(self.cvxpy_variables)
        if size != dim:
            raise InvalidInputError(
                f"The variable of {self!r} has {size} entries, but the problem has dimension {dim}."
            )

    def value(self, x: Array) -> float:
        """Return g(x); inf outside the domain of an atom."""
        return self.lam * self._plan.value(x)

    def subgradient(self, x: Array) -> Array:
        """Return a subgradient by the chain rule."""
        slope = self._plan.value_and_slope(x)[1]
        if slope is None:
            raise OracleError(
                f"There is no subgradient of {shortened(self.expression)} at "
                f"{names(self.cvxpy_variables)} = {x}: outside the domain of an atom, or at its boundary; "
                "keep the feasible set in the interior of the domain."
            )
        return self.lam * slope

    def cvxpy_form(self, x: Any) -> Any:
        """Return lam times the expression with x in the place of the variables."""
        return self.lam * substitute(self.expression, self.cvxpy_variables, x)

    @cached_property
    def _plan(self) -> Any:
        from cutplane.pieces.cvxpy_plan import Plan

        return Plan(self.expression, self.cvxpy_variables)
