"""The working set of a kernel machine, which grows until no coordinate outside violates its conditions.

Rows of the kernel matrix are computed many at a time, which costs a fraction of what they cost one by one. In
a round the coordinates without a row that violate the optimality conditions most join, half of those that
want to go up and half of those that want to go down; steps on the coordinates with a row follow, until the
violation there is small against what it was.

References
----------
T. Joachims, "Making large-scale SVM learning practical", in Advances in Kernel Methods, 1999,
doi:10.7551/mitpress/1130.003.0015.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.kernels.descent import Descent

_ROUND = 150_000
"""Entries of rows that are computed in the time that a round takes beside them."""
_GROWTH = 0.5
"""Rows that join, relative to those that are there: with larger shares more of them are in vain, with smaller
ones there are more rounds."""
_ALMOST_ALL = 0.7
"""Of the rows; it saves little to leave out the others then."""
_LOOSE = 0.1
"""The violation at which the steps of a round end, relative to the largest one before."""
_SHARE = 0.5
"""Steps of a round at most, relative to the rows: more would go too far for a set that is not final."""


def grow(descent: Descent, accuracy: float) -> None:
    """Compute the rows that are needed, with loose steps in between, unless the gap is small before.

    All rows that are left are computed at once if there is room, and if they cost no more than the rounds
    until all are there would cost beside them; so it is with few examples.
    """
    rows, m = descent.rows, descent.a.size
    if rows.complete:
        return
    room = rows.slots.shape[0]
    least = max(2, _ROUND // m)
    while descent.gap > accuracy and descent.n_steps < descent.most_steps:
        missing = np.flatnonzero(rows.where < 0)
        count = m - missing.size
        if not missing.size:
            break
        rounds = math.log(m / min(max(count, least), m), 1.0 + _GROWTH)
        if room == m and missing.size * m <= rounds * _ROUND:
            rows.fetch_all(missing)
            break
        descent.set_slopes()
        chosen, violation = _violators(descent, missing, max(least, int(_GROWTH * count)))
        if not chosen.size or count + chosen.size > room:
            break
        if room == m and count + chosen.size > _ALMOST_ALL * m:
            rows.fetch_all(missing)
            break
        rows.fetch_all(chosen)
        held = rows.where < 0
        descent.rise[held], descent.fall[held] = math.inf, -math.inf
        descent.steps(max(least, int(_SHARE * count)), _LOOSE * violation)
        descent.measure()
    descent.set_slopes()


def _violators(descent: Descent, missing: Array, count: int) -> tuple[Array, float]:
    """Return those of the missing coordinates that violate the conditions most, and the violation of all."""
    up, down = descent.g - descent.rise, descent.fall - descent.g
    most, least = float(up.max()), float(down.max())
    if not descent.intercept:
        return _largest(np.maximum(up, down), missing, count, 0.0), max(most, least)
    half = (count + 1) // 2
    some, others = _largest(up, missing, half, -least), _largest(down, missing, half, -most)
    return np.union1d(some, others), most + least


def _largest(gains: Array, missing: Array, count: int, bar: float) -> Array:
    """Return the places of the largest gains among the missing ones, without those that are below a bar."""
    gains = gains[missing]
    if count < gains.size:
        chosen = np.argpartition(gains, -count)[-count:]
        return missing[chosen[gains[chosen] > bar]]
    return missing[gains > bar]
