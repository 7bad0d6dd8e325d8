"""Passes over a data matrix X of any layout: X v, X'u, and X'u block by block, always accumulated in float64.

float32 data are never converted as a whole: that would take twice their memory again in each pass. They are
converted tile by tile, each small enough to stay in cache, and so a pass is as accurate as one over float64
data: the rounding of the data is all that single precision costs. It halves the memory, not the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.validation import Array

TILE = 1 << 16
"""Entries converted at a time: 512 KiB of float64."""

RUN = 1 << 11
"""Consecutive entries of a tile along the contiguous axis of X."""


def as_matrix(X: Any) -> Any:
    """Return `X` as a matrix of finite numbers of shape (m, n), or raise `InvalidInputError`.

    float32 and float64 ndarrays, CSR and CSC matrices are not copied. Other sparse formats are converted to
    CSR and other number types to float64, once.
    """
    if not sparse.issparse(X):
        X = np.asarray(X)
    elif X.format not in ("csr", "csc"):
        X = X.tocsr()
    if X.ndim != 2:
        raise InvalidInputError(f"X must have two dimensions, got shape {X.shape}; one row per example.")
    if 0 in X.shape:
        raise InvalidInputError(f"X must have at least one row and one column, got shape {X.shape}.")
    if X.dtype not in (np.float32, np.float64):
        if X.dtype.kind not in "biuf":
            raise InvalidInputError(f"X must hold real numbers, got dtype {X.dtype}; encode it as float64.")
        X = X.astype(np.float64)
    _check_finite(X)
    return X


class DenseData:
    """Passes over an ndarray of any memory order, whose rows edges[k] <= i < edges[k + 1] form block k."""

    def __init__(self, X: Array, edges: Array) -> None:
        self.X = X
        self.edges = edges
        self.label = f"dense {X.dtype}"

    def times(self, v: Array) -> Array:
        """Return X v, shape (m,)."""
        return dense_product(self.X, v)

    def transposed_times(self, u: Array) -> Array:
        """Return X'u, shape (n,)."""
        return dense_product(self.X.T, u)

    def block_sums(self, u: Array) -> Array:
        """Return the sum of u_i x_i over each block, one row per block."""
        return np.stack([dense_product(self.X[i:j].T, u[i:j]) for i, j in pairwise(self.edges.tolist())])


class SparseData:
    """Passes over CSR or CSC, whose rows edges[k] <= i < edges[k + 1] form block k."""

    def __init__(self, X: Any, edges: Array) -> None:
        self.X = X
        self.edges = edges
        self.label = f"{X.format} {X.dtype}"
        self.by_rows = X.format == "csr"
        self.pieces = list(_pieces(X))
        self.block_pieces = list(_pieces(X, edges)) if self.by_rows and edges.size > 2 else self.pieces

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseData, (self.X, self.edges)  # pickle would copy the memory that the pieces share with X

    def times(self, v: Array) -> Array:
        """Return X v, shape (m,)."""
        return self._gather(v) if self.by_rows else self._scatter(v)

    def transposed_times(self, u: Array) -> Array:
        """Return X'u, shape (n,)."""
        return self._scatter(u) if self.by_rows else self._gather(u)

    def block_sums(self, u: Array) -> Array:
        """Return the sum of u_i x_i over each block, one row per block; much faster for CSR than for CSC."""
        out = np.zeros((self.edges.size - 1, self.X.shape[1]))
        if self.by_rows:
            blocks = np.searchsorted(self.edges, [piece[0] for piece in self.block_pieces], side="right") - 1
            for block, (start, stop, _, transposed) in zip(blocks, self.block_pieces, strict=True):
                out[block] += transposed @ u[start:stop]
        else:
            by_block = sparse.csr_array((u, np.arange(u.size), self.edges), shape=(out.shape[0], u.size)).T
            for start, stop, piece, _ in self.pieces:
                out[:, start:stop] = (piece @ by_block).toarray().T
        return out

    def _gather(self, v: Array) -> Array:
        return np.concatenate([piece @ v for _, _, piece, _ in self.pieces])

    def _scatter(self, u: Array) -> Array:
        first, *rest = (transposed @ u[start:stop] for start, stop, _, transposed in self.pieces)
        for part in rest:
            first += part
        return first


def dense_product(A: Array, v: Array) -> Array:
    """Return A v in float64 without converting or copying A as a whole."""
    if A.dtype == np.float64 and A.itemsize in A.strides:
        return A @ v
    out = np.zeros(A.shape[0])
    for rows, columns in _tiles(A):
        out[rows] += A[rows, columns].astype(np.float64) @ v[columns]
    return out


def _tiles(A: Array) -> Iterator[tuple[slice, slice]]:
    m, n = A.shape
    if abs(A.strides[0]) >= abs(A.strides[1]):
        width = min(n, RUN)
        height = max(1, TILE // width)
    else:
        height = min(m, RUN)
        width = max(1, TILE // height)
    for row in range(0, m, height):
        for column in range(0, n, width):
            yield slice(row, row + height), slice(column, column + width)


def _pieces(X: Any, edges: Array | None = None) -> Iterator[tuple[int, int, Any, Any]]:
    """Split CSR by rows, CSC by columns: start, stop, the piece as CSR with those rows, and its transpose.

    scipy converts float32 data to float64 to multiply by a float64 vector: all that it is given, hence the
    pieces. A piece has some times as many entries as it has columns, for it adds a vector of that length.
    """
    major, minor = X.shape if X.format == "csr" else X.shape[::-1]
    stops = np.array([major]) if edges is None else edges[1:]
    if X.dtype != np.float64:
        size = max(TILE, 4 * minor)
        stops = np.union1d(stops, np.searchsorted(X.indptr, np.arange(size, X.nnz, size)))
    start = 0
    for stop in stops.tolist():
        piece = sparse.csr_array((stop - start, minor), dtype=X.dtype)
        transposed = sparse.csc_array((minor, stop - start), dtype=X.dtype)
        low, high = X.indptr[start], X.indptr[stop]
        # Set one by one, since the constructor copies small parts of arrays, and indices that it can shorten.
        piece.data = transposed.data = X.data[low:high]
        piece.indices = transposed.indices = X.indices[low:high]
        piece.indptr = transposed.indptr = X.indptr[start : stop + 1] - low
        yield start, stop, piece, transposed
        start = stop


def _check_finite(X: Any) -> None:
    if sparse.issparse(X):
        for start in range(0, X.data.size, TILE):
            bad = ~np.isfinite(X.data[start : start + TILE])
            if bad.any():
                value = X.data[start + np.flatnonzero(bad)[0]]
                raise InvalidInputError(
                    f"X.data holds {value}; every entry must be finite: impute or drop it."
                )
        return
    for rows, columns in _tiles(X):
        bad = ~np.isfinite(X[rows, columns])
        if bad.any():
            i, j = np.argwhere(bad)[0] + (rows.start, columns.start)
            raise InvalidInputError(
                f"X[{i}, {j}] is {X[i, j]}; every entry must be finite: impute or drop it."
            )
