"""Exact minimisers over the simplex and the capped simplex, stable for entries of any size.

Each is invariant under a shift of its argument. A shift that brings the coordinates that decide the answer
near zero comes first, so that no digit is lost when the entries are huge.
"""

from __future__ import annotations

import math

import numpy as np

from cutplane.pieces.validation import Array

_FAR = 100.0
_LEAST = 700.0
_LOWEST = -1e307
_TINY = 1e-300
_ROUNDING = 1e-15


def project_simplex(z: Array, radius: float) -> Array:
    """Return the Euclidean projection of z onto {x >= 0, sum x = radius}.

    References
    ----------
    Held, Wolfe and Crowder, Validation of subgradient optimization, Math. Programming 6 (1974),
    doi:10.1007/BF01580223.
    """
    shifted = z - z.max()
    descending = np.sort(shifted[shifted >= -radius])[::-1]
    excess = np.cumsum(descending) - radius
    count = np.arange(1, descending.size + 1)
    last = int(np.flatnonzero(descending * count > excess)[-1])
    return _corrected(shifted, excess[last] / count[last], np.inf, radius)


def project_capped(z: Array, caps: Array) -> Array:
    """Return the Euclidean projection of z onto {0 <= x <= caps, sum x = 1}.

    The sum of clip(z - theta, 0, caps) is piecewise linear, decreasing in theta, with breaks at z, z - caps.
    """
    if abs(z.sum() - 1.0) <= _ROUNDING and (z >= 0.0).all() and (z <= caps).all():
        return z.copy()
    caps = np.minimum(caps, 1.0)
    pivot = z[_order(-z, caps)[1]]
    shifted = np.clip(z - pivot, -2.0, 3.0)
    breaks = np.concatenate([shifted, shifted - caps])
    order = np.argsort(-breaks)
    free = np.cumsum(np.where(order < z.size, 1.0, -1.0))
    descending = breaks[order]
    sums = np.concatenate([[0.0], np.cumsum(free[:-1] * -np.diff(descending))])
    right = int(np.searchsorted(sums, 1.0))
    if right == sums.size:
        return caps.copy()
    theta = descending[right] + (sums[right] - 1.0) / free[right - 1]
    return _corrected(shifted, theta, caps, 1.0)


def fill(v: Array, caps: Array) -> Array:
    """Return a minimiser of <v, x> over {0 <= x <= caps, sum x = 1}: the cheapest coordinates, filled."""
    order, _, filled = _order(v, caps)
    x = np.empty(v.shape[0])
    x[order] = np.clip(1.0 - (filled - caps[order]), 0.0, caps[order])
    return x


def softmax(logits: Array) -> Array:
    """Return exp(logits) / sum exp(logits)."""
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def entropic_capped(logits: Array, caps: Array | float) -> Array:
    """Return the minimiser of sum_j x_j (ln x_j - logits_j) over {0 <= x <= caps, sum x = 1}.

    It is min(caps, exp(logits - theta)). Sorted by logits - ln(caps), the coordinates at their caps come
    first; the first k for which the rest, rescaled to what the caps leave, respects the next cap is right. If
    the caps are all the same, only as many as fill the sum are sorted.
    """
    logits = np.maximum(logits, _LOWEST)
    if not isinstance(caps, np.ndarray):
        return _entropic_uniform(logits, caps)
    pivot = logits[_order(-logits, caps)[1]]
    shifted = np.minimum(logits - pivot, _FAR)
    weights = np.exp(np.maximum(shifted, -_LEAST))
    with np.errstate(divide="ignore"):
        order = np.argsort(np.log(caps) - shifted)
    sorted_caps = caps[order]
    left = 1.0 - np.concatenate([[0.0], np.cumsum(sorted_caps)[:-1]])
    tails = np.cumsum(weights[order][::-1])[::-1]
    fits = left * weights[order] <= sorted_caps * tails
    if not fits.any():
        return caps.copy()
    capped, rest = np.split(order, [int(np.argmax(fits))])
    x = np.empty_like(weights)
    x[capped] = caps[capped]
    x[rest] = max(1.0 - caps[capped].sum(), 0.0) * softmax(shifted[rest])
    return x


def _entropic_uniform(logits: Array, cap: float) -> Array:
    """Return `entropic_capped` for one cap: at most the ceil(1 / cap) largest coordinates are at it."""
    most = math.ceil(1.0 / cap) if cap * logits.size > 1.0 else logits.size
    parted = np.partition(logits, logits.size - most)
    pivot = parted[-most]
    largest = np.sort(parted[-most:])[::-1]
    shifted = logits - pivot
    weights = np.exp(np.clip(shifted, -_LEAST, _FAR))
    below = shifted < 0.0
    others = weights @ below + (logits.size - most - np.count_nonzero(below))
    heads = np.exp(np.minimum(largest - pivot, _FAR))
    tails = others + np.cumsum(heads[::-1])[::-1]
    fits = (1.0 - cap * np.arange(most)) * heads <= cap * tails
    count = int(np.argmax(fits)) if fits.any() else most
    if count == 0:
        return weights / weights.sum()
    capped = logits >= largest[count - 1]
    left = max(1.0 - cap * np.count_nonzero(capped), 0.0)
    if count == most:
        weights[~capped] = softmax(logits[~capped]) if not capped.all() else 1.0
    weights[capped] = 0.0
    weights *= left / max(weights.sum(), _TINY)
    weights[capped] = cap
    return np.minimum(weights, cap, out=weights)


def _order(v: Array, caps: Array) -> tuple[Array, int, Array]:
    """Return the order of increasing v, where the caps, filled in that order, reach 1, and their sums."""
    order = np.argsort(v, kind="stable")
    filled = np.cumsum(caps[order])
    last = min(int(np.searchsorted(filled, 1.0)), v.shape[0] - 1)
    return order, int(order[last]), filled


def _corrected(z: Array, theta: float, caps: Array | float, total: float) -> Array:
    """Return clip(z - theta, 0, caps) after a Newton step on theta, against the rounding of long sums."""
    x = np.clip(z - theta, 0.0, caps)
    free = (x > 0.0) & (x < caps)
    if free.any():
        x = np.clip(z - (theta + (x.sum() - total) / np.count_nonzero(free)), 0.0, caps)
    return x
