"""Compiled passes over panels of symmetric matrices and over pairs of histograms, without interpreter lock.

Row r of a panel that begins at row `first` of the matrix is row first + r. Entries right of the diagonal are
not read. Sums are in float64.
"""

from __future__ import annotations

from cutplane.runtime.compiling import SUMS, routine

_TILE = 32
"""Size of the square blocks that are transposed, because two of them stay in a cache."""


@routine(fastmath=SUMS)
def add_product(panel, first, stop, a, out):
    """Add the terms of K a with rows first to stop - 1, and by symmetry with these columns, to `out`."""
    for i in range(first, stop):
        row, ai = panel[i - first], a[i]
        below = 0.0
        for j in range(i):
            below += row[j] * a[j]
            out[j] += row[j] * ai
        out[i] += below + row[i] * ai


@routine(fastmath=SUMS)
def add_multiple(panel, first, stop, weight, out):
    """Add weight times rows first to stop - 1, up to the diagonal, to `out`."""
    for i in range(first, stop):
        row, sums = panel[i - first], out[i]
        for j in range(i + 1):
            sums[j] += weight * row[j]


@routine(fastmath=SUMS)
def mirror(out, first, stop):
    """Fill rows first to stop - 1 above the diagonal from the entries below it."""
    m = out.shape[0]
    for low in range(first, stop, _TILE):
        high = min(low + _TILE, stop)
        for left in range(low, m, _TILE):
            right = min(left + _TILE, m)
            for i in range(low, high):
                for j in range(max(left, i + 1), right):
                    out[i, j] = out[j, i]


@routine(fastmath=SUMS)
def chi_square_distances(A, B, out):
    """Set out_ij to the sum over k of (a_ik - b_jk)^2 / (a_ik + b_jk), 0 where both are 0."""
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            total = 0.0
            for k in range(A.shape[1]):
                both = A[i, k] + B[j, k]
                apart = A[i, k] - B[j, k]
                total += apart * apart / both if both > 0.0 else 0.0
            out[i, j] = total
