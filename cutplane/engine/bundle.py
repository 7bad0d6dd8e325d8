"""The bundle: cuts of the risk and half-spaces of the feasible set, their ages, and the rows to drop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.masters.base import HALF_SPACE
from cutplane.masters.rows import products
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import TRIVIAL, EvidenceRows, row_sizes

AGGREGATE = -1
"""Query number of a row that is a convex combination of dropped rows, negative because no query has a
negative number."""
_NOT_WEIGHED = -1.0
"""Multiplier of a row that no reduced problem has had yet, negative because no multiplier is."""
_NEGLIGIBLE = 1e-10
"""Share of the largest multiplier below which a row counts as idle, because interior points give no exact
zeros."""
_SAME = 1e-14
"""Relative difference of offsets up to which rows with the same slope count as equal, because it may be a
rounding error."""
_FADED = 1e-15
"""Share of an aggregate below which a row is dropped from it, because rounding errors have this size."""
_SAMPLED = 1024
"""Number of entries of a slope from which its hash is computed, because a sample distinguishes nearly all
long slopes."""
_LONG, _SPARSE = 1000, 3
"""Points with at least _LONG entries, of which at most 1 / _SPARSE are nonzero, are stored sparse, because
this takes at most half of the memory."""
_RESERVED = 2**29
"""Bytes reserved for the first 16 to 512 rows, because reserved memory costs nothing until it is written, and
growing an array copies it."""


class Proof(NamedTuple):
    """Ids of rows that are or were in the bundle, and their multipliers in a lower bound."""

    ids: Array = np.empty(0, dtype=np.int64)
    multipliers: Array = np.empty(0)


class Origins(NamedTuple):
    """Origins of rows by query: the point, the multipliers of examples, and the oracle's solutions."""

    points: Mapping[int, Array]
    duals: dict[int, Array]
    solutions: dict[int, tuple[Any, ...]]


class SparseRow(NamedTuple):
    """One row of a csr_array in canonical form."""

    indices: Array
    values: Array


class Retired(NamedTuple):
    """A dropped row that an aggregate or the best bound uses."""

    slope: Array | SparseRow
    offset: float
    block: int
    query: int


class Points(MutableMapping[int, Array]):
    """Vectors by query: copied when they are stored, returned as ndarrays.

    Parameters
    ----------
    points : mapping of int to ndarray, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.engine.bundle import Points
    >>> points = Points({0: np.eye(1, 3000)[0]})
    >>> points[0].shape, points.nbytes
    ((3000,), 12)
    """

    def __init__(self, points: Mapping[int, Array] | None = None):
        self._stored: dict[int, Array | tuple[int, Array, Array]] = {}
        self.update(points or {})

    def __getitem__(self, query: int) -> Array:
        stored = self._stored[query]
        if isinstance(stored, np.ndarray):
            return stored
        dim, where, values = stored
        point = np.zeros(dim)
        point[where] = values
        return point

    def __setitem__(self, query: int, point: Array) -> None:
        if point.size >= _LONG and _SPARSE * np.count_nonzero(point) <= point.size:
            entries = _entries(point)
            self._stored[query] = point.size, entries.indices, entries.values
        else:
            self._stored[query] = np.array(point)

    def __delitem__(self, query: int) -> None:
        del self._stored[query]

    def __iter__(self) -> Iterator[int]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __or__(self, other: Mapping[int, Array]) -> Points:
        both = self.only(self)
        both.update(other)
        return both

    def only(self, queries: Iterable[int]) -> Points:
        """Return the points of these queries, in their order."""
        chosen = Points()
        chosen._stored = {query: self._stored[query] for query in queries if query in self._stored}
        return chosen

    @property
    def nbytes(self) -> int:
        """The number of bytes in use."""
        stored = self._stored.values()
        return sum(it.nbytes if isinstance(it, np.ndarray) else it[1].nbytes + it[2].nbytes for it in stored)


