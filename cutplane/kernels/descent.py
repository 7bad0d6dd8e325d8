"""One solve of the dual of a kernel machine: steps, tests of the duality gap, Newton steps in between.

While rows of the matrix are missing, the first steps are those on a working set that grows, `growing`.
Coordinates that their slopes hold at a bound are left out for a while: `descend` then works on a copy of the
state for the others, in which it may leave out more. The terms of the duality gap are not negative, so as
long as those of the copy exceed the accuracy, the rest need not be known.
"""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.directions import longest_step, newton_direction, within
from cutplane.kernels.dual_form import DualForm
from cutplane.kernels.growing import grow
from cutplane.kernels.intercept import measure
from cutplane.kernels.rows import Rows
from cutplane.kernels.smo import ROW, pair_steps, set_all_slopes, single_steps
from cutplane.pieces.validation import Array

_ROUNDING = 2.0**-50
_FLOOR = 1e-12
_SLICE = 40_000_000
_MOST_STEPS = 10_000_000
_BURST_OVERHEAD = 50_000
_NEWTON_OVERHEAD = 150_000
_ROW_COST = 20.0
_EPS = 2.0**-52
_OVERHEAD = 400_000.0
_COPY = 2.0
_LARGEST_PART = 0.7


class Descent:
    """The state of a solve: a, g = linear - ridge a - K a, the intercept, and the gap there."""

    def __init__(self, form: DualForm, rows: Rows, a: Array, intercept: bool) -> None:
        self.form, self.rows, self.a, self.intercept = form, rows, a, intercept
        self.rise, self.fall, self.r = np.empty_like(a), np.empty_like(a), np.empty_like(a)
        largest = float(rows.diagonal.max())
        self.floor = _FLOOR * largest if largest > 0.0 else 1e-100
        self.diagonal = rows.diagonal + form.ridge
        self.b = 0.0
        self.n_steps = 0
        self.is_fresh, self.is_part = True, False
        unbounded = not form.tube and np.isinf(form.upper - form.lower).all()
        self.spent, self.total, self.on_all, self.trust = 1e300 if unbounded else 0.0, 0.0, 0.0, 1.0
        self.most_steps = _MOST_STEPS + 1000 * a.size
        self.chain = 1
        self.refresh()

    def rescale(self) -> None:
        """Multiply a by the number >= 1 that is best for the dual, as far as the bounds allow.

        Coordinates at the bounds of another weight of the losses come to those of this one, all at a time.
        """
        form, a = self.form, self.a
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
        """Step until the gap is at most `accuracy`, or rounding allows no more."""
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
        """Step until the gap, as it is known without computing K a anew, is at most `accuracy`."""
        self._grow(accuracy)
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

    def _grow(self, accuracy: float) -> None:
        if not self.is_part:
            grow(self, accuracy)

    def _leave_out(self, accuracy: float) -> bool:
        """Step on the active coordinates alone, if it pays, until their part of the gap is small enough."""
        m = self.a.size
        spent = self.on_all * self.trust
        if not may_be_worth_it(spent):
            return False
        active = active_coordinates(self.g, self.rise, self.fall, self.intercept)
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
        part.diagonal = self.diagonal[active]
        part.a, part.g, part.r = self.a[active], self.g[active], np.empty(active.size)
        part.rise, part.fall = self.rise[active], self.fall[active]
        part.on_all, part.trust = 0.0, 1.0
        part.measure()
        return part

    @property
    def dual_value(self) -> float:
        """The value of the dual, up to what rounding has added to the slopes."""
        form, a = self.form, self.a
        return 0.5 * float(a @ (form.linear + self.g)) - form.tube * float(np.abs(a).sum())

    def refresh(self) -> None:
        """Compute K a and the gap anew."""
        if self.intercept and not self.is_fresh:
            self._restore_sum()
        form = self.form
        self.predictions = self.rows.product(self.a)
        self.g = form.linear - self.predictions
        if form.curved:
            self.g -= form.ridge * self.a
        self.set_slopes()
        self.is_fresh = True
        self.measure()
        self.scale = float(np.abs(form.linear).max() + form.tube + np.abs(self.predictions).max())

    def measure(self) -> None:
        """Find the best intercept and the gap; of a part, a lower bound of the gap of all."""
        form = self.form
        total = float(self.a.sum()) if self.is_part else 0.0
        self.b, self.gap, size = measure(
            self.g, self.a, form.linear, form.tube, form.ridge, form.lower, form.upper,
            self.intercept, total, self.b, self.r,
        )  # fmt: skip
        if not self.is_part:
            self.size = size
        if math.isnan(self.gap):
            raise InvalidInputError(
                "K holds entries that are not finite, or so large that K a overflows; clean or rescale it."
            )

    def set_slopes(self) -> None:
        """Set what the coordinates must gain to go up or down."""
        form = self.form
        set_all_slopes(self.a, form.tube, form.lower, form.upper, self.rise, self.fall)

    def steps(self, most: int, tolerance: float = 0.0) -> tuple[float, bool]:
        """Do some steps; return how much they gain, and whether no violation above the tolerance is left."""
        form, rows = self.form, self.rows
        steps = pair_steps if self.intercept else single_steps
        total, left = 0.0, most
        while left > 0:
            status, wanted, done, decrease = steps(
                rows.slots, rows.where, rows.used, rows.clock, self.diagonal, form.ridge, form.tube,
                form.lower, form.upper, self.a, self.g, self.rise, self.fall, self.floor,
                max(tolerance, _ROUNDING * self.scale), left,
            )  # fmt: skip
            rows.clock += done + 1
            total += decrease
            left -= done
            self.n_steps += done
            self.is_fresh &= done == 0
            if status != ROW:
                return total, status != 1
            rows.fetch(wanted, self._likely)
        return total, False

    def _likely(self, count: int) -> Array:
        """Return the coordinates without a row that violate the optimality conditions most."""
        excess = self.g - self.b
        rates = np.maximum(excess - self.rise, self.fall - excess)
        rates[self.rows.where >= 0] = -math.inf
        if count < rates.size:
            chosen = np.argpartition(rates, -count)[-count:]
            return chosen[rates[chosen] > 0.0]
        return np.flatnonzero(rates > 0.0)

    def _free(self) -> Array:
        free = (self.a > self.form.lower) & (self.a < self.form.upper)
        return np.flatnonzero(free & (self.a != 0.0) if self.form.tube else free)

    def _newton_cost(self) -> float:
        """Return about as many units as steps have, of some floating-point operations each."""
        free, m = self._free(), self.a.size
        n = free.size
        if n * n > self.rows.slots.size:
            return math.inf
        missing = np.count_nonzero(self.rows.where[free] < 0)
        return _NEWTON_OVERHEAD + n**3 / 24.0 + 4.0 * n * n + n * m + _ROW_COST * missing * m

    def _newton_steps(self) -> None:
        """Do Newton steps until one ends inside its bounds: steps on pairs in between may undo short ones.

        They are few at first, twice as many after each chain that was too short; their time is paid back.
        """
        self.spent = 0.0
        for left in range(self.chain - 1, -1, -1):
            if not self._newton_step():
                self.chain = 1
                return
            if left:
                self.spent -= self._newton_cost()
        self.chain *= 2

    def _newton_step(self) -> bool:
        """Go along the Newton direction on the free coordinates, as far as they stay within their bounds.

        Or, if more is gained, towards its end put within the bounds. Tell whether a bound cut the step short.
        """
        form, a = self.form, self.a
        free = self._free()
        if free.size < 1 + self.intercept:
            return False
        H = self.rows.block(free)
        np.fill_diagonal(H, H.diagonal() + form.ridge[free])
        rates = self.g[free] - form.tube * np.sign(a[free])
        d = newton_direction(H, rates, self.intercept)
        if d is None or not (rate := float(rates @ d)) > 0.0:
            return False
        low, high = form.lower[free], form.upper[free]
        if form.tube:
            low, high = np.where(a[free] > 0.0, 0.0, low), np.where(a[free] < 0.0, 0.0, high)
        limit = longest_step(a[free], d, low, high)
        if limit < 1.0 and self._move_many(free, d, low, high, rates, limit * (1.0 - 0.5 * limit) * rate):
            return True
        whole, moved, curvature = self._along(free, d)
        best = rate / curvature if curvature > 0.0 else math.inf
        t = min(best, limit)
        if not math.isfinite(t):
            return False
        new = a[free] + t * d
        if limit <= best:
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.where(d > 0.0, high, low)
                new = np.where((d != 0.0) & ((ends - a[free]) / d <= limit * (1.0 + 4.0 * _EPS)), ends, new)
        self._take(free, np.clip(new, low, high), t, whole, moved)
        return limit < best

    def _along(self, free: Array, d: Array) -> tuple[Array, Array, float]:
        """Return a direction as one of all coordinates, K times it, and how the dual curves along it."""
        whole = np.zeros_like(self.a)
        whole[free] = d
        moved = self.rows.product(whole)
        return whole, moved, max(float(d @ (moved[free] + self.form.ridge[free] * d)), 0.0)

    def _move_many(self, free: Array, d: Array, low: Array, high: Array, rates: Array, least: float) -> bool:
        """Go towards the end of a direction, put within the bounds, if that gains more; tell whether it does.

        Many coordinates come to their bounds at a time.
        """
        a = self.a[free]
        end = within(a + d, low, high, float(a.sum()) if self.intercept else None)
        if end is None or not (rate := float(rates @ (end - a))) > least:
            return False
        whole, moved, curvature = self._along(free, end - a)
        t = 1.0 if curvature <= rate else rate / curvature
        if t * (rate - 0.5 * t * curvature) <= least:
            return False
        self._take(free, end if t == 1.0 else a + t * (end - a), t, whole, moved)
        return True

    def _take(self, free: Array, new: Array, t: float, whole: Array, moved: Array) -> None:
        """Move the free coordinates to new places, by t times a direction whose product with K is known."""
        self.a[free] = new
        self.g -= t * (moved + self.form.ridge * whole)
        self.set_slopes()
        self.is_fresh = False
        self.n_steps += 1
        self.measure()

    def _restore_sum(self) -> None:
        """Take what rounding has added to the sum from the coordinate that has the most room."""
        excess = float(self.a.sum())
        if excess:
            room = np.minimum(self.form.upper - self.a, self.a - self.form.lower)
            k = int(room.argmax())
            if room[k] > abs(excess):
                self.a[k] -= excess


def active_coordinates(g: Array, rise: Array, fall: Array, intercept: bool) -> Array:
    """Return the places of the coordinates that can take part in a step, such as all off their bounds.

    With an intercept a step takes one coordinate up and another down, and helps if the first gains more than
    the second costs. The other coordinates can do neither with any partner, as long as no coordinate violates
    the optimality conditions by more than now; of this there is no guarantee.

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
    """Tell whether steps on the active coordinates alone would by now have saved what they cost beforehand.

    That is a copy of their part of the matrix, and the slopes of the others afterwards.
    """
    saved = spent * (1.0 - active / m)
    return 2 <= active <= _LARGEST_PART * m and saved >= _OVERHEAD + _COPY * active * m


def may_be_worth_it(spent: float) -> bool:
    """Tell whether `worth_leaving_out` could hold, before the active coordinates are known."""
    return spent >= _OVERHEAD
