"""Lagrangian duals of problems with coupling constraints, which separate into subproblems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.masters.units import unit_of
from cutplane.pieces.cvxpy_tools import as_variables
from cutplane.pieces.parameters import as_matrix, set_fields
from cutplane.pieces.validation import Array, as_numbers, as_vector
from cutplane.risks.base import Risk
from cutplane.sets.base import FeasibleSet
from cutplane.sets.box import Box

Subproblem = Callable[[Array], Any]

_SENSES = {"==": (-np.inf, np.inf), "<=": (0.0, np.inf), ">=": (-np.inf, 0.0)}
"""Bounds of the multiplier of a constraint, by its sense."""
_LARGE = 2.0**10
"""Size to which costs are scaled for HiGHS, because its absolute tolerance 1e-6 is then 1e-9 of the costs."""


class LagrangianDual(Risk):
    r"""f(u) = <b, u> - sum_k min over x_k in X_k of <c_k + A_k' u, x_k>, the negative Lagrangian dual.

    It is the dual of


    .. math:: \min \sum_k \langle c_k, x_k\rangle \quad\text{subject to}\quad \sum_k A_k x_k = b \;(\text{or}
              \le b, \ge b), \quad x_k \in X_k .

    Each -f(u) is a lower bound of the optimal value. The largest such bound is the optimal value over the
    convex hulls of the X_k [1]_. Each subproblem is a block of cuts and returns its solution. `Result.primal`
    averages the solutions with the multipliers of the cuts as weights, like the columns of a Dantzig-Wolfe
    master. Therefore the averages satisfy the coupling constraints; `infeasibility` measures the violation.

    Parameters
    ----------
    subproblems : sequence of callable, or one
        A subproblem maps ``prices``, the vector c_k + A_k'u, to a minimiser x_k of <prices, x_k> over X_k. If
        the objective has other terms, it returns the pair of the least value and x_k. Examples are
        `LinearSubproblem` and `CvxpySubproblem`.
    coupling : sequence of array_like or sparse matrix of shape (m, n_k), or one of shape (m, sum of n_k)
        The matrices A_k. A single matrix is split by the attributes ``size`` of the subproblems if they
        exist, otherwise into equal parts.
    rhs : array_like of shape (m,)
        The vector b.
    sense : str or sequence of m str, default "=="
        The sense of the coupling constraints, "==", "<=" or ">=", which determines the signs of u.
    costs : sequence of array_like of shape (n_k,), optional
        The vectors c_k, if the subproblems do not contain costs.

    Attributes
    ----------
    dim, n_blocks : int
        The numbers of coupling constraints and of subproblems.

    References
    ----------
    .. [1] A. M. Geoffrion, "Lagrangean relaxation for integer programming", Math. Program. Study 2, 1974,
       doi:10.1007/BFb0120690.

    Examples
    --------
    Two machines make at least three units of a product. Each makes at most two, at a cost of 1 or 3 per unit.

    >>> import numpy as np, cutplane as cut
    >>> from cutplane.decomposition import LinearSubproblem
    >>> machines = [LinearSubproblem([cost], upper=2.0, integrality=True) for cost in (1.0, 3.0)]
    >>> dual = cut.LagrangianDual(machines, coupling=[[[1.0]], [[1.0]]], rhs=[3.0], sense=">=")
    >>> result = cut.Problem(dual).solve(tol=1e-9)
    >>> print(result.status, round(-result.objective, 6), np.round(result.primal, 6).ravel())
    OPTIMAL 5.0 [2. 1.]
    >>> dual.infeasibility(result.primal) < 1e-9
    True
    """

    def __init__(
        self,
        subproblems: Sequence[Subproblem] | Subproblem,
        coupling: Any,
        rhs: Any,
        sense: str | Sequence[str] = "==",
        costs: Sequence[Any] | None = None,
    ):
        self.subproblems = (subproblems,) if callable(subproblems) else tuple(subproblems)
        wrong = [each for each in self.subproblems if not callable(each)]
        if wrong or not self.subproblems:
            raise InvalidInputError(f"A subproblem must be a function (prices) -> x, got {wrong[:1]}.")
        self.rhs = as_vector("rhs", rhs)
        self.dim, self.n_blocks = self.rhs.size, len(self.subproblems)
        self.coupling = _split(coupling, self.subproblems, self.dim)
        self.senses = (sense,) * self.dim if isinstance(sense, str) else tuple(sense)
        if len(self.senses) != self.dim or not set(self.senses) <= set(_SENSES):
            raise InvalidInputError(f"sense must be '==', '<=' or '>=', or {self.dim} of them: {sense!r}.")
        sizes = [A.shape[1] for A in self.coupling]
        if costs is not None and len(costs) != self.n_blocks:
            raise InvalidInputError(f"costs must be {self.n_blocks} vectors, one for each subproblem.")
        given = [np.zeros(size) for size in sizes] if costs is None else costs
        self.costs = tuple(
            as_vector(f"costs[{k}]", c, size) for k, (c, size) in enumerate(zip(given, sizes, strict=True))
        )

    def __repr__(self) -> str:
        return f"LagrangianDual({self.n_blocks} subproblems, {self.dim} coupling constraints)"

    @cached_property
    def domain(self) -> FeasibleSet:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The multipliers with signs according to the senses: u >= 0 for "<=", u <= 0 for ">="."""
        return Box(*self._signs)

    @property
    def _signs(self) -> Array:
        return np.array([_SENSES[sense] for sense in self.senses]).T

    @property
    def splits_sums(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.n_blocks > 1

    def oracle(self, x: Array) -> tuple[Any, ...]:
        values, slopes, solutions = np.empty(self.n_blocks), np.empty((self.n_blocks, self.dim)), []
        for k, (solve, A, c) in enumerate(zip(self.subproblems, self.coupling, self.costs, strict=True)):
            value, solution = _answer(solve, c + A.T @ x)
            values[k], slopes[k] = -value, -(A @ solution)
            solutions.append(solution)
        values[0] += self.rhs @ x
        slopes[0] += self.rhs
        return values, slopes, solutions if self.n_blocks > 1 else solutions[0]

    def infeasibility(self, primal: Any) -> float:
        """Return the largest violation of a coupling constraint by given solutions of the subproblems.

        Parameters
        ----------
        primal : ndarray, or sequence of them
            A solution of each subproblem, such as `Result.primal`.
        """
        parts = [primal] if self.n_blocks == 1 else primal
        total = sum(A @ np.ravel(x) for A, x in zip(self.coupling, parts, strict=False))
        excess = np.asarray(total) - self.rhs
        lower, upper = self._signs
        violation = np.where(excess > 0.0, np.isinf(upper) * excess, np.isinf(lower) * -excess)
        return abs(float(violation.max(initial=0.0)))


def _answer(solve: Subproblem, prices: Array) -> tuple[float, Array]:
    answer = solve(prices)
    value, solution = answer if isinstance(answer, tuple) else (None, answer)
    x = np.array(solution, dtype=np.float64)
    if x.shape != prices.shape:
        raise OracleError(
            f"A subproblem must return a solution x of shape {prices.shape}, or the pair (least value, x); "
            f"got shape {x.shape}."
        )
    return float(prices @ x) if value is None else float(value), x


def _split(coupling: Any, subproblems: Sequence[Any], rows: int) -> tuple[Any, ...]:
    """Return the coupling matrix of each subproblem."""
    parts: Any = list(coupling) if isinstance(coupling, list | tuple) else None
    if parts is None or (np.ndim(parts[0]) < 2 and not sparse.issparse(parts[0])):
        whole = as_matrix("coupling", coupling)
        equal = whole.shape[1] // len(subproblems)
        sizes = [int(getattr(each, "size", equal)) for each in subproblems]
        if sum(sizes) != whole.shape[1]:
            raise InvalidInputError(
                f"coupling has {whole.shape[1]} columns, which do not fit {len(subproblems)} subproblems of "
                f"sizes {sizes}; pass a list with a matrix for each."
            )
        ends = np.cumsum([0, *sizes])
        parts = [whole[:, start:end] for start, end in pairwise(ends)]
    matrices = tuple(as_matrix(f"coupling[{k}]", part) for k, part in enumerate(parts))
    if len(matrices) != len(subproblems) or any(A.shape[0] != rows for A in matrices):
        raise InvalidInputError(
            f"coupling must be {len(subproblems)} matrices with {rows} rows, got shapes "
            f"{[A.shape for A in matrices]}."
        )
    return matrices


@dataclass(frozen=True, eq=False, repr=False)
class LinearSubproblem:
    """The subproblem min <c + prices, x> with row_lower <= A x <= row_upper, lower <= x <= upper.

    Some x may be integers. HiGHS solves the subproblem, with a gap of 0 if there are integers.

    Parameters
    ----------
    c : array_like of shape (n,)
        The costs.
    A : array_like or sparse matrix of shape (rows, n), optional
        By default there are no row constraints.
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
            set_fields(self, **{name: sides})
        whole = np.broadcast_to(np.asarray(self.integrality, dtype=bool), c.shape).astype(np.int64)
        set_fields(self, c=c, size=c.size, integrality=whole)

    def __repr__(self) -> str:
        kinds = "linear", "mixed-integer", "integer"
        kind = kinds[int(self.integrality.any()) + int(self.integrality.all())]
        return f"LinearSubproblem({kind}, {self.size} variables)"

    def __call__(self, prices: Array) -> tuple[float, Array]:
        """Return the least value and a minimiser."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        costs = self.c + prices
        unit = unit_of(float(np.abs(costs).max())) / _LARGE
        answer = milp(
            costs / unit,
            constraints=() if self.A is None else LinearConstraint(self.A, self.row_lower, self.row_upper),
            bounds=Bounds(self.lower, self.upper),
            integrality=self.integrality,
            options={"mip_rel_gap": 0.0},
        )
        if answer.x is None:
            raise OracleError(f"{self!r} has no solution: {answer.message}")
        x = np.where(self.integrality == 1, np.round(answer.x), answer.x)
        return float(costs @ x), x


class CvxpySubproblem:
    """A subproblem given by a cvxpy problem, whose objective plus <prices, x> is minimised.

    Parameters
    ----------
    problem : cvxpy.Problem
        A minimisation that is bounded for all prices.
    variable : cvxpy.Variable
        The variable x of any shape, flattened row by row.
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
        """Return the least value and a minimiser."""
        self._prices.value = prices
        self._problem.solve(**self._options)
        if self._variable.value is None:
            raise OracleError(f"{self!r} has no solution: cvxpy says {self._problem.status}.")
        value: Any = self._problem.objective.value
        return float(value), np.ravel(self._variable.value)
