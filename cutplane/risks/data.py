"""Passes over a data matrix X of any layout, on several threads: X v, X'u, parts of X'u, X W' and U'X.

Sums are accumulated in float64, and no data are copied. Numbers in float32 are converted in registers, so
that a pass has the accuracy of float64 and reads half as much memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import tiles, unsigned
from cutplane.runtime.chunks import (
    MOST,
    Ranges,
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
"""The list of all rows, as an argument `rows`."""

Range = tuple[int, int]


class Data(ABC):
    """Passes over X, of shape (m, n), whose rows edges[k] <= i < edges[k + 1] form block k.

    The *vectors* of X are its rows if X is stored row after row, else its columns. A pass computes the inner
    products of all vectors with a given vector, or a linear combination of the vectors.
    """

    row_entries: float
    """Average number of stored entries per row, which is the cost of a row in `add_rows`."""
    cheap_rows: bool
    """Whether the vectors are the rows of X, so that `add_rows` reads only the given rows."""
    n_vectors: int
    length: int

    def __init__(self, X: Any, edges: Array) -> None:
        self.X = X
        self.edges = edges

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.X, self.edges)  # without views, because pickle would copy X for each view

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
        """Add the sum of coefficients_r x_r over given rows, in any order, possibly repeated, to `out`."""
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
        """Split inner products into blocks at `edges`."""

    @abstractmethod
    def _plan_sums(self, edges: Array, rows: Array = ALL) -> Segments:
        """Split the list of vectors into blocks at `edges`."""

    @abstractmethod
    def _dots(self, v: Array, plan: Segments) -> Array:
        """Return the inner products of each vector with v, one row per block of the plan."""

    @abstractmethod
    def _sums(self, u: Array, plan: Segments, rows: Array = ALL, out: Array | None = None) -> Array:
        """Add the linear combination of the vectors of each block to `out`, one row per block."""


def _as_vector(v: Array, size: int) -> Array:
    v = np.ascontiguousarray(v, dtype=np.float64)
    if v.shape != (size,):
        raise InvalidInputError(f"A vector of shape ({size},) was expected, got shape {v.shape}.")
    return read_only(v)


class DenseData(Data):
    """Passes over an ndarray with contiguous rows or columns; any other view is copied."""

    def __init__(self, X: Array, edges: Array) -> None:
        super().__init__(X, edges)
        self.row_entries = float(X.shape[1])
        self.cheap_rows = _by_rows(X)
        vectors = X if self.cheap_rows else X.T
        self.n_vectors, self.length = vectors.shape
        self._flat = _flatten(vectors)
        self._ranges = equal_ranges(self.n_vectors, X.size / 4, max(1, self.n_vectors // 8))
        self._panels = panels(self.length, X.size / 4)

    def squared_norms(self) -> Array:
        out = np.empty(self.X.shape[0])

        def do(part: Range) -> None:
            rows = self.X[slice(*part)]
            np.einsum("ij,ij->i", rows, rows, out=out[slice(*part)], dtype=np.float64)

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
            passes.dense_dot(*self._flat, v, plan.edges, *group, *vectors, out)

        if len(plan) == len(self._ranges) == 1:
            do(((0, 1), (0, self.n_vectors)))
            return out
        run_chunks(do, product(plan.groups, self._ranges))
        return plan.add_up(out, self.n_vectors)

    def _sums(self, u: Array, plan: Segments, rows: Array = ALL, out: Array | None = None) -> Array:
        from cutplane.risks import passes

        sums = plan.room(self.length) if out is None else out[np.newaxis]
        if out is None:
            sums.fill(0.0)

        def do(part: tuple[Range, Range]) -> None:
            group, panel = part
            passes.dense_add(*self._flat, rows, u, plan.edges, *group, *panel, sums)

        if len(plan) == len(self._panels) == 1:
            do(((0, 1), (0, self.length)))
            return sums
        run_chunks(do, product(plan.groups, self._panels))
        return plan.add_up(sums, self.length)


def _by_rows(X: Array) -> bool:
    """Tell whether the rows of X are its vectors: if rows are contiguous and columns are not, or shorter."""
    m, n = X.shape
    by_rows, by_columns = (A.shape[1] == 1 or A.strides[1] == A.itemsize for A in (X, X.T))
    if by_rows and by_columns:
        return n >= m
    return by_rows or (not by_columns and abs(X.strides[0]) >= abs(X.strides[1]))


def _flatten(A: Array) -> tuple[Array, int, int]:
    """Return flat, start, stride such that row i of A is the beginning of ``flat[start + i * stride:]``.

    `flat` is a view of the memory of A, including gaps between rows, or of a copy if rows are not contiguous.
    """
    m, n = A.shape
    size = A.itemsize
    stride = A.strides[0] if m > 1 else n * size
    if not A.flags.aligned or stride % size or (n > 1 and A.strides[1] != size):
        return _flatten(np.array(A, order="C"))
    lowest = A if stride >= 0 else A[::-1]
    span = (m - 1) * abs(stride) // size
    flat = as_strided(lowest, (span + n,), (size,), writeable=False)
    return flat, 0 if stride >= 0 else span, stride // size


class SparseData(Data):
    """Passes over CSR or CSC."""

    def __init__(self, X: Any, edges: Array) -> None:
        super().__init__(X, edges)
        self.cheap_rows = X.format == "csr"
        self.n_vectors, self.length = X.shape if self.cheap_rows else X.shape[::-1]
        self.row_entries = int(X.indptr[-1]) / X.shape[0]
        self._arrays = read_only(X.data), unsigned(X.indices), unsigned(X.indptr)
        self._ranges = balanced_ranges(X.indptr, count_chunks(X.indptr[-1]))

    @cached_property
    def by_column(self) -> Any:
        """X in CSC, copied once if it is CSR."""
        return self.X if not self.cheap_rows else sparse.csc_array(self.X)

    def squared_norms(self) -> Array:
        from cutplane.risks import passes

        out = np.zeros(self.X.shape[0])

        def do(part: Range) -> None:
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


_SHARE = 0.6
"""Share of the nonzero rows up to which only changed rows are added, because reading single rows is
slower."""
_STEPS = 32
"""Most updates of a sum in succession, because each adds a rounding error of the size of the sum."""
_BLOCK = 1024
"""Number of spare entries for changed rows, because `changes` tests the room only before each block."""
_FEW = 512
"""Number of rows up to which all rows are added, because comparing them takes as long."""


class RunningSum:
    """u -> X'u, computed from the last result and the rows with a changed u_i, if these are few.

    Each line search has a separate running sum, because results should not depend on other searches. Several
    threads may call it, because the stored result is replaced and never changed in place.
    """

    def __init__(self, data: Data) -> None:
        self.data = data
        self.last: tuple[Array, Array, int] | None = None

    def __call__(self, u: Array) -> Array:
        """Return X'u, shape (n,), and store it with u."""
        if u.size <= _FEW:
            return self.data.transposed_times(u)
        total, steps = self._updated(u)
        self.last = (u, total, steps) if np.isfinite(total).all() else None
        return total.copy()

    def _updated(self, u: Array) -> tuple[Array, int]:
        if self.last is not None and self.last[2] < _STEPS:
            from cutplane.risks import passes

            before, total, steps = self.last
            room = int(_SHARE * u.size) + _BLOCK
            rows, differences = np.empty(room, np.int64), np.empty(room)
            count, needed = passes.changes(u, before, _BLOCK, rows, differences)
            if count == 0:
                return total, steps
            if count <= _SHARE * needed:
                total = total.copy()
                self.data.add_rows(rows[:count], differences[:count], total)
                return total, steps + 1
        return self.data.transposed_times(u), 0


