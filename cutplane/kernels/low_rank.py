"""Factors of kernel matrices of low rank, from their diagonal and a few of their columns."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cutplane.pieces.validation import Array

_FIRST_LOOK = 16
"""Columns before the rank is guessed."""


def low_rank_factor(
    column: Callable[[int], Array], diagonal: Array, cap: int, tol: float, patient: bool = False
) -> Array | None:
    """Return F with K - F F' positive semidefinite and K_ii - |F_i|^2 <= tol * K_ii for each i, or None.

    Pivoted Cholesky: the next column is that of the example with the largest residual K_ii - |F_i|^2, as part
    of K_ii, so that examples with small values are as accurate as others.

    Parameters
    ----------
    column : callable
        Of i, returns K[:, i].
    diagonal : ndarray of shape (m,)
    cap : int
        The largest number of columns of F.
    tol : float
    patient : bool, default False
        Whether to go on until `cap` although the residuals promise no rank near it.

    Returns
    -------
    ndarray of shape (m, r) or None
        Columns are contiguous; None if r would exceed `cap`.
    """
    residual = diagonal.astype(np.float64)
    inverses = np.divide(1.0, residual, out=np.zeros_like(residual), where=residual > 0.0)
    total = max(1, np.count_nonzero(inverses))
    rows = np.empty((min(_FIRST_LOOK, cap), residual.size))
    shares: list[float] = []  # what is left of K_ii on average, before each column
    for r in range(cap + 1):
        relative = residual * inverses
        pivot = int(relative.argmax())
        shares.append(float(relative.sum() / total))
        if relative[pivot] <= tol:
            return rows[:r].copy().T
        if r == cap or (r >= _FIRST_LOOK and not patient and _promised_rank(shares, tol) > 2 * cap):
            return None
        if r == rows.shape[0]:
            rows = np.concatenate([rows, np.empty((min(r, cap - r), residual.size))])
        row = rows[r]
        row[:] = column(pivot)
        if r:
            row -= rows[:r, pivot] @ rows[:r]
        row /= math.sqrt(residual[pivot])
        residual -= row * row
        np.maximum(residual, 0.0, out=residual)
        residual[pivot] = 0.0
    return None


def _promised_rank(shares: list[float], tol: float) -> float:
    """Guess the rank from the last quarter of the columns.

    The residuals of smooth kernels fall linearly at first, later geometrically or faster.
    """
    r, left = len(shares) - 1, shares[-1]
    before = 3 * r // 4
    if left > 0.01:
        fall, way = (shares[before] - left) / (r - before), left
    else:
        fall, way = math.log(shares[before] / left) / (r - before), math.log(max(left / tol, 1.0))
    return r + way / fall if fall > 0.0 else math.inf
