"""The compiled loop of the method of multipliers; see `cutplane.risks.multiplier_method`."""

from __future__ import annotations

import numpy as np
from numba import njit

_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}


@njit(**_OPTIONS)
def sparse_gram(data, indices, indptr, rows, coefficients, out):
    """Add a T such that T + T' is the sum of coefficients_k x_r x_r', with r = rows[k], to out."""
    for k in range(rows.shape[0]):
        begin, end = np.uint64(indptr[rows[k]]), np.uint64(indptr[rows[k] + 1])
        for p in range(begin, end):
            factor = coefficients[k] * data[p]
            row = out[indices[p]]
            row[indices[p]] += 0.5 * factor * data[p]
            for q in range(begin, p):
                row[indices[q]] += factor * data[q]
