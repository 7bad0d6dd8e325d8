"""Some columns of the data, as the passes of coordinate descent read them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.linear import group_sweeps, sweeps
from cutplane.pieces.validation import Array
from cutplane.risks.data import Data
from cutplane.risks.matrix import unsigned


class Columns:
    """The columns `which` of the data; -1 stands for a column of ones.

    CSC and arrays whose columns are contiguous are read where they are; the columns of other arrays are
    copied together, and CSR is converted once.
    """

    def __init__(self, data: Data, which: Array):
        X: Any = data.X
        self.real = which >= 0
        self.n_examples = X.shape[0]
        self._chosen: Any
        if sparse.issparse(X):
            csc = data.by_column  # pyright: ignore[reportAttributeAccessIssue]
            self._chosen, self.which = csc, which
            self._arrays = csc.data, unsigned(csc.indices), unsigned(csc.indptr)
            self.entries = int(np.diff(csc.indptr)[which[self.real]].sum())
        else:
            if X.T.flags.c_contiguous:
                self._chosen, self.which = X.T, which
            else:
                self._chosen = np.ascontiguousarray(X[:, which[self.real]].T)
                self.which = np.where(self.real, np.cumsum(self.real) - 1, -1)
            self._arrays = (self._chosen,)
            self.entries = X.shape[0] * int(self.real.sum())

    def slopes(self, d: Array, r: Array) -> tuple[Array, Array]:
        """Return the products of the columns with r, and of their squares with d."""
        slopes, bends = np.empty(self.which.size), np.empty(self.which.size)
        sweeps.slopes_and_bends(self._arrays, self.which, d, r, slopes, bends)
        return slopes, bends

    def add(self, steps: Array, z: Array) -> None:
        """Add the columns, times the steps, to z."""
        sweeps.add_columns(self._arrays, self.which, steps, np.ones_like(z), z)

    def descend(self, *arguments: Any) -> tuple[float, float]:
        """Minimise over one coordinate after the other; see `sweeps.descend`."""
        return sweeps.descend(self._arrays, self.which, *arguments)

    def descend_groups(self, *arguments: Any) -> tuple[float, float]:
        """Take proximal gradient steps in one group after the other; see `group_sweeps.descend_groups`."""
        return group_sweeps.descend_groups(self._arrays, self.which, *arguments)

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
            chosen = self.which[places[self.real[places]]]
            counts = np.diff(self._chosen.indptr)[chosen]
            return float(counts.sum()) ** 2 / self.n_examples
        return float(self.n_examples) * places.size**2
