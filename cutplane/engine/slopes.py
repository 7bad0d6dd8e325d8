"""How rows and query points are stored: densely, or by their nonzero entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array

_SAMPLED = 1024
"""Entries by which the key of a slope tells it from others: long ones are compared whole if these agree."""
_LONG = 1000
"""Entries from which on a vector is large beside what Python needs to keep its nonzero ones apart."""
_SPARSE = 3
"""A vector of which at most one entry in so many is nonzero takes half the memory, or less, without zeros."""
_RESERVED = 2**29
"""Bytes of rows that are set aside at first, if that is at least 16 rows and at most 512: what is not written
takes no memory, and copies of larger arrays are rare."""


class DenseSlopes:
    """Rows in an array that doubles.

    Parameters
    ----------
    dim : int
    """

    def __init__(self, dim: int):
        self.count = 0
        self._rows = np.empty((min(max(_RESERVED // (8 * max(dim, 1)), 16), 512), dim))
        self._lent = False

    @property
    def matrix(self) -> Array:
        """Shape (count, dim)."""
        return self._rows[: self.count]

    def lend(self) -> Array:
        """Return the matrix for others to keep: these rows stay what they are."""
        self._lent = True
        return self.matrix

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.matrix.nbytes

    def key(self, slope: Array) -> int:
        """Return a number that equal slopes have in common."""
        sample = slope[:: -(-slope.size // _SAMPLED) or 1]
        return hash((sample + 0.0).tobytes())  # 0.0 and -0.0 are equal

    def holds(self, row: int, slope: Array) -> bool:
        """Tell whether this row has this slope."""
        return np.array_equal(self._rows[row], slope)

    def append(self, slope: Array) -> None:
        """Add a row."""
        if self.count == len(self._rows):
            self._move(2 * self.count, range(self.count))
        self._rows[self.count] = slope
        self.count += 1

    def keep(self, mask: Array) -> None:
        """Drop the other rows."""
        kept = np.flatnonzero(mask).tolist()
        if self._lent:
            self._move(len(self._rows), kept)
        else:
            for place, row in enumerate(kept):
                if place < row:
                    self._rows[place] = self._rows[row]
        self.count = len(kept)

    def _move(self, capacity: int, rows: Sequence[int]) -> None:
        """Copy rows to a new array."""
        larger = np.empty((capacity, self._rows.shape[1]))
        for place, row in enumerate(rows):
            larger[place] = self._rows[row]
        self._rows, self._lent = larger, False


class SparseSlopes:
    """Compressed sparse rows; new ones are joined to them when they are read.

    Parameters
    ----------
    matrix : ndarray of shape (count, dim)
        The rows so far.
    """

    def __init__(self, matrix: Array):
        self._matrix: Any = sparse.csr_array(matrix)
        self._new: list[Any] = []

    @property
    def matrix(self) -> Any:
        """A csr_array of shape (count, dim)."""
        if self._new:
            self._matrix = stacked(self._matrix, rows_to_matrix(self._new, self._matrix.shape[1]))
            self._new = []
        return self._matrix

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes

    def key(self, slope: Any) -> int:
        """Return a number that equal slopes have in common."""
        indices, values = _entries(slope)
        return hash((indices.tobytes(), values.tobytes()))

    def holds(self, row: int, slope: Any) -> bool:
        """Tell whether this row has this slope."""
        indices, values = _entries(slope)
        mine = slice(*self.matrix.indptr[row : row + 2])
        same = np.array_equal(self.matrix.indices[mine], indices)
        return same and np.array_equal(self.matrix.data[mine], values)

    def append(self, slope: Any) -> None:
        """Add a row."""
        self._new.append(slope if isinstance(slope, SparseRow) else SparseRow(*_entries(slope)))

    def lend(self) -> Any:
        """Return the matrix for others to keep: its rows are never written over."""
        return self.matrix

    def keep(self, mask: Array) -> None:
        """Drop the other rows."""
        self._matrix = self.matrix[mask]


Slopes = DenseSlopes | SparseSlopes


def stacked(above: Any, below: Any) -> Any:
    """Return the rows of two matrices; sparse if one of them is."""
    if sparse.issparse(above) or sparse.issparse(below):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(above), sparse.csr_array(below)]))
    return np.concatenate([above, below])


class SparseRow:
    """One row of a csr_array in canonical form.

    Parameters
    ----------
    indices, values : ndarray of shape (nnz,)
    """

    __slots__ = ("indices", "values")

    def __init__(self, indices: Array, values: Array):
        self.indices = indices
        self.values = values


def rows_of(slopes: Any) -> list[Any]:
    """Return the rows of a matrix, dense or sparse."""
    if not sparse.issparse(slopes):
        return list(slopes)
    canonical = sparse.csr_array(slopes, copy=not slopes.has_canonical_format)
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    starts, indices, values = canonical.indptr, canonical.indices.astype(np.int32), canonical.data
    return [SparseRow(indices[a:b], values[a:b]) for a, b in pairwise(starts)]


def largest_entry(row: Any) -> float:
    """Return the largest absolute entry of a row, as `rows_of` gives them."""
    entries = row.values if isinstance(row, SparseRow) else row
    return float(np.abs(entries).max(initial=0.0))


def rows_to_matrix(rows: list[Any], dim: int) -> Any:
    """Return rows, as `rows_of` gives them, as one matrix: sparse if they are."""
    if not any(isinstance(row, SparseRow) for row in rows):
        return np.array(rows).reshape(-1, dim)
    entries = [_entries(row) for row in rows]
    starts = np.cumsum([0, *(indices.size for indices, _ in entries)])
    indices, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return sparse.csr_array((values, indices, starts), shape=(len(rows), dim))


def _entries(slope: Any) -> tuple[Array, Array]:
    if isinstance(slope, SparseRow):
        return slope.indices, slope.values
    indices = np.flatnonzero(slope).astype(np.int32)
    return indices, slope[indices]


def deepest(
    point: Array, slopes: Any, offsets: Array, blocks: Sequence[int], most: int
) -> tuple[Any, Array, Sequence[int]]:
    """Return the half-spaces that the point violates most, in multiples of the length of their normals."""
    lengths = np.sqrt((slopes * slopes).sum(axis=1))
    depths = (slopes @ point + offsets) / np.where(lengths > 0.0, lengths, 1.0)
    chosen = np.argsort(-depths, kind="stable")[: max(most, 0)]
    return slopes[chosen], offsets[chosen], [blocks[row] for row in chosen]


class Points(MutableMapping[int, Array]):
    """Vectors by query: what is written is copied, what is read is an ndarray.

    Parameters
    ----------
    points : mapping of int to ndarray, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.engine.slopes import Points
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
            where = np.flatnonzero(point)
            self._stored[query] = point.size, where.astype(np.int32), point[where]
        else:
            self._stored[query] = np.array(point)

    def __delitem__(self, query: int) -> None:
        del self._stored[query]

    def __iter__(self) -> Iterator[int]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __or__(self, other: Mapping[int, Array]) -> Points:
        both = self.copy()
        both.update(other)
        return both

    def copy(self) -> Points:
        """Return a copy."""
        return self.only(self)

    def only(self, queries: Iterable[int]) -> Points:
        """Return the points of these queries, in their order."""
        chosen = Points()
        chosen._stored = {query: self._stored[query] for query in queries if query in self._stored}
        return chosen

    @property
    def nbytes(self) -> int:
        """Memory held."""
        stored = self._stored.values()
        return sum(it.nbytes if isinstance(it, np.ndarray) else it[1].nbytes + it[2].nbytes for it in stored)