_COST = 0.3
"""Nanoseconds per product of a pass, below 1 because numbers are read from the cache."""
_SUMS = 8
"""Largest number of parts of a pass that adds rows, because each part needs a matrix of sums."""


def scores(X: Any, W: Array) -> Array:
    """Return X W', shape (m, p), for W of shape (p, n)."""
    if not sparse.issparse(X):
        return _dense_product(X, W.T)
    return (_gather if X.format == "csr" else _scatter)(X, np.ascontiguousarray(W.T))


def score_sums(X: Any, U: Array) -> Array:
    """Return U'X, shape (p, n), for U of shape (m, p)."""
    if not sparse.issparse(X):
        return _dense_product(X.T, U).T
    return (_scatter if X.format == "csr" else _gather)(X, np.ascontiguousarray(U)).T


def _dense_product(A: Array, B: Array) -> Array:
    if A.dtype == np.float64 and A.itemsize in A.strides and min(A.strides) > 0:
        return A @ B
    out = np.zeros((A.shape[0], B.shape[1]))
    for rows, columns in tiles(A):
        out[rows] += A[rows, columns].astype(np.float64) @ B[columns]
    return out


def _gather(X: Any, vectors: Array) -> Array:
    from cutplane.risks import passes

    out = np.empty((X.indptr.size - 1, vectors.shape[1]))
    data, indices, starts = read_only(X.data), unsigned(X.indices), unsigned(X.indptr)

    def fill(part: Range) -> None:
        start, stop = part
        passes.gather(starts[start : stop + 1], indices, data, vectors, out[start:stop])

    run_chunks(fill, _parts(X, vectors))
    return out


def _scatter(X: Any, vectors: Array) -> Array:
    from cutplane.risks import passes

    size = X.shape[1] if X.format == "csr" else X.shape[0]
    data, indices, starts = read_only(X.data), unsigned(X.indices), unsigned(X.indptr)

    def part_sum(part: Range) -> Array:
        start, stop = part
        out = np.zeros((size, vectors.shape[1]))
        passes.scatter(starts[start : stop + 1], indices, data, vectors[start:stop], out)
        return out

    most = min(_SUMS, max(1, int(X.indptr[-1]) // (4 * size)))  # each part has more entries than its sum
    first, *rest = run_chunks(part_sum, _parts(X, vectors, most))
    for part in rest:
        first += part
    return first


def _parts(X: Any, vectors: Array, most: int = MOST) -> Ranges:
    """Split the rows of CSR, or the columns of CSC, into parts of about equal work."""
    return balanced_ranges(X.indptr, min(most, count_chunks(_COST * X.indptr[-1] * vectors.shape[1])))
