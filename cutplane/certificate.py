"""The proof of both bounds, and its check from the oracles alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.engine.bound import DualFunction
from cutplane.engine.bundle import AGGREGATE, TRIVIAL
from cutplane.engine.evaluator import Evaluator
from cutplane.engine.slopes import dense
from cutplane.exceptions import InvalidInputError
from cutplane.masters.base import HALF_SPACE
from cutplane.risks.base import OnDemandRisk
from cutplane.validation import Array

if TYPE_CHECKING:
    from cutplane.problem import Problem

_TOLERANCE = 1e-7


@dataclass(frozen=True)
class Verification:
    """The outcome of `Certificate.verify`.

    Attributes
    ----------
    valid : bool
        Whether both bounds were confirmed.
    lower_bound, upper_bound : float
        As recomputed.
    n_checked : int
        Rows with a positive multiplier that were asked for again at their query point.
    aggregated : float
        Share of the multipliers on aggregates of dropped cuts, which can only be tested at known points; 0
        without `max_cuts`.
    problems : tuple of str
        What did not agree.
    """

    valid: bool
    lower_bound: float
    upper_bound: float
    n_checked: int
    aggregated: float
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """Cuts, multipliers and query points that prove ``lower_bound <= optimum <= upper_bound``.

    Attributes
    ----------
    slopes : ndarray or csr_array of shape (K, dim)
    offsets : ndarray of shape (K,)
        f(x) >= <slope, x> + offset for a cut of a block, 0 >= <slope, x> + offset on X for a half-space.
    blocks : ndarray of shape (K,)
        The block of each cut, -1 for a half-space.
    queries : ndarray of shape (K,)
        Key into `points`; -1 for an aggregate of dropped cuts, -2 for a known infimum.
    multipliers : ndarray of shape (K,)
        Those of the best lower bound: nonnegative, each block sums to 1.
    points : dict of int to ndarray of shape (dim,)
        The query points.
    duals : dict of int to ndarray of shape (m,)
        The multipliers of the examples, for cuts that come from these and not from a query point.
    x : ndarray of shape (dim,) or None
        The best feasible point.
    lower_bound, upper_bound : float
    risk_value : float
        f(x) at the best point.
    problem : Problem or None
        None if loaded from a file: pass the problem to `verify`.
    """

    slopes: Any
    offsets: Array
    blocks: Array
    queries: Array
    multipliers: Array
    points: dict[int, Array]
    x: Array | None
    lower_bound: float
    upper_bound: float
    risk_value: float
    problem: Problem | None = field(default=None, repr=False)
    duals: dict[int, Array] = field(default_factory=dict)

    @property
    def n_bytes(self) -> int:
        """Memory of the cuts and the query points."""
        origins = [*self.points.values(), *self.duals.values()]
        slopes = self.slopes.data.nbytes if sparse.issparse(self.slopes) else self.slopes.nbytes
        return slopes + sum(origin.nbytes for origin in origins)

    def __repr__(self) -> str:
        used = int((self.multipliers > 0.0).sum())
        return (
            f"Certificate({self.lower_bound:.8g} <= optimum <= {self.upper_bound:.8g}, "
            f"{used} of {len(self.offsets)} cuts in use)"
        )

    def verify(self, problem: Problem | None = None) -> Verification:
        """Recompute both bounds from the oracles alone.

        Each cut with a positive multiplier is asked for again at its query point; the lower bound is the
        conjugate at the multipliers, the upper bound the objective at x, whose feasibility is checked.
        Nothing a solver printed is used.

        Parameters
        ----------
        problem : Problem, optional
            Needed only if the certificate was loaded from a file.

        Returns
        -------
        Verification

        Raises
        ------
        InvalidInputError
            If no problem is known.
        """
        problem = problem or self.problem
        if problem is None:
            raise InvalidInputError("This certificate was loaded from a file: call verify(problem).")
        evaluator = Evaluator(problem)
        problems: list[str] = []
        upper = self._upper(problem, evaluator, problems)
        used = np.flatnonzero(self.multipliers > 0.0)
        half = (self.blocks[used] == HALF_SPACE) & (self.queries[used] != AGGREGATE)
        checked = int(half.sum())
        self._check_half_spaces(used[half], evaluator, problems)
        for row in used[~half].tolist():
            if self.queries[row] == AGGREGATE:
                self._check_aggregate(row, evaluator, problems)
            else:
                checked += 1
                self._check_row(row, problem, evaluator, problems)
        lower = -np.inf
        if used.size:
            lower, *_ = DualFunction(problem)(self.slopes, self.offsets, self.blocks, self.multipliers, upper)
        if self.lower_bound - lower > 1e-9 * max(1.0, abs(self.lower_bound)):
            problems.append(f"the multipliers give the lower bound {lower:.10g}, not {self.lower_bound:.10g}")
        weight = self.multipliers[self.blocks != HALF_SPACE]
        aggregated = self.multipliers[(self.queries == AGGREGATE) & (self.blocks != HALF_SPACE)].sum()
        share = float(aggregated / weight.sum()) if weight.sum() > 0 else 0.0
        return Verification(not problems, float(lower), upper, checked, share, tuple(problems))

    def _upper(self, problem: Problem, evaluator: Evaluator, problems: list[str]) -> float:
        if self.x is None:
            return np.inf
        violation = problem.simple_set.violation(self.x)
        if violation > _TOLERANCE * max(1.0, float(np.abs(self.x).max())):
            problems.append(f"x violates {problem.simple_set!r} by {violation:.3g}")
        if len(evaluator.separate(self.x)):
            problems.append("a separation oracle cuts x off")
        upper = evaluator.point(self.x).objective
        on_demand = isinstance(problem.risk, OnDemandRisk)  # the run may have asked for less accuracy
        excess = upper - self.upper_bound
        if (max(excess, 0.0) if on_demand else abs(excess)) > 1e-9 * max(1.0, abs(upper)):
            problems.append(f"the objective at x is {upper:.10g}, not {self.upper_bound:.10g}")
        return upper

    def _check_row(self, row: int, problem: Problem, evaluator: Evaluator, problems: list[str]) -> None:
        block, query = int(self.blocks[row]), int(self.queries[row])
        if query == TRIVIAL:
            if dense(self.slopes[[row]]).any() or self.offsets[row] > problem.risk.infima[block]:
                problems.append(f"the known infimum of block {block} is not {self.offsets[row]:.6g}")
            return
        if query in self.duals:
            slopes, offsets = evaluator.dual_cut(self.duals[query])
            if not self._same(row, slopes[block], offsets[block]):
                problems.append(f"the multipliers of query {query} give another cut than the one recorded")
            return
        x = self.points[query]
        point = evaluator.point(x)
        slope = evaluator.slopes(point)[block]
        if not self._same(row, slope, point.values[block] - slope @ x):
            problems.append(f"the oracle gives another answer at query {query} than the one recorded")

    def _check_half_spaces(self, rows: Array, evaluator: Evaluator, problems: list[str]) -> None:
        """Ask for the half-spaces of each query again; equal ones have the same product with a vector."""
        probe = np.random.default_rng(0).uniform(1.0, 2.0, self.slopes.shape[1])
        for query in np.unique(self.queries[rows]).tolist():
            mine = rows[self.queries[rows] == query]
            found = evaluator.separate(self.points[query])
            size = abs(self.slopes[mine]) @ probe + np.abs(self.offsets[mine])
            apart = np.abs(np.subtract.outer(self.slopes[mine] @ probe, found.normals @ probe))
            apart = np.maximum(apart, np.abs(np.add.outer(self.offsets[mine], found.offsets)))
            if not (apart.min(axis=1, initial=np.inf) <= _TOLERANCE * size).all():
                problems.append(f"the oracle gives another answer at query {query} than the one recorded")

    def _same(self, row: int, slope: Array, offset: float) -> bool:
        mine = dense(self.slopes[[row]])[0]
        size = np.abs(mine).max(initial=1e-300)
        close = np.abs(slope - mine).max(initial=0.0) <= _TOLERANCE * size
        return bool(close and abs(offset - self.offsets[row]) <= _TOLERANCE * max(1.0, abs(offset)))

    def _check_aggregate(self, row: int, evaluator: Evaluator, problems: list[str]) -> None:
        block = int(self.blocks[row])
        if block == HALF_SPACE or self.x is None:
            return
        value = evaluator.point(self.x).values[block]
        cut = float((self.slopes[[row]] @ self.x + self.offsets[row])[0])
        if cut - value > _TOLERANCE * max(1.0, abs(value)):
            problems.append(f"an aggregate cut lies above the risk at x by {cut - value:.3g}")
