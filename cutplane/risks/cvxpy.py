"""A risk given as a cvxpy expression."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.cvxpy_tools import (
    at,
    check_convex,
    check_depends_only_on,
    check_variable,
    gradient,
    shortened,
    substitute,
)
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.risks.base import Risk


@dataclass(frozen=True, eq=False, repr=False)
class CvxpyRisk(Risk):
    """f(x), a convex scalar cvxpy expression of one variable, with cvxpy's own subgradients.

    Parameters
    ----------
    expression : cvxpy.Expression
        Scalar and convex by cvxpy's rules (DCP). Its parameters need values, which may change between solves.
    variable : cvxpy.Variable
        The only variable of the expression, of any shape and without attributes: what it may be is declared
        by the feasible set. x is the vector of its entries in column-major order, cvxpy's own: the variable
        has the value ``x.reshape(variable.shape, order="F")``.

    Raises
    ------
    NotConvexError
        If the expression is not convex by cvxpy's rules.
    InvalidInputError
        If the expression is not scalar, does not depend on `variable`, depends on others, has a parameter
        without a value, or an atom whose gradient cvxpy cannot compute; or if the variable has attributes.

    Notes
    -----
    Outside the domain of the expression the value is inf, with a zero subgradient. So it is at those points
    on the boundary of the domain where no subgradient exists, as for x ln x at 0. The variable keeps its
    value: it is set for a query and then restored.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import numpy as np
    >>> from cutplane.risks import CvxpyRisk
    >>> w = cp.Variable(2, name="w")
    >>> risk = CvxpyRisk(cp.norm_inf(w) + cp.sum_squares(w), w)
    >>> value, slope = risk.oracle(np.array([1.0, -2.0]))
    >>> round(float(value), 6), slope.round(6).tolist()
    (7.0, [2.0, -5.0])
    """

    black_box = False
    expression: Any
    variable: Any
    dim: int = field(init=False)
    _differentiable: Any = field(init=False)

    def __post_init__(self) -> None:
        from cutplane.pieces.cvxpy_gradients import with_usable_gradients

        _check(self.expression, self.variable)
        set_fields(self, dim=int(self.variable.size), _differentiable=with_usable_gradients(self.expression))
        self._check_gradients()

    def __repr__(self) -> str:
        return f"CvxpyRisk({shortened(self.expression)}, {self.variable.name()})"

    @property
    def infima(self) -> Array:
        """0 if cvxpy knows the expression to be nonnegative, else -inf; shape (1,)."""
        return np.full(1, 0.0 if self.expression.is_nonneg() else -np.inf)

    def oracle(self, x: Array) -> tuple[float, Array]:
        """Return the value and a subgradient at `x`; inf and zero outside the domain."""
        with at(self.variable, x):
            # With some room in these constraints, cvxpy would evaluate x^2 / y at a small negative y.
            if all(constraint.value(tolerance=0.0) for constraint in self.expression.domain):
                value = float(np.asarray(self.expression.value).item())
                with suppress(OracleError):  # raised at the boundary, where there is no subgradient
                    slope = gradient(self._differentiable, self.variable)
                    if math.isfinite(value):
                        return value, slope
        return math.inf, np.zeros(self.dim)

    def cvxpy_form(self, x: Any) -> Any:
        """Return the expression with its variable replaced by x, a cvxpy expression of shape (dim,)."""
        return substitute(self.expression, self.variable, x)

    def _check_gradients(self) -> None:
        with at(self.variable, np.ones(self.dim)):
            try:
                self._differentiable.grad  # noqa: B018
            except TypeError:
                pass  # cvxpy added None, its gradient outside the domain of a term, to that of another term
            except (NotImplementedError, ValueError) as error:
                raise InvalidInputError(
                    f"cvxpy cannot compute a gradient of {shortened(self.expression)}. Write it with other "
                    "atoms, or give its value and a subgradient in a function decorated with @cutplane.risk."
                ) from error


def _check(expression: Any, variable: Any) -> None:
    check_variable("CvxpyRisk", variable)
    check_convex("CvxpyRisk", expression)
    check_depends_only_on("CvxpyRisk", expression, variable)
    if not expression.variables():
        raise InvalidInputError(
            f"CvxpyRisk.expression {shortened(expression)} is constant; it must depend on {variable.name()}."
        )
