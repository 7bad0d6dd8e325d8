"""Passes over a data matrix X of any layout: X v, X'u, and parts of X'u, on several threads.

All is accumulated in float64 and nothing is copied: float32 data are converted number by number, in
registers, so that a pass is as accurate as one over float64 data and moves half as much memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import TILE, tiles, unsigned
from cutplane.runtime.chunks import (
    Segments,
    balanced_ranges,
    count_chunks,
    equal_ranges,
    one_segment,
    panels,
    segments,
)
from cutplane.runtime.threads import run_chunks

ALL = np.empty(0, np.int64)
"""In the place of a list of rows: all of them."""


class Data(ABC):
    """Passes over X, of shape (m, n), whose rows edges[k] <= i < edges[k + 1] form block k.

    X, or its transpose, is stored row after row; call these its vectors. A pass takes the inner product of
    each vector with a given one, or adds up multiples of them.

    Attributes
    ----------
    label : str
        The layout and the number type.
    row_entries : float
        Stored entries per row, on average: the cost of a row in `add_rows`.
    cheap_rows : bool
        Whether the vectors are the rows of X, so that `add_rows` reads those that it is given and no others.
    """

    label: str
    row_entries: float
    cheap_rows: bool
    n_vectors: int
    length: int

    def __init__(self, X: Any, edges: Array) -> None:
        self.X = X
        self.edges = edges

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.X, self.edges)  # and none of the views that share the memory of X

    def times(self, v: Array) -> Array:
        """Return X v, shape (m,)."""
        v = _as_vector(v, self.X.shape[1])
        return self._dots(v, self._one_dot)[0] if self.cheap_rows else self._sums(v, self._one_sum)[0]

    def transposed_times(self, u: Array) -> Array:
        """Return X'u, shape (n,)."""
        u = _as_vector(u, self.X.shape[0])
        return self._sums(u, self._one_sum)[0] if self.cheap_rows else self._dots(u, self._one_dot)[0]

    def block_sums(self, u: Array) -> Array:
        """Return the sum of u_i x_i over each block, one row per block."""
        u = _as_vector(u, self.X.shape[0])
        return self._sums(u, self._by_block) if self.cheap_rows else self._dots(u, self._by_block)

    def add_rows(self, rows: Array, coefficients: Array, out: Array) -> None:
        """Add the sum of coefficients_r x_r over the given rows, in any order, maybe repeated, to `out`."""
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        coefficients = _as_vector(coefficients, rows.size)
        if not self.cheap_rows:
            out += self.transposed_times(np.bincount(rows, coefficients, self.X.shape[0]))
        elif rows.size:
            plan = one_segment(rows.size)
            if count_chunks(rows.size * self.row_entries) > 1:
                plan = self._plan_sums(plan.edges, rows)
            if len(plan) == 1:
                self._sums(coefficients, plan, rows, out)
            else:
                out += self._sums(coefficients, plan, rows)[0]

    @abstractmethod
    def squared_norms(self) -> Array:
        """Return the squared Euclidean norm of each row, shape (m,)."""

    @cached_property
    def _one_dot(self) -> Segments:
        return self._plan_dots(np.array([0, self.length]))

    @cached_property
    def _one_sum(self) -> Segments:
        return self._plan_sums(np.array([0, self.n_vectors]))

    @cached_property
    def _by_block(self) -> Segments:
        return (self._plan_sums if self.cheap_rows else self._plan_dots)(self.edges)

    @abstractmethod
    def _plan_dots(self, edges: Array) -> Segments:
        """Split inner products at `edges`."""

    @abstractmethod
    def _plan_sums(self, edges: Array, rows: Array = ALL) -> Segments:
        """Split the list of vectors at `edges`."""

    @abstractmethod
    def _dots(self, v: Array, plan: Segments) -> Array:
        """Return the inner products of each vector with v, one row per block of the plan."""

    @abstractmethod
    def _sums(self, u: Array, plan: Segments, rows: Array = ALL, out: Array | None = None) -> Array:
        """Return the sum of multiples of vectors, one row per block; added to `out` if it is given."""


