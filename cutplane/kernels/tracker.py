"""The state of `KernelPathTracking`: the multipliers of a machine, followed from knot to knot."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.kernels.curves import Curves
from cutplane.kernels.dual_form import mended
from cutplane.kernels.pivoting import Pivoting
from cutplane.kernels.smooth_form import multipliers
from cutplane.kernels.walk import Walk
from cutplane.methods.base import Knots
from cutplane.pieces.validation import Array
from cutplane.sets.whole import WholeSpace

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.kernels.tracking import Machine

_ROUNDING = 1e-11
"""A rate this small, relative to its terms, is zero but for rounding."""
_NOW = 1e-13
"""An event so close, relative to the weight, is now."""
_IDLE = 50
"""Events at one weight, beside one for each example, after which they are taken to go in circles."""
_SKIP = 1e-6
"""By which share of the weight a path goes on then."""

_SIDES = np.array([[-1.0], [1.0]])


class KernelTracker(Walk):
    """Where the path is: the weight lam, and the slopes p there; both are linear in lam between knots.

    With an intercept there is always a member, at a corner maybe: its equation holds the intercept, where an
    interval of them is best, at an end of the interval.

    Attributes
    ----------
    knots : Knots
    end : float
        The weight where the path ends.
    """

    def __init__(self, problem: Declaration, machine: Machine):
        start, far = _far_end(machine)
        super().__init__(machine.gram, machine.curves, machine.lam, machine.intercept)
        self.problem, self.machine, self.end = problem, machine, machine.lam
        self.n_idle, self._drifts, self._first = 0, False, 1
        self._adopt(start)
        low, high = self.ends
        if self.intercept and not self.members.size:
            self._hold(np.where(low == far, self.f, -np.inf), np.where(high == far, self.f, np.inf))
        low, high = (np.where(ends == far, np.inf, ends - far) for ends in self.ends)
        low[self.members] = high[self.members] = np.inf
        b = self.b
        self.lam = max(self.end, float(((b - self.f) / high).max()), float(((b - self.f) / low).max()))
        self.b = b + self.lam * far
        self.knots = Knots(reciprocal=True, limit=machine.point(np.zeros_like(self.p), far))
        self._slopes: list[Array] = []
        self._keep("starts")

    def advance(self, n_events: int) -> bool:
        """Go on by so many events; tell whether the end is reached."""
        for _ in range(n_events):
            if self.lam <= self.end:
                break
            members = self.members
            d, rate = self.solve(self.bases) if members.size else (np.empty(0), 0.0)
            change = np.zeros_like(self.p)
            change[members] = d
            image = self.gram.compute(change)
            tau, i, side = self._next(d, rate, image)
            last = tau >= self.lam - self.end
            tau = self.lam - self.end if last else tau
            self.n_idle += 1
            if tau > _NOW * self.lam:
                self.n_idle, self._first = 0, len(self._slopes) + 1
            elif self.n_idle > _IDLE + self.p.size:
                self._skip()
                continue
            self.shift(members, tau * d)
            self.f += tau * image
            self.b += tau * rate
            self.lam = self.end if last else self.lam - tau
            if last:
                break
            leaves = i in members
            if leaves:
                self.leave(i, side)
            if self.n_idle == 0:
                self._keep(f"{'leaves' if leaves else 'joins'} {i}")
            if not leaves:
                self.join(i, side)
            if self._drifts:
                self._correct()
        self.refresh()
        self._correct()
        if self.lam <= self.end and self.knots.events[-1] != "ends" and self.knots.weights[-1] > 1.0:
            self._keep("ends")
        return self.lam <= self.end

    def passed(self, i: int) -> None:
        """Note a knot where slopes change at one weight."""
        self._drifts = True
        self._keep(f"leaves {i}")

    @property
    def point(self) -> Array:
        """The solution."""
        return self.machine.point(-self.p / self.lam, self.b / self.lam)

    def multipliers(self, p: Array) -> Array:
        """Return the multipliers of the examples that slopes of the weighted losses are."""
        return multipliers(self.machine.examples, mended(p, *self.curves.bounds, self.intercept))

    def bounds(self, weight: float, x: Array) -> tuple[float, float]:
        """Return a certified lower bound, and the objective at x, for a multiple of the weight at the end."""
        known, k = self.knots.weights, bisect_left(self.knots.weights, -weight, key=lambda t: -t)
        k = min(k, len(known) - 1)
        p = self._slopes[k]
        if 0 < k and known[k] < weight:
            share = (weight - known[k]) / (known[k - 1] - known[k])
            p = p + share * (self._slopes[k - 1] - p)
        risk: Any = self.problem.risk
        g: Any = self.problem.regularizer.with_lam(weight * self.problem.regularizer.lam)
        slopes, offsets = risk.dual_cut(self.multipliers(p))
        least = g.conjugate_minimiser(slopes.sum(axis=0), WholeSpace())
        return float(offsets.sum()) + least.value, float(np.sum(risk.values(risk.image(x)))) + g.value(x)

    def _adopt(self, walk: Pivoting) -> None:
        """Take over where a walk with the same factor has ended."""
        self.p, self.f, self.b, self.factor = walk.p, walk.f, walk.b, walk.factor
        self.low, self.high = self.curves.places(self.p)
        self._take(walk.members)

    def _hold(self, low: Array, high: Array) -> None:
        """Make a member of an example that bounds the best b, from below if one does."""
        below = bool(np.isfinite(low.max()))
        i = int(low.argmax() if below else high.argmin())
        self.b = float(low[i] if below else high[i])
        self.join(i, -1.0 if below else 1.0)

    def _skip(self) -> None:
        """Go on from the solution at a weight a little below one where events go in circles.

        The path is straight in between but for the square of the distance.
        """
        for known in (self.knots.weights, self.knots.points, self.knots.events, self._slopes):
            del known[self._first :]
        self.n_idle, self.lam = 0, max(self.end, self.lam * (1.0 - _SKIP))
        walk = Pivoting(self.gram, self.curves, self.lam, self.intercept, self.p)
        walk.finish()
        self._adopt(walk)
        if self.intercept and not self.members.size:
            low, high = self.ends
            self._hold(self.lam * low + self.f, self.lam * high + self.f)
        self._keep("ties")

    def _next(self, d: Array, rate: float, image: Array) -> tuple[float, int, float]:
        """Return how much the weight falls until the next event, its example, and the side it goes to.

        Of events that happen now the one with the least index is taken: a sequence of such choices ends.
        """
        u, change = self.b - self.f, rate - image
        ends, size = np.stack(self.ends), np.abs(change)
        down, up = _time(_SIDES * (self.lam * ends - u), _SIDES * (change + ends), size + np.abs(ends))
        times, sides = np.minimum(up, down), np.where(up <= down, 1.0, -1.0)
        times[self.members], sides[self.members] = self.room(self.members, d), np.sign(d)
        now = np.flatnonzero(times <= _NOW * self.lam)
        i = int(now[0]) if now.size else int(times.argmin())
        return float(times[i]), i, float(sides[i])

    def _correct(self) -> None:
        """Take a Newton step to where the equations of the members hold."""
        self._drifts = False
        if self.members.size:
            d, self.b = self.solve(self.residuals, -float(self.p.sum()))
            self.move(self.members, d)

    def _keep(self, event: str) -> None:
        x = self.point
        index = np.flatnonzero(x)
        self.knots.add(self.lam / self.end, index, x[index], event)
        self._slopes.append(self.p.copy())


def _time(room: Array, pace: Array, size: Array) -> Array:
    """Return when something that is so far away happens; inf if it never does."""
    with np.errstate(invalid="ignore"):
        comes = np.isfinite(room) & (pace > _ROUNDING * size)
    return np.where(comes, np.maximum(room, 0.0) / np.where(comes, pace, 1.0), np.inf)


def _far_end(machine: Machine) -> tuple[Pivoting, float]:
    """Return a walk that ended at the slopes for all large weights, and the limit of the intercept.

    There the losses count alone. Of the slopes that are possible at the best constant function those with the
    least norm of a function are the solution: a quadratic programme over the kinks that are there.
    """
    curves, far = machine.curves, 0.0
    if machine.intercept:
        z, jumps = curves.base[curves.rises], (curves.p[1:] - curves.p[:-1])[curves.rises]
        order = np.argsort(z, kind="stable")
        slopes = float(curves.p[0].sum()) + np.cumsum(jumps[order])
        k = int(np.searchsorted(slopes, -_NOW * float(jumps.sum())))
        far = float(z[order[min(k, order.size - 1)]])
    each = np.arange(curves.p.shape[1])
    lower = curves.p[(curves.z < far).sum(axis=0) - 1, each]
    upper = curves.p[(curves.z <= far).sum(axis=0) - 1, each]
    width, nothing = upper - lower, np.zeros((3, each.size))
    p = np.clip(0.0, lower, upper)
    if machine.intercept and p.any():
        p = lower + np.clip(-float(lower.sum()) - (np.cumsum(width) - width), 0.0, width)
    ends = np.repeat([[-np.inf], [0.0], [0.0], [np.inf]], each.size, axis=1)
    rises = np.stack([width < 0.0, width > 0.0, width < 0.0])
    box = Curves(ends, np.stack([lower, lower, upper, upper]), nothing, nothing, rises)
    walk = Pivoting(machine.gram, box, 1.0, machine.intercept, p)
    walk.finish()
    return walk, far
