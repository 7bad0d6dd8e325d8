"""Passes over compressed sparse rows (or columns) for several vectors at once, accumulated in float64."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import routine


@routine
def gather(indptr, indices, data, vectors, out):
    """out_i = sum of x_ij vectors_j over the entries of row i."""
    p = vectors.shape[1]
    for i in range(indptr.size - 1):
        out[i, :] = 0.0
        for entry in range(indptr[i], indptr[i + 1]):
            x, j = data[entry], indices[entry]
            for k in range(p):
                out[i, k] += x * vectors[j, k]


@routine
def scatter(indptr, indices, data, vectors, out):
    """out_j += sum of x_ij vectors_i over all rows; zeros in `vectors` cost nothing."""
    p = vectors.shape[1]
    support = np.empty(p, np.int64)
    for i in range(indptr.size - 1):
        count = 0
        for k in range(p):
            if vectors[i, k] != 0.0:
                support[count] = k
                count += 1
        for entry in range(indptr[i], indptr[i + 1]):
            x, j = data[entry], indices[entry]
            if 2 * count > p:
                for k in range(p):
                    out[j, k] += x * vectors[i, k]
            else:
                for s in range(count):
                    out[j, support[s]] += x * vectors[i, support[s]]
