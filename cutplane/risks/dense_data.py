"""Passes over an ndarray."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cutplane.pieces.validation import Array
from cutplane.risks.chunks import Segments, count_chunks, equal_ranges, panels, segments
from cutplane.risks.matrix import TILE, read_only, tiles
from cutplane.risks.vectors import ALL, Data
from cutplane.runtime.threads import run_chunks

Range = tuple[int, int]


class DenseData(Data):
    """Passes over an ndarray of any memory order.

    If neither rows nor columns are contiguous, then a few rows at a time are copied together.
    """

    def __init__(self, X: Array, edges: Array) -> None:
        super().__init__(X, edges)
        self.label = f"dense {X.dtype}"
        self.row_entries = float(X.shape[1])
        self.cheap_rows = _by_rows(X)
        self._vectors = X if self.cheap_rows else X.T
        self.n_vectors, self.length = self._vectors.shape
        self._flat = _flatten(self._vectors)
        self._ranges = equal_ranges(self.n_vectors, X.size / 4, max(1, self.n_vectors // 8))
        self._panels = panels(self.length, X.size / 4)

    def squared_norms(self) -> Array:
        """Return the squared Euclidean norm of each row, shape (m,)."""
        out = np.zeros(self.X.shape[0])

        def do(part: tuple[int, int]) -> None:
            X, norms = self.X[slice(*part)], out[slice(*part)]
            for rows, columns in tiles(X):
                tile = X[rows, columns].astype(np.float64, copy=False)
                norms[rows] += np.einsum("ij,ij->i", tile, tile)

        run_chunks(do, equal_ranges(out.size, self.X.size))
        return out

    def _plan_dots(self, edges: Array) -> Segments:
        most = count_chunks(self.X.size / 4) // len(self._ranges)
        return segments(edges, self.n_vectors / 4, self.n_vectors, most)

    def _plan_sums(self, edges: Array, rows: Array = ALL) -> Segments:
        most = max(1, count_chunks(edges[-1] * self.length / 4) // len(self._panels))
        return segments(edges, self.length / 4, self.length, most)

    def _dots(self, v: Array, plan: Segments) -> Array:
        from cutplane.risks import passes

        out = np.empty((len(plan), self.n_vectors))

        def do(part: tuple[Range, Range]) -> None:
            group, vectors = part
            for i, j, flat, start, stride, _ in self._pieces(vectors, plan.span(group)):
                passes.dense_dot(flat, start, stride, v, plan.edges, *group, i, j, out)

        run_chunks(do, product(plan.groups, self._ranges))
        return plan.add_up(out, self.n_vectors)

    def _sums(self, u: Array, plan: Segments, rows: Array = ALL, out: Array | None = None) -> Array:
        from cutplane.risks import passes

        if out is None:
            sums = plan.room(self.length)
            sums.fill(0.0)
        else:
            sums = out[np.newaxis]

        def do(part: tuple[Range, Range]) -> None:
            group, panel = part
            for i, j, flat, start, stride, which in self._pieces(plan.span(group), panel, rows):
                passes.dense_add(flat, start, stride, which, u, plan.edges, *group, i, j, *panel, sums)

        run_chunks(do, product(plan.groups, self._panels))
        return plan.add_up(sums, self.length)

    def _pieces(self, vectors: Range, places: Range, rows: Array = ALL) -> Iterator[tuple[Any, ...]]:
        """Yield i, j, flat, start, stride, rows: vectors i to j are at ``flat[start + i * stride:]``.

        Only the given places of them are at hand. They are counted in the list `rows`, unless it is empty.
        """
        if self._flat:
            yield *vectors, *self._flat, rows
            return
        width = places[1] - places[0]
        height = max(1, TILE // width)
        for i in range(*vectors, height):
            j = min(i + height, vectors[1])
            piece = self._vectors[rows[i:j] if rows.size else slice(i, j), slice(*places)]
            yield i, j, read_only(piece.ravel()), -i * width - places[0], width, ALL


def _by_rows(X: Array) -> bool:
    """Tell whether the rows of X are its vectors: if they are contiguous, and longer if columns are too."""
    m, n = X.shape
    by_rows, by_columns = (A.shape[1] == 1 or A.strides[1] == A.itemsize for A in (X, X.T))
    if by_rows and by_columns:
        return n >= m
    return by_rows or (not by_columns and abs(X.strides[0]) >= abs(X.strides[1]))


def _flatten(A: Array) -> tuple[Array, int, int] | None:
    """Return flat, start, stride such that row i of A is ``flat[start + i * stride:]``; None if no row is.

    The vector `flat` lies over the memory of A, gaps between rows included.
    """
    m, n = A.shape
    size = A.itemsize
    stride = A.strides[0] if m > 1 else n * size
    if not A.flags.aligned or stride % size or (n > 1 and A.strides[1] != size):
        return None
    lowest = A if stride >= 0 else A[::-1]
    span = (m - 1) * abs(stride) // size
    flat = as_strided(lowest, (span + n,), (size,), writeable=False)
    return flat, 0 if stride >= 0 else span, stride // size
