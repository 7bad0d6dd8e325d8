"""Check a certificate: evaluate the oracles again, and compute both bounds from their answers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from cutplane.exceptions import OracleError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array
from cutplane.proof.certificate import Verification
from cutplane.proof.dual import DualFunction
from cutplane.proof.evidence import HALF_SPACE, TRIVIAL, ProvableProblem, dense, row_sizes
from cutplane.proof.exact import checked, declared
from cutplane.proof.oracle import Oracle
from cutplane.proof.rounding import CANCELLED, INSIDE, ORACLE, REACH, RECOMPUTED, RESIDUAL, ROUNDING
from cutplane.sets.base import size_of
from cutplane.status import least_size

if TYPE_CHECKING:
    from cutplane.proof.certificate import Certificate

_TOWARDS_ZERO = 0.0, 1e-12, 1e-9
"""Shares by which multipliers are scaled towards zero, because rounding may put their slope outside of the
ball of a dual norm."""
_NEARBY = 0.0, 1e-15, 1e-14, 1e-13, 1e-12
"""Relative lengths of steps to the other side of a kink, because the image has errors of this size."""


def audit(certificate: Certificate, problem: ProvableProblem) -> Verification:
    """Compute every row in use again, and both bounds from the answers of the oracles."""
    oracle, problems = Oracle(problem), list[str]()
    upper = _upper(certificate, oracle, problems)
    used = np.flatnonzero(certificate.multipliers > 0.0)
    again = Recomputed(certificate, oracle, replaces=True)
    doubts = list(dict.fromkeys(filter(None, map(again.complaint, used.tolist()))))
    lower = -np.inf if doubts else _lower(again, upper, doubts)
    if doubts:
        found, error = _lower_by_examples(certificate, oracle, upper)
        above = certificate.lower_bound - upper > ROUNDING * abs(upper) + error
        if not above and -np.inf < found >= certificate.lower_bound - RECOMPUTED * abs(found) - error:
            lower, doubts = found, []
    problems += doubts
    return Verification(not problems, lower, upper, used.size, tuple(problems))


def exact_audit(
    certificate: Certificate, problem: ProvableProblem, of: Certificate, stated: ProvableProblem
) -> Verification:
    """Compute both bounds in rational arithmetic.

    The multipliers of the examples are averages over the cuts of the certificate `of`, and `stated` is its
    problem, both in the variables of the solve.
    """
    u, x = [example_multipliers(of, stated)], certificate.x
    if x is not None:
        terms: list[Any] = [r for _, r in problem.risk.summands if offers(r, Capability.EXAMPLE_SLOPES)]
        u.append(np.concatenate([np.zeros(0), *(risk.example_slopes(x) for risk in terms)]))
    bounds = certificate.lower_bound, certificate.upper_bound
    lower, upper, problems = checked(declared(problem), u, x, *bounds)
    used = int((certificate.multipliers > 0.0).sum())
    return Verification(not problems, lower, upper, used, tuple(problems))


def _lower(again: Recomputed, upper: float, problems: list[str]) -> float:
    """Return the lower bound proven by the answers; append each contradiction of the claimed bound."""
    certificate = again.certificate
    if certificate.lower_bound == -np.inf:
        return -np.inf
    dual = DualFunction(again.oracle.problem)
    reach = 0.0 if certificate.x is None else REACH * float(np.abs(certificate.x).max())
    used = np.flatnonzero(certificate.multipliers > 0.0)  # the other rows were not recomputed
    given = certificate.blocks[used], certificate.multipliers[used], upper
    now = again.slopes()[used], again.answered[used]
    found = dual(*now, *given, reach=reach)
    if found.value == -np.inf and reach > 0.0 and certificate.duals:
        near, far = (DualFunction(dual.problem.within(factor * reach)) for factor in (1.0, 2.0))
        held, farther = (each(*now, *given, reach=reach) for each in (near, far))
        if (
            held.value - farther.value <= RESIDUAL * held.magnitude
        ):  # only rounding errors make the slope infeasible
            dual, found = near, held
    recorded = dual(again.slopes(recorded=True)[used], again.offsets[used], *given, reach=reach)
    best = max(found, recorded, key=lambda value: value.value)
    error = 2.0 * (best.error + dual.solver_gap) + ROUNDING * best.magnitude
    claimed = certificate.lower_bound
    excess = np.inf if best.value == -np.inf else claimed - best.value - RECOMPUTED * abs(best.value) - error
    if excess > 0.0 and best.minimiser is not None:
        excess -= again.bits(best.minimiser)
    if 0.0 < excess < np.inf:  # the claimed bound may subtract less for rounding errors of slopes
        above = DualFunction(dual.problem, charged=False)(*now, *given, reach=reach)
        excess = min(excess, claimed - above.value - RECOMPUTED * abs(above.value) - above.error)
    if excess > 0.0:
        problems.append(f"the multipliers give the lower bound {found.value:.10g}, not {claimed:.10g}")
    if claimed - upper > ROUNDING * abs(upper) + CANCELLED * best.magnitude:
        problems.append(f"the lower bound {claimed:.10g} is above the objective {upper:.10g}")
    return min(found.value, upper)


def _upper(certificate: Certificate, oracle: Oracle, problems: list[str]) -> float:
    """Return the objective at x; append each error found."""
    problem = oracle.problem
    if certificate.x is None:
        return np.inf
    if not problem.in_simple_set(certificate.x, INSIDE):
        violation = problem.simple_set.violation(certificate.x)
        problems.append(f"x violates {problem.simple_set!r} by {violation:.3g}")
    try:
        if len(oracle.separate(certificate.x)):
            problems.append("a separation oracle cuts x off")
        point = oracle.point(certificate.x)
    except OracleError as error:
        problems.append(f"the oracles cannot be asked about x: {error}")
        return np.inf
    upper, scale = point.objective, float(np.abs(point.values).sum())
    scale = max(scale + abs(problem.regularizer.value(certificate.x)), least_size(certificate.scale))
    on_demand = offers(problem.risk, Capability.ON_DEMAND)  # the solve may have computed less accurate values
    excess = upper - certificate.upper_bound
    if on_demand:  # values are accurate relative to their terms
        excess, scale = max(excess, 0.0), scale + float(np.sum(point.cancelled))
    if not abs(excess) <= RECOMPUTED * scale:
        problems.append(f"the objective at x is {upper:.10g}, not {certificate.upper_bound:.10g}")
    return upper


def _lower_by_examples(certificate: Certificate, oracle: Oracle, upper: float) -> tuple[float, float]:
    """Return L of the dual cut at the mean multipliers of the examples, and its error; -inf if there is none.

    Recomputed slopes differ from recorded ones if rounding errors decide on which side of a kink a prediction
    lies, or are as large as the slope in a coordinate without a regularizer. The mean derivative of each loss
    over the cuts in use is still a dual point, and its bound is at least the bound of the cuts.
    """
    problem, risk = oracle.problem, cast(Any, oracle.risk)
    used = np.flatnonzero(certificate.multipliers > 0.0)
    offered = all(offers(risk, kind) for kind in (Capability.EXAMPLE_SLOPES, Capability.DUAL_CUT))
    known = np.isin(certificate.queries[used], [*certificate.points, *certificate.duals, TRIVIAL]).all()
    if not offered or not known or risk.n_blocks > 1 or certificate.blocks[used].any():
        return -np.inf, 0.0
    mean, dual = example_multipliers(certificate, problem), DualFunction(problem)
    if dual.free.size:
        mean = _balanced(mean, risk.weights)
    reach = 0.0 if certificate.x is None else REACH * float(np.abs(certificate.x).max())
    best, error, weighs = -np.inf, 0.0, risk.weights > 0.0
    for share in _TOWARDS_ZERO:
        u = (1.0 - share) * mean
        sizes = np.abs(risk.loss.conjugate(u, risk.y)[weighs])
        if np.isfinite(sizes).all():
            slopes, offsets = oracle.dual_cut(u)
            value = dual(slopes, offsets, np.zeros(1, np.int64), np.ones(1), upper, reach=reach).value
            error = 2.0 * CANCELLED * float(risk.weights[weighs] @ sizes)
            best = max(best, min(value, upper))
    return best, error


def example_multipliers(certificate: Certificate, problem: ProvableProblem) -> Array:
    """Return for each example of each term the mean derivative of its loss over the cuts in use.

    An example without a cut gets 0, which may lower the bound, but is always valid.
    """
    used = np.flatnonzero(certificate.multipliers > 0.0).tolist()
    duals = certificate.duals if offers(problem.risk, Capability.DUAL_CUT) else {}
    means, first = [np.zeros(0)], 0
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
                query = int(certificate.queries[row])
                share = certificate.multipliers[row] * (certificate.blocks[row] == blocks)
                u = duals.get(query)
                if query in certificate.points:
                    u = risk.example_slopes(certificate.points[query])
                if query == TRIVIAL or (u is not None and u.shape == (m,)):
                    mean += 0.0 if u is None else share * u
                    total += share
            means.append(np.divide(mean, total, out=np.zeros(m), where=total > 0.0))
        first += risk.n_blocks
    return np.concatenate(means)


def _balanced(u: Array, weights: Array) -> Array:
    """Return multipliers with sum_i weights_i u_i = 0, by reducing all multipliers of the heavier sign.

    They stay in the domain of the conjugate if the loss has an infimum, because the domain then contains 0.
    """
    terms = weights * u
    up, down = float(terms[terms > 0.0].sum()), float(-terms[terms < 0.0].sum())
    heavier = u > 0.0 if up > down else u < 0.0
    return np.where(heavier, u * (min(up, down) / max(up, down)), u) if up != down else u


class _Answer(NamedTuple):
    """Rows computed again by an oracle."""

    slopes: Any
    offsets: Array
    marks: Array
    """Products of the slopes with a random vector, which are compared because equal slopes have equal
    products."""
    blocks: Array
    sizes: Array
    """Sums of the absolute terms of the offsets."""
    noise: Any = 0.0
    """Rounding error of the offsets, if the risk gives it."""
    solver_gap: float | None = None
    """Gap of the solver that computed the offset of a dual cut; any lower offset is valid, too."""


class Recomputed:
    """Evaluate the oracles again for rows of a certificate, once per query point.

    Parameters
    ----------
    certificate : Certificate
    oracle : Oracle
    replaces : bool, default False
        Whether the answers replace the rows; answers computed from data may then differ by more than
        rounding.
    """

    def __init__(self, certificate: Certificate, oracle: Oracle, replaces: bool = False):
        self.certificate = certificate
        self.oracle = oracle
        self._last = ORACLE if replaces and oracle.states_terms else ROUNDING
        self._probe = np.random.default_rng(0).random(certificate.slopes.shape[1])
        self._sizes = row_sizes(certificate.slopes)
        self._size = float(np.maximum(certificate.multipliers, 0.0) @ self._sizes)
        self._largest = float(self._sizes.max(initial=0.0))
        self._steepest = float(self._sizes[certificate.multipliers > 0.0].max(initial=0.0))
        self._x = np.zeros(self._probe.size) if certificate.x is None else certificate.x
        self._reach = self._distance()
        self.offsets = np.array(certificate.offsets)
        """The smaller of the recorded and the recomputed offsets."""
        self.answered = np.array(certificate.offsets)
        """The recomputed offsets."""
        self._slopes: dict[int, Array] = {}
        self._close: set[int] = set()
        self._answers: dict[tuple[int, bool], _Answer] = {}

    def _distance(self) -> float:
        """Return a bound of the distance of solutions from zero; inf if there is none.

        A rounding error of a slope, multiplied by this distance, counts like a rounding error of a value.
        """
        certificate, problem = self.certificate, self.oracle.problem
        largest = size_of(problem.simple_set, problem.dim)
        if np.isfinite(largest) or certificate.x is None or not problem.regularizer.lam > 0.0:
            return largest or np.inf
        return REACH * float(np.abs(certificate.x).max()) or np.inf

    def bits(self, x: Array) -> float:
        """Return the rounding error of values and slopes at x, whose terms may be as large as at zero."""
        return CANCELLED * (self._at_zero[0] + self._at_zero[1] * float(np.abs(x).sum()))

    @cached_property
    def _at_zero(self) -> tuple[float, float]:
        """Sizes of value and slope at zero, by the oracle (a certificate may be forged); 0 if it fails."""
        try:
            point = self.oracle.point(np.zeros(self._probe.size))
            steepest = float(np.abs(self.oracle.slopes(point)).max(initial=0.0))
        except OracleError:
            return 0.0, 0.0
        size = float(np.abs(point.values).sum())
        return (size, steepest) if np.isfinite(size) else (0.0, 0.0)

    def complaint(self, row: int) -> str | None:
        """Return the error of a row in words; None if the oracle confirms the row."""
        try:
            return self._complaint(row)
        except OracleError as error:
            return (
                f"query {self.certificate.queries[row]} cannot be asked for again: {str(error).rstrip('.')}"
            )

    def _complaint(self, row: int) -> str | None:
        certificate = self.certificate
        block, query = int(certificate.blocks[row]), int(certificate.queries[row])
        if not HALF_SPACE <= block < self.oracle.risk.n_blocks:
            return f"the risk has no block {block}"
        slope, offset = dense(certificate.slopes[[row]])[0], float(certificate.offsets[row])
        if query == TRIVIAL:
            wrong = block == HALF_SPACE or slope.any() or offset > self.oracle.risk.infima[block]
            return f"the known infimum of block {block} is not {offset:.6g}" if wrong else None
        half_space, dual = block == HALF_SPACE, query in certificate.duals
        if query not in certificate.points and (half_space or not dual):
            return f"query {query} has no point, so that its answer cannot be asked for again"
        known = [offers(self.oracle.risk, kind) for kind in (Capability.DUAL_CUT, Capability.CVXPY)]
        if dual and not any(known):
            return f"the risk gives no cut for the multipliers of query {query}"
        if self._matches(self._recomputed(query, half_space), row, slope, offset):
            return None
        if query in certificate.points and not half_space and self._matches_nearby(row, slope, offset):
            return None
        return f"the oracle gives another answer at query {query} than the one recorded"

    def _matches_nearby(self, row: int, slope: Array, offset: float) -> bool:
        """Tell whether the oracle gives a recorded cut at a point close to its query.

        At a kink, rounding errors decide which cut is returned. The oracle is called at points in the
        direction of the difference of both slopes, because the recorded cut is active there. Tolerances are
        relative to the slope at zero, because the scores of a point may cancel. Answers computed from data
        may differ by more if they replace the row, because the bound is then computed from them.
        """
        self._largest = max(self._largest, self._at_zero[1])
        query, block = int(self.certificate.queries[row]), int(self.certificate.blocks[row])
        x, answer = self.certificate.points[query], self._recomputed(query, False)
        others = slope - dense(answer.slopes[answer.blocks == block])
        ways = others / np.maximum(np.abs(others).max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        near = (x + step * max(float(np.abs(x).max()), 1.0) * way for way in ways for step in _NEARBY)
        answers = (self._answer(*self._cut_at(z)) for z in near)
        return any(self._matches(answer, row, slope, offset, self._last) for answer in answers)

    def _matches(
        self, answer: _Answer, row: int, slope: Array, offset: float, last: float = ROUNDING
    ) -> bool:
        """Tell whether an answer contains the recorded cut up to rounding; keep its offset and slope."""
        certificate, query = self.certificate, int(self.certificate.queries[row])
        block = int(certificate.blocks[row])
        x = certificate.points.get(query, self._x)
        at = np.abs(x)
        sizes = np.minimum(answer.sizes, 2.0 * (float(np.abs(slope) @ at) + abs(offset)))
        above = offset - answer.offsets
        higher = above + (slope @ x - answer.slopes @ x)  # the difference at x
        above = np.minimum(np.abs(above), np.abs(higher))
        if answer.solver_gap is not None:  # a lower offset is valid, too
            above = offset - answer.offsets if answer.solver_gap == 0.0 else np.zeros_like(above)
        last_bits, last_bit = last * sizes / self._reach, last * self._largest
        allowed = max(RECOMPUTED, last) * sizes + answer.noise
        same = above <= allowed if (above <= allowed).any() else above <= allowed + self.bits(at)
        marks = np.abs(answer.marks - slope @ self._probe)
        share = float(certificate.multipliers[row])
        steepest = max(self._sizes[row], self._size / share if share > 0.0 else 0.0)
        tolerance = RECOMPUTED * steepest
        same &= marks <= np.maximum(max(tolerance, last_bit) * self._probe.sum(), last_bits)
        candidates = np.flatnonzero(same & (answer.blocks == block))
        apart = np.abs(dense(answer.slopes[candidates]) - slope)
        farthest = apart.max(axis=1, initial=0.0)
        if (equal := candidates[farthest <= tolerance]).size:
            highest = equal[answer.offsets[equal].argmax()]
            self.offsets[row] = min(offset, answer.offsets[highest] + (answer.solver_gap or 0.0))
            self.answered[row] = self.offsets[row]
            if answer.solver_gap is None and not block == HALF_SPACE:
                self.answered[row] = answer.offsets[highest]
                self._slopes[row] = dense(answer.slopes[[highest]])[0]
                self._close.add(row)
            return True
        close = (farthest <= last_bit) | (apart.sum(axis=1) <= last_bits[candidates])
        if not close.any():
            return False
        nearest = candidates[close][apart[close].sum(axis=1).argmin()]
        self._slopes[row] = dense(answer.slopes[[nearest]])[0]
        if np.abs(self._slopes[row] - slope).max() <= ROUNDING * self._steepest:
            self._close.add(row)
        self.offsets[row] = self.answered[row] = answer.offsets[nearest]
        return True

    def slopes(self, recorded: bool = False) -> Any:
        """Return the slopes, recomputed where they differ from the recorded ones.

        With `recorded`, small differences are ignored: rounding errors of the steepest slope in use.
        """
        slopes = self.certificate.slopes
        changed = self._slopes.keys() - self._close if recorded else self._slopes.keys()
        if not changed:
            return slopes
        slopes = slopes.tolil() if sparse.issparse(slopes) else slopes.copy()
        for row in changed:
            slopes[row] = self._slopes[row]
        return sparse.csr_array(slopes) if sparse.issparse(slopes) else slopes

    def _recomputed(self, query: int, half_spaces: bool) -> _Answer:
        """Evaluate the oracles at a query, once: for its half-spaces, or for its cuts."""
        key = query, half_spaces
        if key not in self._answers:
            self._answers[key] = self._answer(*(self._separated(query) if half_spaces else self._cut(query)))
        return self._answers[key]

    def _answer(self, slopes: Any, offsets: Array, *rest: Any) -> _Answer:
        return _Answer(slopes, offsets, slopes @ self._probe, *rest)

    def _separated(self, query: int) -> tuple[Any, ...]:
        x = self.certificate.points[query]
        found = self.oracle.separate(x)
        return found.normals, -found.offsets, np.full(len(found), HALF_SPACE), found.sizes(x)

    def _cut(self, query: int) -> tuple[Any, ...]:
        certificate, oracle = self.certificate, self.oracle
        if query in certificate.duals:
            extent = float(np.abs(self._x).max(initial=0.0))
            known = extent, float(self._sizes.max()), float(np.abs(certificate.offsets).max())
            slopes, offsets = oracle.dual_cut(certificate.duals[query], *known)
            sizes = np.abs(offsets) + np.abs(slopes) @ np.abs(self._x)
            return slopes, offsets, np.arange(offsets.size), sizes, 0.0, oracle.solver_gap
        return self._cut_at(certificate.points[query])

    def _cut_at(self, x: Array) -> tuple[Any, ...]:
        oracle = self.oracle
        point = oracle.point(x)
        slopes, offsets, found = oracle.cuts(point)
        blocks = np.array(found)
        sizes = np.abs(point.values[blocks]) + np.abs(slopes) @ np.abs(point.x)
        cancelled = np.broadcast_to(oracle.cancelled(point), point.values.shape)
        return slopes, offsets, blocks, sizes, CANCELLED * cancelled[blocks]
