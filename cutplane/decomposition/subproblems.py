"""Subproblems of a Lagrangian dual: linear or mixed-integer programmes, and cvxpy problems."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.masters.units import unit_of
from cutplane.pieces.cvxpy_tools import as_variables
from cutplane.pieces.parameters import as_matrix, set_fields
from cutplane.pieces.validation import Array, as_numbers, as_vector

_WHOLE = 1
_LARGE = 2.0**10
"""The size of the costs that HiGHS is given: it stops 1e-6 above the optimum, a 1e-9 th of it."""


@dataclass(frozen=True, eq=False, repr=False)
class LinearSubproblem:
    """prices -> min <c + prices, x> with row_lower <= A x <= row_upper, lower <= x <= upper, some x integer.

    HiGHS solves it, a mixed-integer one to a gap of 0.

    Parameters
    ----------
    c : array_like of shape (n,)
        Costs.
    A : array_like or sparse matrix of shape (rows, n), optional
        By default there are no rows.
    row_lower, row_upper : float or array_like of shape (rows,), default -inf and inf
    lower, upper : float or array_like of shape (n,), default 0 and inf
        The programme must be bounded for all prices.
    integrality : array_like of shape (n,), or bool, default False
        Which entries are integers.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.decomposition import LinearSubproblem
    >>> knapsack = LinearSubproblem([-3.0, -4.0], [[2.0, 3.0]], row_upper=[4.0], upper=1.0, integrality=True)
    >>> value, x = knapsack(np.array([0.0, 2.0]))
    >>> value, x.tolist()
    (-3.0, [1.0, 0.0])
    """

    c: Any
    A: Any = None
    row_lower: Any = -np.inf
    row_upper: Any = np.inf
    lower: Any = 0.0
    upper: Any = np.inf
    integrality: Any = False
    size: int = field(init=False)

    def __post_init__(self) -> None:
        c = as_vector("LinearSubproblem.c", self.c)
        if self.A is not None:
            set_fields(self, A=as_matrix("LinearSubproblem.A", self.A, columns=c.size))
        for name in ("row_lower", "row_upper", "lower", "upper"):
            sides = as_numbers(f"LinearSubproblem.{name}", getattr(self, name), finite=False)
            wanted = c.shape if name in ("lower", "upper") else () if self.A is None else self.A.shape[:1]
            if sides.ndim and sides.shape != wanted:
                raise InvalidInputError(
                    f"LinearSubproblem.{name} must be a number or of shape {wanted}, got {sides.shape}."
                )
            object.__setattr__(self, name, sides)
        whole = np.broadcast_to(np.asarray(self.integrality, dtype=bool), c.shape).astype(np.int64)
        set_fields(self, c=c, size=c.size, integrality=whole)

    def __repr__(self) -> str:
        kind = (
            "integer" if self.integrality.all() else "mixed-integer" if self.integrality.any() else "linear"
        )
        return f"LinearSubproblem({kind}, {self.size} variables)"

    def __call__(self, prices: Array) -> tuple[float, Array]:
        """Return the least value, and where it is."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        costs = self.c + prices
        unit = unit_of(float(np.abs(costs).max())) / _LARGE
        rows = () if self.A is None else LinearConstraint(self.A, self.row_lower, self.row_upper)
        options = {"mip_rel_gap": 0.0}
        answer = milp(
            costs / unit,
            constraints=rows,
            bounds=Bounds(self.lower, self.upper),
            integrality=self.integrality,
            options=options,
        )
        if answer.x is None:
            raise OracleError(f"{self!r} has no solution: {answer.message}")
        x = np.where(self.integrality == _WHOLE, np.round(answer.x), answer.x)
        return float(costs @ x), x


class CvxpySubproblem:
    """prices -> the least value of a cvxpy problem plus <prices, x>, and its x.

    Parameters
    ----------
    problem : cvxpy.Problem
        A minimisation, bounded for all prices.
    variable : cvxpy.Variable
        x, of any shape, row after row.
    **options
        Passed to cvxpy's ``solve``.

    Examples
    --------
    >>> import cvxpy as cp, numpy as np
    >>> from cutplane.decomposition import CvxpySubproblem
    >>> x = cp.Variable(2)
    >>> disc = CvxpySubproblem(cp.Problem(cp.Minimize(0), [cp.norm(x) <= 1]), x)
    >>> value, solution = disc(np.array([3.0, 4.0]))
    >>> print(round(value, 6), solution.round(6))
    -5.0 [-0.6 -0.8]
    """

    def __init__(self, problem: Any, variable: Any, **options: Any):
        import cvxpy as cp

        if not isinstance(problem, cp.Problem) or not isinstance(problem.objective, cp.Minimize):
            raise InvalidInputError(f"CvxpySubproblem needs a cvxpy.Problem that minimises, got {problem!r}.")
        as_variables("CvxpySubproblem", variable)
        self.size = int(variable.size)
        self._variable, self._options = variable, options
        self._prices = cp.Parameter(self.size)
        objective = problem.objective.expr + self._prices @ cp.vec(variable, order="C")
        self._problem = cp.Problem(cp.Minimize(objective), problem.constraints)

    def __repr__(self) -> str:
        return f"CvxpySubproblem({self._variable.name()}, {self.size} variables)"

    def __call__(self, prices: Array) -> tuple[float, Array]:
        """Return the least value, and where it is."""
        self._prices.value = prices
        self._problem.solve(**self._options)
        if self._variable.value is None:
            raise OracleError(f"{self!r} has no solution: cvxpy says {self._problem.status}.")
        value: Any = self._problem.objective.value
        return float(value), np.ravel(self._variable.value)
