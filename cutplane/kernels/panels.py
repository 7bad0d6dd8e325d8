"""Kernels as symmetric matrices, of which only panels of rows, up to the diagonal, are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, Protocol

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.risks.matrix import TILE, read_only
from cutplane.runtime.chunks import equal_ranges
from cutplane.runtime.threads import run_chunks

Ranges = list[tuple[int, int]]


def panel_ranges(m: int) -> Ranges:
    """Return the rows of each panel: with all m columns, they stay in cache."""
    height = max(1, TILE // m)
    return [(i, min(i + height, m)) for i in range(0, m, height)]


def panel_entries(m: int) -> int:
    """Return the number of entries that all panels of a matrix have together, somewhat more than half."""
    return sum((stop - first) * stop for first, stop in panel_ranges(m))


class Source(Protocol):
    """A symmetric matrix, kept or computed."""

    @property
    def n_bytes(self) -> int:
        """Memory kept, in bytes."""
        ...

    def diagonal(self) -> Array:
        """Return the diagonal, shape (m,)."""
        ...

    def panel(self, number: int, first: int, stop: int) -> Array:
        """Return the rows first to stop, C-ordered, of at least `stop` columns."""
        ...


@dataclass(frozen=True, eq=False)
class Kept:
    """A matrix of which the panels are kept: little more than half of it."""

    panels: tuple[Array, ...]

    @classmethod
    def of(cls, source: Source, m: int, dtype: Any) -> Kept:
        """Compute the panels of a source, and keep them."""
        ranges = panel_ranges(m)

        def compute(number: int) -> Array:
            first, stop = ranges[number]
            panel = source.panel(number, first, stop)[:, :stop]
            return read_only(np.ascontiguousarray(panel, dtype=dtype))

        return cls(tuple(run_chunks(compute, range(len(ranges)))))

    @property
    def n_bytes(self) -> int:
        """Memory kept, in bytes."""
        return sum(panel.nbytes for panel in self.panels)

    def diagonal(self) -> Array:
        """Return the diagonal, shape (m,)."""
        parts = [panel.diagonal(panel.shape[1] - panel.shape[0]) for panel in self.panels]
        return np.concatenate(parts).astype(np.float64)

    def panel(self, number: int, first: int, stop: int) -> Array:
        """Return a panel."""
        return self.panels[number]


@dataclass(frozen=True, eq=False)
class Given:
    """A matrix of the user, which is not copied."""

    matrix: Array
    n_bytes = 0
    _rows: Array = field(init=False)
    _ready: bool = field(init=False)

    def __post_init__(self) -> None:
        rows = np.asarray(self.matrix)  # a memory-mapped array is an ndarray too
        by_columns = rows.flags.f_contiguous and not rows.flags.c_contiguous
        rows = read_only(rows.T if by_columns else rows)
        ready = rows.flags.c_contiguous and rows.flags.aligned and rows.dtype.isnative
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_ready", ready)

    def diagonal(self) -> Array:
        """Return the diagonal, shape (m,)."""
        return self.matrix.diagonal().astype(np.float64)

    def panel(self, number: int, first: int, stop: int) -> Array:
        """Return rows, or columns if these are contiguous."""
        rows = self._rows[first:stop]
        if self._ready:
            return rows
        return read_only(np.array(rows[:, :stop], dtype=rows.dtype.newbyteorder("="), order="C"))


@dataclass(frozen=True, eq=False)
class SymmetricMatrices:
    """Passes over symmetric matrices of shape (m, m), by panels, on several threads."""

    m: int
    sources: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def n_bytes(self) -> int:
        """Memory kept, in bytes."""
        return sum(source.n_bytes for source in self.sources)

    @cached_property
    def traces(self) -> Array:
        """The trace of each matrix."""
        return np.array([source.diagonal().sum() for source in self.sources])

    def quadratic_forms(self, a: Array) -> Array:
        """Return a'K_k a for each matrix."""
        if not self.sources:
            return np.zeros(0)
        from cutplane.kernels import panel_passes as panel_kernels

        terms = np.zeros((len(self._panels), len(self)))
        is_read = [a[first:stop].any() for first, stop in self._panels]

        def do(part: tuple[tuple[int, int], tuple[int, int]]) -> None:
            for k in range(*part[0]):
                for number, first, stop in self._numbered(part[1]):
                    if is_read[number]:
                        panel = self.sources[k].panel(number, first, stop)
                        terms[number, k] = panel_kernels.quadratic_form(panel, first, stop, a)

        cost = self._cost
        kernels = equal_ranges(len(self), cost, 8)
        run_chunks(do, list(product(kernels, equal_ranges(len(self._panels), cost / len(kernels), 4))))
        return terms.sum(axis=0)

    def products(self, a: Array) -> Array:
        """Return K_k a, one row per matrix."""
        out = np.zeros((len(self), self.m))
        if self.sources:
            from cutplane.kernels import panel_passes as panel_kernels

            def do(part: tuple[int, int]) -> None:
                for k in range(*part):
                    for number, first, stop in self._numbered((0, len(self._panels))):
                        panel = self.sources[k].panel(number, first, stop)
                        panel_kernels.add_product(panel, first, stop, a, out[k])

            run_chunks(do, equal_ranges(len(self), self._cost))
        return out

    def add_weighted_sum(self, weights: Array, out: Array) -> None:
        """Add the sum of weights_k K_k to `out`, as far as the diagonal; zero weights cost nothing."""
        chosen = np.flatnonzero(weights)
        if not chosen.size:
            return
        from cutplane.kernels import panel_passes as panel_kernels

        def do(part: tuple[int, int]) -> None:
            for number, first, stop in self._numbered(part):
                for k in chosen:
                    panel = self.sources[k].panel(number, first, stop)
                    panel_kernels.add_multiple(panel, first, stop, weights[k], out)

        run_chunks(do, equal_ranges(len(self._panels), chosen.size * self.m**2 / 8))

    def restricted(self, numbers: Array) -> SymmetricMatrices:
        """Return some of the matrices."""
        return SymmetricMatrices(self.m, tuple(self.sources[k] for k in numbers))

    @property
    def _cost(self) -> float:
        return len(self) * self.m**2 / 8

    @cached_property
    def _panels(self) -> Ranges:
        return panel_ranges(self.m)

    def _numbered(self, part: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
        return ((number, *self._panels[number]) for number in range(*part))


def mirrored(out: Array) -> Array:
    """Copy what is below the diagonal above it, and return `out`."""
    from cutplane.kernels import panel_passes as panel_kernels

    rows: Callable[[tuple[int, int]], None] = lambda part: panel_kernels.mirror(out, *part)  # noqa: E731
    run_chunks(rows, equal_ranges(out.shape[0], out.size / 2))
    return out
