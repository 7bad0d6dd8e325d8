"""Query points by query, those that are mostly zero as their nonzero entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping

import numpy as np

from cutplane.pieces.validation import Array

_LONG = 1000
"""Entries from which on a vector is large beside what Python needs to keep its nonzero ones apart."""
_SPARSE = 3
"""A vector of which at most one entry in so many is nonzero takes half the memory, or less, without zeros."""


class Points(MutableMapping[int, Array]):
    """Vectors by query: what is written is copied, what is read is an ndarray.

    Parameters
    ----------
    points : mapping of int to ndarray, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.engine.points import Points
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

    def numbered(self) -> Points:
        """Return the points by their number, from 0 on."""
        numbered = Points()
        numbered._stored = dict(enumerate(self._stored.values()))
        return numbered

    def columns(self, begin: int, end: int) -> Array:
        """Return some entries of all points, in their order, as rows."""
        rows = []
        for stored in self._stored.values():
            if isinstance(stored, np.ndarray):
                rows.append(stored[begin:end])
                continue
            dim, where, values = stored
            first, last = np.searchsorted(where, [begin, end])
            rows.append(np.zeros(min(end, dim) - begin))
            rows[-1][where[first:last] - begin] = values[first:last]
        return np.array(rows)

    @property
    def nbytes(self) -> int:
        """Memory held."""
        stored = self._stored.values()
        return sum(it.nbytes if isinstance(it, np.ndarray) else it[1].nbytes + it[2].nbytes for it in stored)


def memory_of(points: Mapping[int, Array]) -> int:
    """Return the bytes of vectors, as they are held."""
    return points.nbytes if isinstance(points, Points) else sum(point.nbytes for point in points.values())
