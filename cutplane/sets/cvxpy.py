"""Feasible sets given by cvxpy constraints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, NotConvexError
from cutplane.pieces.cvxpy_tools import as_variables, at, check_depends_only_on, names, substitute, total_size
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.sets.base import FeasibleSet


@dataclass(frozen=True, eq=False, repr=False)
class CvxpySet(FeasibleSet):
    """The set of the values of a cvxpy variable that satisfy cvxpy constraints.

    Parameters
    ----------
    constraints : cvxpy constraint or sequence of them
        Convex by cvxpy's rules (DCP); in `variable` only.
    variable : cvxpy.Variable or sequence of them
        Without attributes. x is their concatenation, matrices in row-major order.

    Raises
    ------
    NotConvexError
        If a constraint is not DCP; the message shows it.
    InvalidInputError
        If a constraint has other variables, or the variable has attributes.

    Examples
    --------
    >>> import cvxpy as cp, numpy as np
    >>> from cutplane.sets import CvxpySet
    >>> w = cp.Variable(2, name="w")
    >>> feasible_set = CvxpySet([cp.norm(w, 1) <= 1, w >= 0], w)
    >>> round(feasible_set.violation(np.array([2.0, -0.5])), 6)
    1.5
    """

    constraints: Sequence[Any]
    variable: Any
    cvxpy_variables: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        import cvxpy as cp

        variables = as_variables("CvxpySet", self.variable)
        single = isinstance(self.constraints, cp.Constraint)
        constraints = (self.constraints,) if single else tuple(self.constraints)
        for constraint in constraints:
            if not isinstance(constraint, cp.Constraint):
                raise InvalidInputError(
                    f"CvxpySet.constraints must hold cvxpy constraints, got {constraint!r}."
                )
            if not constraint.is_dcp() or isinstance(constraint, cp.FiniteSet):
                raise NotConvexError(
                    f"The constraint {constraint} is not convex by cvxpy's rules (https://dcp.cvxpy.org)."
                )
            check_depends_only_on("CvxpySet", constraint, variables)
        set_fields(self, constraints=constraints, cvxpy_variables=variables, dim=total_size(variables))

    def __repr__(self) -> str:
        return f"CvxpySet([{', '.join(map(str, self.constraints))}], {names(self.cvxpy_variables)})"

    def violation(self, x: Array) -> float:
        """Return the largest violation, as cvxpy measures it; inf outside the domain of an atom."""
        with at(self.cvxpy_variables, x):
            worst = max((float(np.max(c.violation())) for c in self.constraints), default=0.0)
        return math.inf if math.isnan(worst) else worst

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return the constraints with x in the place of the variables."""
        return [substitute(constraint, self.cvxpy_variables, x) for constraint in self.constraints]
