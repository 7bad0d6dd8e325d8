"""Some columns of the data, as coordinate descent reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.linear.rows import add_times, as_rows, dot, dot_squares
from cutplane.pieces.validation import Array
from cutplane.risks.data import Data
from cutplane.runtime.compiling import SUMS, routine


class Columns:
    """The columns `which` of the data; -1 stands for a column of ones.

    CSC and arrays with contiguous columns are read in place; the columns of other arrays are copied together,
    and CSR is converted once.
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
        self.arrays = as_rows(self._chosen)

    def slopes(self, d: Array, r: Array) -> tuple[Array, Array]:
        """Return the products of the columns with r, and of their squares with d."""
        slopes, bends = np.empty(self.which.size), np.empty(self.which.size)
        _products(self.arrays, self.which, d, r, slopes, bends)
        return slopes, bends

    def products(self, u: Array, places: Array | None = None) -> Array:
        """Return the products of all or some of the columns with u."""
        which = self.which if places is None else self.which[places]
        out = np.empty(which.size)
        _products(self.arrays, which, u, u, out, out[:0])
        return out

    def times(self, steps: Array) -> Array:
        """Return the sum of the columns times the steps, shape (m,)."""
        z = np.zeros(self.n_examples)
        _add_columns(self.arrays, self.which, steps, np.ones_like(z), z)
        return z

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
        """Return the multiplications that `gram` takes."""
        if sparse.issparse(self._chosen):
            counts = np.diff(self._chosen.indptr)[self.which[places[self.real[places]]]]
            return float(counts.sum()) ** 2 / self.n_examples
        return float(self.n_examples) * places.size**2


@routine(fastmath=SUMS)
def _products(columns, which, d, r, slopes, bends):
    X, data, indices, indptr = columns
    for k in range(which.shape[0]):
        slopes[k] = dot(X, data, indices, indptr, which[k], r)
    if bends.shape[0]:
        for k in range(which.shape[0]):
            bends[k] = dot_squares(X, data, indices, indptr, which[k], d)


@routine(fastmath=SUMS)
def _add_columns(columns, which, steps, ones, z):
    X, data, indices, indptr = columns
    for k in range(which.shape[0]):
        if steps[k] != 0.0:
            add_times(X, data, indices, indptr, which[k], steps[k], ones, z)
