"""Kernel machines by an active set of examples on the curves of their losses: one solve, and a path."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.kernels.dual import made_feasible, multipliers
from cutplane.kernels.gram import Gram
from cutplane.methods.base import Knots
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time
from cutplane.sets.box import WholeSpace
from cutplane.tracking.cholesky import CholeskyFactor
from cutplane.tracking.curves import Curves
from cutplane.tracking.walker import JOINS, LEAVES, NOW, ZERO_RATE, Event, PathWalker

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.tracking.methods import TrackedMachine

_ROUNDING = 2.0**-46
"""Rounding error of a prediction relative to its terms, because it has about 100 terms of different sizes."""
_TIE = 1e-12
"""Relative difference of steps to a corner that counts as zero, because simultaneous events differ by
rounding errors."""
_MOST = 1000
"""Largest number of changes, plus 100 per example, because more changes are a cycle."""
_IDLE = 50
"""Number of events at one weight, plus one per example, that counts as a cycle, because without a cycle each
example joins at most once."""
_SKIP = 1e-6
"""Share of the weight by which a path skips a cycle of events, because this is a hundred thousand times the
rounding error."""


class CurveWalk:
    """Slopes p_i of the losses at the predictions z = (b - K p) / lam, with each (z_i, p_i) on its curve.

    Members are the examples on a segment that is not flat. Each has an equation z_i = base_i + ridge_i p_i,
    and the matrix of these equations is H = K + lam diag(ridge). The p_i of the other examples are constant,
    at a corner or on a flat segment. With an intercept sum p = 0. Then a constant is added to K, which
    changes no solution, because H becomes positive definite if v'H v > 0 for all v with sum v = 0.

    Attributes
    ----------
    lam : float
    b : float
        lam times the intercept.
    p, f : ndarray of shape (m,)
        The slopes, and K p.
    low, high : ndarray of shape (m,)
        The corners of the segment of an example; both are equal for an example at a corner between two
        segments that are not flat.
    members : ndarray
        The members in the order of the factor.
    """

    p: Array
    f: Array
    low: Array
    high: Array
    b = 0.0

    def __init__(self, gram: Gram, curves: Curves, lam: float, intercept: bool):
        self.gram, self.curves, self.lam, self.intercept = gram, curves, lam, intercept
        self.largest = float(gram.diagonal().max())
        self._shift = (self.largest or 1.0) * intercept
        self._each = np.arange(gram.n)
        self.members, self.factor = np.empty(0, np.intp), CholeskyFactor()

    def begin(self, p: Array) -> None:
        """Start at given slopes; the members are all examples on segments that are not flat."""
        self.p = self.curves.snapped(p)
        self.low, self.high = self.curves.places(self.p)
        self.f = self.gram.compute(self.p)
        low, high = self.limits(self._each)
        self._gather(np.flatnonzero((low < self.p) & (self.p < high)))

    @property
    def ends(self) -> tuple[Array, Array]:
        """The ends of the interval of z in which an example that is not a member has a constant p."""
        return self.curves.z[self.low, self._each], self.curves.z[self.high, self._each]

    def limits(self, members: Array) -> tuple[Array, Array]:
        """Return the slopes at the corners of some examples."""
        return self.curves.p[self.low[members], members], self.curves.p[self.high[members], members]

    @property
    def bases(self) -> Array:
        """The bases of the members."""
        return self.curves.base[self.low[self.members], self.members]

    @property
    def bends(self) -> Array:
        """The terms added to the diagonal of K for the members."""
        return self.lam * self.curves.ridge[self.low[self.members], self.members]

    @property
    def residuals(self) -> Array:
        """The residuals of the equations of the members, without b."""
        members = self.members
        return -self.lam * self.bases - self.f[members] - self.bends * self.p[members]

    def solve(self, right: Array, total: float = 0.0) -> tuple[Array, float]:
        """Return d and b with H d - b = right and sum d = total; without an intercept b is 0."""
        d = self.factor.solve(right)
        if not self.intercept:
            return d, 0.0
        share = (total - float(d.sum())) / float(self._ones.sum())
        d += share * self._ones
        return d + (total - float(d.sum())) / d.size, share - self._shift * total

    def update(self, members: Array, d: Array) -> None:
        """Change the slopes of some examples, and K p."""
        before = self.p.copy()
        self.shift(members, d)
        self.f += self.gram.compute(self.p - before)

    def shift(self, members: Array, d: Array) -> None:
        """Change the slopes of some examples, clipped to their corners."""
        low, high = self.limits(members)
        self.p[members] = np.clip(self.p[members] + d, low, high)

    def room(self, members: Array, d: Array) -> Array:
        """Return the step lengths along d at which some examples reach a corner."""
        low, high = self.limits(members)
        moves = np.abs(d) > ZERO_RATE * np.abs(d).max(initial=0.0)
        ends = np.where(d > 0.0, high, low)
        rate = np.where(moves, d, 1.0)
        return np.where(moves, np.maximum((ends - self.p[members]) / rate, 0.0), np.inf)

    def leave(self, i: int, side: float) -> None:
        """Stop an example at its corner on the given side; it is no longer a member."""
        rises = self.curves.rises[:, i]
        if side > 0.0:
            k = int(self.high[i])
            self.low[i], self.high[i] = k, k + (k < rises.size and not rises[k])
        else:
            k = int(self.low[i])
            self.low[i], self.high[i] = k - (k > 0 and not rises[k - 1]), k
        self.p[i] = self.curves.p[k, i]
        place = np.flatnonzero(self.members == i)
        if place.size:
            self.factor.remove(int(place[0]))
            self._take(np.delete(self.members, place))

    def join(self, i: int, side: float) -> None:
        """Put an example on the segment on the given side, and make it a member."""
        segment = int(self.high[i]) if side > 0.0 else int(self.low[i]) - 1
        self.low[i], self.high[i] = segment, segment + 1
        self._become_member(i, side)

    def refresh(self) -> None:
        """Recompute K p and the factor."""
        self.f = self.gram.compute(self.p)
        self._gather(self.members)

    def _gather(self, chosen: Array) -> None:
        """Make the chosen examples the members."""
        self._take(chosen)
        if not chosen.size:
            return
        H = self.gram.block(chosen, chosen) + self._shift
        np.einsum("ii->i", H)[...] += self.bends
        if self.factor.factorise(H):
            return
        self.factor = CholeskyFactor()
        self._take(chosen[:0])
        for i in chosen.tolist():
            if self.low[i] < self.high[i]:
                self._become_member(i, 0.0)

    def _become_member(self, i: int, side: float) -> None:
        """Add an example to the factor; as long as H would be singular, step along a d with H d = 0.

        With a kernel of low rank, such directions change no prediction. Each step ends when an example
        reaches a corner, so that it is no longer a member.
        """
        while True:
            members = self.members
            row = self.gram.row(i)
            column = row[members] + self._shift
            bend = self.lam * self.curves.ridge[self.low[i], i]
            if self.factor.append(column, float(row[i]) + self._shift + bend):
                self._take(np.append(members, i))
                return
            d = np.append(-self.factor.solve(column), 1.0)
            self.members = np.append(members, i)
            downhill, self.members = float(self.residuals @ d), members
            d *= side or (1.0 if downhill >= 0.0 else -1.0)
            moved = np.append(members, i)
            room = self.room(moved, d)
            k = int(room.argmin())
            if not np.isfinite(room[k]):
                raise ArithmeticError("rows of the kernel matrix depend on one another")
            self.update(moved, room[k] * d)
            self.leave(int(moved[k]), d[k])
            self.passed(int(moved[k]))
            if k == members.size:
                return

    def passed(self, i: int) -> None:
        """Record that a step along a direction in which H is singular put an example at a corner."""

    def _take(self, members: Array) -> None:
        self.members = members
        self.__dict__.pop("_ones", None)

    @cached_property
    def _ones(self) -> Array:
        return self.factor.solve(np.ones(self.members.size))


class Pivoting(CurveWalk):
    """A descent to the minimum of p'Kp/2 + lam sum_i (c_i l)*(p_i), with sum p = 0 if there is an intercept.

    Members are strictly between their corners, so that every step is positive.

    Attributes
    ----------
    n_changes : int
        Number of times that examples joined.
    """

    def __init__(self, gram: Gram, curves: Curves, lam: float, intercept: bool, p: Array):
        super().__init__(gram, curves, lam, intercept)
        self.begin(p)
        self.n_changes = 0
        self._idle = np.zeros(p.size, bool)
        self._settle()

    def advance(self, most: int) -> bool:
        """Let at most `most` examples join; tell whether no example violates the optimality conditions."""
        for _ in range(most):
            check_time()
            if not (entering := self._violators()):
                return True
            before = self.p.copy()
            self.n_changes += 1
            for i, side in entering:
                self.join(i, side)
            self._settle()
            if (self.p == before).all():
                self._idle[[i for i, _ in entering]] = True
            else:
                self._idle[:] = False
        return False

    def finish(self) -> None:
        """Find the minimum, or raise `ArithmeticError` if rounding errors cause a cycle."""
        if not self.advance(_MOST + 100 * self.p.size):
            raise ArithmeticError("rounding errors go in circles")

    def refresh(self) -> None:
        super().refresh()
        self._settle()

    def _settle(self) -> None:
        """Solve the equations of the members; members that reach a corner first are removed."""
        start, f = self.p.copy(), self.f
        self.f = f.copy()
        while self.members.size:
            check_time()
            members, right, bends = self.members, self.residuals, self.bends
            d, self.b = self.solve(right, -float(self.p.sum()))
            room = self.room(members, d)
            t = min(1.0, float(room.min()))
            self.shift(members, t * d)
            self.f[members] += t * (right + self.b - bends * d)  # K d for the members, by their equations
            low, high = self.limits(members)
            p = self.p[members]
            stopped = np.flatnonzero((room <= t * (1.0 + _TIE)) | (p <= low) | (p >= high))
            sides = np.where(p >= high, 1.0, np.where(p <= low, -1.0, d))
            for k in stopped.tolist():
                self.leave(int(members[k]), sides[k])
            if t == 1.0 and not stopped.size:
                break
        self.f = f + self.gram.compute(self.p - start)
        if self.intercept and self.members.size:
            self.b = -float(self.residuals.mean())

    def _violators(self) -> list[tuple[int, float]]:
        """Return the example with the largest violation, and its side; a pair if b is not determined."""
        low, high = (self.lam * ends + self.f for ends in self.ends)
        low[self.members], high[self.members] = -math.inf, math.inf
        low[self._idle], high[self._idle] = -math.inf, math.inf
        if self.intercept and not self.members.size:
            i, j = int(high.argmin()), int(low.argmax())
            ends = [end for end in (float(low[j]), float(high[i])) if math.isfinite(end)]
            self.b = sum(ends) / max(len(ends), 1)
            return [(i, 1.0), (j, -1.0)] if low[j] - high[i] > self._rounding else []
        excess = np.maximum(self.b - high, low - self.b)
        i = int(excess.argmax())
        return [(i, 1.0 if self.b - high[i] == excess[i] else -1.0)] if excess[i] > self._rounding else []

    @property
    def _rounding(self) -> float:
        """The rounding error of a prediction."""
        z = self.curves.z
        farthest = float(np.abs(z[np.isfinite(z)]).max(initial=0.0))
        return _ROUNDING * (self.largest * float(np.abs(self.p).sum()) + self.lam * farthest + abs(self.b))


class MachinePath(CurveWalk, PathWalker):
    """The path of a machine over the weight of its norm; the slopes p are linear in lam between knots.

    With an intercept there is always a member, possibly at a corner, because its equation determines the
    intercept. If an interval of intercepts is optimal, the intercept is an end of it.
    """

    def __init__(self, problem: Declaration, machine: TrackedMachine):
        start, far = _far_end(machine)
        super().__init__(machine.gram, machine.curves, machine.lam, machine.intercept)
        self.problem, self.machine, self.end = problem, machine, machine.lam
        self.patience, self._drifts, self._first = _IDLE + machine.gram.n, False, 1
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
        self.keep("starts")

    def direction(self) -> tuple[Array, float, Array]:
        d, rate = self.solve(self.bases) if self.members.size else (np.empty(0), 0.0)
        change = np.zeros_like(self.p)
        change[self.members] = d
        return d, rate, self.gram.compute(change)

    def move(self, tau: float, d: Array, rate: float, image: Array) -> None:
        if self.n_idle == 0:
            self._first = len(self._slopes) + 1
        self.shift(self.members, tau * d)
        self.f += tau * image
        self.b += tau * rate

    def change(self, kind: str, index: int, side: float) -> None:
        self.leave(index, side) if kind == LEAVES else self.join(index, side)

    def mend(self) -> None:
        if self._drifts:
            self._correct()

    def refresh(self) -> None:
        super().refresh()
        self._correct()

    def passed(self, i: int) -> None:
        self._drifts = True
        self.keep(f"leaves {i}")

    @property
    def point(self) -> Array:
        """The solution."""
        return self.machine.point(-self.p / self.lam, self.b / self.lam)

    def multipliers(self, p: Array) -> Array:
        """Return the multipliers of the examples for slopes of the weighted losses."""
        return multipliers(self.machine.examples, made_feasible(p, *self.curves.bounds, self.intercept))

    def prove(self, run: Run) -> str | None:
        run.evaluate(self.point)
        run.add_dual_cut(self.multipliers(self.p))
        return None if run.closed else "the path has ended, and rounding errors leave a gap"

    def bounds(self, weight: float, x: Array) -> tuple[float, float]:
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
        """Continue from the end of a walk, with the same factor."""
        self.p, self.f, self.b, self.factor = walk.p, walk.f, walk.b, walk.factor
        self.low, self.high = self.curves.places(self.p)
        self._take(walk.members)

    def _hold(self, low: Array, high: Array) -> None:
        """Make an example that bounds the optimal b a member, one that bounds b from below if possible."""
        below = bool(np.isfinite(low.max()))
        i = int(low.argmax() if below else high.argmin())
        self.b = float(low[i] if below else high[i])
        self.join(i, -1.0 if below else 1.0)

    def skip(self) -> None:
        for known in (self.knots.weights, self.knots.points, self.knots.events, self._slopes):
            del known[self._first :]
        self.n_idle, self.lam = 0, max(self.end, self.lam * (1.0 - _SKIP))
        walk = Pivoting(self.gram, self.curves, self.lam, self.intercept, self.p)
        walk.finish()
        self._adopt(walk)
        if self.intercept and not self.members.size:
            low, high = self.ends
            self._hold(self.lam * low + self.f, self.lam * high + self.f)
        self.keep("ties")

    def next_event(self, d: Array, rate: float, image: Array) -> Event:
        u, change = self.b - self.f, rate - image
        ends, sides = np.stack(self.ends), np.array([[-1.0], [1.0]])
        room, pace = sides * (self.lam * ends - u), sides * (change + ends)
        with np.errstate(invalid="ignore"):
            comes = np.isfinite(room) & (pace > ZERO_RATE * (np.abs(change) + np.abs(ends)))
        down, up = np.where(comes, np.maximum(room, 0.0) / np.where(comes, pace, 1.0), np.inf)
        times, sides = np.minimum(up, down), np.where(up <= down, 1.0, -1.0)
        times[self.members], sides[self.members] = self.room(self.members, d), np.sign(d)
        now = np.flatnonzero(times <= NOW * self.lam)
        i = int(now[0]) if now.size else int(times.argmin())
        return float(times[i]), LEAVES if i in self.members else JOINS, i, float(sides[i])

    def _correct(self) -> None:
        """Solve the equations of the members by a Newton step."""
        self._drifts = False
        if self.members.size:
            d, self.b = self.solve(self.residuals, -float(self.p.sum()))
            self.update(self.members, d)

    def keep(self, event: str) -> None:
        x = self.point
        index = np.flatnonzero(x)
        self.knots.add(self.lam / self.end, index, x[index], event)
        self._slopes.append(self.p.copy())


def _far_end(machine: TrackedMachine) -> tuple[Pivoting, float]:
    """Return a walk that ended at the slopes for all large weights, and the limit of the intercept.

    At large weights the function is almost constant. Of all slopes of the losses at the best constant, the
    solution has those that give the function of least norm. They solve a quadratic programme over the kinks
    at this constant.
    """
    curves, far = machine.curves, 0.0
    if machine.intercept:
        z, jumps = curves.base[curves.rises], (curves.p[1:] - curves.p[:-1])[curves.rises]
        order = np.argsort(z, kind="stable")
        slopes = float(curves.p[0].sum()) + np.cumsum(jumps[order])
        k = int(np.searchsorted(slopes, -NOW * float(jumps.sum())))
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
