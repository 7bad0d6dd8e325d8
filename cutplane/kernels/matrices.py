"""Many kernel matrices on the same examples, as factors K = F F' or as symmetric matrices read in panels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Protocol

import numpy as np

from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.risks.data import Data, make_data
from cutplane.risks.matrix import TILE
from cutplane.runtime.chunks import equal_ranges
from cutplane.runtime.threads import run_chunks

SLAB = 1 << 22
"""Number of entries of an array of factors, because filling the array copies all of them."""
BATCH = 512
"""Number of columns of one product F F', because a product of this size reaches full speed."""


@dataclass(frozen=True, eq=False)
class Slab:
    """The columns of some factors, as rows of one array, and the index of the kernel of each column."""

    data: Data
    owners: Array

    @classmethod
    def of(cls, columns: Array, owners: Array) -> Slab:
        """Make a slab from an array."""
        return cls(make_data(columns, np.array([0, columns.shape[0]])), owners)


@dataclass(frozen=True, eq=False)
class FactoredKernels:
    """The kernels with a factor, K_k = F_k F_k', among n kernels; passes treat the others as zero."""

    m: int
    n_kernels: int
    slabs: tuple[Slab, ...] = ()

    @classmethod
    def of(cls, m: int, n_kernels: int, factors: Iterable[tuple[int, Array]], dtype: Any) -> FactoredKernels:
        """Gather pairs of a kernel's index and its factor of shape (m, r_k)."""
        slabs: list[Slab] = []
        columns: list[Array] = []
        owners: list[int] = []

        def close() -> None:
            if owners:
                slabs.append(Slab.of(np.concatenate(columns), np.array(owners)))
            columns.clear()
            owners.clear()

        for k, F in factors:
            columns.append(np.ascontiguousarray(F.T, dtype=dtype))
            owners += [k] * F.shape[1]
            if len(owners) * m >= SLAB:
                close()
        close()
        return cls(m, n_kernels, tuple(slabs))

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
        """The index of the kernel of each column."""
        return np.concatenate([np.empty(0, np.int64), *(slab.owners for slab in self.slabs)])

    @cached_property
    def traces(self) -> Array:
        """The trace of each kernel."""
        squares = [slab.data.squared_norms() for slab in self.slabs]
        return np.bincount(self.owners, np.concatenate([np.zeros(0), *squares]), self.n_kernels)

    def coefficients(self, a: Array) -> Array:
        """Return F'a for all columns; reads the factors once."""
        return np.concatenate([np.zeros(0), *(slab.data.times(a) for slab in self.slabs)])

    def quadratic_forms(self, coefficients: Array) -> Array:
        """Return a'K_k a, from the coefficients of a."""
        return np.bincount(self.owners, coefficients * coefficients, self.n_kernels)

    def weighted_products(self, weights: Array, coefficients: Array) -> Array:
        """Return the sum of weights_k K_k a from the coefficients of a; zero weights are skipped."""
        out = np.zeros(self.m)
        for data, rows, values in self._nonzero(weights[self.owners] * coefficients):
            data.add_rows(rows, values, out)
        return out

    def add_weighted_sum(self, weights: Array, out: Array, used: Array | None = None) -> None:
        """Add the sum of weights_k K_k to the lower triangle of `out`; zero weights are skipped.

        `used` is a mask of the columns to use, by default all.
        """
        from scipy.linalg import get_blas_funcs

        syrk: Any = get_blas_funcs("syrk", dtype=np.float64)

        def add(batch: list[Array], sign: float) -> None:
            if batch:  # the upper triangle in Fortran order is the lower triangle in C order
                syrk(sign, np.concatenate(batch).T, beta=1.0, c=out.T, overwrite_c=1)

        for sign in (1.0, -1.0):
            scales = np.sqrt(np.maximum(sign * weights, 0.0))[self.owners]
            batch: list[Array] = []
            for data, rows, values in self._nonzero(scales if used is None else np.where(used, scales, 0.0)):
                columns = data.X[rows].astype(np.float64, copy=False)
                columns *= values[:, np.newaxis]
                batch.append(columns)
                if sum(map(len, batch)) >= BATCH:
                    add(batch, sign)
                    batch = []
            add(batch, sign)

    def restricted(self, numbers: Array) -> FactoredKernels:
        """Return some of the kernels in the given order; slabs that are used completely are not copied."""
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

    def _nonzero(self, values: Array) -> Iterator[tuple[Data, Array, Array]]:
        """Yield the data of each slab, the rows with a nonzero value, and these values."""
        start = 0
        for slab in self.slabs:
            part = values[start : start + slab.owners.size]
            start += slab.owners.size
            rows = np.flatnonzero(part)
            if rows.size:
                yield slab.data, rows, part[rows]


