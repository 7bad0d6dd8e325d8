"""Passes over a sparse matrix."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.risks.chunks import Segments, balanced_ranges, count_chunks, segments
from cutplane.risks.matrix import read_only, unsigned
from cutplane.risks.vectors import ALL, Data
from cutplane.runtime.threads import run_chunks


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
