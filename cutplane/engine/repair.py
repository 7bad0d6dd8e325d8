"""Multipliers whose aggregate slope is zero where neither the regularizer nor the set keeps x bounded."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from cutplane.masters.base import HALF_SPACE
from cutplane.validation import Array


def balance(weights: Array, slopes: Array, blocks: Array) -> Array:
    """Return the nearest multipliers (in l1) whose aggregate slope vanishes on the free coordinates.

    A solver leaves a small residual there, which would make the bound -inf. If no such multipliers exist the
    given ones are returned.

    Parameters
    ----------
    weights : ndarray of shape (K,)
        Nonnegative, each block summing to 1.
    slopes : ndarray of shape (K, n_free)
        The slopes restricted to the free coordinates.
    blocks : ndarray of shape (K,)
    """
    residual = weights @ slopes
    if np.all(np.abs(residual) <= 1e-15 * (weights @ np.abs(slopes))):
        return weights
    if slopes.shape[1] == 1 and not (blocks != 0).any():
        return _tilt(weights, slopes[:, 0], float(residual[0]))
    return _nearest(weights, slopes, blocks)


def _tilt(weights: Array, slopes: Array, residual: float) -> Array:
    """Move weight towards the row whose slope opposes the residual most."""
    opposing = -np.sign(residual) * slopes
    row = int(np.argmax(opposing))
    if opposing[row] <= 0.0:
        return weights
    share = abs(residual) / (abs(residual) + opposing[row])
    tilted = (1.0 - share) * weights
    tilted[row] += share
    return tilted


def _nearest(weights: Array, slopes: Array, blocks: Array) -> Array:
    from scipy.optimize import linprog

    count = len(weights)
    cuts = np.flatnonzero(blocks != HALF_SPACE)
    n_blocks = int(blocks.max()) + 1
    sums = sparse.csr_array((np.ones(cuts.size), (blocks[cuts], cuts)), shape=(n_blocks, count))
    constraints = sparse.vstack([sums, sparse.csr_array(slopes.T)])
    right = np.concatenate([sums @ weights, np.zeros(slopes.shape[1])])
    drift = constraints @ weights
    answer = linprog(
        np.ones(2 * count),
        A_eq=sparse.hstack([constraints, -constraints]),
        b_eq=right - drift,
        bounds=np.column_stack([np.zeros(2 * count), np.concatenate([np.full(count, np.inf), weights])]),
        method="highs",
    )
    if answer.x is None:
        return weights
    return np.maximum(weights + answer.x[:count] - answer.x[count:], 0.0)
