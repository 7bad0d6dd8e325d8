"""The active set method on the dual of a kernel machine."""

from __future__ import annotations

import math

import numpy as np

from cutplane.kernels.curves import Curves
from cutplane.kernels.gram import Gram
from cutplane.kernels.walk import Walk
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

_ROUNDING = 2.0**-46
"""What rounding may make of the sums in a prediction, relative to their terms."""
_TIE = 1e-12
"""Examples whose steps to a corner differ by less, as a share, come to it together."""

_MOST = 1000


class Pivoting(Walk):
    """A walk to the minimum of p'Kp/2 + lam sum_i (c_i l)*(p_i), over sum p = 0 with an intercept.

    Members are strictly between their corners, so that every step gets somewhere.

    Attributes
    ----------
    n_changes : int
        Times that examples were taken in.
    """

    def __init__(self, gram: Gram, curves: Curves, lam: float, intercept: bool, p: Array):
        super().__init__(gram, curves, lam, intercept)
        self.begin(p)
        self.n_changes = 0
        self._idle = np.zeros(p.size, bool)
        self._settle()

    def advance(self, most: int) -> bool:
        """Take in so many examples; tell whether none is left that violates the optimality conditions."""
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
        """Go to the minimum, or raise `ArithmeticError` if rounding errors go in circles."""
        if not self.advance(_MOST + 100 * self.p.size):
            raise ArithmeticError("rounding errors go in circles")

    def refresh(self) -> None:
        """Compute K p and the factor anew, and settle."""
        super().refresh()
        self._settle()

    def _settle(self) -> None:
        """Move the members to where their equations hold; on the way some come to a corner, and leave."""
        start, f = self.p.copy(), self.f
        self.f = f.copy()
        while self.members.size:
            check_time()
            members, right, bends = self.members, self.residuals, self.bends
            d, self.b = self.solve(right, -float(self.p.sum()))
            room = self.room(members, d)
            t = min(1.0, float(room.min()))
            self.shift(members, t * d)
            self.f[members] += t * (right + self.b - bends * d)  # a part of K d: the rest follows below
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
        """Return the example that violates the conditions most, and its side; a pair where b is not known."""
        low, high = (self.lam * ends + self.f for ends in self.ends)
        low[self.members], high[self.members] = -math.inf, math.inf
        low[self._idle], high[self._idle] = -math.inf, math.inf
        if self.intercept and not self.members.size:
            i, j = int(high.argmin()), int(low.argmax())
            self.b = between(low[j], high[i])
            return [(i, 1.0), (j, -1.0)] if low[j] - high[i] > self._rounding else []
        excess = np.maximum(self.b - high, low - self.b)
        i = int(excess.argmax())
        if excess[i] <= self._rounding:
            return []
        return [(i, 1.0 if self.b - high[i] == excess[i] else -1.0)]

    @property
    def _rounding(self) -> float:
        z = self.curves.z
        farthest = float(np.abs(z[np.isfinite(z)]).max(initial=0.0))
        size = self.largest * float(np.abs(self.p).sum()) + self.lam * farthest + abs(self.b)
        return _ROUNDING * size


def between(low: float, high: float) -> float:
    """Return the middle of an interval, or the end that it has; 0 if it has none."""
    ends = [end for end in (float(low), float(high)) if math.isfinite(end)]
    return sum(ends) / max(len(ends), 1)
