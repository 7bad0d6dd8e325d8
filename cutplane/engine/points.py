"""Query points by query, those that are mostly zero as their nonzero entries."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array

_LONG = 1000
"""Entries from which on a vector is large beside what Python needs to keep its nonzero ones apart."""
_SPARSE = 3
"""A vector of which at most one entry in so many is nonzero takes half the memory, or less, without zeros."""


class Points(UserDict[int, Array]):
    """A dict of vectors that holds copies of them; what is read is an ndarray.

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

    def __getitem__(self, query: int) -> Array:
        stored: Any = self.data[query]
        if isinstance(stored, np.ndarray):
            return stored
        dim, where, values = stored
        point = np.zeros(dim)
        point[where] = values
        return point

    def __setitem__(self, query: int, point: Array) -> None:
        stored: Any = None
        if point.size >= _LONG and _SPARSE * np.count_nonzero(point) <= point.size:
            where = np.flatnonzero(point)
            stored = point.size, where.astype(np.int32), point[where]
        self.data[query] = np.array(point) if stored is None else stored

    def copy(self) -> Points:
        """Return a copy."""
        return self.only(self.data)

    def only(self, queries: Iterable[int]) -> Points:
        """Return the points of these queries, in their order."""
        chosen = Points()
        chosen.data = {query: self.data[query] for query in queries if query in self.data}
        return chosen

    def numbered(self) -> Points:
        """Return the points by their number, from 0 on."""
        numbered = Points()
        numbered.data = dict(enumerate(self.data.values()))
        return numbered

    @property
    def nbytes(self) -> int:
        """Memory held."""
        stored: Any = self.data.values()
        return sum(it.nbytes if isinstance(it, np.ndarray) else it[1].nbytes + it[2].nbytes for it in stored)


def memory_of(points: Mapping[int, Array]) -> int:
    """Return the bytes of vectors, as they are held."""
    return points.nbytes if isinstance(points, Points) else sum(point.nbytes for point in points.values())
