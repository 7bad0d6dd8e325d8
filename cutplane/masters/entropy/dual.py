"""The master for entropies: Newton's method on the dual of the reduced problem."""

from __future__ import annotations

import math

import numpy as np

from cutplane.exceptions import MissingCapabilityError
from cutplane.masters.base import (
    HALF_SPACE,
    Level,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.entropy.minimiser import EntropicMinimiser, refusal
from cutplane.masters.rows import survivors
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

_ROUNDS, _LAST_ROUNDS = 40, 100  # Newton steps before the path is taken, and at its end
_STAGE_ROUNDS = 15  # Newton steps per stage of the path
_STEPS = 4.0  # the ratio of two weights on the path, between which Newton's method converges
_STAGE_GAP = 0.01  # the gap at which a stage ends, relative to its weight: what x depends on
_EXACT = 1e-10  # a gap this small, relative to the terms of its sum, is not worth another step
_CREDIBLE = 1e-8  # an answer with this gap, relative to the terms, is not a failure
_ROUNDING = 1e-16  # the resolution of a gap, relative to the largest slope
_FAR = 100.0  # how far to go along a ray, in units of lam
_DRIFT = 1e-9  # a point this far from the simplices is corrected
_SHARE = 0.01  # of the gap, to which a step is computed


class EntropyMaster:
    """Solves the reduced problem with an entropy over a box, a simplex or a capped simplex.

    The dual is the maximum over multipliers a >= 0, each block's sum = 1, of

        L(a) = <b, a> + min over x in X0 of g(x) + <A'a, x>,

    concave and once differentiable; its gradient is A x(a) + b, with x(a) the inner minimiser. A Newton step
    is a quadratic programme over the simplices, solved by the active-set method of `SimplexQP`; it needs the
    curvature on the rows that have a multiplier or deserve one, and on the coordinates of x that are not at a
    bound. A line search costs no product with A. The gap of (x(a), a) is the largest row at x(a) less the
    mean of the rows by a, summed over the blocks. Where Newton's method fails from the last multipliers,
    because lam is small, the solution is followed from that of a larger lam.

    Parameters
    ----------
    reduced : ReducedProblem

    Attributes
    ----------
    gap : float
        What the answer of the last solve is certified to: its value less that of its multipliers.

    Raises
    ------
    MissingCapabilityError
        If the reduced problem is of another kind.

    References
    ----------
    M. K. Warmuth, K. A. Glocer, S. V. N. Vishwanathan, "Entropy regularized LPBoost", ALT 2008,
    doi:10.1007/978-3-540-87987-9_23.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from cutplane.masters.base import ReducedProblem
    >>> from cutplane.masters.entropy.dual import EntropyMaster
    >>> from cutplane.regularizers import NegativeEntropy
    >>> from cutplane.sets import Simplex
    >>> master = EntropyMaster(ReducedProblem(2, 1, NegativeEntropy(1.0), Simplex(2)))
    >>> cuts = SimpleNamespace(
    ...     slopes=np.eye(2), offsets=np.zeros(2), blocks=np.zeros(2, int), ids=np.arange(2)
    ... )
    >>> solution = master.solve(cuts)
    >>> solution.x.round(6).tolist(), solution.multipliers.round(6).tolist()
    ([0.5, 0.5], [0.5, 0.5])
    """

    name = "entropy_dual"
    exact = True

    def __init__(self, reduced: ReducedProblem):
        reason = refusal(reduced)
        if reason is not None:
            raise MissingCapabilityError(f"EntropyMaster cannot solve this reduced problem: {reason}.")
        self._minimiser = EntropicMinimiser(reduced)
        self._n_blocks = reduced.n_blocks
        self.gap = math.inf
        self._forget()

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> str | None:
        """Return None if the master accepts this kind of problem, else the reason why not, as a clause."""
        if stabilization is not None:
            return f"a {stabilization.__name__.lower()} term beside an entropy has no closed form"
        return refusal(reduced)

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `accuracy` is the absolute error of the optimal value that may remain."""
        if stabilization is not None:
            raise MissingCapabilityError(f"EntropyMaster has no closed form with {stabilization!r}.")
        return self.solve_at(rows, self._minimiser.lam, accuracy)

    def solve_at(self, rows: Rows, lam: float, accuracy: float) -> MasterSolution:
        """Solve with another weight of the entropy, which may differ from one call to the next."""
        cuts = rows.blocks[rows.blocks != HALF_SPACE]
        if not np.bincount(cuts, minlength=self._n_blocks).all():
            return MasterSolution(None, None, MasterStatus.UNBOUNDED, "a block of the risk has no cut")
        with np.errstate(all="ignore"):
            if not self._follow(rows):
                self._forget()
                return MasterSolution(None, None, MasterStatus.FAILED, "a row is not finite, or too large")
            self.gap = self._newton(rows, lam, accuracy, _ROUNDS)
            if not self._is_enough(self.gap, accuracy):
                for stage in self._path(lam):
                    self._newton(rows, stage, _STAGE_GAP * stage, _STAGE_ROUNDS)
                self.gap = self._newton(rows, lam, accuracy, _LAST_ROUNDS)
            if self._is_enough(self.gap, max(accuracy, _CREDIBLE * self._size)):
                return MasterSolution(self._x.copy(), self._a.copy())
            excluded = self._is_excluded(rows)
        self._forget()
        if excluded:
            return MasterSolution(
                None, None, MasterStatus.INFEASIBLE, "the half-spaces exclude the feasible set"
            )
        return MasterSolution(None, None, MasterStatus.FAILED, f"stopped at a gap of {self.gap:.2g}")

    def _is_excluded(self, rows: Rows) -> bool:
        """Tell whether the half-spaces, combined by their multipliers, hold nowhere in X0."""
        weights = np.where(rows.blocks == HALF_SPACE, self._a, 0.0)
        if not weights.any():
            return False
        weights /= weights.max()
        size = float(weights @ (np.abs(rows.offsets) + self._sizes))
        return self._minimiser.least(weights @ rows.slopes) + float(weights @ rows.offsets) > _EXACT * size

    # Rows

    def _forget(self) -> None:
        self._ids = np.empty(0, dtype=np.int64)
        self._a = np.empty(0)
        self._sizes = np.empty(0)
        """The largest entry of each slope."""
        self._v: Array | None = None
        """A'a, or None if it is not known; with it x(a) for the weight `_lam`, and the heights there."""
        self._lam = math.nan
        self._x = self._heights = np.empty(0)

    def _follow(self, rows: Rows) -> bool:
        """Take over the multipliers of the rows that stayed; tell whether all rows are finite."""
        kept = survivors(self._ids, rows.ids)
        known = int(kept.sum())
        new = rows.slopes[known:]
        sizes = np.maximum(new.max(axis=1, initial=0.0), -new.min(axis=1, initial=0.0))
        self._sizes = np.concatenate([self._sizes[kept], sizes])
        if self._v is None or self._a[~kept].any():
            self._v = None
        else:
            self._heights = np.append(self._heights[kept], new @ self._x + rows.offsets[known:])
        self._a = np.concatenate([self._a[kept], np.zeros(sizes.size)])
        self._ids = np.array(rows.ids)
        if not np.isfinite(self._sizes.sum() + rows.offsets.sum()):
            return False
        self._a = self._feasible(self._a, rows.blocks)
        return True

    def _feasible(self, a: Array, blocks: Array) -> Array:
        """Clip multipliers at zero and make each block sum to 1; one without any gives its newest row 1."""
        a = np.where(a > 0.0, a, 0.0)
        cuts = np.flatnonzero(blocks != HALF_SPACE)
        groups = blocks[cuts]
        sums = np.bincount(groups, a[cuts], minlength=self._n_blocks)
        newest = np.zeros(self._n_blocks, dtype=np.int64)
        newest[groups] = cuts
        empty = sums == 0.0
        a[newest[empty]], sums[empty] = 1.0, 1.0
        a[cuts] /= sums[groups]
        return a

    # Newton's method

    def _newton(self, rows: Rows, lam: float, accuracy: float, rounds: int) -> float:
        """Go on from the multipliers until the gap is small enough; return it."""
        slopes, offsets, minimiser = rows.slopes, rows.offsets, self._minimiser
        if self._v is None or lam != self._lam:
            self._v = _combine(self._a, slopes)
            self._lam, self._x = lam, minimiser(self._v, lam)
            self._heights = slopes @ self._x + offsets
        for number in range(rounds + 1):
            check_time()
            x, heights = self._x, self._heights
            terms = np.abs(offsets) + self._sizes * float(x.sum())
            means, gap = self._means_and_gap(rows.blocks, heights, _EXACT * terms)
            self._size = float(self._a @ terms)
            if number == rounds or self._is_enough(gap, accuracy):
                break
            chosen = np.flatnonzero((self._a > 0.0) | (heights > means))
            active = slopes[chosen] if 2 * chosen.size < slopes.shape[0] else slopes
            H = minimiser.curvature(active, x, lam)
            if active is slopes:
                H = H[np.ix_(chosen, chosen)]
            tol = _SHARE * gap if gap < math.inf else 0.0
            step = np.zeros_like(heights)
            step[chosen] = self._step(
                H, rows.blocks[chosen], heights[chosen], self._a[chosen], terms[chosen], tol, lam
            )
            target = self._a + step
            feasible = self._feasible(target, rows.blocks)
            if not np.abs(target - feasible).max() <= _DRIFT:
                step = feasible - self._a
            slope = float(step @ heights)
            if not slope > 0.0:
                break
            dv = _combine(step, slopes)
            t, self._x = minimiser.search(self._v, dv, float(step @ offsets), slope, lam)
            self._a = np.maximum(self._a + t * step, 0.0)
            self._v = self._v + t * dv
            self._heights = slopes @ self._x + offsets
        return gap

    def _means_and_gap(self, blocks: Array, heights: Array, slack: Array) -> tuple[Array, float]:
        """Return the mean height in each row's block (0 for a half-space), and the gap, inf outside one."""
        weighted = self._a * heights
        cuts = blocks != HALF_SPACE
        means = np.bincount(blocks[cuts], weighted[cuts], minlength=self._n_blocks)
        tops = np.full(self._n_blocks, -np.inf)
        np.maximum.at(tops, blocks[cuts], heights[cuts])
        gap = math.inf if (heights > slack)[~cuts].any() else float(tops.sum() - weighted.sum())
        return np.append(means, 0.0)[blocks], gap

    def _step(
        self, H: Array, blocks: Array, heights: Array, a: Array, terms: Array, tol: float, lam: float
    ) -> Array:
        """Return the step to the maximiser of <heights, s> - 1/2 s'Hs for which a + s is feasible."""
        from cutplane.masters.qp import active_set

        count = a.size
        factor, sums = np.zeros((count, count)), np.zeros((count, self._n_blocks))
        free, where = np.zeros(count, dtype=np.int64), np.full(count, -1)
        support = np.flatnonzero(a)
        free[: support.size], where[support] = support, np.arange(support.size)
        sigma = float(H.diagonal().mean()) or 1.0
        ray, step = np.zeros(count), np.zeros(count)
        active_set.factorise(H, blocks, sigma, factor, sums, free, where, support.size)
        status, n_free, *_ = active_set.maximise(
            H, terms, blocks, sigma, factor, sums, free, where, support.size,
            a.copy(), heights.copy(), count, np.finfo(float).tiny, tol, ray, step,
        )  # fmt: skip
        if status == active_set.UNBOUNDED:
            step[:] = 0.0
            step[free[:n_free]] = ray[:n_free] * (_FAR * lam / np.abs(ray[:n_free] @ terms[free[:n_free]]))
        return step

    def _is_enough(self, gap: float, accuracy: float) -> bool:
        rounding = max(_EXACT * self._size, _ROUNDING * float(self._sizes.max()))
        return gap < math.inf and gap <= max(accuracy, rounding)

    def _path(self, lam: float) -> list[float]:
        """Return decreasing weights, from one as large as the slopes to one close to `lam`."""
        largest = max(float(self._sizes.max()), lam)
        count = math.ceil(math.log(largest / lam, _STEPS))
        return [lam * _STEPS**k for k in range(count, 0, -1)]


def _combine(weights: Array, slopes: Array) -> Array:
    """Return weights @ slopes; rows without weight are skipped where that saves more than gathering costs."""
    support = np.flatnonzero(weights)
    return weights[support] @ slopes[support] if 3 * support.size < weights.size else weights @ slopes
