"""Multipliers whose aggregate slope is zero where neither the regularizer nor the set keeps x bounded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.proof.evidence import HALF_SPACE, dense, row_sizes
from cutplane.proof.rounding import CANCELLED, FLAT

_NEGLIGIBLE = 1e-9
"""Multipliers below this share of the largest one cannot be told from what a solver leaves."""
_ROUNDS = 3
"""Least-squares corrections; each leaves a residual of the rounding errors of the last."""


class Balanced(NamedTuple):
    """Multipliers, and by how much at most those that balance exactly differ from them."""

    weights: Array
    distance: Array | None
    """Shape (K,); None if no multipliers nearby balance."""
    left: float = 0.0
    """The sum of the residuals that cannot be balanced, no more than the last bits of the slopes in use."""


def balance(weights: Array, rows: Any, blocks: Array, free: Array) -> Balanced:
    """Return the nearest multipliers (in l1) whose aggregate slope vanishes on the free coordinates.

    A solver leaves a small residual there, which would make the bound -inf. Rounding leaves one too: the
    `distance` to multipliers without any, which exist, says what it is worth.

    Parameters
    ----------
    weights : ndarray of shape (K,)
        Nonnegative, each block summing to 1.
    rows : ndarray or csr_array of shape (K, dim)
        The slopes.
    blocks : ndarray of shape (K,)
    free : ndarray of shape (n_free,)
        The free coordinates.
    """
    slopes = dense(rows[:, free])
    if not (weights @ slopes).any():
        return Balanced(weights, np.zeros_like(weights))
    if slopes.shape[1] == 1 and not (blocks != 0).any():
        balanced = _tilted(weights, slopes[:, 0])
    else:
        balanced = _nearest(weights, slopes, blocks, FLAT * row_sizes(rows))
    return _flat(weights, slopes, rows, blocks) if balanced.distance is None else balanced


def _flat(weights: Array, slopes: Array, rows: Any, blocks: Array) -> Balanced:
    """Keep the multipliers of rows that are flat, but for rounding, if every block has one."""
    flat = np.abs(slopes).max(axis=1) <= FLAT * row_sizes(rows)
    kept = np.where(flat, weights, 0.0)
    cuts = blocks != HALF_SPACE
    sums = np.bincount(blocks[cuts], weights=kept[cuts], minlength=int(blocks.max()) + 1)
    if not (sums > 0.0).all():
        return Balanced(weights, None)
    kept[cuts] /= sums[blocks[cuts]]
    return Balanced(kept, np.zeros_like(kept), float(np.abs(kept @ slopes).sum()))


def _tilted(weights: Array, slopes: Array) -> Balanced:
    """Move weight towards the row whose slope opposes the residual most."""
    residual = float(weights @ slopes)
    for _ in range(_ROUNDS):
        share, row = _opposing_share(residual, slopes)
        if share == np.inf:
            return Balanced(weights, None)
        weights = (1.0 - share) * weights
        weights[row] += share
        residual = float(weights @ slopes)
        if abs(residual) <= CANCELLED * float(weights @ np.abs(slopes)):
            break
    share, row = _opposing_share(residual, slopes)
    if share == np.inf:
        return Balanced(weights, None)
    distance = share * weights
    distance[row] += share
    return Balanced(weights, distance)


def _opposing_share(residual: float, slopes: Array) -> tuple[float, int]:
    if residual == 0.0:
        return 0.0, 0
    opposing = -np.sign(residual) * slopes
    row = int(np.argmax(opposing))
    if opposing[row] <= 0.0:
        return np.inf, row
    return abs(residual) / (abs(residual) + float(opposing[row])), row


def _nearest(weights: Array, slopes: Array, blocks: Array, bits: Array) -> Balanced:
    """Correct the positive multipliers by least squares, after a linear programme if that is not enough."""
    cuts = np.flatnonzero(blocks != HALF_SPACE)
    n_blocks = int(blocks.max()) + 1
    units = np.ones(n_blocks + slopes.shape[1])
    units[n_blocks:] = np.abs(slopes).max(axis=0)
    units[units == 0.0] = 1.0
    constraints = np.zeros((units.size, len(weights)))
    constraints[blocks[cuts], cuts] = 1.0
    constraints[n_blocks:] = slopes.T / units[n_blocks:, np.newaxis]
    right = np.where(np.arange(units.size) < n_blocks, 1.0, 0.0)
    last = np.outer(1.0 - right, bits) / units[:, np.newaxis]
    for start in (weights, np.where(weights > _NEGLIGIBLE * weights.max(), weights, 0.0)):
        corrected = _corrected(start, constraints, right, last, units)
        if corrected is not None:
            return corrected
    moved = _nearest_by_linear_programme(weights, constraints, right)
    corrected = None if moved is None else _corrected(moved, constraints, right, last, units)
    return Balanced(weights, None) if corrected is None else corrected


def _corrected(
    weights: Array, constraints: Array, right: Array, bits: Array, units: Array
) -> Balanced | None:
    """Meet the constraints by the least change of the positive multipliers; None if that fails.

    Each constraint is stated in a unit; `bits`, of the shape of `constraints`, are the last bits of its
    coefficients. The sums of the blocks have none.
    """
    support = np.flatnonzero(weights)
    active = constraints[:, support]
    corrected = weights[support]
    for _ in range(_ROUNDS):
        corrected = corrected + np.linalg.lstsq(active, right - active @ corrected)[0]
    change = np.linalg.lstsq(active, right - active @ corrected)[0]
    size = np.abs(active) @ np.abs(corrected)
    left = np.abs(right - active @ (corrected + change))
    allowed = np.maximum(CANCELLED * size, bits[:, support] @ np.abs(corrected))
    if (np.abs(change) > corrected).any() or (left > allowed).any():
        return None
    result, distance = np.zeros_like(weights), np.zeros_like(weights)
    result[support], distance[support] = corrected, np.abs(change)
    return Balanced(result, distance, float((left * units)[right == 0.0].sum()))


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
