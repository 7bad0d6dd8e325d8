"""The bundle: cuts of the risk and half-spaces of the feasible set, their ages, and what is dropped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutplane.masters.base import HALF_SPACE
from cutplane.validation import Array

AGGREGATE = -1
"""The query number of a row that is a convex combination of dropped rows."""
TRIVIAL = -2
"""The query number of a cut that states a known infimum: slope 0."""

_MAX_AGE = 20


class Bundle:
    """Rows <slope, x> + offset in preallocated arrays that double; the rows the masters read.

    Parameters
    ----------
    dim : int
    n_blocks : int
        Number of blocks of the risk.
    max_cuts : int or None
        The most rows that `trim` leaves; None: no limit.
    """

    def __init__(self, dim: int, n_blocks: int, max_cuts: int | None = None):
        self.dim = dim
        self.n_blocks = n_blocks
        self.max_cuts = max_cuts
        self._count = 0
        self._next_id = 0
        self._slopes = np.empty((16, dim))
        self._offsets = np.empty(16)
        self._blocks = np.empty(16, dtype=np.int64)
        self._ids = np.empty(16, dtype=np.int64)
        self._queries = np.empty(16, dtype=np.int64)
        self._ages = np.empty(16, dtype=np.int64)
        self.points: dict[int, Array] = {}
        self.trimmed = False

    @property
    def slopes(self) -> Array:
        """Shape (K, dim)."""
        return self._slopes[: self._count]

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
        return self._slopes.nbytes + sum(point.nbytes for point in self.points.values())

    def has_cuts(self) -> bool:
        """Tell whether every block has at least one cut, so that the model is finite."""
        cuts = self.blocks[self.blocks >= 0]
        return np.bincount(cuts, minlength=self.n_blocks).all() if cuts.size else False

    def add(
        self, query: int, point: Array | None, slopes: Array, offsets: Array, blocks: Sequence[int]
    ) -> int:
        """Append rows that came from the query at `point`; a row that is already there is skipped.

        Returns the number of rows that were new.
        """
        added = 0
        for slope, offset, block in zip(slopes, offsets, blocks, strict=True):
            added += self._append(query, slope, float(offset), block)
        if added and point is not None:
            self.points[query] = np.array(point)
        return added

    def _append(self, query: int, slope: Array, offset: float, block: int) -> int:
        close = np.abs(self.offsets - offset) <= 1e-14 * (1.0 + abs(offset))
        for row in np.flatnonzero(close & (self.blocks == block)):
            if np.array_equal(self._slopes[row], slope):
                return 0
        if self._count == len(self._offsets):
            self._grow()
        row = self._count
        self._slopes[row] = slope
        self._offsets[row] = offset
        self._blocks[row] = block
        self._ids[row] = self._next_id
        self._queries[row] = query
        self._ages[row] = 0
        self._next_id += 1
        self._count += 1
        return 1

    def _grow(self) -> None:
        capacity = 2 * len(self._offsets)
        for name in ("_slopes", "_offsets", "_blocks", "_ids", "_queries", "_ages"):
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

    def age(self, multipliers: Array) -> None:
        """Set the age of the rows with a positive multiplier to zero; the others grow older by one."""
        ages = self._ages[: multipliers.shape[0]]
        ages += 1
        ages[multipliers > 1e-10 * multipliers.max(initial=0.0)] = 0

    def room_for(self, new_rows: int, multipliers: Array) -> bool:
        """Tell whether `trim` would drop rows to make room for `new_rows` more."""
        return self.max_cuts is not None and self._count + new_rows > self.max_cuts and multipliers.size > 0

    def trim(self, new_rows: int, multipliers: Array) -> None:
        """Make room for `new_rows` rows under `max_cuts`.

        The rows whose multiplier has been zero for the longest go first. When active rows must go, their
        block's aggregate (the combination of its rows by `multipliers`) takes their place, so that the
        reduced problem keeps its optimal value.
        """
        if not self.room_for(new_rows, multipliers):
            return
        assert self.max_cuts is not None
        excess = self._count + new_rows - self.max_cuts
        weights = np.zeros(self._count)
        weights[: multipliers.shape[0]] = multipliers
        protected = (self.queries == TRIVIAL) | (self.ids > self.ids[multipliers.shape[0] - 1])
        order = np.lexsort((weights, -self._ages[: self._count], protected))
        passive = order[(weights[order] <= 0.0) & ~protected[order]]
        keep = np.ones(self._count, dtype=bool)
        keep[passive[:excess]] = False
        if passive.size < excess:
            groups = np.unique(self.blocks[(weights > 0.0)])
            slopes = np.array([weights[self.blocks == k] @ self.slopes[self.blocks == k] for k in groups])
            offsets = np.array([weights[self.blocks == k] @ self.offsets[self.blocks == k] for k in groups])
            excess += len(groups) - passive.size
            active = [row for row in order if weights[row] > 0.0 and not protected[row]]
            keep[active[:excess]] = False
            self._compact(keep)
            self.add(AGGREGATE, None, slopes, offsets, groups.tolist())
        else:
            self._compact(keep)

    def _compact(self, keep: Array) -> None:
        left = int(keep.sum())
        for name in ("_slopes", "_offsets", "_blocks", "_ids", "_queries", "_ages"):
            array = getattr(self, name)
            array[:left] = array[: self._count][keep]
        self._count = left
        alive = set(self.queries.tolist())
        self.points = {query: point for query, point in self.points.items() if query in alive}
        self.trimmed = True
