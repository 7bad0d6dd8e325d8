"""Coordinates that neither the regularizer nor the set bounds: cuts that rise on both sides bound them.

A bound is finite only if the slope of the combination of cuts is 0 there; rounding leaves a little of it.
Points with an objective of at most `upper` lie where every combination of cuts is at most that: one that
rises by delta along coordinate j, and has the bound c without it, shows x_j <= (upper - c) / delta there.
What is left of the slope is charged over this interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.proof.bound import Combination
from cutplane.proof.evidence import HALF_SPACE, dense, row_sizes
from cutplane.proof.rounding import ABOVE, FLAT

Combiner = Callable[[Any, Array, Array, Array], Combination | None]

_ROUNDS = 4
"""Corrections of the multipliers, because each leaves a residual of the rounding errors of the last."""
_LITTLE = 0.01
"""Share of the gap that a charge may be before the interval is proven anew, because that takes a while."""
_STEP = 0.5
"""Share of the way to where a multiplier becomes 0, because a rise is worth most far from both ends."""


def balanced(
    found: Combination, rows: tuple[Any, Array, Array], combined: Combiner, free: Array
) -> Combination:
    """Return a combination nearby whose slope on the free coordinates is 0 up to rounding, if one is."""
    for _ in range(_ROUNDS + free.size):
        if (np.abs(found.slope[free]) <= found.error[free]).all():
            break
        columns = _in_units(dense(rows[0][:, free]))
        left = found.multipliers @ columns
        changes = -directions(found.multipliers, columns, rows[2]) @ left
        nearer = combined(*rows, found.multipliers + changes)
        if nearer is None or np.abs(nearer.multipliers @ columns).max() > 0.5 * np.abs(left).max():
            if _is_rounding(np.abs(found.slope[free]), found, rows, free):
                break
            nearer = combined(*rows, _tilted(found.multipliers, columns, rows[2], left))
        if nearer is None or not np.abs(nearer.multipliers @ columns).sum() < np.abs(left).sum():
            break
        found = nearer
    return found


def _in_units(columns: Array) -> Array:
    """Return each column in units of its largest entry."""
    units = np.abs(columns).max(axis=0)
    return columns / np.where(units > 0.0, units, 1.0)


def _is_rounding(left: Array, found: Combination, rows: tuple[Any, Array, Array], free: Array) -> bool:
    """Tell whether slopes are as small as their errors, or as what rounding leaves of the largest in use."""
    flat = FLAT * float(found.multipliers @ row_sizes(rows[0]))
    return bool((left <= np.maximum(flat, 2.0 * found.error[free])).all())


def directions(weights: Array, columns: Array, blocks: Array) -> Array:
    """Return changes of the multipliers in use: column j raises slope j by 1, and nothing else, if it can.

    The sums of the blocks stay, and no multiplier that is 0 changes.
    """
    centred = columns - _means(weights, columns, blocks)
    weighed = weights[:, np.newaxis] * centred
    spread = centred.T @ weighed
    if spread.size > 1:
        return weighed @ np.linalg.pinv(spread, hermitian=True)
    return weighed / spread if spread > 0.0 else np.zeros_like(weighed)


def _means(weights: Array, columns: Array, blocks: Array) -> Array:
    """Return the mean slope of the block of each row; 0 for half-spaces, whose sum is not held."""
    sums = np.array([np.bincount(blocks + 1, weights * column) for column in columns.T]).T
    sums[HALF_SPACE + 1] = 0.0
    return sums[blocks + 1]


def _tilted(weights: Array, columns: Array, blocks: Array, left: Array) -> Array:
    """Return multipliers with more weight on the row that opposes the largest residual most."""
    j = int(np.abs(left).argmax())
    gains = -np.sign(left[j]) * (columns - _means(weights, columns, blocks))[:, j]
    row = int(gains.argmax())
    share = min(1.0, abs(left[j]) / gains[row]) if gains[row] > 0.0 else 0.0
    mine = (blocks == blocks[row]) & (blocks != HALF_SPACE)
    tilted = np.where(mine, (1.0 - share) * weights, weights)
    tilted[row] += share
    return tilted


class Intervals:
    """How far from 0 points with a smaller objective may be in coordinates that nothing else bounds.

    What was proven once holds for every smaller objective.

    Parameters
    ----------
    sides : ndarray of shape (2, dim)
        The lower and upper sides of the set.
    combined : callable
        The combination of rows by multipliers.
    """

    def __init__(self, sides: Array, combined: Combiner):
        self.sides, self.combined = sides, combined
        self._ends = np.full(sides.shape[1], math.inf)
        self._upper = self._height = math.inf

    def charge(
        self,
        found: Combination,
        rows: tuple[Any, Array, Array],
        free: Array,
        upper: float,
        height: float,
        reach: float,
        bound: Callable[[Combination], float],
    ) -> float:
        """Return by how much the slope that is left lowers the bound; inf if nothing bounds the coordinates.

        Parameters
        ----------
        found : Combination
        rows : tuple of (slopes, offsets, blocks)
        free : ndarray of shape (n_free,)
        upper : float
            The objective at a feasible point.
        height : float
            By how much the bound without the slope on the free coordinates is smaller.
        reach : float
            How far from 0 the coordinates are taken to be where no rows in use bound them, of slopes that are
            nothing but rounding.
        bound : callable
            The bound of a combination without its slope on the free coordinates.
        """
        left = np.abs(found.slope[free]) + found.error[free]
        if not left.any():
            return 0.0
        columns = dense(rows[0][:, free])[found.multipliers > 0.0]
        lower, above = np.isinf(self.sides[:, free])
        if (lower & (columns.min(axis=0) >= 0.0)).any() or (above & (columns.max(axis=0) <= 0.0)).any():
            ends = np.full(free.size, math.inf)
        else:
            if upper > self._upper:  # the best point was evaluated again
                self._ends[:] = math.inf
            ends = self._ends[free]
            least = left @ ends <= _LITTLE * height or height > 0.5 * self._height
            if not (least and np.isfinite(ends).all()):
                farthest = self._farthest(found, rows, free, upper, bound)
                self._ends[free] = ends = np.minimum(ends, farthest)
                self._upper, self._height = upper, height
        if np.isinf(ends).any():
            if not _is_rounding(left, found, rows, free):
                return math.inf
            ends = np.minimum(ends, reach)
        return ABOVE * float(left @ ends)

    def _farthest(
        self,
        found: Combination,
        rows: tuple[Any, Array, Array],
        free: Array,
        upper: float,
        bound: Callable[[Combination], float],
    ) -> float:
        """Return how far from 0 the free coordinates may be, by combinations that rise to each open side."""
        used = np.flatnonzero(found.multipliers)
        mine = rows[0][used], rows[1][used], rows[2][used]
        weights, columns = found.multipliers[used], dense(mine[0][:, free])
        ways = directions(weights, _in_units(columns), mine[2])
        sides = self.sides[:, free]
        farthest = known = np.where(np.isfinite(sides), np.abs(sides), 0.0).max(initial=0.0)
        for j, sign in product(range(free.size), (-1.0, 1.0)):
            way = sign * ways[:, j]
            falls = way < 0.0
            if math.isinf(sides[int(sign > 0.0), j]):
                step = _STEP * float((weights[falls] / -way[falls]).min()) if falls.any() else 0.0
                rise = self.combined(*mine, weights + step * way)
                farthest = max(farthest, _end(rise, free, j, sign, known, upper, bound))
        return farthest


def _end(
    rise: Combination | None,
    free: Array,
    j: int,
    sign: float,
    known: float,
    upper: float,
    bound: Callable[[Combination], float],
) -> float:
    """Return how far free coordinates are from 0 at most, by a combination that rises along one of them."""
    if rise is None:
        return math.inf
    others = np.abs(rise.slope[free]) + rise.error[free]
    delta = sign * float(rise.slope[free[j]]) - float(rise.error[free[j]])
    across = float(others.sum() - others[j])
    height = max(upper - bound(rise), 0.0) + across * known
    return height / (delta - across) if delta > across else math.inf
