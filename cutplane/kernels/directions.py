"""Newton directions on the coordinates off their bounds, and how far they go."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import get_lapack_funcs

from cutplane.pieces.validation import Array

_SHIFT = 1e-12
_EPS = 2.0**-52
_BALANCE = 1e-14
_CORRECTIONS = 4

_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)


def newton_direction(H: Array, rates: Array, intercept: bool) -> Array | None:
    """Return the minimiser d of d'Hd / 2 - rates'd, with sum d = 0 if there is an intercept.

    A small multiple of the identity is added to H if it is not positive definite in floating-point numbers;
    d is then still a direction of descent. None if that does not help either.
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


def within(a: Array, low: Array, high: Array, total: float | None) -> Array | None:
    """Return a point within bounds close to a, with a given sum: that of a plus one number, clipped.

    None if no such point has that sum up to rounding.
    """
    if total is None:
        return np.clip(a, low, high)
    shift = _shift(a, low, high, total)
    for _ in range(_CORRECTIONS):
        end = np.clip(a + shift, low, high)
        excess = float(end.sum()) - total
        if abs(excess) <= _BALANCE * float(np.abs(end).sum()):
            return end
        shift -= excess / max(1, np.count_nonzero((low < end) & (end < high)))
    return None


def _shift(a: Array, low: Array, high: Array, total: float) -> float:
    """Return the number t at which the sum of a + t, clipped, is the total, or where it is closest."""
    kinks, bends = np.concatenate([low - a, high - a]), np.repeat([1.0, -1.0], a.size)
    finite = np.isfinite(kinks)
    order = np.argsort(kinks[finite])
    kinks = kinks[finite][order]
    if not kinks.size:
        return (total - float(a.sum())) / a.size
    slopes = np.count_nonzero(low == -np.inf) + np.cumsum(bends[finite][order])
    sums = float(np.clip(a + kinks[0], low, high).sum()) + np.append(
        0.0, np.cumsum(slopes[:-1] * np.diff(kinks))
    )
    k = int(np.searchsorted(sums, total)) - 1
    slope = slopes[k] if k >= 0 else slopes[0] - bends[finite][order[0]]
    k = max(k, 0)
    return float(kinks[k] + ((total - sums[k]) / slope if slope > 0.0 else 0.0))
