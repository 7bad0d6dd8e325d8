"""Regularizers given by a cvxpy expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutplane.exceptions import OracleError
from cutplane.pieces.cvxpy_tools import CvxpyFunction, names, shortened
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Regularizer, check_lam


@dataclass(frozen=True, eq=False, repr=False)
class CvxpyRegularizer(CvxpyFunction, Regularizer):
    """g(x) = lam omega(x), where omega is a cvxpy expression.

    Parameters
    ----------
    expression : cvxpy.Expression
        Scalar, convex by cvxpy's rules (DCP), with no other variables than `variable`.
    variable : cvxpy.Variable or sequence of them
        Variables without attributes. x is their concatenation, matrices in row-major order.
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
        self._check()
        set_fields(self, lam=check_lam(self.lam))

    def __repr__(self) -> str:
        return f"CvxpyRegularizer({self.expression}, {names(self.cvxpy_variables)}, lam={self.lam:g})"

    def value(self, x: Array) -> float:
        return self.lam * self.plan.value(x)

    def subgradient(self, x: Array) -> Array:
        slope = self.plan.value_and_slope(x)[1]
        if slope is None:
            raise OracleError(
                f"{shortened(self.expression)} has no subgradient at {names(self.cvxpy_variables)} = {x}, "
                "which is outside the domain of an atom, or on its boundary; choose a feasible set in the "
                "interior of the domain."
            )
        return self.lam * slope

    def cvxpy_form(self, x: Any) -> Any:
        return self.lam * super().cvxpy_form(x)
