"""A point of the dual of a kernel machine that moves along the curves of its losses, and a factor for it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cutplane.kernels.curves import Curves
from cutplane.kernels.gram import Gram
from cutplane.linear.cholesky import SINGULAR, Factor
from cutplane.pieces.validation import Array

_ROUNDING = 1e-11
"""A rate this small, relative to the largest one, is zero but for rounding."""


class Walk:
    """Slopes p_i of the losses at the predictions z = (b - K p) / lam, each example's on its curve.

    Members are examples on a segment that rises; z_i = base_i + ridge_i p_i is an equation for each, with
    the matrix H = K + lam diag(ridge). The others stay at their corner, or on their flat segment, and so does
    p_i. With an intercept sum p = 0; a constant is then added to K, which changes nothing, and H is positive
    definite if and only if it was for all v with sum v = 0.

    Attributes
    ----------
    lam : float
    b : float
        lam times the intercept.
    p, f : ndarray of shape (m,)
        The slopes, and K p.
    low, high : ndarray of shape (m,)
        The corners of the segment of an example; the same one twice for an example between two that rise.
    members : ndarray
        In the order of the factor.
    """

    p: Array
    f: Array
    low: Array
    high: Array

    def __init__(self, gram: Gram, curves: Curves, lam: float, intercept: bool):
        self.gram, self.curves, self.lam, self.intercept = gram, curves, lam, intercept
        self.largest = float(gram.diagonal().max())
        self._shift = (self.largest or 1.0) * intercept
        self._each = np.arange(gram.n)
        self.b = 0.0
        self.members, self.factor = np.empty(0, np.intp), Factor()

    def begin(self, p: Array) -> None:
        """Start at slopes; members are all examples on segments that rise."""
        self.p = self.curves.snapped(p)
        self.low, self.high = self.curves.places(self.p)
        self.f = self.gram.compute(self.p)
        low, high = self.limits(self._each)
        self._gather(np.flatnonzero((low < self.p) & (self.p < high)))

    @property
    def ends(self) -> tuple[Array, Array]:
        """The z between which an example that is no member stays."""
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
        """What is added to the diagonal of K for the members."""
        return self.lam * self.curves.ridge[self.low[self.members], self.members]

    @property
    def residuals(self) -> Array:
        """What the equations of the members lack, but for b."""
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

    def move(self, members: Array, d: Array) -> None:
        """Change the slopes of some examples, and K p."""
        before = self.p.copy()
        self.shift(members, d)
        self.f += self.gram.compute(self.p - before)

    def shift(self, members: Array, d: Array) -> None:
        """Change the slopes of some examples, which rounding does not take beyond their corners."""
        low, high = self.limits(members)
        self.p[members] = np.clip(self.p[members] + d, low, high)

    def room(self, members: Array, d: Array) -> Array:
        """Return how far some examples can go along d until they come to a corner."""
        low, high = self.limits(members)
        moves = np.abs(d) > _ROUNDING * np.abs(d).max(initial=0.0)
        ends = np.where(d > 0.0, high, low)
        rate = np.where(moves, d, 1.0)
        return np.where(moves, np.maximum((ends - self.p[members]) / rate, 0.0), np.inf)

    def leave(self, i: int, side: float) -> None:
        """Stop an example at the corner on that side of it; it is no member any more."""
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
        """Put an example on the segment that rises on that side of it, and make it a member."""
        segment = int(self.high[i]) if side > 0.0 else int(self.low[i]) - 1
        self.low[i], self.high[i] = segment, segment + 1
        self._become_member(i, side)

    def refresh(self) -> None:
        """Compute K p and the factor anew."""
        self.f = self.gram.compute(self.p)
        self._gather(self.members)

    def _gather(self, chosen: Array) -> None:
        """Make those examples the members."""
        self._take(chosen)
        if not chosen.size or self._factorises():
            return
        self.factor = Factor()
        self._take(chosen[:0])
        for i in chosen.tolist():
            if self.low[i] < self.high[i]:
                self._become_member(i, 0.0)

    def _factorises(self) -> bool:
        chosen = self.members
        H = self.gram.block(chosen, chosen)
        H += self._shift
        np.einsum("ii->i", H)[...] += self.bends
        return self.factor.become(H) and self.factor.least_pivot > SINGULAR

    def _become_member(self, i: int, side: float) -> None:
        """Add an example to the factor; while H would be singular, move along where it does not bend.

        What moves is what a kernel of low rank leaves undetermined, until an example is at a corner.
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
            self.move(moved, room[k] * d)
            self.leave(int(moved[k]), d[k])
            self.passed(int(moved[k]))
            if k == members.size:
                return

    def passed(self, i: int) -> None:
        """Take note that some slopes changed where H is singular, until an example came to a corner."""

    def _take(self, members: Array) -> None:
        self.members = members
        self.__dict__.pop("_ones", None)

    @cached_property
    def _ones(self) -> Array:
        return self.factor.solve(np.ones(self.members.size))