class Bundle:
    """The rows <slope, x> + offset, in preallocated arrays whose size doubles when they are full.

    The slopes are sparse from the first sparse half-space on. There are at most `max_cuts` rows, unless it is
    None; it is at least 3 * n_blocks + 1, and one more with half-spaces.

    Attributes
    ----------
    offsets, sizes : ndarray of shape (K,)
        The offset, and the largest absolute entry of the slope, of each row.
    blocks, ids, queries : ndarray of shape (K,)
        The block of each cut, or `HALF_SPACE`; strictly increasing ids; the query that gave the row (a key of
        `points` or `duals`), `AGGREGATE` or `TRIVIAL`.
    points, duals, solutions : mapping of int
        By query: the point; the multipliers of the examples of a dual cut; the oracle's solutions per block.
    steepest : float
        The largest absolute entry of all slopes ever added.
    """

    def __init__(self, dim: int, n_blocks: int, max_cuts: int | None = None):
        self.dim, self.n_blocks, self.max_cuts = dim, n_blocks, max_cuts
        self._slopes: Any = DenseSlopes(dim)
        self._floats, self._integers = np.empty((3, 16)), np.empty((5, 16), dtype=np.int64)
        self._set_count(0)
        self._next_id = 0
        self.points = Points()
        self.duals: dict[int, Array] = {}
        self.solutions: dict[int, tuple[Any, ...]] = {}
        self.retired: dict[int, Retired] = {}
        self._members: dict[int, dict[int, float]] = {}  # id of an aggregate -> id of a row -> its share
        self._pinned: set[int] = set()
        self.has_half_spaces = self._covered = False
        self.steepest = 0.0
        self._seen: set[int] = set()  # keys of all rows ever added

    @property
    def slopes(self) -> Any:
        """An ndarray or csr_array of shape (K, dim)."""
        if self._matrix is None:
            self._matrix = self._slopes.matrix
        return self._matrix

    def _set_count(self, count: int) -> None:
        self._count, self._matrix = count, None
        self.offsets, self.sizes, self._weights = self._floats[:, :count]
        self.blocks, self.ids, self.queries, self._keys, self._ages = self._integers[:, :count]

    def __len__(self) -> int:
        return self._count

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
    ) -> list[int]:
        """Append the rows of a query at `point`; return the position of each row, old or new.

        If `make_room` cannot make room for all half-spaces, those that `point` violates most are added.
        """
        if self.is_full(len(offsets)) and point is not None:
            assert self.max_cuts is not None
            lengths = np.sqrt((slopes * slopes).sum(axis=1))
            depths = (slopes @ point + offsets) / np.where(lengths > 0.0, lengths, 1.0)
            chosen = np.argsort(-depths, kind="stable")[: max(self.max_cuts - self._count, 0)]
            slopes, offsets, blocks = slopes[chosen], offsets[chosen], [blocks[row] for row in chosen]
        self._store_sparse(slopes)
        before = self._count
        rows = [
            self._append(query, *row) for row in zip(rows_of(slopes), offsets.tolist(), blocks, strict=True)
        ]
        if self._count > before and point is not None:
            self.points[query] = point
        if self._count > before and solutions is not None:
            self.solutions[query] = solutions
        return rows

    def fill(self, slopes: Any, offsets: Array, blocks: Array, queries: Array) -> None:
        """Append rows without a search for equal ones."""
        self._store_sparse(slopes)
        rows, sizes = rows_of(slopes), row_sizes(slopes)
        keys = [self._slopes.key(slope) for slope in rows]
        self._write(len(keys), offsets, sizes, blocks, queries, keys)
        for slope in rows:
            self._slopes.append(slope)
        self._seen.update(keys)
        self.steepest = max(self.steepest, float(sizes.max(initial=0.0)))
        self.has_half_spaces |= bool((blocks == HALF_SPACE).any())

    def _store_sparse(self, slopes: Any) -> None:
        """Store all rows as sparse rows, when the first sparse ones are added."""
        if sparse.issparse(slopes) and isinstance(self._slopes, DenseSlopes):
            self._slopes, self._matrix = SparseSlopes(self._slopes.matrix), None
            self._keys[:] = [self._slopes.key(row) for row in rows_of(self._slopes.matrix)]
            self._seen = set(self._keys.tolist())

    def _append(self, query: int, slope: Array | SparseRow, offset: float, block: int) -> int:
        key = self._slopes.key(slope)
        if (row := self._find(key, slope, offset, block)) is not None:
            return row
        entries = slope.values if isinstance(slope, SparseRow) else slope
        size = float(np.abs(entries).max(initial=0.0))
        self._write(1, offset, size, block, query, key)
        self._slopes.append(slope)
        self._seen.add(key)
        self.steepest = max(self.steepest, size)
        self.has_half_spaces |= block == HALF_SPACE
        return self._count - 1

    def _write(self, count: int, offsets: Any, sizes: Any, blocks: Any, queries: Any, keys: Any) -> None:
        """Append all columns of rows except their slopes."""
        new = slice(self._count, self._count + count)
        while new.stop > self._floats.shape[1]:
            self._floats = np.concatenate([self._floats, np.empty_like(self._floats)], axis=1)
            self._integers = np.concatenate([self._integers, np.empty_like(self._integers)], axis=1)
        self._set_count(new.stop)
        self.offsets[new], self.sizes[new], self._weights[new] = offsets, sizes, _NOT_WEIGHED
        self.blocks[new], self.queries[new], self._ages[new], self._keys[new] = blocks, queries, 0, keys
        self.ids[new] = np.arange(self._next_id, self._next_id + count)
        self._next_id += count

    def find(self, slope: Any, offset: float, block: int) -> int | None:
        """Return the position of an equal cut or half-space; None if there is none."""
        return self._find(self._slopes.key(slope), slope, offset, block)

    def _find(self, key: int, slope: Any, offset: float, block: int) -> int | None:
        for row in np.flatnonzero(self._keys == key).tolist() if key in self._seen else ():
            mine = float(self.offsets[row])
            close = abs(mine - offset) <= _SAME * max(abs(mine), abs(offset))
            if close and self.blocks[row] == block and self._slopes.holds(row, slope):
                return row
        return None

    def origin(self, row: int) -> Array | None:
        """Return the query point of a row; None if it has none."""
        return self.points.get(int(self.queries[row]))

    def block_models(self, x: Array) -> Array:
        """Return the largest cut of each block at x, -inf if it has none, shape (n_blocks,)."""
        values = products(self.slopes, x) + self.offsets
        if self.n_blocks == 1 and not self.has_half_spaces:
            return np.array([values.max(initial=-np.inf)])
        models = np.full(self.n_blocks, -np.inf)
        cuts = self.blocks >= 0
        np.maximum.at(models, self.blocks[cuts], values[cuts])
        return models

    def lower(self, noise: float) -> None:
        """Lower every cut by an error of the values that was found later."""
        self.offsets[(self.blocks != HALF_SPACE) & (self.queries != TRIVIAL)] -= noise

    def weigh(self, multipliers: Array) -> None:
        """Record the multipliers of all rows, which decide what `make_room` drops."""
        self._weights[:] = multipliers
        if self.max_cuts is None and not self.has_half_spaces:
            return
        self._ages += 1
        self._ages[multipliers > _NEGLIGIBLE * multipliers.max(initial=0.0)] = 0

    @property
    def weights(self) -> Array:
        """The multipliers last recorded, 0 for rows added since, shape (K,)."""
        return np.maximum(self._weights, 0.0)

    def drop_idle(self, age: int) -> None:
        """Drop half-spaces whose multipliers have been zero for more than `age` solves."""
        stale = (self.blocks == HALF_SPACE) & (self._ages > age)
        if stale.any():
            self.drop(stale)

    def drop(self, rows: Array) -> None:
        """Drop the rows where the mask is true."""
        self._keep(~rows)
        self._forget()

    def is_full(self, new_rows: int) -> bool:
        """Tell whether `make_room` has to drop rows before `new_rows` can be added."""
        return self.max_cuts is not None and self._count + new_rows > self.max_cuts

    def make_room(self, new_rows: int) -> None:
        """Drop rows until `new_rows` more fit under `max_cuts`, or as many as possible of a large batch.

        The rows whose multipliers have been zero for the longest time are dropped first. If active rows must
        be dropped, the aggregate of their block is added: the combination of all its rows by their
        multipliers. It has the whole weight of the block, so that the optimal value of the reduced problem
        stays the same. Rows without a recorded multiplier are dropped last: the oldest cuts, then the newest
        half-spaces.
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
            self._keep(keep)
        else:
            self._aggregate(keep, candidates[weights[candidates] > 0.0], excess - passive.size)
        if self._count > allowed:
            new, cuts = self._weights < 0.0, self.blocks != HALF_SPACE
            order = np.concatenate([np.flatnonzero(new & cuts), np.flatnonzero(new & ~cuts)[::-1]])
            keep = np.ones(self._count, dtype=bool)
            keep[order[: self._count - allowed]] = False
            self._keep(keep)
        self._forget()

    def _aggregate(self, keep: Array, active: Array, excess: int) -> None:
        """Replace `excess` active rows, and one more for each of their blocks, by aggregates."""
        weights = self.weights
        found = []
        for block in np.unique(self.blocks[active]).tolist():
            members = np.where(self.blocks == block, weights, 0.0)
            total = members.sum()
            share = members / total
            bases = self.bases(Proof(self.ids, share))
            least = _FADED * max(bases.values())
            bases = {row: part for row, part in bases.items() if part >= least}
            found.append((block, share @ self.slopes, float(share @ self.offsets), total, bases))
        keep[active[np.argsort(weights[active], kind="stable")][: excess + len(found)]] = False
        self._weights[np.isin(self.blocks, [row[0] for row in found]) & (weights > 0.0)] = 0.0
        self._keep(keep)
        for block, slope, offset, total, bases in found:
            before = self._count
            if self._append(AGGREGATE, slope, offset, block) == before:
                self._weights[before] = total
                self._members[self._next_id - 1] = bases

    def _keep(self, keep: Array) -> None:
        """Drop the rows outside the mask, but retire those from queries, because aggregates may use them."""
        dropped = np.flatnonzero(~keep & (self.queries != AGGREGATE))
        for row, slope in zip(dropped.tolist(), rows_of(self.slopes[dropped]), strict=True):
            numbers = self.offsets[row], self.blocks[row], self.queries[row]
            self.retired[int(self.ids[row])] = Retired(slope, *(number.item() for number in numbers))
        count = int(keep.sum())
        self._slopes.keep(keep)
        for table in (self._floats, self._integers):
            table[:, :count] = table[:, : self._count][:, keep]
        self._set_count(count)

    def _forget(self) -> None:
        """Delete retired rows and origins that neither the proof nor a row of the bundle uses."""
        self._members = {row: self._members[row] for row in self.ids.tolist() if row in self._members}
        held = self._pinned.union(*self._members.values())
        self.retired = {row: entry for row, entry in self.retired.items() if row in held or row < 0}
        alive = {*self.queries.tolist(), *(entry.query for entry in self.retired.values())}
        self.points = self.points.only([query for query in self.points if query in alive])
        self.duals = {query: dual for query, dual in self.duals.items() if query in alive}
        self.solutions = {query: solved for query, solved in self.solutions.items() if query in alive}

    def infima(self, values: Array) -> Proof:
        """Return the proof by the infima of the blocks, which need not be rows of the bundle."""
        ids = -1 - np.arange(values.size)
        for block, (row, value) in enumerate(zip(ids.tolist(), values.tolist(), strict=True)):
            self.retired[row] = Retired(np.zeros(self.dim), value, block, TRIVIAL)
        return Proof(ids, np.ones(values.size))

    def bases(self, proof: Proof) -> dict[int, float]:
        """Return the multipliers, by id, of the query rows in a proof, with aggregates resolved."""
        found: dict[int, float] = {}
        used = proof.multipliers > 0.0
        for row, weight in zip(proof.ids[used].tolist(), proof.multipliers[used].tolist(), strict=True):
            for base, share in self._members.get(row, {row: 1.0}).items():
                found[base] = found.get(base, 0.0) + share * weight
        return found

    def pinned(self, proof: Proof) -> Proof:
        """Return a proof by rows from queries, which stay available when they are dropped."""
        weights = self.bases(proof)
        self._pinned = set(weights)
        return Proof(np.array(list(weights), dtype=np.int64), np.array(list(weights.values())))

    def evidence(self, proof: Proof) -> tuple[EvidenceRows, Origins]:
        """Return the rows from queries in a proof, with their multipliers and their origins.

        They include dropped rows, for example the rows of an aggregate.
        """
        ids, shares = self.pinned(proof)
        own = np.flatnonzero(self.queries != AGGREGATE)
        places = np.searchsorted(self.ids[own], ids)
        inside = (np.append(self.ids[own], -1)[places] == ids) & (ids >= 0)
        multipliers = np.zeros(own.size)
        multipliers[places[inside]] = shares[inside]
        slopes = self.slopes if own.size == self._count else self.slopes[own]
        rows = EvidenceRows(slopes, self.offsets[own], self.blocks[own], self.queries[own], multipliers)
        if not inside.all():
            gone = [self.retired[row] for row in ids[~inside].tolist()]
            matrix = _stacked(rows.slopes, rows_to_matrix([row.slope for row in gone], self.dim))
            columns: Any = *zip(*(row[1:] for row in gone), strict=True), shares[~inside]
            pairs = zip(rows[1:], columns, strict=True)
            rows = EvidenceRows(matrix, *(np.append(mine, other).astype(mine.dtype) for mine, other in pairs))
        return rows, Origins(self.points.only(self.points), self.duals.copy(), self.solutions.copy())


class DenseSlopes:
    """Rows in an array whose size doubles; a row is never overwritten, so that views stay valid."""

    def __init__(self, dim: int):
        self.count = 0
        self._rows = np.empty((min(max(_RESERVED // (8 * max(dim, 1)), 16), 512), dim))

    @property
    def matrix(self) -> Array:
        """The slopes, shape (count, dim)."""
        return self._rows[: self.count]

    def key(self, slope: Array) -> int:
        """Return a hash of a slope, which is the same for equal slopes."""
        sample = slope[:: -(-slope.size // _SAMPLED) or 1]
        return hash((sample + 0.0).tobytes())  # 0.0 and -0.0 are equal

    def holds(self, row: int, slope: Array) -> bool:
        """Tell whether this row is equal to a slope."""
        return np.array_equal(self._rows[row], slope)

    def append(self, slope: Array) -> None:
        """Add a row."""
        if self.count == len(self._rows):
            self._copy(self.matrix, 2 * self.count)
        self._rows[self.count] = slope
        self.count += 1

    def keep(self, mask: Array) -> None:
        """Drop the rows outside the mask."""
        self._copy(self.matrix[mask], len(self._rows))

    def _copy(self, rows: Array, capacity: int) -> None:
        self.count, self._rows = len(rows), np.empty((capacity, rows.shape[1]))
        self._rows[: self.count] = rows


class SparseSlopes:
    """Compressed sparse rows; new ones are appended to the matrix when it is read next."""

    def __init__(self, matrix: Array):
        self._matrix: Any = sparse.csr_array(matrix)
        self._new: list[Any] = []

    @property
    def matrix(self) -> Any:
        """The slopes, a csr_array of shape (count, dim)."""
        if self._new:
            self._matrix = _stacked(self._matrix, rows_to_matrix(self._new, self._matrix.shape[1]))
            self._new = []
        return self._matrix

    def key(self, slope: Any) -> int:
        """Return a hash of a slope, which is the same for equal slopes."""
        indices, values = _entries(slope)
        return hash((indices.tobytes(), values.tobytes()))

    def holds(self, row: int, slope: Any) -> bool:
        """Tell whether this row is equal to a slope."""
        indices, values = _entries(slope)
        mine = slice(*self.matrix.indptr[row : row + 2])
        same = np.array_equal(self.matrix.indices[mine], indices)
        return same and np.array_equal(self.matrix.data[mine], values)

    def append(self, slope: Any) -> None:
        """Add a row."""
        self._new.append(_entries(slope))

    def keep(self, mask: Array) -> None:
        """Drop the rows outside the mask."""
        self._matrix = self.matrix[mask]


def rows_of(slopes: Any) -> list[Any]:
    """Return the rows of a matrix, as arrays or `SparseRow`."""
    if not sparse.issparse(slopes):
        return list(slopes)
    canonical = sparse.csr_array(slopes, copy=not slopes.has_canonical_format)
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    starts, indices, values = canonical.indptr, canonical.indices.astype(np.int32), canonical.data
    return [SparseRow(indices[a:b], values[a:b]) for a, b in pairwise(starts)]


def rows_to_matrix(rows: list[Any], dim: int) -> Any:
    """Return a list of rows (see `rows_of`) as one matrix, sparse if one of them is."""
    if not any(isinstance(row, SparseRow) for row in rows):
        return np.array(rows).reshape(-1, dim)
    entries = [_entries(row) for row in rows]
    starts = np.cumsum([0, *(row.indices.size for row in entries)])
    indices, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return sparse.csr_array((values, indices, starts), shape=(len(rows), dim))


def _entries(slope: Array | SparseRow) -> SparseRow:
    if isinstance(slope, SparseRow):
        return slope
    indices = np.flatnonzero(slope).astype(np.int32)
    return SparseRow(indices, slope[indices])


def _stacked(above: Any, below: Any) -> Any:
    if sparse.issparse(above) or sparse.issparse(below):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(above), sparse.csr_array(below)]))
    return np.concatenate([above, below])
