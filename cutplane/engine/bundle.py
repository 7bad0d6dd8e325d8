"""The bundle: cuts of the risk and half-spaces of the feasible set, their ages, and what is dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.engine.slopes import (
    DenseSlopes,
    Points,
    Slopes,
    SparseSlopes,
    deepest,
    largest_entry,
    rows_of,
    rows_to_matrix,
    stacked,
)
from cutplane.masters.base import HALF_SPACE
from cutplane.masters.rows import products
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import TRIVIAL, Rows, memory_of, row_sizes

AGGREGATE = -1
"""The query number of a row that is a convex combination of dropped rows."""


class Proof(NamedTuple):
    """Ids of rows that are or were in the bundle, and their multipliers in a lower bound."""

    ids: Array = np.empty(0, dtype=np.int64)
    multipliers: Array = np.empty(0)


class Origins(NamedTuple):
    """Where rows come from, by query: a point, multipliers of examples; and the solution found there."""

    points: Mapping[int, Array]
    duals: dict[int, Array]
    solutions: dict[int, tuple[Any, ...]]


class Retired(NamedTuple):
    """A row that is not in the bundle, but in use by an aggregate or the best bound."""

    slope: Any
    offset: float
    block: int
    query: int


_NOT_WEIGHED = -1.0
_NEGLIGIBLE = 1e-10
_SAME = 1e-14
"""Offsets of one slope that differ by less, relative to them, differ by rounding."""
_FADED = 1e-15
"""The share of an aggregate below which a row in it is rounding."""


class Bundle:
    """Rows <slope, x> + offset in preallocated arrays that double; the rows the masters read.

    The slopes are sparse from the first sparse half-space on.

    Parameters
    ----------
    dim : int
    n_blocks : int
        Number of blocks of the risk.
    max_cuts : int or None
        The most rows there ever are, at least 3 * n_blocks + 1, and one more with half-spaces; None: no
        limit.
    """

    def __init__(self, dim: int, n_blocks: int, max_cuts: int | None = None):
        self.dim = dim
        self.n_blocks = n_blocks
        self.max_cuts = max_cuts
        self._next_id = 0
        self._slopes: Slopes = DenseSlopes(dim)
        self._floats, self._integers = np.empty((3, 16)), np.empty((5, 16), dtype=np.int64)
        self._set_count(0)
        self.points = Points()
        """The query point of each query that has one."""
        self.duals: dict[int, Array] = {}
        """The multipliers of the examples of each query that is a dual cut."""
        self.solutions: dict[int, tuple[Any, ...]] = {}
        """The solutions, one per block, of each query whose oracle returned them."""
        self.retired: dict[int, Retired] = {}
        """The rows, by id, that aggregates were made of, or that were in use by the best bound."""
        self._members: dict[int, dict[int, float]] = {}
        self._pinned: set[int] = set()
        self.has_half_spaces = False
        """Whether there ever was one."""
        self.steepest = 0.0
        """The largest entry of a slope that ever was here."""
        self._covered = False
        self._seen: set[int] = set()  # keys of all rows that ever were here

    @property
    def slopes(self) -> Any:
        """An ndarray or csr_array of shape (K, dim)."""
        if self._matrix is None:
            self._matrix = self._slopes.matrix
        return self._matrix

    @property
    def highest(self) -> float:
        """The largest absolute offset; 0 if there is no cut."""
        return float(np.abs(self.offsets).max(initial=0.0))

    def _set_count(self, count: int) -> None:
        """Show the first `count` rows."""
        self._count, self._matrix = count, None
        self.offsets, self.sizes, self._weights = self._floats[:, :count]
        """Shape (K,); the largest absolute entry of each slope; the multipliers last recorded."""
        self.blocks, self.ids, self.queries, self._keys, self._ages = self._integers[:, :count]
        """Shape (K,): the block of each cut, or `HALF_SPACE`; strictly increasing ids; the query that gave
        each row (a key of `points`), `AGGREGATE` or `TRIVIAL`; hashes of the slopes; idle solves."""

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Memory held by the rows and by the query points."""
        return self._slopes.nbytes + memory_of(self.points) + memory_of(self.duals)

    def has_cuts(self) -> bool:
        """Tell whether every block has at least one cut, so that the model is finite."""
        if not self._covered:
            cuts = self.blocks[self.blocks >= 0]
            self._covered = cuts.size > 0 and bool(np.bincount(cuts, minlength=self.n_blocks).all())
        return self._covered

    def add(
        self,
        query: int,
        point: Array | None,
        slopes: Any,
        offsets: Array,
        blocks: Sequence[int],
        solutions: tuple[Any, ...] | None = None,
    ) -> int:
        """Append rows that came from the query at `point`; a row that is already there is skipped.

        Of a batch for which `make_room` has not found room enough, those that lie deepest at the point are
        taken. Returns the number of rows that were new.
        """
        if self.is_full(len(offsets)) and point is not None:
            assert self.max_cuts is not None
            slopes, offsets, blocks = deepest(point, slopes, offsets, blocks, self.max_cuts - self._count)
        if sparse.issparse(slopes) and isinstance(self._slopes, DenseSlopes):
            self._slopes, self._matrix = SparseSlopes(self._slopes.matrix), None
            self._keys[:] = [self._slopes.key(row) for row in rows_of(self._slopes.matrix)]
            self._seen = set(self._keys.tolist())
        added = 0
        for slope, offset, block in zip(rows_of(slopes), offsets.tolist(), blocks, strict=True):
            added += self._append(query, slope, offset, block)
        if added and point is not None:
            self.points[query] = point
        if added and solutions is not None:
            self.solutions[query] = solutions
        return added

    def fill(self, slopes: Array, offsets: Array, blocks: Array, queries: Array) -> None:
        """Append rows of which no two are the same, and none is here."""
        before = self._count
        self._reserve(len(offsets))
        self._set_count(before + len(offsets))
        new = slice(before, self._count)
        self.offsets[new], self.sizes[new], self._weights[new] = offsets, row_sizes(slopes), _NOT_WEIGHED
        self.blocks[new], self.queries[new], self._ages[new] = blocks, queries, 0
        self.ids[new] = self._next_id + np.arange(len(offsets))
        self._keys[new] = [self._slopes.key(slope) for slope in slopes]
        for slope in slopes:
            self._slopes.append(slope)
        self._next_id += len(offsets)
        self._seen.update(self._keys[new].tolist())
        self.steepest = max(self.steepest, float(self.sizes[new].max(initial=0.0)))
        self.has_half_spaces |= bool((blocks == HALF_SPACE).any())

    def lower(self, noise: float) -> None:
        """Lower every cut by an error of the values that nothing told of when it was made."""
        self.offsets[(self.blocks != HALF_SPACE) & (self.queries != TRIVIAL)] -= noise

    def origin(self, row: int) -> Array | None:
        """Return the query point of a row, None if it has none."""
        return self.points.get(int(self.queries[row]))

    def rows(self, slopes: Array, offsets: Array, x: Array | None = None) -> list[int] | None:
        """Return the rows that hold cuts, one per block; for a missing one the highest at x, or else None.

        A row of a risk with several pieces may have other last bits than the cut.
        """
        rows = []
        for block, (slope, offset) in enumerate(zip(slopes, offsets.tolist(), strict=True)):
            row = self.find(slope, offset, block)
            if row is None:
                if x is None:
                    return None
                row = int(np.where(self.blocks == block, self.slopes @ x + self.offsets, -np.inf).argmax())
            rows.append(row)
        return rows

    def find(self, slope: Any, offset: float, block: int) -> int | None:
        """Return the row that holds this cut or half-space; None if there is none."""
        return self._find(self._slopes.key(slope), slope, offset, block)

    def _find(self, key: int, slope: Any, offset: float, block: int) -> int | None:
        rows = np.flatnonzero(self._keys == key).tolist() if key in self._seen else ()
        for row in rows:
            mine = float(self.offsets[row])
            close = abs(mine - offset) <= _SAME * max(abs(mine), abs(offset))
            if close and self.blocks[row] == block and self._slopes.holds(row, slope):
                return row
        return None

    def _append(self, query: int, slope: Any, offset: float, block: int) -> int:
        key = self._slopes.key(slope)
        if self._find(key, slope, offset, block) is not None:
            return 0
        self._reserve(1)
        row, size = self._count, largest_entry(slope)
        self._set_count(row + 1)
        self.offsets[row], self.sizes[row], self._weights[row] = offset, size, _NOT_WEIGHED
        self.blocks[row], self.queries[row], self._ages[row] = block, query, 0
        self.ids[row], self._keys[row] = self._next_id, key
        self._slopes.append(slope)
        self._seen.add(key)
        self.steepest = max(self.steepest, size)
        self.has_half_spaces |= block == HALF_SPACE
        self._next_id += 1
        return 1

    def _reserve(self, count: int) -> None:
        """Double the arrays until so many rows more fit."""
        while self._count + count > self._floats.shape[1]:
            self._floats = np.concatenate([self._floats, np.empty_like(self._floats)], axis=1)
            self._integers = np.concatenate([self._integers, np.empty_like(self._integers)], axis=1)

    def block_models(self, x: Array) -> Array:
        """Return the largest cut of each block at x, -inf if it has none, shape (n_blocks,)."""
        values = products(self.slopes, x) + self.offsets
        if self.n_blocks == 1 and not self.has_half_spaces:
            return np.array([values.max()]) if values.size else np.array([-np.inf])
        models = np.full(self.n_blocks, -np.inf)
        cuts = self.blocks >= 0
        np.maximum.at(models, self.blocks[cuts], values[cuts])
        return models

    def weigh(self, multipliers: Array) -> None:
        """Record the multipliers of all rows, which decide what `make_room` drops."""
        self._weights[:] = multipliers
        if self.max_cuts is None and not self.has_half_spaces:
            return
        self._ages += 1
        self._ages[multipliers > _NEGLIGIBLE * multipliers.max(initial=0.0)] = 0

    @property
    def weights(self) -> Array:
        """Shape (K,): the multipliers last recorded, 0 for rows added since."""
        return np.maximum(self._weights, 0.0)

    def stale(self, age: int) -> Array:
        """Return a mask: the half-spaces whose multipliers have been zero for more than `age` iterations."""
        return (self.blocks == HALF_SPACE) & (self._ages > age)

    def drop(self, rows: Array) -> None:
        """Drop the rows of a mask."""
        self._retire(~rows)
        self._compact(~rows)
        self._forget()

    def is_full(self, new_rows: int) -> bool:
        """Tell whether `make_room` has to drop rows before `new_rows` can be added."""
        return self.max_cuts is not None and self._count + new_rows > self.max_cuts

    def make_room(self, new_rows: int) -> None:
        """Drop rows until `new_rows` more fit under `max_cuts`, or as many as it allows of a large batch.

        The rows whose multiplier has been zero for the longest go first. When active rows must go, the
        aggregate of their block (the combination of all its rows by their multipliers) is added, so that the
        reduced problem keeps its optimal value; it then carries the whole weight of its block. Rows that no
        reduced problem has weighed yet go last.
        """
        if not self.is_full(new_rows):
            return
        assert self.max_cuts is not None
        most = self.max_cuts - int((self.queries == TRIVIAL).sum()) - np.unique(self.blocks).size
        allowed = self.max_cuts - (new_rows if new_rows <= most else max(self.n_blocks, most // 2))
        if self._count <= allowed:
            return
        weights = self._weights
        candidates = np.flatnonzero((weights >= 0.0) & (self.queries != TRIVIAL))
        passive = candidates[weights[candidates] == 0.0]
        oldest = passive[np.argsort(-self._ages[passive], kind="stable")]
        excess = self._count - allowed
        keep = np.ones(self._count, dtype=bool)
        keep[oldest[:excess]] = False
        if passive.size >= excess:
            self._retire(keep)
            self._compact(keep)
        else:
            self._aggregate(keep, candidates[weights[candidates] > 0.0], excess - passive.size)
        if self._count > allowed:
            self._drop_new(self._count - allowed)
        self._forget()

    def _drop_new(self, excess: int) -> None:
        """Drop rows that have not been weighed: the oldest cuts first, then the half-spaces added last."""
        new = self._weights < 0.0
        cuts = np.flatnonzero(new & (self.blocks != HALF_SPACE))
        half_spaces = np.flatnonzero(new & (self.blocks == HALF_SPACE))[::-1]
        keep = np.ones(self._count, dtype=bool)
        keep[np.concatenate([cuts, half_spaces])[:excess]] = False
        self._compact(keep)

    def _aggregate(self, keep: Array, active: Array, excess: int) -> None:
        """Replace `excess` active rows, and as many as there are blocks among them, by aggregates."""
        weights = np.maximum(self._weights, 0.0)
        blocks = np.unique(self.blocks[active])
        members = [np.where(self.blocks == block, weights, 0.0) for block in blocks]
        totals = np.array([member.sum() for member in members])
        totals[blocks == HALF_SPACE] = 1.0
        shares = [member / total for member, total in zip(members, totals, strict=True)]
        slopes = [share @ self.slopes for share in shares]
        offsets = [share @ self.offsets for share in shares]
        bases = [_heavy(self.bases(Proof(self.ids, share))) for share in shares]
        lightest = active[np.argsort(weights[active], kind="stable")]
        keep[lightest[: excess + len(blocks)]] = False
        self._retire(keep)
        self._weights[np.isin(self.blocks, blocks) & (weights > 0.0)] = 0.0
        self._compact(keep)
        aggregates = zip(blocks, slopes, offsets, totals, bases, strict=True)
        for block, slope, offset, total, base in aggregates:
            if self._append(AGGREGATE, slope, float(offset), int(block)):
                self._weights[self._count - 1] = total
                self._members[self._next_id - 1] = base

    def infima(self, values: Array) -> Proof:
        """Return the proof by known infima, one per block, which need not be rows of the model."""
        ids = -1 - np.arange(values.size)
        for block, (row, value) in enumerate(zip(ids.tolist(), values.tolist(), strict=True)):
            self.retired[row] = Retired(np.zeros(self.dim), value, block, TRIVIAL)
        return Proof(ids, np.ones(values.size))

    def bases(self, proof: Proof) -> dict[int, float]:
        """Return the ids of the rows that came from queries, and their multipliers, of rows in use."""
        found: dict[int, float] = {}
        used = proof.multipliers > 0.0
        for row, weight in zip(proof.ids[used].tolist(), proof.multipliers[used].tolist(), strict=True):
            for base, share in self._members.get(row, {row: 1.0}).items():
                found[base] = found.get(base, 0.0) + share * weight
        return found

    def pinned(self, proof: Proof) -> Proof:
        """Return a proof by rows that came from queries; they are kept when they leave the bundle."""
        weights = self.bases(proof)
        self._pinned = set(weights)
        return Proof(np.array(list(weights), dtype=np.int64), np.array(list(weights.values())))

    def evidence(self, proof: Proof) -> tuple[Rows, Origins]:
        """Return the rows that came from queries, with their multipliers, and where they came from.

        They include rows in use that the bundle has dropped, for example the rows that an aggregate combines.
        """
        ids, shares = self.pinned(proof)
        own = np.flatnonzero(self.queries != AGGREGATE)
        places = np.searchsorted(self.ids[own], ids)
        inside = np.append(self.ids[own], -1)[places] == ids
        inside &= ids >= 0
        multipliers = np.zeros(own.size)
        multipliers[places[inside]] = shares[inside]
        slopes = self._slopes.lend() if own.size == self._count else self.slopes[own]
        rows = Rows(slopes, self.offsets[own], self.blocks[own], self.queries[own], multipliers)
        if not inside.all():
            gone = [self.retired[row] for row in ids[~inside].tolist()]
            matrix = stacked(rows.slopes, rows_to_matrix([row.slope for row in gone], self.dim))
            columns: Any = *zip(*(row[1:] for row in gone), strict=True), shares[~inside]
            pairs = zip(rows[1:], columns, strict=True)
            rows = Rows(matrix, *(np.append(mine, other).astype(mine.dtype) for mine, other in pairs))
        return rows, Origins(self.points.copy(), self.duals.copy(), self.solutions.copy())

    def _retire(self, keep: Array) -> None:
        """Keep a copy of the rows that are dropped, since aggregates may hold them."""
        dropped = np.flatnonzero(~keep & (self.queries != AGGREGATE))
        for row, slope in zip(dropped.tolist(), rows_of(self.slopes[dropped]), strict=True):
            numbers = self.offsets[row], self.blocks[row], self.queries[row]
            self.retired[int(self.ids[row])] = Retired(slope, *(number.item() for number in numbers))

    def _compact(self, keep: Array) -> None:
        left = int(keep.sum())
        self._slopes.keep(keep)
        for table in (self._floats, self._integers):
            table[:, :left] = table[:, : self._count][:, keep]
        self._set_count(left)

    def _forget(self) -> None:
        """Forget the origins of rows that are in no use any more."""
        self._members = {row: self._members[row] for row in self.ids.tolist() if row in self._members}
        held = self._pinned.union(*self._members.values())
        self.retired = {row: entry for row, entry in self.retired.items() if row in held or row < 0}
        alive = {*self.queries.tolist(), *(entry.query for entry in self.retired.values())}
        self.points = self.points.only([query for query in self.points if query in alive])
        self.duals = {query: dual for query, dual in self.duals.items() if query in alive}
        self.solutions = {query: solved for query, solved in self.solutions.items() if query in alive}


def _heavy(weights: dict[int, float]) -> dict[int, float]:
    """Return the weights that are no rounding errors of the largest one."""
    least = _FADED * max(weights.values())
    return {base: weight for base, weight in weights.items() if weight >= least}
