"""Quadratic losses of many examples, as a quadratic function of the coordinates."""

from __future__ import annotations

import math

import numpy as np

from cutplane.linear.columns import Columns
from cutplane.linear.sweeps import descend
from cutplane.linear.terms import Terms
from cutplane.linear.working_set import MOST_UNKNOWNS, PER_CUBE, PER_PRODUCT, RIDGE, gain
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
        The second derivatives of the losses, everywhere or at one point.
    """

    def __init__(self, columns: Columns, d: Array):
        everywhere = np.arange(columns.which.size)
        self.gram = columns.gram(everywhere, d)
        self.columns = columns
        self._bends = np.diag(self.gram).copy()
        raised = self.gram.copy()
        np.einsum("jj->j", raised)[:] += RIDGE * self._bends.max(initial=0.0) + np.finfo(float).tiny
        self._factor = np.ascontiguousarray(np.linalg.cholesky(raised))
        self._everywhere = everywhere

    def minimiser(
        self, x: Array, terms: Terms, g: Array, bend: float, tolerance: float
    ) -> tuple[Array, float]:
        """Return the minimiser of terms and the quadratic model with slopes g at x, and the entries visited.

        `bend` is the second derivative of the conjugate of the risk along its multipliers.
        """
        from scipy.linalg.lapack import dposv, dtrtrs  # pyright: ignore[reportAttributeAccessIssue]

        if terms.smooth:
            hessian = self.gram + np.diag(terms.weights)
            _, step, failed = dposv(hessian, -g - terms.slope(x), lower=1)
            return (x if failed else x + step), PER_CUBE * float(x.size) ** 3
        x, ones, free = x.copy(), np.ones_like(x), np.flatnonzero(terms.free)
        r, _ = dtrtrs(self._factor.T, g, lower=0, trans=1)
        goal, visited = _SHARP * tolerance, 0.0
        for _ in range(_SHARPER):
            check_time()
            rest = terms.arrays, self._bends, ones, r, goal, 0.0, math.inf
            more, _ = descend((self._factor,), self._everywhere, x, *rest)
            visited += more
            slopes = self._factor @ r
            factor, gap = terms.outlook(x, slopes)
            gap += 0.5 * (1.0 - factor) ** 2 * bend + gain(slopes[free], self._bends[free])
            if gap <= tolerance:
                break
            goal *= _SHARP
        return x, visited


def cost_of_compression(m: int, n: int) -> float:
    """Return what it costs, in entries of the data visited by a sweep; inf for too many coordinates."""
    return PER_PRODUCT * m * n**2 + PER_CUBE * n**3 if n <= MOST_UNKNOWNS else math.inf
