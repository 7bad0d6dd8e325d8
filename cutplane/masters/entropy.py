"""Masters with entropies: Newton's method on the dual, also for linear programmes over capped simplices."""

from __future__ import annotations

import math

import numpy as np

from cutplane.masters import active_set
from cutplane.masters.base import (
    HALF_SPACE,
    Kind,
    MasterSolution,
    MasterStatus,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.highs import HighsMaster
from cutplane.masters.rows import survivors
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.regularizers.entropy import RelativeEntropy
from cutplane.runtime.deadline import check_time
from cutplane.sets.box import box_corner

_ROUNDS, _LAST_ROUNDS = 40, 100
"""Largest numbers of Newton steps before the path is followed, and at its end; the second is larger because
no other method follows."""
_STAGE_ROUNDS = 15
"""Largest number of Newton steps in a stage of the path, few because the last stage gives a close start."""
_STEPS = 4.0
"""Ratio of successive weights on the path, because Newton's method then converges from the last solution."""
_STAGE_GAP = 0.01
"""Gap at which a stage ends, relative to its weight, because the error of x depends on gap / weight."""
_EXACT = 1e-10
"""Relative gap at which a solve ends, because a smaller gap is not worth another step."""
_CREDIBLE = 1e-8
"""Relative gap of an accepted answer, because Newton's method may stop above `_EXACT` if lam is small."""
_ROUNDING = 1e-16
"""Rounding error of a gap relative to the largest slope, because float64 has 16 digits."""
_FAR = 100.0
"""Length of a step along a ray in units of lam, which is needed because the quadratic model has no maximiser
along it."""
_LONG = 1e3
"""Size of a step above which A'a is computed again from the multipliers, because large terms cancel in it:
multipliers of cuts are at most 1."""
_DRIFT = 1e-9
"""Distance from the simplices above which a step is corrected, because a smaller distance is a rounding
error."""
_SHARE = 0.01
"""Tolerance of a Newton step relative to the gap, because the next step corrects the error."""
_IDLE = 1e-6
"""Share of the mean mass up to which the curvature of a coordinate is omitted, because curvatures only affect
the steps."""
_FLAT = 0.3
"""Derivative at the end of a line search relative to the derivative at its start, because the next Newton
step corrects the error."""
_TINY = 1e-300
"""Least denominator, because quotients must be finite."""
_TRIALS = 40
"""Largest number of bisections of a step, because the bracket then has 1e-12 of its first width."""
_CHUNK = 1024
"""Number of columns that are multiplied at once, because their products stay in the cache."""
_MANY = 2000
"""Number of coordinates above which this master is tried first, because it was faster than HiGHS in runs of
boosting."""
_COST = 10.0
"""Largest cost of the entropy in units of the accuracy, because a solve needs an accuracy of a tenth of this
cost."""
_FINE = 0.5
"""Least cost of the entropy in units of max |slope| / dim, because Newton's method is slower than HiGHS below
it."""
_ONE_POINT = 1e-9
"""Relative excess over 1 of the sum of the caps up to which the set counts as one point, because caps are
rounded."""


class EntropyMaster:
    """Solves the reduced problem with an entropy over a box, a simplex or a capped simplex.

    The dual is the maximum over multipliers a >= 0, each block's sum = 1, of

        L(a) = <b, a> + min over x in X0 of g(x) + <A'a, x>,

    concave and once differentiable; its gradient is A x(a) + b, with x(a) the inner minimiser. A Newton step
    is a quadratic programme over the simplices, solved by the active-set method of `SimplexQP`. It needs the
    Hessian only for rows whose multiplier is positive or should increase, and for coordinates of x between
    their bounds. A line search needs no product with A. The gap of (x(a), a) is, summed over the blocks, the
    largest row at x(a) minus the mean of the rows weighted by a. If lam is so small that Newton's method
    fails from the last multipliers, problems with decreasing lam are solved first (Warmuth, Glocer,
    Vishwanathan 2008, doi:10.1007/978-3-540-87987-9_23). `gap` is the certified gap of the last answer.
    """

    name = "entropy_dual"
    exact = True

    def __init__(self, reduced: ReducedProblem):
        self._minimiser = EntropicMinimiser(reduced)
        self._n_blocks = reduced.n_blocks
        self.gap = math.inf
        self._forget()

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: Kind) -> str | None:
        """See `MasterKind.refusal`."""
        if stabilization is not None:
            return f"a {stabilization.__name__.lower()} term beside an entropy has no closed form"
        regularizer, simple_set, dim = reduced.regularizer, reduced.simple_set, reduced.dim
        if not offers(regularizer, Capability.ENTROPY) or not regularizer.lam > 0.0:
            return "the regularizer is not an entropy with lam > 0"
        bounds = simple_set.bounds(dim)
        if bounds is not None:
            return None if (bounds[1] >= 0.0).all() else "the box has no point where the entropy is finite"
        known = capped_form(reduced) is not None
        return None if known else "the feasible set is neither a box nor a (capped) simplex"

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `accuracy` is the allowed absolute error of the optimal value."""
        return self.solve_at(rows, self._minimiser.lam, accuracy)

    def solve_at(self, rows: Rows, lam: float, accuracy: float) -> MasterSolution:
        """Solve with a given weight of the entropy, which may differ from call to call."""
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
        """Tell whether the combination of the half-spaces by their multipliers excludes all of X0."""
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
        """A'a, or None if it must be computed; if not None, `_x` is x(a) for `_lam`, and `_heights` are the
        rows there."""
        self._lam = math.nan
        self._x = self._heights = np.empty(0)

    def _follow(self, rows: Rows) -> bool:
        """Keep the multipliers of the remaining rows; tell whether all rows are finite."""
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
        """Clip multipliers at zero, and scale each block to sum 1; the newest row of a zero block gets 1."""
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
        """Do Newton steps from the current multipliers until the gap is small enough; return the gap."""
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
            if not np.abs(step).max() <= _LONG:
                self._v = _combine(self._a, slopes)
                self._x = minimiser(self._v, lam)
            self._heights = slopes @ self._x + offsets
        return gap

    def _means_and_gap(self, blocks: Array, heights: Array, slack: Array) -> tuple[Array, float]:
        """Return each row's mean height of its block (0 for a half-space), and the gap, inf outside."""
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
        """Return decreasing weights, from the size of the slopes to nearly `lam`."""
        largest = max(float(self._sizes.max()), lam)
        count = math.ceil(math.log(largest / lam, _STEPS))
        return [lam * _STEPS**k for k in range(count, 0, -1)]


