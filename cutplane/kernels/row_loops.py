"""Sums of the rows of a kernel matrix, and parts of them, compiled."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import SUMS, routine


@routine(fastmath=SUMS)
def add_rows(rows, where, a, low, high, out):
    """Set out[low:high] to that part of K a; every row with a_i != 0 must be there."""
    out = out[low:high]
    out[:] = 0.0
    chosen = np.flatnonzero(a)
    count = chosen.shape[0]
    n = 0
    while n + 4 <= count:
        i, j, k, p = chosen[n], chosen[n + 1], chosen[n + 2], chosen[n + 3]
        row_i, row_j = rows[where[i], low:high], rows[where[j], low:high]
        row_k, row_p = rows[where[k], low:high], rows[where[p], low:high]
        a_i, a_j, a_k, a_p = a[i], a[j], a[k], a[p]
        for q in range(out.shape[0]):
            out[q] += (a_i * row_i[q] + a_j * row_j[q]) + (a_k * row_k[q] + a_p * row_p[q])
        n += 4
    while n < count:
        row_i, a_i = rows[where[chosen[n]], low:high], a[chosen[n]]
        for q in range(out.shape[0]):
            out[q] += a_i * row_i[q]
        n += 1


@routine
def gather(rows, chosen):
    """Return a new array with those rows and columns."""
    out = np.empty((chosen.shape[0], chosen.shape[0]))
    for k in range(chosen.shape[0]):
        row = rows[chosen[k]]
        for q in range(chosen.shape[0]):
            out[k, q] = row[chosen[q]]
    return out
