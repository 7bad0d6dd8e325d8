"""One solve of the dual of a kernel machine: coordinate steps, Newton steps, tests of the duality gap."""

from __future__ import annotations

import math
from copy import copy

import numpy as np
from scipy.linalg import get_lapack_funcs

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.dual import DualForm
from cutplane.kernels.rows import KernelRows
from cutplane.kernels.steps import MORE, ROW, measure, pair_steps, set_all_slopes, single_steps
from cutplane.pieces.validation import Array

_EPS = 2.0**-52
"""Relative rounding error of a sum, because products with K are in double precision."""
_ROUNDING = 4.0 * _EPS
"""Violation of the optimality conditions at which the steps end, relative to the terms of a slope, because
rounding errors are as large."""
_FLOOR = 1e-12
"""Least curvature relative to the diagonal, because the rounding error of a zero curvature is as large."""
_SLICE = 40_000_000
"""Matrix entries read between two tests of the gap, because this takes some hundredths of a second."""
_MOST_STEPS = 10_000_000
"""Most steps, plus 1000 for each example, because a problem that needs more is too ill-conditioned."""
_BURST_OVERHEAD, _NEWTON_OVERHEAD = 50_000, 150_000
"""Fixed cost of a call of `steps` and of a Newton step, because both have interpreted parts. The unit of all
costs here is the time to read one number."""
_ROW_COST = 20.0
"""Cost of computing an entry of K, because a kernel evaluates an exponential."""
_OVERHEAD, _COPY = 400_000.0, 2.0
"""Fixed cost of steps on a subproblem, and the cost of each copied entry, because copying reads and writes
memory."""
_LARGEST_PART = 0.7
"""Largest subproblem relative to the number of examples, because a larger subproblem saves little."""
_ROUND = 150_000
"""Fixed cost of a round of growth, in entries of K that could be computed in the same time, because a round
is interpreted."""
_GROWTH = 0.5
"""New rows of a round relative to the present rows, because a larger number computes more useless rows, and a
smaller number needs more rounds."""
_ALMOST_ALL = 0.7
"""Fraction of the rows from which all remaining rows are computed at once, because omitting them saves
little."""
_LOOSE = 0.1
"""Violation at which the steps of a round end, relative to the largest violation before the round, because
the working set still grows."""
_STEPS_OF_ROUND = 0.5
"""Largest number of steps of a round relative to the rows, because the working set is not final."""
_SHIFT = 1e-12
"""Multiple of the identity added to a singular matrix, relative to its diagonal, because rounding errors have
this size."""
_BALANCE = 1e-14
"""Error of a sum, relative to its terms, that is accepted, because sums have rounding errors."""
_CORRECTIONS = 4
"""Most corrections of a shift, because the first one is already exact up to rounding."""

_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)


