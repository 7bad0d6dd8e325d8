"""Certificates: the data that prove both bounds of a solve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.html import table
from cutplane.pieces.parameters import read_only, set_fields
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import ProvableProblem, memory_of


@dataclass(frozen=True)
class Verification:
    """The outcome of `Certificate.verify`.

    Attributes
    ----------
    valid : bool
        Whether both bounds were confirmed.
    lower_bound, upper_bound : float
        The recomputed bounds.
    n_checked : int
        Number of rows with a positive multiplier, each computed again at its query point.
    problems : tuple of str
        The contradictions found.
    """

    valid: bool
    lower_bound: float
    upper_bound: float
    n_checked: int
    problems: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return table(
            {
                "valid": "yes" if self.valid else "NO: " + "; ".join(self.problems),
                "lower bound, recomputed": f"{self.lower_bound:.10g}",
                "upper bound, recomputed": f"{self.upper_bound:.10g}",
                "rows asked for again": self.n_checked,
            }
        )


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """Cuts, multipliers and query points that prove ``lower_bound <= optimum <= upper_bound``.

    Attributes
    ----------
    slopes : ndarray or csr_array of shape (K, dim)
    offsets : ndarray of shape (K,)
        f(x) >= <slope, x> + offset for a cut of a block, rounded down; 0 >= <slope, x> + offset on X for a
        half-space.
    blocks : ndarray of shape (K,)
        The block of each cut, -1 for a half-space.
    queries : ndarray of shape (K,)
        Key of `points` or `duals`; -2 for the infimum of a block.
    multipliers : ndarray of shape (K,)
        The multipliers of the best lower bound: nonnegative, with sum 1 over each block.
    points : mapping of int to ndarray of shape (dim,)
        The query points.
    duals : dict of int to ndarray of shape (m,)
        The multipliers of the examples, for cuts that these define instead of a query point.
    solutions : dict of int to tuple
        The solutions that the oracle returned with the cuts of a query, one per block.
    x : ndarray of shape (dim,) or None
        The best feasible point; read-only.
    lower_bound, upper_bound : float
    risk_value : float
        f(x) at the best point.
    scale : float
        The largest absolute objective evaluated.
    standard : Certificate or None
        The proof in the variables of the solve, if columns were scaled or the risk became a regularizer; see
        `standardized`.
    problem : Problem or None
        None if the certificate was loaded from a file; pass the problem to `verify` then.
    """

    slopes: Any
    offsets: Array
    blocks: Array
    queries: Array
    multipliers: Array
    points: Mapping[int, Array]
    x: Array | None
    lower_bound: float
    upper_bound: float
    risk_value: float
    problem: Any = field(default=None, repr=False)
    duals: dict[int, Array] = field(default_factory=dict)
    scale: float = 1.0
    solutions: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    standard: Certificate | None = field(default=None, repr=False)

    @property
    def primal(self) -> Any:
        """The average of the solutions of each block, weighted by the multipliers; see `Result.primal`."""
        averages = []
        for block in range(int(self.blocks.max(initial=-1)) + 1):
            used = np.flatnonzero((self.blocks == block) & (self.multipliers > 0.0))
            last = np.flatnonzero((self.blocks == block) & (self.queries >= 0))[-1:]
            rows = used if used.size else last
            shares = self.multipliers[used].tolist() or [1.0]
            solved = [self.solutions.get(query, {}) for query in self.queries[rows].tolist()]
            parts = [each[block] if each else None for each in solved]
            averages.append(average(parts, shares))
        if all(one is None for one in averages):
            return None
        return averages[0] if len(averages) == 1 else tuple(averages)

    def __post_init__(self) -> None:
        if self.x is not None:
            set_fields(self, x=read_only(np.asarray(self.x)))

    @property
    def n_bytes(self) -> int:
        """The number of bytes of the cuts and the query points."""
        slopes = self.slopes.data.nbytes if sparse.issparse(self.slopes) else self.slopes.nbytes
        return slopes + memory_of(self.points) + memory_of(self.duals)

    def __repr__(self) -> str:
        used = int((self.multipliers > 0.0).sum())
        return (
            f"Certificate({self.lower_bound:.8g} <= optimum <= {self.upper_bound:.8g}, "
            f"{used} of {len(self.offsets)} cuts in use)"
        )

    def _repr_html_(self) -> str:
        return table(
            {
                "proven": f"{self.lower_bound:.10g} <= optimum <= {self.upper_bound:.10g}",
                "rows": f"{len(self.offsets)}, of which {int((self.blocks < 0).sum())} half-spaces",
                "rows in use": int((self.multipliers > 0.0).sum()),
                "query points": len(self.points),
                "to recompute both bounds": "certificate.verify()",
            }
        )

    def verify(self, problem: ProvableProblem | None = None, exact: bool = False) -> Verification:
        """Recompute both bounds from the oracles alone, or in rational arithmetic from the data alone.

        Each cut with a positive multiplier is computed again at its query point. The lower bound is the dual
        function at the multipliers. The upper bound is the objective at x, whose feasibility is checked. No
        number of a solver is used without a check.

        Parameters
        ----------
        problem : Problem, optional
            Needed only if the certificate was loaded from a file.
        exact : bool, default False
            Whether to compute both bounds in rational arithmetic, by code that is independent of the solve,
            and to round them outward. This takes seconds for a thousand examples, and is meant for tests and
            papers. It supports `LinearRisk` with a loss that has an outline (linear or quadratic between
            knots), `LinearObjective` and their sums; `L2`, `L1`, `ElasticNet` and their sums; `WholeSpace`,
            `Box`, `Simplex`, `CappedSimplex`, `Polyhedron` and their intersections. If rounding errors put x
            outside of the set, the upper bound is the objective of an exactly feasible point nearby.

        Returns
        -------
        Verification

        Raises
        ------
        InvalidInputError
            If neither the certificate nor the call has a problem.
        MissingCapabilityError
            If `exact` is set and a piece of the problem is not in the list above.

        Examples
        --------
        The minimum of (x - 3)^2 / 2 + x^2 / 2 is 2.25:

        >>> import cutplane as cut
        >>> risk = cut.LinearRisk([[1.0]], [3.0], cut.losses.Squared())
        >>> result = cut.Problem(risk, regularizer=cut.L2(1.0)).solve(tol=1e-8)
        >>> proof = result.certificate.verify(exact=True)
        >>> proof.valid, proof.lower_bound <= 2.25 <= proof.upper_bound, round(proof.lower_bound, 6)
        (True, True, 2.25)
        """
        problem = problem or self.problem
        if problem is None:
            raise InvalidInputError("This certificate was loaded from a file: call verify(problem).")
        if problems := self.malformed(problem.dim):
            return Verification(False, -np.inf, np.inf, 0, tuple(problems))
        from cutplane.proof.audit import audit, exact_audit

        standard = None if self.standard is None else problem.standard
        if self.standard is None or standard is None:
            return exact_audit(self, problem, self, problem) if exact else audit(self, problem)
        if exact:
            return exact_audit(self, problem, self.standard, standard.problem)
        x = None if self.x is None else standard.change.inward(self.x)
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        return replace(self.standard, x=x, **bounds).verify(standard.problem)

    def malformed(self, dim: int) -> list[str]:
        """Return the errors that the numbers alone show, before any oracle is evaluated."""
        count, width = self.slopes.shape if self.slopes.ndim == 2 else (0, 0)
        columns = [self.offsets, self.blocks, self.queries, self.multipliers]
        lengths = [array.shape for array in columns]
        if width != dim or any(length != (count,) for length in lengths):
            return [
                f"slopes of shape {self.slopes.shape} and rows of shapes {lengths} do not fit dimension {dim}"
            ]
        vectors = chain(self.points.values(), [] if self.x is None else [self.x])
        if any(np.shape(vector) != (dim,) or not np.isfinite(vector).all() for vector in vectors):
            return [f"x or a query point is not a vector of {dim} finite numbers"]
        rows = self.slopes.data if sparse.issparse(self.slopes) else self.slopes
        if not all(np.isfinite(array).all() for array in (rows, self.offsets, self.multipliers)):
            return ["slopes, offsets or multipliers are not finite"]
        problems = []
        if (self.multipliers < 0.0).any():
            problems.append("a multiplier is negative")
        if np.isnan([self.lower_bound, self.upper_bound, self.risk_value]).any():
            problems.append("a bound is not a number")
        if self.x is None and self.upper_bound < np.inf:
            problems.append(f"there is no x to prove the upper bound {self.upper_bound:.10g}")
        if self.lower_bound > -np.inf and not (self.multipliers > 0.0).any():
            problems.append(f"there are no multipliers to prove the lower bound {self.lower_bound:.10g}")
        return problems


def average(solutions: list[Any], weights: list[float]) -> Any:
    """Return the sum of weights times solutions; None if there are no solutions, or one of them is None.

    Solutions are arrays, sparse arrays, numbers, or any other objects with ``a + b`` and ``a * number``. The
    entries of tuples are averaged one by one.
    """
    if not solutions or any(solution is None for solution in solutions):
        return None
    if isinstance(solutions[0], tuple):
        return tuple(average(list(part), weights) for part in zip(*solutions, strict=True))
    return reduce(add, [one * weight for one, weight in zip(solutions, weights, strict=True)])
