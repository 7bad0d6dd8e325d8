"""Distances of histograms, compiled."""

from __future__ import annotations

from cutplane.runtime.compiling import SUMS, routine


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
