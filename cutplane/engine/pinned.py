"""Whether cuts keep a model from falling along the coordinates that nothing else bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.engine.slopes import dense
from cutplane.masters.base import HALF_SPACE
from cutplane.masters.rows import row_sizes
from cutplane.pieces.validation import Array

_ROUNDING = 1e-9


def pins(slopes: Any, blocks: Array, free: Array) -> bool:
    """Tell whether some combination of the rows, as a lower bound may use them, is flat where x is free.

    Cuts with slope zero everywhere, such as a known infimum, do not count: a model that only they hold has
    its minimiser where another cut has fallen to that infimum, which may be anywhere.

    Parameters
    ----------
    slopes : ndarray or csr_array of shape (K, dim)
    blocks : ndarray of shape (K,)
    free : ndarray of shape (n_free,)
        The coordinates with neither a regularizer nor bounds.
    """
    steep = np.flatnonzero(row_sizes(slopes))
    columns, of = dense(slopes[steep][:, free]), blocks[steep]
    if not columns.size:
        return False
    if columns.shape[1] == 1 and not of.any():
        return bool(columns.min() <= 0.0 <= columns.max())
    from scipy.optimize import nnls

    scale = np.abs(columns).max(axis=0)
    cuts = (of == np.arange(blocks.max() + 1)[:, np.newaxis]) & (of != HALF_SPACE)
    cuts = cuts[cuts.any(axis=1)]
    matrix = np.vstack([(columns / np.where(scale > 0.0, scale, 1.0)).T, cuts.astype(np.float64)])
    right = np.concatenate([np.zeros(free.size), np.ones(len(cuts))])
    return nnls(matrix, right)[1] <= _ROUNDING
