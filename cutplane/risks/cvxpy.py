"""A risk given as a cvxpy expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.cvxpy_tools import CvxpyFunction, names, shortened
from cutplane.pieces.validation import Array
from cutplane.risks.base import Risk
from cutplane.risks.columns import Columns

_POINTS = 3
"""Random points, in addition to zero, for the sizes of slopes, because a slope may be zero at some points."""


@dataclass(frozen=True, eq=False, repr=False)
class CvxpyRisk(CvxpyFunction, Risk):
    """f(x), a convex scalar cvxpy expression; x is the vector of the entries of its variables.

    Parameters
    ----------
    expression : cvxpy.Expression
        Scalar and convex by cvxpy's rules (DCP). Its parameters need values, which may change between solves.
    variable : cvxpy.Variable or sequence of them
        The variables of the expression, of any shape and without attributes such as ``nonneg=True``, because
        the feasible set restricts their values. x is their concatenation, each with its entries in row-major
        order, so that a single variable has the value ``x.reshape(variable.shape)``.

    Raises
    ------
    NotConvexError
        If the expression is not convex by cvxpy's rules.
    InvalidInputError
        If the expression is not scalar, does not depend on `variable`, depends on others, has a parameter
        without a value, or an atom whose gradient cvxpy cannot compute; or if the variable has attributes.

    Notes
    -----
    Outside the domain of the expression the value is inf, with a zero subgradient. The same holds at points
    of the boundary without a subgradient, for example for x ln x at 0. The expression is compiled into
    products with matrices and functions of numpy, once for each value of its parameters. Queries do not
    change the values of the variables, so that threads may share a risk.

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
    intercept = False
    expression: Any
    variable: Any

    def __post_init__(self) -> None:
        self._check()
        shown = shortened(self.expression)
        if not self.expression.variables():
            raise InvalidInputError(
                f"CvxpyRisk.expression {shown} is constant; it must depend on {names(self.cvxpy_variables)}."
            )
        try:
            self.oracle(np.ones(self.dim))
        except (OracleError, NotImplementedError, ValueError) as error:
            raise InvalidInputError(
                f"cvxpy cannot compute a gradient of {shown}. Write it with other "
                "atoms, or give its value and a subgradient in a function decorated with @cutplane.risk."
            ) from error

    @property
    def infima(self) -> Array:
        return np.full(1, 0.0 if self.expression.is_nonneg() else -np.inf)

    def oracle(self, x: Array) -> tuple[float, Array]:
        value, slope = self.plan.value_and_slope(x)
        return value, np.zeros(self.dim) if slope is None else slope

    def data_columns(self) -> Columns | None:
        """Return the sizes of the columns of A if f is quadratic or piecewise linear in A x, otherwise None.

        They are estimated by the slopes at a few points, relative to the median.
        """
        if not self.expression.is_qpwa():
            return None
        points = [np.zeros(self.dim), *np.random.default_rng(0).standard_normal((_POINTS, self.dim))]
        slopes = np.abs([self.oracle(x)[1] for x in points]).max(axis=0)
        usual = float(np.median(slopes[slopes > 0.0])) if slopes.any() else 1.0
        zeros = np.zeros(self.dim)
        return Columns(zeros, zeros, slopes / usual)

    def in_units(self, centre: Array, size: Array) -> Risk:
        """Return the risk of the columns (X - 1 centre') / size."""
        return self @ sparse.diags_array(1.0 / size)
