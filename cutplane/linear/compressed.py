"""Quadratic losses of many examples, as a quadratic function of the coordinates."""

from __future__ import annotations

import math

import numpy as np

from cutplane.linear.columns import Columns
from cutplane.linear.sweeps import descend
from cutplane.linear.terms import Terms
from cutplane.linear.working_set import MOST_UNKNOWNS, PER_CUBE, PER_PRODUCT, RIDGE, Position, gain
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

_SHARP, _SHARPER = 1e-2, 10
"""The fall at which sweeps end, as a share of the gap to reach; and how often it is made smaller."""


class Compressed:
    """The factor L of the Gram matrix of all columns: in its place for the data, sweeps visit no example.

    Parameters
    ----------
    columns : Columns
        All of them.
    d : ndarray of shape (m,)
        The second derivatives of the losses, the same everywhere.
    """

    def __init__(self, columns: Columns, d: Array):
        everywhere = np.arange(columns.which.size)
        gram = columns.gram(everywhere, d)
        self.columns = columns
        self._bends = np.diag(gram).copy()
        np.einsum("jj->j", gram)[:] += RIDGE * self._bends.max(initial=0.0) + np.finfo(float).tiny
        self._factor = np.ascontiguousarray(np.linalg.cholesky(gram))
        self._everywhere = everywhere

    def solve(self, position: Position, terms: Terms, g: Array, bend: float, tolerance: float) -> bool:
        """Minimise over all coordinates from a position, where the slopes are g; tell whether any moved.

        `bend` is the second derivative of the conjugate of the risk along its multipliers.
        """
        from scipy.linalg import solve_triangular

        x, ones, free = position.x.copy(), np.ones_like(position.x), np.flatnonzero(terms.free)
        r = solve_triangular(self._factor, g, lower=True, check_finite=False)
        goal = _SHARP * tolerance
        for _ in range(_SHARPER):
            check_time()
            rest = terms.arrays, self._bends, ones, r, goal, 0.0, math.inf
            visited, _ = descend((self._factor,), self._everywhere, x, *rest)
            position.visited += visited
            slopes = self._factor @ r
            factor, gap = terms.outlook(x, slopes, free)
            gap += 0.5 * (1.0 - factor) ** 2 * bend + gain(slopes[free], self._bends[free])
            if gap <= tolerance:
                break
            goal *= _SHARP
        step = x - position.x
        z = position.z.copy()
        self.columns.add(step, z)
        position.visited += self.columns.entries
        position.x, position.z = x, z
        return bool(step.any())


def cost_of_compression(m: int, n: int) -> float:
    """Return what it costs, in entries of the data visited by a sweep; inf for too many coordinates."""
    return PER_PRODUCT * m * n**2 + PER_CUBE * n**3 if n <= MOST_UNKNOWNS else math.inf
