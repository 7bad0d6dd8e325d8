"""Multipliers whose aggregate slope is zero where neither the regularizer nor the set keeps x bounded."""

from __future__ import annotations

import numpy as np

from cutplane.masters.base import HALF_SPACE
from cutplane.validation import Array

_ROUNDING = 1e-13
_NEGLIGIBLE = 1e-9


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
    """Correct the positive multipliers by least squares, after a linear programme if that is not enough."""
    cuts = np.flatnonzero(blocks != HALF_SPACE)
    n_blocks = int(blocks.max()) + 1
    constraints = np.zeros((n_blocks + slopes.shape[1], len(weights)))
    constraints[blocks[cuts], cuts] = 1.0
    constraints[n_blocks:] = slopes.T
    right = np.concatenate([np.ones(n_blocks), np.zeros(slopes.shape[1])])
    corrected = _corrected(weights, constraints, right)
    if corrected is None:
        moved = _nearest_by_linear_programme(weights, constraints, right)
        corrected = None if moved is None else _corrected(moved, constraints, right)
    return weights if corrected is None else corrected


def _corrected(weights: Array, constraints: Array, right: Array) -> Array | None:
    """Meet the constraints by the least change of the positive multipliers; None if that fails."""
    support = np.flatnonzero(weights)
    active = constraints[:, support]
    corrected = weights[support]
    for _ in range(2):
        corrected = corrected + np.linalg.lstsq(active, right - active @ corrected)[0]
    size = np.abs(active) @ np.abs(corrected) + np.abs(right)
    if (corrected < 0.0).any() or (np.abs(right - active @ corrected) > _ROUNDING * size).any():
        return None
    result = np.zeros_like(weights)
    result[support] = corrected
    return result


def _nearest_by_linear_programme(weights: Array, constraints: Array, right: Array) -> Array | None:
    from scipy.optimize import linprog

    count = len(weights)
    answer = linprog(
        np.ones(2 * count),
        A_eq=np.hstack([constraints, -constraints]),
        b_eq=right - constraints @ weights,
        bounds=np.column_stack([np.zeros(2 * count), np.concatenate([np.full(count, np.inf), weights])]),
        method="highs",
    )
    if answer.x is None:
        return None
    moved = np.maximum(weights + answer.x[:count] - answer.x[count:], 0.0)
    moved[moved <= _NEGLIGIBLE * moved.max()] = 0.0
    return moved
