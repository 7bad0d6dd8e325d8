"""Lower bounds that cuts prove in exact arithmetic, for separable regularizers in boxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.pieces.forms import SeparableForm
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import UNIT, combination, gamma, sum_down

_OPERATIONS = 12
"""Operations in a row, at most, between the numbers of a piece and the least value of one coordinate."""


@dataclass(frozen=True)
class SeparableInBox:
    """g(x) = sum_j weights_j (x_j - centre_j)^2 / 2 + costs_j |x_j| for lower <= x <= upper, else inf.

    Parameters
    ----------
    form : SeparableForm
    lower, upper : ndarray of shape (dim,)
    """

    form: SeparableForm
    lower: Array
    upper: Array

    def least(self, v: Array, error: Array) -> float:
        """Return a lower bound of the least g(x) + <u, x> over all x and all u with |u - v| <= error.

        The worst u makes <u, x> = <v, x> - <error, |x|>, so that each side of zero of each coordinate is a
        quadratic on an interval.
        """
        terms = np.minimum(self._side(v, error, 1.0), self._side(v, error, -1.0))
        return sum_down(np.append(terms, self.form.quadratic.constant * (1.0 - gamma(_OPERATIONS))))

    def _side(self, v: Array, error: Array, sign: float) -> Array:
        """Return the least values on one side of zero, rounded down; inf where the box has no point there."""
        q, c = self.form.quadratic.weights, sign * self.form.quadratic.centre
        low, high = (self.lower, self.upper) if sign > 0.0 else (-self.upper, -self.lower)
        low = np.maximum(low, 0.0)
        sizes = np.abs(v) + self.form.costs + error
        slope = sign * v + self.form.costs - error - gamma(_OPERATIONS) * sizes
        with np.errstate(all="ignore"):
            x = np.where(q > 0.0, c - slope / q, np.where(slope < 0.0, high, low))
            x = np.minimum(np.maximum(x, low), high)
            product = np.where(x == 0.0, 0.0, slope * x)
            square = 0.5 * q * np.square(x - c)
            off = gamma(_OPERATIONS) * (q * np.square(np.abs(x) + np.abs(c)) + np.abs(product))
            inside = (q > 0.0) & (low < x) & (x < high)  # where the minimiser is rounded
            off += np.where(inside, q * np.square(gamma(_OPERATIONS) * (np.abs(c) + np.abs(slope) / q)), 0.0)
            value = square + product - np.where(q > 0.0, off, gamma(_OPERATIONS) * np.abs(product))
        return np.where(low <= high, np.where(np.isnan(value), -np.inf, value), np.inf)


def proven_bound(simple: SeparableInBox, rows: Any, points: Mapping[int, Array]) -> float | None:
    """Return the lower bound that rows prove in exact arithmetic; None without one, or without a point.

    Rows have slopes, offsets, blocks, queries (keys of the points where cuts were found) and multipliers. The
    offset of a cut is f(x) - <slope, x>, rounded down here; values and slopes are exact as they are.
    """
    used = np.flatnonzero(rows.multipliers > 0.0)
    slopes, offsets, blocks = rows.slopes[used], rows.offsets[used], rows.blocks[used]
    if not used.size or not all(query in points for query in rows.queries[used].tolist()):
        return None
    x = np.abs(np.array([points[query] for query in rows.queries[used].tolist()]))
    sizes = np.asarray(
        abs(slopes).multiply(x).sum(axis=1) if sparse.issparse(slopes) else (abs(slopes) * x).sum(axis=1)
    )
    off = gamma(slopes.shape[1] + 4) * (np.abs(offsets) + 2.0 * sizes.ravel())
    found = lower_bound(
        simple, slopes, np.where(blocks < 0, offsets, offsets - off), blocks, rows.multipliers[used]
    )
    return found if found > -np.inf else None


def lower_bound(simple: SeparableInBox, slopes: Any, offsets: Array, blocks: Array, weights: Array) -> float:
    """Return a lower bound of the optimum of max over cuts + g, from true cuts and any weights >= 0.

    Parameters
    ----------
    simple : SeparableInBox
    slopes : ndarray or csr_array of shape (K, dim)
    offsets, blocks, weights : ndarray of shape (K,)
        Block -1 is that of half-spaces, whose weights need not have the sum 1.
    """
    off = UNIT
    for block in range(int(blocks.max(initial=-1)) + 1):
        off = max(off, abs(fsum(weights[blocks == block]) - 1.0) + UNIT)
    if not off < 0.5:
        return -np.inf
    v, error = combination(weights, slopes)
    error = error + 2.0 * off * np.asarray(weights @ abs(slopes))
    products = weights * offsets
    constant = sum_down(products - (2.0 * UNIT + 2.0 * off) * np.abs(products))
    return sum_down(np.array([constant, simple.least(v, error * (1.0 + 4.0 * UNIT))]))
