"""Sets given by conic constraints: the semidefinite cone, and constraints of cvxpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, NotConvexError
from cutplane.pieces.cvxpy_tools import as_variables, at, check_depends_only_on, names, substitute, total_size
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_count
from cutplane.sets.base import FeasibleSet, beyond_rounding


@dataclass(frozen=True, eq=False)
class PSDCone(FeasibleSet):
    """{x : X is symmetric and positive semidefinite}, where X = x.reshape(n, n).

    Parameters
    ----------
    n : int
        Number of rows of X.

    Raises
    ------
    InvalidInputError
        If `n` is not a positive integer.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cone = cut.PSDCone(2)
    >>> (cone.project(np.array([1.0, 0.0, 0.0, -2.0])) + 0.0).tolist()
    [1.0, 0.0, 0.0, 0.0]
    >>> C = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> result = cut.Problem(cut.LinearObjective(C.ravel()), feasible_set=cut.Box(-1, 1) & cone).solve()
    >>> print(round(result.objective, 4), result.status)
    -2.0 OPTIMAL
    """

    n: int

    bounded = False

    def __post_init__(self) -> None:
        n = as_count("PSDCone.n", self.n)
        set_fields(self, n=n, dim=n * n)

    def formula(self, x: str = "x") -> str:
        return rf"\mathrm{{mat}}({x}) \succeq 0"

    def violation(self, x: Array) -> float:
        X = x.reshape(self.n, self.n)
        excess = max(float(np.abs(X - X.T).max()), -float(np.linalg.eigvalsh(0.5 * (X + X.T))[0]))
        return beyond_rounding(excess, self.n * float(np.abs(X).max()))

    def project(self, x: Array) -> Array:
        """Return the symmetric part without its negative eigenvalues."""
        X = x.reshape(self.n, self.n)
        sizes, vectors = np.linalg.eigh(0.5 * (X + X.T))
        kept = vectors * np.sqrt(np.maximum(sizes, 0.0))
        return (kept @ kept.T).ravel()

    def in_unit(self, unit: float) -> PSDCone:
        return self

    def cvxpy_form(self, x: Any) -> list[Any]:
        import cvxpy as cp

        X = cp.reshape(x, (self.n, self.n), order="C")
        return [X == X.T, X >> 0]


@dataclass(frozen=True, eq=False, repr=False)
class CvxpySet(FeasibleSet):
    """The set of the values of a cvxpy variable that satisfy cvxpy constraints.

    Parameters
    ----------
    constraints : cvxpy constraint or sequence of them
        Convex by cvxpy's rules (DCP), with no other variables than `variable`.
    variable : cvxpy.Variable or sequence of them
        Variables without attributes. x is their concatenation, matrices in row-major order.

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
        with at(self.cvxpy_variables, x):
            worst = max((float(np.max(c.violation())) for c in self.constraints), default=0.0)
        return math.inf if math.isnan(worst) else worst

    def cvxpy_form(self, x: Any) -> list[Any]:
        return [substitute(constraint, self.cvxpy_variables, x) for constraint in self.constraints]
