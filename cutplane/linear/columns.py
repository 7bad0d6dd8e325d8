"""Columns of the data, and the passes over one column that coordinate descent compiles.

`columns` is a tuple: an array whose rows are the columns of the data, or data, indices and indptr of CSC.
Each layout has separate passes, because numba counts references to all parts of a tuple in each call. Column
-1 is a column of ones. Without compilation, passes call numpy.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numba.extending import overload
from scipy import sparse

from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.risks.data import Data
from cutplane.risks.matrix import unsigned
from cutplane.runtime.compiling import SUMS, routine

_INLINE: Any = {"error_model": "numpy", "fastmath": set(SUMS), "forceinline": True}


class DataColumns:
    """The columns `which` of the data; -1 stands for a column of ones.

    CSC and arrays with contiguous columns are not copied; the columns of other arrays are copied into one
    array, and CSR is converted once.
    """

    def __init__(self, data: Data, which: Array):
        X: Any = data.X
        self.real = which >= 0
        self.n_examples = X.shape[0]
        self._chosen: Any
        self.which = which
        if sparse.issparse(X):
            self._chosen = data.by_column  # pyright: ignore[reportAttributeAccessIssue]
            self.entries = int(np.diff(self._chosen.indptr)[which[self.real]].sum())
        else:
            if X.T.flags.c_contiguous:
                self._chosen = X.T
            else:
                self._chosen = np.ascontiguousarray(X[:, which[self.real]].T)
                self.which = np.where(self.real, np.cumsum(self.real) - 1, -1)
            self.entries = X.shape[0] * int(self.real.sum())
        self.arrays = parts_of(self._chosen)

    def slopes(self, d: Array, r: Array) -> tuple[Array, Array]:
        """Return the products of the columns with r, and of the squared columns with d."""
        slopes, bends = np.empty(self.which.size), np.empty(self.which.size)
        _products(self.arrays, self.which, d, r, slopes, bends)
        return slopes, bends

    def products(self, u: Array, places: Array | None = None) -> Array:
        """Return the products of all or some of the columns with u."""
        which = self.which if places is None else self.which[places]
        out = np.empty(which.size)
        _products(self.arrays, which, u, u, out, out[:0])
        return out

    def row(self, i: int, places: Array) -> Array:
        """Return the entries of an example in some of the columns."""
        if sparse.issparse(self._chosen):
            return self.products(np.eye(1, self.n_examples, i)[0], places)
        return np.where(self.real[places], self._chosen[self.which[places], i], np.float64(1.0))

    def times(self, steps: Array) -> Array:
        """Return the sum of the columns times the steps, shape (m,)."""
        z = np.zeros(self.n_examples)
        _add_columns(self.arrays, self.which, steps, self._ones, z)
        return z

    @cached_property
    def _ones(self) -> Array:
        return np.ones(self.n_examples)

    def gram(self, places: Array, d: Array) -> Array:
        """Return X'diag(d) X for some of the columns."""
        real = self.real[places]
        out = np.empty((places.size, places.size))
        ones = np.flatnonzero(~real)
        if sparse.issparse(self._chosen):
            part = self._chosen[:, self.which[places[real]]].astype(np.float64)
            weighted = part * d[:, np.newaxis] if part.nnz else part
            square = (part.T @ sparse.csc_array(weighted)).toarray()
            sums = part.T @ d
        else:
            part = self._chosen[self.which[places[real]]].astype(np.float64, copy=False)
            scaled = part * np.sqrt(d)
            square, sums = scaled @ scaled.T, part @ d
        out[np.ix_(real, real)] = square
        if ones.size:
            out[ones, real] = out[real, ones] = sums
            out[ones, ones] = d.sum()
        return out

    def cost_of_gram(self, places: Array) -> float:
        """Return the number of multiplications in `gram`."""
        if sparse.issparse(self._chosen):
            counts = np.diff(self._chosen.indptr)[self.which[places[self.real[places]]]]
            return float(counts.sum()) ** 2 / self.n_examples
        return float(self.n_examples) * places.size**2


def parts_of(X: Any) -> tuple[Array, ...]:
    """Return the transpose of the columns as the tuple `columns`, read-only."""
    if sparse.issparse(X):
        return read_only(X.data), unsigned(X.indices), unsigned(X.indptr)
    return (read_only(X),)


