"""One solve of the dual of a kernel machine: steps, tests of the duality gap, Newton steps in between."""

from __future__ import annotations

import math

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.dual_form import DualForm
from cutplane.kernels.intercept import best_intercept, gap_at
from cutplane.kernels.newton import longest_step, newton_direction
from cutplane.kernels.row_cache import Rows
from cutplane.kernels.smo import ROW, pair_steps, set_all_slopes, single_steps
from cutplane.validation import Array

_ROUNDING = 2.0**-50
_FLOOR = 1e-12
_SLICE = 40_000_000
_BURST_OVERHEAD = 50_000
_NEWTON_OVERHEAD = 150_000
_ROW_COST = 20.0
_EPS = 2.0**-52


class Descent:
    """The state of a solve: a, g = linear - ridge a - K a, the intercept, and the gap there.

    Parameters
    ----------
    form : DualForm
    rows : Rows
    a : ndarray of shape (m,)
        Feasible; changed in place.
    intercept : bool
    """

    def __init__(self, form: DualForm, rows: Rows, a: Array, intercept: bool) -> None:
        self.form, self.rows, self.a, self.intercept = form, rows, a, intercept
        self.rise, self.fall = np.empty_like(a), np.empty_like(a)
        largest = float(rows.diagonal.max())
        self.floor = _FLOOR * largest if largest > 0.0 else 1e-100
        self.b = 0.0
        self.n_steps = 0
        self.is_fresh = True
        self.refresh()

    def run(self, accuracy: float) -> None:
        """Step until the gap is at most `accuracy`, or rounding allows no more."""
        m = self.a.size
        patience, most = 2 * m + 200, 1 + _SLICE // (m + 1000)
        unbounded = not self.form.tube and np.isinf(self.form.upper - self.form.lower).all()
        spent, total, idle = 1e300 if unbounded else 0.0, 0.0, 0
        known = least = math.inf
        while True:
            if self.gap <= accuracy or idle >= patience:
                if self.is_fresh:
                    return
                self.refresh()
                if self.gap <= accuracy or self.gap > 0.5 * known:
                    return
                known, idle, spent = self.gap, 0, max(spent, total)
            if spent >= self._newton_cost():
                spent = 0.0
                self._newton_step()
                if self.gap <= accuracy:
                    continue
            before = self.n_steps
            decrease, settled = self._steps(max(16, min(m, most, before // 4)))
            steps = self.n_steps - before
            spent += 6.0 * m * steps + _BURST_OVERHEAD
            total += 6.0 * m * steps + _BURST_OVERHEAD
            self.measure()
            idle += steps
            if decrease > _EPS * self.size or self.gap < 0.9 * least:
                idle, least = 0, min(least, self.gap)
            if settled:
                idle = patience

    def refresh(self) -> None:
        """Compute K a and the gap anew."""
        if self.intercept and not self.is_fresh:
            self._restore_sum()
        form = self.form
        self.predictions = self.rows.product(self.a)
        self.g = form.linear - self.predictions
        if form.ridge:
            self.g -= form.ridge * self.a
        set_all_slopes(self.a, form.tube, form.lower, form.upper, self.rise, self.fall)
        self.is_fresh = True
        self.measure()
        self.scale = float(np.abs(form.linear).max() + form.tube + np.abs(self.predictions).max())

    def measure(self) -> None:
        """Find the best intercept and the gap."""
        form = self.form
        r = self.g + form.ridge * self.a if form.ridge else self.g
        if not np.isfinite(r).all():
            raise InvalidInputError(
                "K holds entries that are not finite, or so large that K a overflows; clean or rescale it."
            )
        if self.intercept:
            self.b = best_intercept(r, form.tube, form.ridge, form.lower, form.upper, self.b)
        self.gap = gap_at(r, self.b, self.a, form.tube, form.ridge, form.lower, form.upper)
        self.size = abs(float(self.a @ (r + form.linear)))

    def _steps(self, most: int) -> tuple[float, bool]:
        form, rows = self.form, self.rows
        steps = pair_steps if self.intercept else single_steps
        total, left = 0.0, most
        while left > 0:
            status, wanted, done, decrease = steps(
                rows.slots, rows.where, rows.used, rows.clock, rows.diagonal, form.ridge, form.tube,
                form.lower, form.upper, self.a, self.g, self.rise, self.fall, self.floor,
                _ROUNDING * self.scale, left,
            )  # fmt: skip
            rows.clock += done + 1
            total += decrease
            left -= done
            self.n_steps += done
            self.is_fresh &= done == 0
            if status != ROW:
                return total, status != 1
            rows.fetch(wanted)
        return total, False

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

    def _newton_step(self) -> None:
        """Go along the Newton direction on the free coordinates, as far as they stay within their bounds."""
        form, a = self.form, self.a
        free = self._free()
        if free.size < 1 + self.intercept:
            return
        H = self.rows.block(free)
        np.fill_diagonal(H, H.diagonal() + form.ridge)
        rates = self.g[free] - form.tube * np.sign(a[free])
        d = newton_direction(H, rates, self.intercept)
        if d is None or not (rate := float(rates @ d)) > 0.0:
            return
        low, high = form.lower[free], form.upper[free]
        if form.tube:
            low, high = np.where(a[free] > 0.0, 0.0, low), np.where(a[free] < 0.0, 0.0, high)
        whole = np.zeros_like(a)
        whole[free] = d
        moved = self.rows.product(whole)
        curvature = max(float(d @ moved[free]) + form.ridge * float(d @ d), 0.0)
        best = rate / curvature if curvature > 0.0 else math.inf
        limit = longest_step(a[free], d, low, high)
        t = min(best, limit)
        if not math.isfinite(t):
            return
        new = a[free] + t * d
        if limit <= best:
            with np.errstate(divide="ignore", invalid="ignore"):
                ends = np.where(d > 0.0, high, low)
                new = np.where((d != 0.0) & ((ends - a[free]) / d <= limit * (1.0 + 4.0 * _EPS)), ends, new)
        a[free] = np.clip(new, low, high)
        self.g -= t * (moved + form.ridge * whole)
        set_all_slopes(a, form.tube, form.lower, form.upper, self.rise, self.fall)
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
