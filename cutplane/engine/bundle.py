"""The bundle: cuts of the risk and half-spaces of the feasible set, their ages, and what is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.engine.slopes import DenseSlopes, Slopes, SparseSlopes, rows_of
from cutplane.masters.base import HALF_SPACE
from cutplane.validation import Array

AGGREGATE = -1
"""The query number of a row that is a convex combination of dropped rows."""
TRIVIAL = -2
"""The query number of a cut that states a known infimum: slope 0."""

_COLUMNS = "_offsets", "_blocks", "_ids", "_keys", "_queries", "_ages", "_weights"
_NOT_WEIGHED = -1.0
_NEGLIGIBLE = 1e-10


class Bundle:
    """Rows <slope, x> + offset in preallocated arrays that double; the rows the masters read.

    The slopes are sparse from the first sparse half-space on.

    Parameters
    ----------
    dim : int
    n_blocks : int
        Number of blocks of the risk.
    max_cuts : int or None
        The most rows that `make_room` leaves; None: no limit.
    """

    def __init__(self, dim: int, n_blocks: int, max_cuts: int | None = None):
        self.dim = dim
        self.n_blocks = n_blocks
        self.max_cuts = max_cuts
        self._count = 0
        self._next_id = 0
        self._slopes: Slopes = DenseSlopes(dim)
        self._offsets = np.empty(16)
        self._blocks = np.empty(16, dtype=np.int64)
        self._ids = np.empty(16, dtype=np.int64)
        self._keys = np.empty(16, dtype=np.int64)
        self._queries = np.empty(16, dtype=np.int64)
        self._ages = np.empty(16, dtype=np.int64)
        self._weights = np.empty(16)
        self.points: dict[int, Array] = {}
        """The query point of each query that has one."""
        self.duals: dict[int, Array] = {}
        """The multipliers of the examples of each query that is a dual cut."""
        self._covered = False

    @property
    def slopes(self) -> Any:
        """An ndarray or csr_array of shape (K, dim)."""
        return self._slopes.matrix

    @property
    def offsets(self) -> Array:
        """Shape (K,)."""
        return self._offsets[: self._count]

    @property
    def blocks(self) -> Array:
        """Shape (K,): the block of each cut, or `HALF_SPACE`."""
        return self._blocks[: self._count]

    @property
    def ids(self) -> Array:
        """Shape (K,), strictly increasing."""
        return self._ids[: self._count]

    @property
    def queries(self) -> Array:
        """Shape (K,): the query that gave each row (a key of `points`), `AGGREGATE` or `TRIVIAL`."""
        return self._queries[: self._count]

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Memory held by the rows and by the query points."""
        origins = [*self.points.values(), *self.duals.values()]
        return self._slopes.nbytes + sum(origin.nbytes for origin in origins)

    def has_cuts(self) -> bool:
        """Tell whether every block has at least one cut, so that the model is finite."""
        if not self._covered:
            cuts = self.blocks[self.blocks >= 0]
            self._covered = cuts.size > 0 and bool(np.bincount(cuts, minlength=self.n_blocks).all())
        return self._covered

    def add(self, query: int, point: Array | None, slopes: Any, offsets: Array, blocks: Sequence[int]) -> int:
        """Append rows that came from the query at `point`; a row that is already there is skipped.

        Returns the number of rows that were new.
        """
        if sparse.issparse(slopes) and isinstance(self._slopes, DenseSlopes):
            self._slopes = SparseSlopes(self._slopes.matrix)
            self._keys[: self._count] = [self._slopes.key(row) for row in rows_of(self._slopes.matrix)]
        added = 0
        for slope, offset, block in zip(rows_of(slopes), offsets, blocks, strict=True):
            added += self._append(query, slope, float(offset), block)
        if added and point is not None:
            self.points[query] = np.array(point)
        return added

    def find(self, slope: Any, offset: float, block: int) -> int | None:
        """Return the row that holds this cut or half-space; None if there is none."""
        close = np.abs(self.offsets - offset) <= 1e-14 * (1.0 + abs(offset))
        same = self._keys[: self._count] == self._slopes.key(slope)
        for row in np.flatnonzero(close & same & (self.blocks == block)).tolist():
            if self._slopes.holds(row, slope):
                return row
        return None

    def _append(self, query: int, slope: Any, offset: float, block: int) -> int:
        if self.find(slope, offset, block) is not None:
            return 0
        if self._count == len(self._offsets):
            self._grow()
        row = self._count
        self._slopes.append(slope)
        self._offsets[row] = offset
        self._blocks[row] = block
        self._ids[row] = self._next_id
        self._keys[row] = self._slopes.key(slope)
        self._queries[row] = query
        self._ages[row] = 0
        self._weights[row] = _NOT_WEIGHED
        self._next_id += 1
        self._count += 1
        return 1

    def _grow(self) -> None:
        capacity = 2 * len(self._offsets)
        for name in _COLUMNS:
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: self._count] = old[: self._count]
            setattr(self, name, new)

    def model(self, x: Array) -> float:
        """Return the model at x: the sum over the blocks of the largest cut; -inf if a block has none."""
        return float(self.block_models(x).sum())

    def block_models(self, x: Array) -> Array:
        """Return the model of each block at x, shape (n_blocks,)."""
        values = self.slopes @ x + self.offsets
        if self.n_blocks == 1 and not (self.blocks == HALF_SPACE).any():
            return np.array([values.max()]) if values.size else np.array([-np.inf])
        models = np.full(self.n_blocks, -np.inf)
        cuts = self.blocks >= 0
        np.maximum.at(models, self.blocks[cuts], values[cuts])
        return models

    def weigh(self, multipliers: Array) -> None:
        """Record the multipliers of all rows, which decide what `make_room` drops."""
        self._weights[: self._count] = multipliers
        ages = self._ages[: self._count]
        ages += 1
        ages[multipliers > _NEGLIGIBLE * multipliers.max(initial=0.0)] = 0

    def stale(self, age: int) -> Array:
        """Return a mask: the half-spaces whose multipliers have been zero for more than `age` iterations."""
        return (self.blocks == HALF_SPACE) & (self._ages[: self._count] > age)

    def drop(self, rows: Array) -> None:
        """Drop the rows of a mask."""
        self._compact(~rows)

    def is_full(self, new_rows: int) -> bool:
        """Tell whether `make_room` has to drop rows before `new_rows` can be added."""
        return self.max_cuts is not None and self._count + new_rows > self.max_cuts

    def make_room(self, new_rows: int) -> None:
        """Drop rows until `new_rows` more fit under `max_cuts`, as far as rows have been weighed.

        The rows whose multiplier has been zero for the longest go first. When active rows must go, the
        aggregate of their block (the combination of all its rows by their multipliers) is added, so that the
        reduced problem keeps its optimal value; it then carries the whole weight of its block.
        """
        if not self.is_full(new_rows):
            return
        assert self.max_cuts is not None
        weights = self._weights[: self._count]
        candidates = np.flatnonzero((weights >= 0.0) & (self.queries != TRIVIAL))
        passive = candidates[weights[candidates] == 0.0]
        oldest = passive[np.argsort(-self._ages[passive], kind="stable")]
        excess = self._count + new_rows - self.max_cuts
        keep = np.ones(self._count, dtype=bool)
        keep[oldest[:excess]] = False
        if passive.size >= excess:
            self._compact(keep)
        else:
            self._aggregate(keep, candidates[weights[candidates] > 0.0], excess - passive.size)

    def _aggregate(self, keep: Array, active: Array, excess: int) -> None:
        """Replace `excess` active rows, and as many as there are blocks among them, by aggregates."""
        weights = np.maximum(self._weights[: self._count], 0.0)
        blocks = np.unique(self.blocks[active])
        members = [np.where(self.blocks == block, weights, 0.0) for block in blocks]
        slopes = [member @ self.slopes for member in members]
        offsets = [member @ self.offsets for member in members]
        lightest = active[np.argsort(weights[active], kind="stable")]
        keep[lightest[: excess + len(blocks)]] = False
        self._weights[active] = 0.0
        self._compact(keep)
        for block, slope, offset, member in zip(blocks, slopes, offsets, members, strict=True):
            if self._append(AGGREGATE, slope, float(offset), int(block)):
                self._weights[self._count - 1] = member.sum()

    def _compact(self, keep: Array) -> None:
        left = int(keep.sum())
        self._slopes.keep(keep)
        for name in _COLUMNS:
            array = getattr(self, name)
            array[:left] = array[: self._count][keep]
        self._count = left
        alive = set(self.queries.tolist())
        self.points = {query: point for query, point in self.points.items() if query in alive}
        self.duals = {query: dual for query, dual in self.duals.items() if query in alive}