def _as_vector(v: Array, size: int) -> Array:
    v = np.ascontiguousarray(v, dtype=np.float64)
    if v.shape != (size,):
        raise InvalidInputError(f"A vector of shape ({size},) was expected, got shape {v.shape}.")
    return read_only(v)


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
        if self._flat and len(plan) == len(self._ranges) == 1:
            passes.dense_dot(*self._flat, v, plan.edges, 0, 1, 0, self.n_vectors, out)
            return out

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
        if self._flat and len(plan) == len(self._panels) == 1:
            whole = 0, 1, *plan.span((0, 1)), 0, self.length
            passes.dense_add(*self._flat, rows, u, plan.edges, *whole, sums)
            return sums

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


class SparseData(Data):
    """Passes over CSR or CSC."""

    def __init__(self, X: Any, edges: Array) -> None:
        super().__init__(X, edges)
        self.label = f"{X.format} {X.dtype}"
        self.cheap_rows = X.format == "csr"
        self.n_vectors, self.length = X.shape if self.cheap_rows else X.shape[::-1]
        self.row_entries = int(X.indptr[-1]) / X.shape[0]
        self._arrays = read_only(X.data), unsigned(X.indices), unsigned(X.indptr)
        self._ranges = balanced_ranges(X.indptr, count_chunks(X.indptr[-1]))

    @cached_property
    def by_column(self) -> Any:
        """X in CSC: itself, or a copy that is kept."""
        return self.X if not self.cheap_rows else sparse.csc_array(self.X)

    def squared_norms(self) -> Array:
        """Return the squared Euclidean norm of each row, shape (m,)."""
        from cutplane.risks import passes

        out = np.zeros(self.X.shape[0])

        def do(part: tuple[int, int]) -> None:
            work = np.zeros(self.length)
            passes.sparse_squares(*self._arrays, self.cheap_rows, work, *part, out)

        if self.cheap_rows:
            run_chunks(do, pairwise(self._one_sum.edges.tolist()))
        else:
            do((0, self.n_vectors))  # every column adds to the same sums
        return out

    def _plan_dots(self, edges: Array) -> Segments:
        return Segments(edges, np.arange(edges.size - 1), [])  # only the list of vectors is split

    def _plan_sums(self, edges: Array, rows: Array = ALL) -> Segments:
        cumulative = self.X.indptr
        if rows.size:
            cumulative = np.append(0, np.cumsum(cumulative[rows + 1] - cumulative[rows]))
        return segments(edges, cumulative, self.length)

    def _dots(self, v: Array, plan: Segments) -> Array:
        from cutplane.risks import passes

        out = np.empty((len(plan), self.n_vectors))
        if len(plan) == 1:
            run_chunks(lambda part: passes.sparse_dot(*self._arrays, v, *part, out[0]), self._ranges)
        else:
            block_of = np.repeat(np.arange(len(plan), dtype=np.uint32), np.diff(plan.edges))
            run_chunks(
                lambda part: passes.sparse_dot_by_block(*self._arrays, v, block_of, *part, out), self._ranges
            )
        return out

    def _sums(self, u: Array, plan: Segments, rows: Array = ALL, out: Array | None = None) -> Array:
        from cutplane.risks import passes

        fresh = out is None
        sums = plan.room(self.length) if fresh else out[np.newaxis]
        run_chunks(
            lambda part: passes.sparse_add(*self._arrays, rows, u, plan.edges, *part, fresh, sums),
            plan.groups,
        )
        return plan.add_up(sums, self.length)


def make_data(X: Any, edges: Array) -> Data:
    """Return the passes over a matrix that `as_matrix` has checked, with blocks of rows cut at `edges`."""
    return (SparseData if sparse.issparse(X) else DenseData)(X, edges)
