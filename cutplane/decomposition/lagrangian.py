"""Lagrangian duals: subproblems that share constraints, which prices take apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.parameters import as_matrix
from cutplane.pieces.validation import Array, as_vector
from cutplane.risks.base import Risk
from cutplane.sets.base import FeasibleSet
from cutplane.sets.box import Box

Subproblem = Callable[[Array], Any]

_SENSES = {"==": (-np.inf, np.inf), "<=": (0.0, np.inf), ">=": (-np.inf, 0.0)}
"""The signs that multipliers of a constraint may have."""


class LagrangianDual(Risk):
    r"""f(u) = <b, u> - sum_k min over x_k in X_k of <c_k + A_k' u, x_k>, minus the Lagrangian dual function.

    The dual of

    .. math:: \min \sum_k \langle c_k, x_k\rangle \quad\text{subject to}\quad \sum_k A_k x_k = b \;(\text{or}
              \le b, \ge b), \quad x_k \in X_k .

    Each -f(u) is a lower bound of its optimal value; the largest, minus the minimum of f, is that over the
    convex hulls of the X_k [1]_. Every subproblem is a block with a cut of its own, and returns its solution:
    `Result.primal` averages the solutions by the multipliers of the cuts, as a Dantzig-Wolfe master averages
    its columns, so that the averages satisfy the coupling constraints; `infeasibility` says how well.

    Parameters
    ----------
    subproblems : sequence of callable, or one
        Each takes ``prices``, the vector c_k + A_k'u, and returns a minimiser x_k of <prices, x_k> over X_k;
        or a pair of the least value and x_k, if that has other terms. `LinearSubproblem` and
        `CvxpySubproblem` are such.
    coupling : sequence of array_like or sparse matrix of shape (m, n_k), or one of shape (m, sum of n_k)
        The A_k. One matrix is split by the sizes of the subproblems, if these have an attribute ``size``,
        else into equal parts.
    rhs : array_like of shape (m,)
        b.
    sense : str or sequence of m str, default "=="
        Of the coupling constraints: "==", "<=" or ">=". It gives u its sign: see `domain`.
    costs : sequence of array_like of shape (n_k,), optional
        The c_k, if the subproblems do not hold costs of their own.

    Attributes
    ----------
    dim, n_blocks : int
        Numbers of coupling constraints, and of subproblems.

    References
    ----------
    .. [1] A. M. Geoffrion, "Lagrangean relaxation for integer programming", Math. Program. Study 2, 1974,
       doi:10.1007/BFb0120690.

    Examples
    --------
    Two machines make at least three of a product; the first may make two, at 1 each, the second two at 3.

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
            raise InvalidInputError(f"A subproblem must be a function prices -> solution, got {wrong[:1]}.")
        self.rhs = as_vector("rhs", rhs)
        self.dim, self.n_blocks = self.rhs.size, len(self.subproblems)
        self.coupling = _split(coupling, self.subproblems, self.dim)
        self.senses = (sense,) * self.dim if isinstance(sense, str) else tuple(sense)
        if len(self.senses) != self.dim or not set(self.senses) <= set(_SENSES):
            raise InvalidInputError(f"sense must be '==', '<=' or '>=', or {self.dim} of them: {sense!r}.")
        self.costs = self._own_costs(costs)

    def _own_costs(self, costs: Sequence[Any] | None) -> tuple[Array, ...]:
        sizes = [A.shape[1] for A in self.coupling]
        if costs is None:
            return tuple(np.zeros(size) for size in sizes)
        if len(costs) != self.n_blocks:
            raise InvalidInputError(f"costs must be {self.n_blocks} vectors, one for each subproblem.")
        return tuple(as_vector(f"costs[{k}]", c, sizes[k]) for k, c in enumerate(costs))

    def __repr__(self) -> str:
        return f"LagrangianDual({self.n_blocks} subproblems, {self.dim} coupling constraints)"

    @cached_property
    def domain(self) -> FeasibleSet:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The multipliers whose signs fit the senses: u >= 0 for "<=", u <= 0 for ">="."""
        sides = np.array([_SENSES[sense] for sense in self.senses])
        return Box(sides[:, 0], sides[:, 1])

    @property
    def splits_sums(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether a sum with this risk keeps its blocks."""
        return self.n_blocks > 1

    def oracle(self, x: Array) -> tuple[Any, ...]:
        """Return values and subgradients of the blocks, and the solutions of the subproblems; x is u."""
        values, slopes, solutions = np.empty(self.n_blocks), np.empty((self.n_blocks, self.dim)), []
        for k, (solve, A, c) in enumerate(zip(self.subproblems, self.coupling, self.costs, strict=True)):
            value, solution = _answer(solve, c + A.T @ x)
            values[k], slopes[k] = -value, -(A @ solution)
            solutions.append(solution)
        values[0] += self.rhs @ x
        slopes[0] += self.rhs
        return values, slopes, solutions if self.n_blocks > 1 else solutions[0]

    def infeasibility(self, primal: Any) -> float:
        """Return the largest violation of a coupling constraint by solutions of the subproblems.

        Parameters
        ----------
        primal : ndarray, or sequence of them
            A solution of each subproblem, such as `Result.primal`.
        """
        parts = [primal] if self.n_blocks == 1 else primal
        total = sum(A @ np.ravel(x) for A, x in zip(self.coupling, parts, strict=False))
        excess = np.asarray(total) - self.rhs
        lower, upper = np.array([_SENSES[sense] for sense in self.senses]).T
        violation = np.where(excess > 0.0, np.isinf(upper) * excess, np.isinf(lower) * -excess)
        return abs(float(violation.max(initial=0.0)))


def _answer(solve: Subproblem, prices: Array) -> tuple[float, Array]:
    answer = solve(prices)
    value, solution = answer if isinstance(answer, tuple) else (None, answer)
    x = np.array(solution, dtype=np.float64)
    if x.shape != prices.shape:
        raise OracleError(
            f"A subproblem must return its solution, of shape {prices.shape}, or the least value and it; got "
            f"shape {x.shape}."
        )
    return float(prices @ x) if value is None else float(value), x


def _split(coupling: Any, subproblems: Sequence[Any], rows: int) -> tuple[Any, ...]:
    """Return the matrix of each subproblem."""
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