def size(columns, j, r):
    """Return the number of entries of a column."""
    return r.shape[0] if j < 0 or len(columns) == 1 else int(columns[2][j + 1] - columns[2][j])


def dot(columns, j, r):
    """Return the product of a column and r."""
    if j < 0:
        return r.sum()
    if len(columns) == 1:
        return columns[0][j] @ r
    part = slice(columns[2][j], columns[2][j + 1])
    return columns[0][part] @ r[columns[1][part]]


def dot_squares(columns, j, d):
    """Return the product of the squares of a column and d."""
    if j < 0:
        return d.sum()
    if len(columns) == 1:
        return np.square(columns[0][j], dtype=np.float64) @ d
    part = slice(columns[2][j], columns[2][j + 1])
    return np.square(columns[0][part], dtype=np.float64) @ d[columns[1][part]]


def add(columns, j, step, d, r):
    """Add a column times step and d to r."""
    if j < 0:
        r += step * d
    elif len(columns) == 1:
        r += step * d * columns[0][j]
    else:
        part = slice(columns[2][j], columns[2][j + 1])
        rows = columns[1][part]
        r[rows] += step * d[rows] * columns[0][part]


def put(source, target):
    """Copy a vector by a loop, because numba takes seconds to compile an assignment to a slice."""
    target[:] = source


@overload(put, _INLINE)
def _put(source, target):
    def do(source, target):
        for i in range(target.shape[0]):
            target[i] = source[i]

    return do


@overload(size, _INLINE)
def _size(columns, j, r):
    if len(columns) == 1:
        return lambda columns, j, r: r.shape[0]
    return lambda columns, j, r: r.shape[0] if j < 0 else np.int64(columns[2][j + 1] - columns[2][j])


@overload(dot, _INLINE)
def _dot(columns, j, r):
    def dense(columns, j, r):
        total = 0.0
        if j < 0:
            for i in range(r.shape[0]):
                total += r[i]
        else:
            column = columns[0][j]
            for i in range(r.shape[0]):
                total += column[i] * r[i]
        return total

    def compressed(columns, j, r):
        data, indices, indptr = columns
        total = 0.0
        if j < 0:
            for i in range(r.shape[0]):
                total += r[i]
        else:
            for p in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
                total += data[p] * r[indices[p]]
        return total

    return dense if len(columns) == 1 else compressed


@overload(dot_squares, _INLINE)
def _dot_squares(columns, j, d):
    def dense(columns, j, d):
        total = 0.0
        for i in range(d.shape[0]):
            x = 1.0 if j < 0 else np.float64(columns[0][j, i])
            total += x * d[i] * x
        return total

    def compressed(columns, j, d):
        data, indices, indptr = columns
        total = 0.0
        if j < 0:
            for i in range(d.shape[0]):
                total += d[i]
        else:
            for p in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
                total += data[p] * d[indices[p]] * data[p]
        return total

    return dense if len(columns) == 1 else compressed


@overload(add, _INLINE)
def _add(columns, j, step, d, r):
    def dense(columns, j, step, d, r):
        if j < 0:
            for i in range(r.shape[0]):
                r[i] += step * d[i]
        else:
            column = columns[0][j]
            for i in range(r.shape[0]):
                r[i] += step * d[i] * column[i]

    def compressed(columns, j, step, d, r):
        data, indices, indptr = columns
        if j < 0:
            for i in range(r.shape[0]):
                r[i] += step * d[i]
        else:
            for p in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
                r[indices[p]] += step * d[indices[p]] * data[p]

    return dense if len(columns) == 1 else compressed


@routine(fastmath=SUMS)
def _products(columns, which, d, r, slopes, bends):
    for k in range(which.shape[0]):
        slopes[k] = dot(columns, which[k], r)
    if bends.shape[0]:
        for k in range(which.shape[0]):
            bends[k] = dot_squares(columns, which[k], d)


@routine(fastmath=SUMS)
def _add_columns(columns, which, steps, ones, z):
    for k in range(which.shape[0]):
        if steps[k] != 0.0:
            add(columns, which[k], steps[k], ones, z)