class Descent:
    """The state of a solve: a with the sum c of its groups, g = linear - ridge c - K c, and the gap.

    With a single group of coefficients, two techniques save time. While rows of K are missing, steps change
    only a working set that grows (`grow`). Coefficients that stay at a bound are ignored for a while
    (shrinking): `descend` then works on a copy of the state for the other coefficients, which may shrink
    further. Because no term of the duality gap is negative, the terms of the ignored coefficients need not be
    computed while the gap of the copy exceeds the accuracy.

    Attributes
    ----------
    a, rise, fall : ndarray of shape (n_groups * m,)
    g, predictions : ndarray of shape (m,)
    b : ndarray of shape (n_groups,)
        The optimal intercepts for a.
    gap : float
        The gap at b; in a copy for some coefficients, a lower bound of the whole gap.
    """

    def __init__(self, form: DualForm, rows: KernelRows, a: Array) -> None:
        self.form, self.rows, self.a = form, rows, a
        self.rise, self.fall, self.r = np.empty_like(a), np.empty_like(a), np.empty_like(form.linear)
        largest = float(rows.diagonal.max())
        self.floor = _FLOOR * largest if largest > 0.0 else 1e-100
        self.diagonal = rows.diagonal + form.ridge
        self.b = np.zeros(a.size // form.linear.size)
        self.n_steps = 0
        self.is_fresh, self.is_part = True, False
        unbounded = not form.tube and np.isinf(form.upper - form.lower).all()
        self.spent, self.total, self.on_all, self.trust = 1e300 if unbounded else 0.0, 0.0, 0.0, 1.0
        self.most_steps = _MOST_STEPS + 1000 * a.size
        self.chain = 1
        self.refresh()

    @property
    def coefficients(self) -> Array:
        """The coefficients c of the examples."""
        return self.a if self.b.size == 1 else self.a.reshape(self.b.size, -1).sum(axis=0)

    def rescale(self) -> None:
        """Multiply a by the number >= 1 that maximises the dual within the bounds.

        If a is the solution for another weight of the losses, coefficients at their old bounds then reach
        their new bounds together.
        """
        form, a = self.form, self.a
        if any(form.sums):
            return
        rate = float(a @ self.g) - form.tube * float(np.abs(a).sum())
        curvature = float(a @ (self.predictions + form.ridge * a))
        if not (rate > 0.0 and curvature > 0.0):
            return
        support = np.flatnonzero(a)
        ends = np.where(a > 0.0, form.upper, form.lower)[support]
        t = min(1.0 + rate / curvature, float((ends / a[support]).min()))
        if t <= 1.0:
            return
        a *= t
        near = np.abs(ends - a[support]) <= 4.0 * _EPS * np.abs(a[support])
        a[support[near]] = ends[near]
        self.predictions *= t
        self.g = form.linear - self.predictions - form.ridge * a
        self.set_slopes()
        self.measure()

    def run(self, accuracy: float) -> None:
        """Step until the gap is at most `accuracy`, or rounding errors prevent progress."""
        known = math.inf
        while True:
            self.descend(accuracy)
            if self.is_fresh:
                return
            self.refresh()
            if self.gap <= accuracy or self.gap > 0.5 * known or self.n_steps >= self.most_steps:
                return
            known, self.spent = self.gap, max(self.spent, self.total)

    def descend(self, accuracy: float) -> None:
        """Step until the gap, computed from the updated slopes, is at most `accuracy`."""
        if not self.is_part:
            self.grow(accuracy)
        m = self.a.size
        patience, most = 2 * m + 200, 1 + _SLICE // (m + 1000)
        idle, least = 0, math.inf
        while self.gap > accuracy and idle < patience and self.n_steps < self.most_steps:
            if self.spent >= self._newton_cost():
                self._newton_steps()
                if self.gap <= accuracy:
                    return
            if self._leave_out(accuracy):
                continue
            before = self.n_steps
            decrease, settled = self.steps(max(16, min(m, most, before // 4)))
            steps = self.n_steps - before
            cost = 6.0 * m * steps + _BURST_OVERHEAD
            self.spent, self.total, self.on_all = self.spent + cost, self.total + cost, self.on_all + cost
            self.measure()
            idle += steps
            if decrease > _EPS * self.size or self.gap < 0.9 * least:
                idle, least = 0, min(least, self.gap)
            if settled:
                return

    def grow(self, accuracy: float) -> None:
        """Compute rows of K for a growing working set, and do inaccurate steps, until the gap is small.

        In each round, the coefficients without a row that violate the optimality conditions most join the
        working set: half of them should rise, half should fall [1]_. Then steps change the coefficients of
        the working set. Many rows are computed at a time because this costs a fraction of the time of as many
        single rows. All missing rows are computed at once if memory allows and the overhead of the rounds
        would cost more, for example with few examples.

        References
        ----------
        .. [1] T. Joachims, "Making large-scale SVM learning practical", in Advances in Kernel Methods, 1999,
           doi:10.7551/mitpress/1130.003.0015.
        """
        rows, m = self.rows, self.a.size
        if rows.complete or self.b.size > 1:
            return
        room = rows.slots.shape[0]
        least = max(2, _ROUND // m)
        while self.gap > accuracy and self.n_steps < self.most_steps:
            missing = np.flatnonzero(rows.where < 0)
            count = m - missing.size
            if not missing.size:
                break
            rounds = math.log(m / min(max(count, least), m), 1.0 + _GROWTH)
            if room == m and missing.size * m <= rounds * _ROUND:
                rows.fetch_all(missing)
                break
            self.set_slopes()
            chosen, violation = self._violators(missing, max(least, int(_GROWTH * count)))
            if not chosen.size or count + chosen.size > room:
                break
            if room == m and count + chosen.size > _ALMOST_ALL * m:
                rows.fetch_all(missing)
                break
            rows.fetch_all(chosen)
            held = rows.where < 0
            self.rise[held], self.fall[held] = math.inf, -math.inf
            self.steps(max(least, int(_STEPS_OF_ROUND * count)), _LOOSE * violation)
            self.measure()
        self.set_slopes()

    def _violators(self, missing: Array, count: int) -> tuple[Array, float]:
        """Return the worst violators among the coefficients without a row, and the largest violation."""
        up, down = self.g - self.rise, self.fall - self.g
        most, least = float(up.max()), float(down.max())

        def largest(gains: Array, count: int, bar: float) -> Array:
            gains = gains[missing]
            chosen = np.arange(gains.size)
            if count < gains.size:
                chosen = np.argpartition(gains, -count)[-count:]
            return missing[chosen[gains[chosen] > bar]]

        if not self.form.sums:
            return largest(np.maximum(up, down), count, 0.0), max(most, least)
        half = (count + 1) // 2
        return np.union1d(largest(up, half, -least), largest(down, half, -most)), most + least

    def _leave_out(self, accuracy: float) -> bool:
        """Step on the active coefficients alone until their part of the gap is small, if this saves time."""
        m = self.a.size
        spent = self.on_all * self.trust
        if self.b.size > 1 or not may_be_worth_it(spent):
            return False
        active = active_coordinates(self.g, self.rise, self.fall, bool(self.form.sums))
        if not worth_leaving_out(active.size, m, spent) or active.size**2 > self.rows.slots.size:
            return False
        before = self.gap
        part = self._part(active)
        part.descend(accuracy)
        moved = np.zeros(m)
        moved[active] = part.a - self.a[active]
        self.a[active] = part.a
        self.g -= self.rows.product(moved) + self.form.ridge * moved
        self.set_slopes()
        self.n_steps, self.spent, self.total = part.n_steps, part.spent, part.total
        self.on_all, self.is_fresh = 0.0, False
        self.measure()
        self.trust = 1.0 if self.gap < 0.5 * before else 0.5 * self.trust
        return True

    def _part(self, active: Array) -> Descent:
        part = copy(self)
        part.form, part.rows, part.is_part = self.form.part(active), self.rows.part(active), True
        part.diagonal, part.b = self.diagonal[active], self.b.copy()
        part.a, part.g, part.r = self.a[active], self.g[active], np.empty(active.size)
        part.rise, part.fall = self.rise[active], self.fall[active]
        part.on_all, part.trust = 0.0, 1.0
        part.measure()
        return part

    @property
    def dual_value(self) -> float:
        """The dual objective, with the rounding errors of the updated slopes."""
        value = 0.5 * float(self.coefficients @ (self.form.linear + self.g))
        return value - self.form.tube * float(np.abs(self.a).sum())

    def refresh(self) -> None:
        """Recompute K c and the gap."""
        form = self.form
        if not self.is_fresh:
            self._restore_sums()
        self.predictions = self.rows.product(self.coefficients)
        self.g = form.linear - self.predictions
        if form.curved:
            self.g -= form.ridge * self.a
        self.set_slopes()
        self.is_fresh = True
        self.measure()
        self.scale = float(np.abs(form.linear).max() + form.tube + np.abs(self.predictions).max())

    def measure(self) -> None:
        """Compute the optimal intercepts and the gap; in a copy for some coefficients, a bound of the gap."""
        form, m = self.form, self.g.size
        self.gap, all_sizes = 0.0, 0.0
        for s in range(self.b.size):
            part = slice(s * m, (s + 1) * m)
            a = self.a[part]
            total = float(a.sum()) if self.is_part else form.sums[s] if form.sums else 0.0
            self.b[s], gap, size = measure(
                self.g, a, form.linear, form.tube, form.ridge, form.lower[part], form.upper[part],
                bool(form.sums), total, self.b[s], self.r,
            )  # fmt: skip
            self.gap, all_sizes = self.gap + gap, all_sizes + size
        if not self.is_part:
            self.size = all_sizes
        if math.isnan(self.gap):
            raise InvalidInputError(
                "K holds entries that are not finite, or so large that K a overflows; clean or rescale it."
            )

    def set_slopes(self) -> None:
        """Set the value that g must exceed for a coefficient to rise, and the value below which it falls."""
        form = self.form
        set_all_slopes(self.a, form.tube, form.lower, form.upper, self.rise, self.fall)

    def steps(self, most: int, tolerance: float = 0.0) -> tuple[float, bool]:
        """Do at most `most` steps; return the decrease of the dual, and whether violations are small."""
        form, rows = self.form, self.rows
        steps = pair_steps if form.sums else single_steps
        total, remaining = 0.0, most
        while remaining > 0:
            status, wanted, done, gain = steps(
                rows.slots, rows.where, rows.used, rows.clock, self.diagonal, form.ridge, form.tube,
                form.lower, form.upper, self.a, self.g, self.rise, self.fall, self.floor,
                max(tolerance, _ROUNDING * self.scale), remaining,
            )  # fmt: skip
            rows.clock += done + 1
            total += gain
            remaining -= done
            self.n_steps += done
            self.is_fresh &= done == 0
            if status != ROW:
                return total, status != MORE
            rows.fetch(wanted, self._likely)
        return total, False

    def _likely(self, count: int) -> Array:
        """Return the examples without a row that violate the optimality conditions most."""
        excess = self.g - self.b[:, np.newaxis]
        rise, fall = (slopes.reshape(excess.shape) for slopes in (self.rise, self.fall))
        rates = np.maximum(excess - rise, fall - excess).max(axis=0)
        rates[self.rows.where >= 0] = -math.inf
        chosen = np.argpartition(rates, -count)[-count:] if count < rates.size else np.arange(rates.size)
        return chosen[rates[chosen] > 0.0]

    def _free(self) -> Array:
        free = (self.a > self.form.lower) & (self.a < self.form.upper)
        return np.flatnonzero(free & (self.a != 0.0) if self.form.tube else free)

    def _newton_cost(self) -> float:
        """Return the cost of a Newton step, in the unit of the costs of steps."""
        free, m = self._free(), self.g.size
        n = free.size
        if n * n > self.rows.slots.size:
            return math.inf
        missing = np.count_nonzero(self.rows.where[free % m] < 0)
        return _NEWTON_OVERHEAD + n**3 / 24.0 + 4.0 * n * n + n * m + _ROW_COST * missing * m

    def _newton_steps(self) -> None:
        """Do several Newton steps in a row, at most until one ends inside the bounds.

        They are done in a row because steps on pairs undo short Newton steps. Their number doubles each time
        that none of them ended inside the bounds. Pair steps then get as much time as the Newton steps took.
        """
        self.spent = 0.0
        for remaining in range(self.chain - 1, -1, -1):
            if not self._newton_step():
                self.chain = 1
                return
            if remaining:
                self.spent -= self._newton_cost()
        self.chain *= 2

    def _newton_step(self) -> bool:
        """Step along the Newton direction of the free coefficients, up to the first bound.

        If the decrease is larger, step towards the projection of the full Newton step onto the bounds
        instead. Return whether a bound shortened the step.
        """
        form, free = self.form, self._free()
        group, place = np.divmod(free, self.g.size)
        E = group[:, np.newaxis] == np.unique(group) if form.sums else np.empty((free.size, 0), bool)
        if free.size < 1 + E.shape[1]:
            return False
        a, ridge, H = self.a[free], form.ridge[place], self.rows.block(place)
        np.fill_diagonal(H, H.diagonal() + ridge)
        rates = self.g[place] - form.tube * np.sign(a)
        d = newton_direction(H, rates, E.astype(float))
        if d is None or not (rate := float(rates @ d)) > 0.0:
            return False
        low, high = form.lower[free], form.upper[free]
        if form.tube:
            low, high = np.where(a > 0.0, 0.0, low), np.where(a < 0.0, 0.0, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            lengths = np.where(d > 0.0, (high - a) / d, np.where(d < 0.0, (low - a) / d, math.inf))
        limit = float(lengths.min(initial=math.inf))

        def along(d: Array) -> tuple[Array, float]:
            """Return (K + ridge) d and the curvature of the dual along d."""
            whole = np.bincount(place, d, self.g.size)
            image = self.rows.product(whole)
            curvature = max(float(d @ (image[place] + ridge * d)), 0.0)
            return image + form.ridge * whole, curvature

        gained = limit * (1.0 - 0.5 * limit) * rate
        if limit < 1.0 and (end := within(a + d, low, high, E, a)) is not None:
            move = end - a
            if (gain := float(rates @ move)) > gained:
                image, curvature = along(move)
                t = 1.0 if curvature <= gain else gain / curvature
                if t * (gain - 0.5 * t * curvature) > gained:
                    self._take(free, end if t == 1.0 else a + t * move, t * image)
                    return True
        image, curvature = along(d)
        best = rate / curvature if curvature > 0.0 else math.inf
        t = min(best, limit)
        if not math.isfinite(t):
            return False
        new = a + t * d
        if limit <= best:
            new = np.where(lengths <= limit * (1.0 + 4.0 * _EPS), np.where(d > 0.0, high, low), new)
        self._take(free, np.clip(new, low, high), t * image)
        return limit < best

    def _take(self, free: Array, new: Array, change: Array) -> None:
        """Set the free coefficients, and subtract the change from g."""
        self.a[free] = new
        self.g -= change
        self.set_slopes()
        self.is_fresh = False
        self.n_steps += 1
        self.measure()

    def _restore_sums(self) -> None:
        """Subtract the rounding error of each sum from the coefficient farthest from its bounds."""
        form, m = self.form, self.g.size
        room = np.minimum(form.upper - self.a, self.a - form.lower)
        for s, total in enumerate(form.sums):
            k = s * m + int(room[s * m : (s + 1) * m].argmax())
            excess = float(self.a[s * m : (s + 1) * m].sum()) - total
            if room[k] > abs(excess):
                self.a[k] -= excess


def active_coordinates(g: Array, rise: Array, fall: Array, intercept: bool) -> Array:
    """Return the indices of the coefficients that a step may change, for example all inside their bounds.

    With an intercept, a step raises one coefficient and lowers another, and helps if the first gains more
    than the second costs. The other coefficients have no partner for such a step. Omitting them is a
    heuristic, because they may get a partner when the violations of the optimality conditions grow.

    References
    ----------
    C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines", ACM TIST 2 (2011), 27:1-27:27,
    section 5.1, https://doi.org/10.1145/1961189.1961199.
    """
    up, down = g - rise, g - fall
    most, least = float(up.max()), float(down.min())
    if not intercept:
        most, least = max(most, 0.0), min(least, 0.0)
    return np.flatnonzero((up >= least) | (down <= most))


def worth_leaving_out(active: int, m: int, spent: float) -> bool:
    """Return whether steps on the active coefficients alone would have saved more time than their overhead.

    The overhead consists of copying their part of the matrix, and of computing the slopes of the other
    coefficients at the end.
    """
    saved = spent * (1.0 - active / m)
    return 2 <= active <= _LARGEST_PART * m and saved >= _OVERHEAD + _COPY * active * m


def may_be_worth_it(spent: float) -> bool:
    """Return whether `worth_leaving_out` can hold for any number of active coefficients."""
    return spent >= _OVERHEAD


def newton_direction(H: Array, rates: Array, E: Array) -> Array | None:
    """Return the minimiser d of d'Hd / 2 - rates'd with E'd = 0, where each row of E has at most one 1.

    If H is not positive definite in floating-point arithmetic, a small multiple of the identity is added to
    it; d is then still a descent direction. Return None if H is still not positive definite.
    """
    diagonal = H.diagonal().copy()
    scale = float(diagonal.max(initial=0.0))
    for shift in (0.0, _SHIFT, 1e3 * _SHIFT):
        if shift:
            np.fill_diagonal(H, diagonal + shift * scale)
        factor, failed = _potrf(H.T, lower=1, overwrite_a=0)
        if not failed and factor.diagonal().min() ** 2 > 1e-15 * scale:
            break
    else:
        return None
    solved = _potrs(factor, np.column_stack([rates, E]), lower=1)[0]
    d, Z = solved[:, 0], solved[:, 1:]
    if not E.shape[1]:
        return d
    M = E.T @ Z
    if not (np.isfinite(M).all() and (M.diagonal() > 0.0).all()):
        return None
    try:
        d = d - Z @ np.linalg.solve(M, E.T @ d)
    except np.linalg.LinAlgError:
        return None
    return d - E @ ((E.T @ d) / E.sum(axis=0))


def within(a: Array, low: Array, high: Array, groups: Array, like: Array) -> Array | None:
    """Add one number to each group of a and clip the result, so that each group has its sum in `like`.

    Each column of `groups` is the mask of a group. Return None if there is no such point up to rounding.
    """
    end = np.clip(a, low, high)
    for group in groups.T:
        point = _shifted(a[group], low[group], high[group], float(like[group].sum()))
        if point is None:
            return None
        end[group] = point
    return end


def _shifted(a: Array, low: Array, high: Array, total: float) -> Array | None:
    """Return clip(a + t) for the number t that makes its sum the total; None if there is none."""
    kinks, bends = np.concatenate([low - a, high - a]), np.repeat([1.0, -1.0], a.size)
    finite = np.isfinite(kinks)
    order = np.argsort(kinks[finite])
    kinks, bends = kinks[finite][order], bends[finite][order]
    if kinks.size:
        slopes = np.count_nonzero(low == -np.inf) + np.cumsum(bends)
        first = float(np.clip(a + kinks[0], low, high).sum())
        sums = first + np.append(0.0, np.cumsum(slopes[:-1] * np.diff(kinks)))
        k = int(np.searchsorted(sums, total)) - 1
        slope = slopes[k] if k >= 0 else slopes[0] - bends[0]
        k = max(k, 0)
        shift = float(kinks[k] + ((total - sums[k]) / slope if slope > 0.0 else 0.0))
    else:
        shift = (total - float(a.sum())) / a.size
    for _ in range(_CORRECTIONS):
        end = np.clip(a + shift, low, high)
        excess = float(end.sum()) - total
        if abs(excess) <= _BALANCE * float(np.abs(end).sum()):
            return end
        shift -= excess / max(1, np.count_nonzero((low < end) & (end < high)))
    return None