def panel_ranges(m: int) -> list[tuple[int, int]]:
    """Return the first and last row of each panel; panels are small enough for the cache."""
    height = max(1, TILE // m)
    return [(i, min(i + height, m)) for i in range(0, m, height)]


def panel_entries(m: int) -> int:
    """Return the number of entries in all panels of a matrix, somewhat more than half of m^2."""
    return sum((stop - first) * stop for first, stop in panel_ranges(m))


class Source(Protocol):
    """A symmetric matrix, stored or computed when needed."""

    @property
    def n_bytes(self) -> int:
        """Memory of stored entries, in bytes."""
        ...

    def diagonal(self) -> Array:
        """Return the diagonal, shape (m,)."""
        ...

    def panel(self, first: int, stop: int) -> Array:
        """Return the rows first to stop - 1 in C order, with at least `stop` columns."""
        ...


@dataclass(frozen=True, eq=False)
class KeptPanels:
    """A matrix stored as panels, little more than its lower triangle; the keys are their first rows."""

    panels: dict[int, Array]

    @classmethod
    def of(cls, source: Source, m: int, dtype: Any) -> KeptPanels:
        """Compute and store the panels of a source."""

        def compute(rows: tuple[int, int]) -> Array:
            panel = source.panel(*rows)[:, : rows[1]]
            return read_only(np.ascontiguousarray(panel, dtype=dtype))

        ranges = panel_ranges(m)
        return cls(dict(zip([first for first, _ in ranges], run_chunks(compute, ranges), strict=True)))

    @property
    def n_bytes(self) -> int:
        """Memory kept, in bytes."""
        return sum(panel.nbytes for panel in self.panels.values())

    def diagonal(self) -> Array:
        """Return the diagonal, shape (m,)."""
        parts = [panel.diagonal(first) for first, panel in self.panels.items()]
        return np.concatenate(parts).astype(np.float64)

    def panel(self, first: int, stop: int) -> Array:
        """Return a panel."""
        return self.panels[first]


@dataclass(frozen=True, eq=False)
class GivenMatrix:
    """A user's matrix, which is not copied."""

    matrix: Array
    n_bytes = 0
    _rows: Array = field(init=False)

    def __post_init__(self) -> None:
        rows = np.asarray(self.matrix)  # a memory-mapped array is an ndarray too
        by_columns = rows.flags.f_contiguous and not rows.flags.c_contiguous
        object.__setattr__(self, "_rows", read_only(rows.T if by_columns else rows))

    def diagonal(self) -> Array:
        """Return the diagonal, shape (m,)."""
        return self.matrix.diagonal().astype(np.float64)

    def panel(self, first: int, stop: int) -> Array:
        """Return rows, or columns if these are contiguous; copied only if the memory layout requires it."""
        whole, rows = self._rows, self._rows[first:stop]
        if whole.flags.c_contiguous and whole.flags.aligned and whole.dtype.isnative:
            return rows
        return read_only(np.array(rows[:, :stop], dtype=rows.dtype.newbyteorder("="), order="C"))


@dataclass(frozen=True, eq=False)
class SymmetricMatrices:
    """The kernels stored as symmetric matrices, among n kernels. Passes use panels and several threads."""

    m: int
    n_kernels: int
    numbers: Array
    sources: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def n_bytes(self) -> int:
        """Memory kept, in bytes."""
        return sum(source.n_bytes for source in self.sources)

    @cached_property
    def traces(self) -> Array:
        """The trace of each kernel, 0 for those without a matrix."""
        return self.among_all(np.array([source.diagonal().sum() for source in self.sources]))

    def among_all(self, values: Array) -> Array:
        """Spread values of the matrices over all kernels, with 0 for the others."""
        out = np.zeros(self.n_kernels)
        out[self.numbers] = values
        return out

    def products(self, a: Array) -> Array:
        """Return K_k a, one row per matrix; reads the matrices once."""
        out = np.zeros((len(self), self.m))
        if self.sources:
            from cutplane.kernels import passes

            def do(part: tuple[int, int]) -> None:
                for k, (first, stop) in product(range(*part), self._panels):
                    passes.add_product(self.sources[k].panel(first, stop), first, stop, a, out[k])

            run_chunks(do, equal_ranges(len(self), len(self) * self.m**2 / 8))
        return out

    def add_weighted_sum(self, weights: Array, out: Array) -> None:
        """Add the sum of weights_k K_k to the lower triangle of `out`; zero weights are skipped."""
        chosen = np.flatnonzero(weights)
        if not chosen.size:
            return
        from cutplane.kernels import passes

        def do(part: tuple[int, int]) -> None:
            for (first, stop), k in product(self._panels[slice(*part)], chosen):
                passes.add_multiple(self.sources[k].panel(first, stop), first, stop, weights[k], out)

        run_chunks(do, equal_ranges(len(self._panels), chosen.size * self.m**2 / 8))

    def restricted(self, numbers: Array) -> SymmetricMatrices:
        """Return some of the kernels in the given order."""
        places = np.flatnonzero(np.isin(numbers, self.numbers))
        known = dict(zip(self.numbers.tolist(), self.sources, strict=True))
        sources = tuple(known[k] for k in numbers[places].tolist())
        return SymmetricMatrices(self.m, numbers.size, places, sources)

    @cached_property
    def _panels(self) -> list[tuple[int, int]]:
        return panel_ranges(self.m)
