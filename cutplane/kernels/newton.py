"""A Newton step on the coordinates that are strictly between their bounds: the dual there is a quadratic.

For the squared loss, which has no bounds, one such step is kernel ridge regression in closed form.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import get_lapack_funcs

from cutplane.pieces.validation import Array

_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)
_SHIFT = 1e-12


def newton_direction(H: Array, rates: Array, intercept: bool) -> Array | None:
    """Return the minimiser d of d'Hd / 2 - rates'd, with sum d = 0 if there is an intercept.

    A small multiple of the identity is added to H if it is not positive definite in floating-point numbers;
    d is then still a direction of descent. None if that does not help either.

    Parameters
    ----------
    H : ndarray of shape (n, n)
        C-contiguous; changed.
    """
    diagonal = H.diagonal().copy()
    scale = float(diagonal.max(initial=0.0))
    for shift in (0.0, _SHIFT, 1e3 * _SHIFT):
        if shift:
            np.fill_diagonal(H, diagonal + shift * scale)
        factor, failed = _potrf(H.T, lower=1, overwrite_a=0)
        if not failed and factor.diagonal().min() ** 2 > 1e-15 * scale:
            break
    else:
        return None
    if not intercept:
        return _potrs(factor, rates, lower=1)[0]
    solved = _potrs(factor, np.stack([rates, np.ones_like(rates)], axis=1), lower=1)[0]
    total = float(solved[:, 1].sum())
    if not (total > 0.0 and math.isfinite(total)):
        return None
    d = solved[:, 0] - (solved[:, 0].sum() / total) * solved[:, 1]
    return d - d.sum() / d.size


def longest_step(a: Array, d: Array, low: Array, high: Array) -> float:
    """Return the largest t with low <= a + t d <= high; inf if there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(d > 0.0, (high - a) / d, np.where(d < 0.0, (low - a) / d, math.inf))
    return float(t.min(initial=math.inf))
