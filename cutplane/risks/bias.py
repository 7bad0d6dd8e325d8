"""The slope of a risk in its bias."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cutplane.pieces.validation import Array

_ROUNDING = 1e-13


def bias_slopes(u: Array, edges: Array) -> Array:
    """Return the sum over each block of the derivatives u of the weighted losses, one row per block.

    Where the terms cancel, what rounding leaves of their sum is returned as 0. It is common (classes of equal
    weight do so at the origin), and nothing else would tell a reduced problem with an unregularized bias that
    the cut is flat, and not the edge of a model whose minimiser is 1e16 away.

    Parameters
    ----------
    u : ndarray of shape (m,) or (m, p)
    edges : ndarray of shape (n_blocks + 1,)
        Examples edges[k] <= i < edges[k + 1] form block k.
    """
    blocks = [u[start:stop] for start, stop in pairwise(edges.tolist())]
    sums = np.array([block.sum(axis=0) for block in blocks])
    sizes = np.array([np.abs(block).sum(axis=0) for block in blocks])
    sums[np.abs(sums) <= _ROUNDING * sizes] = 0.0
    return sums