def _combine(weights: Array, slopes: Array) -> Array:
    """Return weights @ slopes; rows with weight zero are skipped if this is faster."""
    support = np.flatnonzero(weights)
    return weights[support] @ slopes[support] if 3 * support.size < weights.size else weights @ slopes


class EntropicMinimiser:
    """x(v) = argmin over x in X0 of lam sum_j x_j (ln x_j - log_reference_j) + <v, x>.

    Between its bounds, x_j = exp(log_reference_j - v_j / lam - theta). On a box theta = 1; on a simplex theta
    makes the sum right. With u the coordinates between their bounds, -dx/dv is

        inv(lam) diag(x_u)  on a box,  inv(lam) (diag(x_u) - x_u x_u' / sum x_u)  on a simplex.

    """

    def __init__(self, reduced: ReducedProblem):
        self.lam = reduced.regularizer.lam
        self._log_reference = ask(reduced.regularizer, Capability.ENTROPY, reduced.dim)
        self._set = reduced.simple_set
        bounds, form = self._set.bounds(reduced.dim), capped_form(reduced)
        self._is_box = bounds is not None
        if bounds is None:
            assert form is not None, "refused"
            bounds = form.lower, form.upper
        self._lower, self._upper = np.maximum(bounds[0], 0.0), bounds[1]

    def __call__(self, v: Array, lam: float) -> Array:
        """Return x(v)."""
        if not self._is_box:
            return ask(self._set, Capability.ENTROPIC_MINIMISATION, v / lam, self._log_reference)
        return np.clip(np.exp(self._log_reference - v / lam - 1.0), self._lower, self._upper)

    def least(self, v: Array) -> float:
        """Return the minimum of <v, x> over X0."""
        if self._is_box:
            return float(v @ box_corner(v, self._lower, self._upper))
        return float(v @ ask(self._set, Capability.LINEAR_MINIMISATION, v))

    def curvature(self, slopes: Array, x: Array, lam: float) -> Array:
        """Return A (-dx/dv) A' for rows A, without coordinates whose share is negligible."""
        weights = self._between(x)
        chosen = np.flatnonzero(weights > _IDLE * weights.mean())
        if 2 * chosen.size < x.size:
            slopes, weights = np.take(slopes, chosen, axis=1), weights[chosen]
        total = float(weights.sum())
        means = 0.0 if self._is_box or not total > 0.0 else (slopes @ weights / total)[:, None]
        H, roots = np.zeros((slopes.shape[0], slopes.shape[0])), np.sqrt(weights / lam)
        for start in range(0, weights.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            columns = (slopes[:, part] - means) * roots[part]
            H += columns @ columns.T
        return H

    def search(self, v: Array, dv: Array, constant: float, slope: float, lam: float) -> tuple[float, Array]:
        """Return t in [0, 1] and x(v + t dv), where the dual along v + t dv is close to its maximum.

        The derivative in t is constant + <dv, x(v + t dv)>, which decreases and is `slope` at t = 0. The
        search ends when it is a fraction of `slope`.
        """
        low, high, t = 0.0, 1.0, 1.0
        for _ in range(_TRIALS):
            x = self(v + t * dv, lam)
            rise = float(dv @ x) + constant
            if abs(rise) <= _FLAT * slope or (t == 1.0 and rise > 0.0):
                break
            low, high = (t, high) if rise > 0.0 else (low, t)
            newton = t + rise / max(self._bend(x, dv, lam), _TINY)
            t = newton if low < newton < high else 0.5 * (low + high)
        return t, x

    def _bend(self, x: Array, dv: Array, lam: float) -> float:
        """Return the rate at which <dv, x(v)> decreases along dv."""
        weights = self._between(x)
        if self._is_box:
            return float(weights @ dv**2) / lam
        total = float(weights.sum())
        mean = float(weights @ dv) / total if total > 0.0 else 0.0
        return float(weights @ (dv - mean) ** 2) / lam

    def _between(self, x: Array) -> Array:
        """Return x with zeros in the coordinates at a bound."""
        return np.where((x > self._lower) & (x < self._upper), x, 0.0)


def capped_form(reduced: ReducedProblem) -> LinearForm | None:
    """Return the linear form of {0 <= x <= upper, sum x = total} with an entropic minimiser, or None."""
    needed = (Capability.ENTROPIC_MINIMISATION, Capability.LINEAR_MINIMISATION)
    form = reduced.polyhedron
    is_one = (
        form is not None
        and all(offers(reduced.simple_set, capability) for capability in needed)
        and form.n_columns == reduced.dim
        and form.row_lower.size == 1
        and (form.rows.toarray() == 1.0).all()
        and not form.lower.any()
        and form.row_lower[0] == form.row_upper[0]
        and math.isfinite(form.row_upper[0])
    )
    return form if is_one else None


class SmoothedLP:
    """Solves linear reduced problems over a capped simplex of many coordinates.

    In column generation, most coordinates change from one bound to the other in every round, which costs the
    simplex method a pivot each. With an additional term, lam times the relative entropy to the uniform
    distribution, Newton's method changes all of them at once. The entropy is at most ``ln(dim cap)``, and lam
    is chosen such that the term costs at most ten times the requested accuracy, which is a tenth of the gap
    of the run. If lam is too small for Newton's method, HiGHS solves the programme.
    """

    name = "smoothed_lp"
    exact = True

    def __init__(self, reduced: ReducedProblem):
        self._reduced = reduced
        uniform = RelativeEntropy(1.0 / reduced.dim)
        self._smooth = EntropyMaster(
            ReducedProblem(reduced.dim, reduced.n_blocks, uniform, reduced.simple_set)
        )
        self._entropy = math.log(min(_cap(reduced), 1.0) * reduced.dim)
        self._exact: HighsMaster | None = None

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: Kind) -> str | None:
        """See `MasterKind.refusal`."""
        reason = HighsMaster.refusal(reduced, stabilization)
        if reason is not None:
            return reason
        cap = _cap(reduced)
        if reduced.regularizer.lam > 0.0 or not math.isfinite(cap):
            return "it is not linear over a capped simplex with one cap"
        if reduced.dim < _MANY or not cap * reduced.dim > 1.0 + _ONE_POINT:
            return f"the capped simplex has fewer than {_MANY} coordinates, or one point"
        return None

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `accuracy` is a tenth of the allowed error of the optimal value, or 0 to be exact."""
        size = float(np.abs(rows.slopes[-1:]).max(initial=0.0))  # the first cut may be flat
        if _COST * accuracy >= _FINE * size / self._reduced.dim and accuracy > 0.0:
            lam = 2.0 ** math.floor(math.log2(_COST * accuracy / self._entropy))
            solution = self._smooth.solve_at(rows, lam, accuracy)
            if solution.x is not None:
                return solution
        if self._exact is None:
            self._exact = HighsMaster(self._reduced)
        return self._exact.solve(rows, stabilization)


def _cap(reduced: ReducedProblem) -> float:
    """Return the cap of a set {0 <= x_j <= cap, sum x = 1}; inf if the set has another form."""
    form = capped_form(reduced)
    if form is None or form.row_upper[0] != 1.0 or (form.upper != form.upper[0]).any():
        return math.inf
    return float(form.upper[0])
