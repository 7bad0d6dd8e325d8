"""Rounding errors of float64, each function a bound and never an estimate.

A sum of n products in any order is off by at most gamma(n) times the sum of the absolute products (Higham,
Accuracy and Stability of Numerical Algorithms, 2002, section 3.1, doi:10.1137/1.9780898718027).
"""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, routine

UNIT = 2.0**-53
"""The relative error of one operation."""


LARGEST = float(np.finfo(np.float64).max)
"""The largest float."""


def gamma(n: int) -> float:
    """Return a bound of the relative error of a sum of n products, or of n operations in a row."""
    return n * UNIT / (1.0 - n * UNIT)


@routine(fastmath=SUMS)
def offsets_down(values, slopes, x, beside, share, offsets):
    """Write values - <slopes, x>, less the errors: a share of the terms, and `beside`.

    Terms that overflow give the least float, because nothing is known of their difference.
    """
    for k in range(values.size):
        product = terms = 0.0
        row = slopes[k]
        for j in range(x.size):
            product += row[j] * x[j]
            terms += abs(row[j] * x[j])
        offset = values[k] - product - (share * (abs(values[k]) + terms) + beside[k])
        offsets[k] = offset if abs(offset) < np.inf else -LARGEST


def sum_down(terms: Array) -> float:
    """Return a lower bound of the exact sum of the terms; -inf if one is."""
    total = fsum(terms)
    return total - 2.0 * UNIT * abs(total) if np.isfinite(total) else total


def combination(weights: Array, rows: Any) -> tuple[Array, Array]:
    """Return weights @ rows, and a bound of its error in each coordinate."""
    n = weights.size + 3
    return np.asarray(weights @ rows), gamma(n) * np.asarray(weights @ abs(rows))
