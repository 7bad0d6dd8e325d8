"""Passes over a data matrix X for several vectors at once, one per class: X W' and U'X.

As in `cutplane.risks.data`, all is accumulated in float64, and X is neither copied nor converted as a whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import tiles, unsigned
from cutplane.runtime.chunks import MOST, Ranges, balanced_ranges, count_chunks
from cutplane.runtime.threads import run_chunks

_COST = 0.3
"""Nanoseconds that it takes to multiply and add two numbers."""

_SUMS = 8
"""Parts at most of a pass that adds up rows."""


def scores(X: Any, W: Array) -> Array:
    """Return X W', shape (m, p), for W of shape (p, n)."""
    if not sparse.issparse(X):
        return _dense(X, W.T)
    return (_gather if X.format == "csr" else _scatter)(X, np.ascontiguousarray(W.T))


def score_sums(X: Any, U: Array) -> Array:
    """Return U'X, shape (p, n), for U of shape (m, p)."""
    if not sparse.issparse(X):
        return _dense(X.T, U).T
    return (_scatter if X.format == "csr" else _gather)(X, np.ascontiguousarray(U)).T


def _dense(A: Array, B: Array) -> Array:
    if A.dtype == np.float64 and A.itemsize in A.strides and min(A.strides) > 0:
        return A @ B
    out = np.zeros((A.shape[0], B.shape[1]))
    for rows, columns in tiles(A):
        out[rows] += A[rows, columns].astype(np.float64) @ B[columns]
    return out


def _gather(X: Any, vectors: Array) -> Array:
    from cutplane.risks.passes import gather

    out = np.empty((X.indptr.size - 1, vectors.shape[1]))
    data, indices, starts = read_only(X.data), unsigned(X.indices), unsigned(X.indptr)

    def fill(part: tuple[int, int]) -> None:
        start, stop = part
        gather(starts[start : stop + 1], indices, data, vectors, out[start:stop])

    run_chunks(fill, _parts(X, vectors))
    return out


def _scatter(X: Any, vectors: Array) -> Array:
    from cutplane.risks.passes import scatter

    size = X.shape[1] if X.format == "csr" else X.shape[0]
    data, indices, starts = read_only(X.data), unsigned(X.indices), unsigned(X.indptr)

    def part_sum(part: tuple[int, int]) -> Array:
        start, stop = part
        out = np.zeros((size, vectors.shape[1]))
        scatter(starts[start : stop + 1], indices, data, vectors[start:stop], out)
        return out

    # Each part has a sum of its own: there should be few, of more entries each than a sum has numbers.
    first, *rest = run_chunks(
        part_sum, _parts(X, vectors, min(_SUMS, max(1, int(X.indptr[-1]) // (4 * size))))
    )
    for part in rest:
        first += part
    return first


def _parts(X: Any, vectors: Array, most: int = MOST) -> Ranges:
    """Split the rows of CSR, the columns of CSC, into parts of about equal work."""
    return balanced_ranges(X.indptr, min(most, count_chunks(_COST * X.indptr[-1] * vectors.shape[1])))
