"""The features of examples, each sorted once; zeros are one group and take no memory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.risks.chunks import balanced_ranges
from cutplane.risks.matrix import tiles
from cutplane.runtime.threads import run_chunks

LAST = np.uint32(1 << 31)
EXAMPLE = np.uint32((1 << 31) - 1)
_CHUNK = 1 << 18
_MOST_EXAMPLES = 1 << 31


@dataclass(frozen=True, eq=False)
class SortedFeatures:
    """The examples in the order of each feature."""

    X: Any
    codes: Array
    starts: Array
    middles: Array

    def threshold(self, j: int, k: int) -> float:
        """Return the number half way between the two values that the split at codes[k] separates."""
        start, middle, stop = self.starts[j], self.middles[j], self.starts[j + 1]
        beyond = k + 1 if k < middle else k - 1
        is_last = beyond == middle if k < middle else beyond < middle
        has_zeros = stop - start < self.X.shape[0]
        values = self._value(j, k), 0.0 if is_last and has_zeros else self._value(j, beyond)
        return between(*sorted(values))

    def above(self, j: int, k: int) -> Array:
        """Return a mask of shape (m,) of the examples above the split at codes[k]."""
        if k < self.middles[j]:
            above = np.ones(self.X.shape[0], dtype=bool)
            above[self.codes[self.starts[j] : k + 1] & EXAMPLE] = False
        else:
            above = np.zeros(self.X.shape[0], dtype=bool)
            above[self.codes[k : self.starts[j + 1]] & EXAMPLE] = True
        return above

    def _value(self, j: int, k: int) -> float:
        return float(self.X[int(self.codes[k] & EXAMPLE), j])


def between(low: float, high: float) -> float:
    """Return a number t half way between two different ones, with low <= t < high whatever is rounded."""
    middle = 0.5 * low + 0.5 * high
    return middle if low <= middle < high else low


def sort_features(X: Any) -> SortedFeatures:
    """Sort every feature of a matrix that `as_matrix` has checked.

    What is kept takes 4 bytes per entry that is not zero. A CSR matrix is transposed, and a CSC one that
    stores entries several times or zeros is copied, until all is sorted.
    """
    m, n = X.shape
    if m > _MOST_EXAMPLES:
        raise InvalidInputError(f"X has {m} rows; decision stumps take at most 2^31: draw a part of them.")
    columns = _compressed_columns(X) if sparse.issparse(X) else X
    starts = np.zeros(n + 1, dtype=np.int64)
    starts[1:] = np.cumsum(_count_nonzeros(columns))
    middles = np.empty(n, dtype=np.int64)
    codes = np.empty(starts[-1], dtype=np.uint32)

    def sort(part: tuple[int, int]) -> None:
        first, last = starts[part[0]], starts[part[1]]
        examples, values = _entries(columns, *part)
        edges = starts[part[0] : part[1] + 1] - first
        codes[first:last], below = _sort(examples, values, edges, m)
        middles[slice(*part)] = starts[slice(*part)] + below

    run_chunks(sort, balanced_ranges(starts, max(1, int(starts[-1]) // _CHUNK)))
    return SortedFeatures(X, codes, starts, middles)


def _compressed_columns(X: Any) -> Any:
    """Return X as CSC with each entry stored once and no zero; itself if it is that."""
    columns = X.tocsc()
    if not columns.has_canonical_format or not columns.data[: columns.indptr[-1]].all():
        columns = columns.copy() if columns is X else columns
        columns.sum_duplicates()
        columns.eliminate_zeros()
    return columns


def _count_nonzeros(X: Any) -> Array:
    if sparse.issparse(X):
        return np.diff(X.indptr)
    counts = np.zeros(X.shape[1], dtype=np.int64)
    for rows, columns in tiles(X):
        counts[columns] += np.count_nonzero(X[rows, columns], axis=0)
    return counts


def _entries(X: Any, low: int, high: int) -> tuple[Array, Array]:
    """Return the rows and the values of what is not zero in columns low to high, column after column."""
    if sparse.issparse(X):
        part = slice(X.indptr[low], X.indptr[high])
        return X.indices[part], X.data[part]
    values = X[:, low:high].ravel(order="F")
    places = np.flatnonzero(values)
    return places % X.shape[0], values if places.size == values.size else values[places]


def _sort(examples: Array, values: Array, edges: Array, m: int) -> tuple[Array, Array]:
    """Return the codes of some features, and how many of each are below its middle."""
    order = np.empty(values.size, dtype=np.int64)
    for start, stop in pairwise(edges.tolist()):
        order[start:stop] = values[start:stop].argsort()
        order[start:stop] += start
    values, examples = values[order], examples[order].astype(np.int64)
    differs = np.ones(values.size + 1, dtype=bool)  # differs[k]: from the value before
    np.not_equal(values[1:], values[:-1], out=differs[1:-1])
    differs[edges] = True
    if not differs.all():
        examples |= np.cumsum(differs[:-1]) << 31
        examples.sort()  # of those with the same value: numpy's fastest sort leaves them in any order
        examples &= int(EXAMPLE)
    below = _count_below(values, differs, edges, m)
    from_below = np.arange(values.size) < np.repeat(edges[:-1] + below, np.diff(edges))
    split = np.where(from_below, differs[1:], differs[:-1])
    split[edges[1:][below == m] - 1] = False
    codes = examples.astype(np.uint32)
    codes[split] |= LAST
    return codes, below


def _count_below(values: Array, differs: Array, edges: Array, m: int) -> Array:
    """Return how many values of each feature are summed from below: the negative ones, or half of all."""
    below = np.diff(np.append(0, np.cumsum(values < 0.0))[edges])
    half = (m + 1) // 2
    for j in np.flatnonzero(np.diff(edges) == m):
        below[j] = half + np.argmax(differs[edges[j] + half :])
    return below
