"""Kernels as factors, K = F F': all columns of all factors together, in a few large arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.risks.data import Data, make_data

SLAB = 1 << 22
"""Numbers in one of the arrays; so much is copied when the factors are gathered."""

BATCH = 512
"""Columns that are multiplied with themselves at a time."""


@dataclass(frozen=True, eq=False)
class Slab:
    """The columns of some factors, one after the other."""

    data: Data
    owners: Array

    @classmethod
    def of(cls, columns: Array, owners: Array) -> Slab:
        """Return the slab of an array whose rows are the columns of the factors."""
        return cls(make_data(columns, np.array([0, columns.shape[0]])), owners)


@dataclass(frozen=True, eq=False)
class FactoredKernels:
    """Passes over kernels K_k = F_k F_k'."""

    m: int
    n_kernels: int
    slabs: tuple[Slab, ...]

    @classmethod
    def of(cls, m: int, factors: Iterable[Array], dtype: Any) -> FactoredKernels:
        """Gather factors of shape (m, r_k)."""
        slabs, columns, sizes = [], [], []
        first = 0

        def close() -> None:
            if sum(sizes):
                array = np.concatenate(columns)
                slabs.append(Slab.of(array, np.repeat(np.arange(first, first + len(sizes)), sizes)))

        for F in factors:
            columns.append(np.ascontiguousarray(F.T, dtype=dtype))
            sizes.append(F.shape[1])
            if sum(sizes) * m >= SLAB:
                close()
                first += len(sizes)
                columns, sizes = [], []
        close()
        return cls(m, first + len(sizes), tuple(slabs))

    def __len__(self) -> int:
        return self.n_kernels

    @property
    def n_columns(self) -> int:
        """The sum of the ranks."""
        return self.owners.size

    @property
    def n_bytes(self) -> int:
        """Memory of the factors, in bytes."""
        return sum(slab.data.X.nbytes for slab in self.slabs)

    @cached_property
    def owners(self) -> Array:
        """The number of the kernel of each column."""
        return np.concatenate([np.empty(0, np.int64), *(slab.owners for slab in self.slabs)])

    @cached_property
    def traces(self) -> Array:
        """The trace of each kernel."""
        squares = [slab.data.squared_norms() for slab in self.slabs]
        return self._sums(np.concatenate([np.zeros(0), *squares]))

    def coefficients(self, a: Array) -> Array:
        """Return F'a for all columns: one pass."""
        return np.concatenate([np.zeros(0), *(slab.data.times(a) for slab in self.slabs)])

    def quadratic_forms(self, coefficients: Array) -> Array:
        """Return a'K_k a, from the coefficients of a."""
        return self._sums(coefficients * coefficients)

    def weighted_products(self, weights: Array, coefficients: Array) -> Array:
        """Return the sum of weights_k K_k a, from the coefficients of a; zero weights cost nothing."""
        out = np.zeros(self.m)
        scaled = weights[self.owners] * coefficients
        start = 0
        for slab in self.slabs:
            part = scaled[start : start + slab.owners.size]
            start += slab.owners.size
            rows = np.flatnonzero(part)
            slab.data.add_rows(rows, part[rows], out)
        return out

    def add_weighted_sum(self, weights: Array, out: Array, used: Array | None = None) -> None:
        """Add the sum of weights_k K_k to `out`, as far as the diagonal; zero weights cost nothing.

        `used` is a mask over the columns; by default all are used.
        """
        from scipy.linalg import get_blas_funcs

        syrk: Any = get_blas_funcs("syrk", dtype=np.float64)
        for sign in (1.0, -1.0):
            scales = np.sqrt(np.maximum(sign * weights, 0.0))[self.owners]
            for columns in self._batches(scales if used is None else np.where(used, scales, 0.0)):
                # Above the diagonal in Fortran's order is below it in C's.
                syrk(sign, columns.T, beta=1.0, c=out.T, overwrite_c=1)

    def restricted(self, numbers: Array) -> FactoredKernels:
        """Return some of the kernels, in that order; their columns are copied, unless all of a slab are."""
        places = np.full(self.n_kernels, -1)
        places[numbers] = np.arange(numbers.size)
        slabs = []
        for slab in self.slabs:
            owners = places[slab.owners]
            kept = owners >= 0
            if kept.all():
                slabs.append(Slab(slab.data, owners))
            elif kept.any():
                slabs.append(Slab.of(slab.data.X[kept], owners[kept]))
        return FactoredKernels(self.m, numbers.size, tuple(slabs))

    def _batches(self, scales: Array) -> Iterator[Array]:
        """Yield the columns times their scales, in float64, some at a time; zeros are left out."""
        batch: list[Array] = []
        count = start = 0
        for slab in self.slabs:
            part = scales[start : start + slab.owners.size]
            start += slab.owners.size
            rows = np.flatnonzero(part)
            if rows.size:
                columns = slab.data.X[rows].astype(np.float64, copy=False)
                columns *= part[rows, np.newaxis]
                batch.append(columns)
                count += rows.size
            if count >= BATCH:
                yield np.concatenate(batch) if len(batch) > 1 else batch[0]
                batch, count = [], 0
        if batch:
            yield np.concatenate(batch) if len(batch) > 1 else batch[0]

    def _sums(self, terms: Array) -> Array:
        return np.bincount(self.owners, terms, self.n_kernels)
