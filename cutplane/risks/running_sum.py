"""X'u for a u that changes little from one call to the next."""

from __future__ import annotations

import numpy as np

from cutplane.losses.weighted import FEW
from cutplane.pieces.validation import Array
from cutplane.risks.data import Data
from cutplane.runtime.compiling import routine

_SHARE = 0.6
_STEPS = 32
_BLOCK = 1024


class RunningSum:
    """u -> X'u, as the last answer plus the rows whose u_i has changed, if these are few.

    After some such steps the sum is taken afresh, so that rounding errors do not add up. Each run of a search
    has a memory of its own, and gives the same bits as the run before. Calls from several threads are safe:
    what is remembered is replaced and never changed.
    """

    def __init__(self, data: Data) -> None:
        self.data = data
        self.last: tuple[Array, Array, int] | None = None

    def __call__(self, u: Array) -> Array:
        """Return X'u, shape (n,), and remember it and u."""
        if u.size <= FEW:
            return self.data.transposed_times(u)
        total, steps = self._updated(u)
        self.last = (u, total, steps) if np.isfinite(total).all() else None
        return total.copy()

    def _updated(self, u: Array) -> tuple[Array, int]:
        last = self.last
        if last is not None and last[2] < _STEPS:
            before, total, steps = last
            room = int(_SHARE * u.size) + _BLOCK
            rows, differences = np.empty(room, np.int64), np.empty(room)
            count, needed = changes(u, before, rows, differences)
            if count == 0:
                return total, steps
            if count <= _SHARE * needed:
                total = total.copy()
                self.data.add_rows(rows[:count], differences[:count], total)
                return total, steps + 1
        return self.data.transposed_times(u), 0


@routine
def changes(u, before, rows, differences):
    """Set the rows where u is not what it was, and the differences.

    Return their number and that of the rows where u is not zero, or (1, 0) if there is no room for them.
    """
    count = needed = 0
    for start in range(0, u.shape[0], _BLOCK):
        if count + _BLOCK > rows.shape[0]:
            return 1, 0
        stop = min(start + _BLOCK, u.shape[0])
        now, then = u[start:stop], before[start:stop]
        for i in range(now.shape[0]):
            difference = now[i] - then[i]
            rows[count] = start + i
            differences[count] = difference
            count += int(difference != 0.0)
            needed += int(now[i] != 0.0)
    return count, needed
