"""The proof of both bounds, and its check from the oracles alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.engine.bundle import TRIVIAL
from cutplane.engine.evaluator import Evaluator
from cutplane.engine.gap import least_size
from cutplane.engine.points import memory_of
from cutplane.engine.recomputed import Recomputed
from cutplane.engine.solutions import average
from cutplane.engine.standard import standardized
from cutplane.engine.tolerances import CANCELLED, INSIDE, REACH, RECOMPUTED, ROUNDING
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.capabilities import Capability, ability, offers
from cutplane.pieces.html import table
from cutplane.pieces.parameters import read_only, set_fields
from cutplane.pieces.validation import Array
from cutplane.proof.declared import declared
from cutplane.proof.exact import checked
from cutplane.risks.base import OnDemandRisk

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration


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
        Rows with a positive multiplier, each of which was asked for again where it was found.
    problems : tuple of str
        What did not agree.
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


_TOWARDS_ZERO = 0.0, 1e-12, 1e-9
"""Shares by which multipliers are scaled towards zero, because a norm bounds their slope, up to rounding."""


def _balanced(u: Array, weights: Array) -> Array:
    """Return multipliers with sum_i weights_i u_i = 0: of both signs, the heavier one is scaled down.

    They stay in the domain of conjugates whose loss has an infimum, because that contains 0.
    """
    terms = weights * u
    up, down = float(terms[terms > 0.0].sum()), float(-terms[terms < 0.0].sum())
    heavier = u > 0.0 if up > down else u < 0.0
    return np.where(heavier, u * (min(up, down) / max(up, down)), u) if up != down else u


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
        Key into `points` or `duals`; -2 for a known infimum.
    multipliers : ndarray of shape (K,)
        Those of the best lower bound: nonnegative, each block sums to 1.
    points : mapping of int to ndarray of shape (dim,)
        The query points.
    duals : dict of int to ndarray of shape (m,)
        The multipliers of the examples, for cuts that come from these and not from a query point.
    solutions : dict of int to tuple
        What the oracle returned as its solutions, one per block, beside the cuts of a query.
    x : ndarray of shape (dim,) or None
        The best feasible point; read-only.
    lower_bound, upper_bound : float
    risk_value : float
        f(x) at the best point.
    scale : float
        The largest size of the objective that was seen.
    standard : Certificate or None
        The proof in the variables of the solve, if its columns were centred or scaled; see `standardized`.
    problem : Problem or None
        None if loaded from a file: pass the problem to `verify`.
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
    problem: Declaration | None = field(default=None, repr=False)
    duals: dict[int, Array] = field(default_factory=dict)
    scale: float = 1.0
    solutions: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    standard: Certificate | None = field(default=None, repr=False)

    @property
    def primal(self) -> Any:
        """The average by the multipliers of the solutions of each block; see `Result.primal`."""
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
        """Memory of the cuts and the query points."""
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

    def verify(self, problem: Declaration | None = None, exact: bool = False) -> Verification:
        """Recompute both bounds from the oracles alone, or in rational arithmetic from the data alone.

        Each cut with a positive multiplier is asked for again at its query point; the lower bound is the
        conjugate at the multipliers, the upper bound the objective at x, whose feasibility is checked.
        Nothing a solver printed is used.

        Parameters
        ----------
        problem : Problem, optional
            Needed only if the certificate was loaded from a file.
        exact : bool, default False
            Whether both bounds are computed in rational arithmetic, by code that shares nothing with the
            solve, and rounded outward. It takes seconds for a thousand examples: it is meant for tests,
            papers and doubters. It covers `LinearRisk` with a loss that has an outline (linear or quadratic
            between knots), `LinearObjective` and their sums; `L2`, `L1`, `ElasticNet` and their sums;
            `WholeSpace`, `Box`, `Simplex`, `CappedSimplex`, `Polyhedron` and their intersections. A point
            outside of the set by rounding is repaired exactly, and the upper bound is its objective.

        Returns
        -------
        Verification

        Raises
        ------
        InvalidInputError
            If no problem is known.
        MissingCapabilityError
            If `exact` is set and a piece is none of those above.

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
        problems = self.malformed(problem.dim)
        if exact:
            return self._verify_exactly(problem, problems)
        found = None if problems or self.standard is None else standardized(problem)
        if self.standard is not None and found is not None:
            x = None if self.x is None else found.change.inward(self.x)
            bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
            return replace(self.standard, x=x, **bounds).verify(found.problem)
        if problems:
            return Verification(False, -np.inf, np.inf, 0, tuple(problems))
        evaluator = Evaluator(problem)
        upper = self._upper(problem, evaluator, problems)
        used = np.flatnonzero(self.multipliers > 0.0)
        again = Recomputed(self, evaluator)
        wrong = dict.fromkeys(filter(None, (self._asked(again, row) for row in used.tolist())))
        doubts = list(wrong)
        lower = -np.inf if wrong else self._lower(problem, again, upper, doubts)
        if doubts:
            found, error = self._by_examples(problem, evaluator, upper)
            above = self.lower_bound - upper > ROUNDING * abs(upper) + error
            if not above and -np.inf < found >= self.lower_bound - RECOMPUTED * abs(found) - error:
                lower, doubts = found, []
        problems += doubts
        return Verification(not problems, lower, upper, used.size, tuple(problems))

    def _verify_exactly(self, problem: Declaration, problems: list[str]) -> Verification:
        found = declared(problem)
        n_checked = int((self.multipliers > 0.0).sum())
        if problems:
            return Verification(False, -np.inf, np.inf, n_checked, tuple(problems))
        standard = None if self.standard is None else standardized(problem)
        if self.standard is not None and standard is not None:
            u = [self.standard._example_multipliers(standard.problem)]
        else:
            u = [self._example_multipliers(problem)]
        kind = Capability.EXAMPLE_SLOPES
        terms: list[Any] = [r for _, r in problem.risk.summands if offers(r, kind)]
        if self.x is not None:
            u.append(np.concatenate([np.zeros(0), *(risk.example_slopes(self.x) for risk in terms)]))
        lower, upper, problems = checked(found, u, self.x, self.lower_bound, self.upper_bound)
        return Verification(not problems, lower, upper, n_checked, tuple(problems))

    def _example_multipliers(self, problem: Declaration) -> Array:
        """Return the mean over the cuts in use of the derivatives of the losses, of all terms of the risk.

        An example without a cut gets 0, which may be a bad multiplier but never a wrong bound.
        """
        used = np.flatnonzero(self.multipliers > 0.0).tolist()
        duals = self.duals if offers(problem.risk, Capability.DUAL_CUT) else {}
        means, first = [], 0
        summands: list[Any] = [risk for _, risk in problem.risk.summands]
        for risk in summands:
            blocks = np.zeros(1, np.int64)
            if offers(risk, Capability.EXAMPLE_SLOPES):
                m = len(risk.y)
                if problem.risk.n_blocks > 1:
                    edges = np.arange(risk.n_blocks + 1) * m // risk.n_blocks
                    blocks = first + np.repeat(np.arange(risk.n_blocks), np.diff(edges))
                mean, total = np.zeros(m), np.zeros(m)
                for row in used:
                    query, share = (
                        int(self.queries[row]),
                        self.multipliers[row] * (self.blocks[row] == blocks),
                    )
                    u = duals.get(query)
                    if query in self.points:
                        u = risk.example_slopes(self.points[query])
                    if query == TRIVIAL or (u is not None and u.shape == (m,)):
                        mean += 0.0 if u is None else share * u
                        total += share
                means.append(np.divide(mean, total, out=np.zeros(m), where=total > 0.0))
            first += risk.n_blocks
        return np.concatenate([np.zeros(0), *means])

    def malformed(self, dim: int) -> list[str]:
        """Return what is wrong with the numbers before any oracle is asked."""
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

    def _asked(self, again: Recomputed, row: int) -> str | None:
        try:
            return again.complaint(row)
        except OracleError as error:
            return f"query {self.queries[row]} cannot be asked for again: {error}"

    def _by_examples(self, problem: Declaration, evaluator: Evaluator, upper: float) -> tuple[float, float]:
        """Return L of the dual cut of the mean multipliers of the examples, and its error; -inf without one.

        Where rounding decides on which side of a kink a prediction lies, or hides the slope in a coordinate
        without regularizer, slopes computed again differ from recorded ones. The mean over the cuts in use of
        the derivatives of the losses is a point of the dual all the same, and at least as good as the cuts.
        """
        from cutplane.engine.dual import DualFunction

        risk: Any = problem.risk
        slopes_at = ability(risk, Capability.EXAMPLE_SLOPES)
        used = np.flatnonzero(self.multipliers > 0.0)
        queries, shares = self.queries[used].tolist(), self.multipliers[used]
        known = all(q in self.points or q in self.duals or q == TRIVIAL for q in queries)
        if slopes_at is None or not known or not offers(risk, Capability.DUAL_CUT):
            return -np.inf, 0.0
        duals = {TRIVIAL: np.zeros_like(risk.y), **self.duals}
        found = [duals[q] if q in duals else slopes_at(self.points[q]) for q in queries]
        one_block = risk.n_blocks == 1 and not self.blocks[used].any()
        if not one_block or any(u.shape != risk.y.shape for u in found):
            return -np.inf, 0.0
        mean, dual = (shares / shares.sum()) @ np.array(found), DualFunction(problem)
        if dual.free.size:
            mean = _balanced(mean, risk.weights)
        reach = 0.0 if self.x is None else REACH * float(np.abs(self.x).max())
        best, error = -np.inf, 0.0
        for share in _TOWARDS_ZERO:
            u = (1.0 - share) * mean
            sizes = np.abs(risk.loss.conjugate(u, risk.y)[risk.weights > 0.0])
            if np.isfinite(sizes).all():
                slopes, offsets = evaluator.dual_cut(u)
                value = dual(slopes, offsets, np.zeros(1, np.int64), np.ones(1), upper, reach=reach).value
                error = 2.0 * CANCELLED * float(risk.weights[risk.weights > 0.0] @ sizes)
                best = max(best, min(value, upper))
        return best, error

    def _lower(self, problem: Declaration, again: Recomputed, upper: float, problems: list[str]) -> float:
        if self.lower_bound == -np.inf:
            return -np.inf
        from cutplane.engine.dual import DualFunction

        dual = DualFunction(problem)
        reach = 0.0 if self.x is None else REACH * float(np.abs(self.x).max())
        given = again.offsets, self.blocks, self.multipliers, upper
        found = dual(again.slopes(), *given, reach=reach)
        recorded = dual(again.slopes(recorded=True), *given, reach=reach)
        excess = self.lower_bound - max(found.value, recorded.value)
        error = 2.0 * (found.error + dual.doubt) + ROUNDING * found.magnitude
        if excess > RECOMPUTED * abs(found.value) + error:
            problems.append(
                f"the multipliers give the lower bound {found.value:.10g}, not {self.lower_bound:.10g}"
            )
        if self.lower_bound - upper > ROUNDING * abs(upper) + CANCELLED * found.magnitude:
            problems.append(f"the lower bound {self.lower_bound:.10g} is above the objective {upper:.10g}")
        return min(found.value, upper)

    def _upper(self, problem: Declaration, evaluator: Evaluator, problems: list[str]) -> float:
        if self.x is None:
            return np.inf
        if not problem.in_simple_set(self.x, INSIDE):
            violation = problem.simple_set.violation(self.x)
            problems.append(f"x violates {problem.simple_set!r} by {violation:.3g}")
        try:
            if len(evaluator.separate(self.x)):
                problems.append("a separation oracle cuts x off")
            point = evaluator.point(self.x)
        except OracleError as error:
            problems.append(f"the oracles cannot be asked about x: {error}")
            return np.inf
        upper, scale = point.objective, float(np.abs(point.values).sum())
        scale = max(scale + abs(problem.regularizer.value(self.x)), least_size(self.scale))
        on_demand = isinstance(problem.risk, OnDemandRisk)  # the run may have asked for less accuracy
        excess = upper - self.upper_bound
        if not (max(excess, 0.0) if on_demand else abs(excess)) <= RECOMPUTED * scale:
            problems.append(f"the objective at x is {upper:.10g}, not {self.upper_bound:.10g}")
        return upper
