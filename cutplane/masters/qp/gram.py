"""The Gram matrix of a growing set of rows, in a diagonal metric."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.masters.rows import parts_of, products
from cutplane.pieces.validation import Array

_FEW = 4  # an update is faster if less than a fourth of the coordinates change
_UPDATES = 20  # in a row, each of which adds its rounding
_CANCELLED = 0.5  # a diagonal that falls to less by an update has lost digits


class Gram:
    """A diag(metric) A' for the rows A of a pool; one product with A for all the rows added at once.

    Parameters
    ----------
    metric : ndarray of shape (dim,) or None
        Nonnegative; None stands for ones.

    Attributes
    ----------
    matrix : ndarray of shape (capacity, capacity)
        Its leading block is the Gram matrix.
    """

    def __init__(self, metric: Array | None):
        self.metric = metric
        self.matrix = np.zeros((16, 16))
        self._updates = 0

    def extend(self, slopes: Any, known: int) -> None:
        """Add the rows from number `known` on."""
        count = slopes.shape[0]
        if count > self.matrix.shape[0]:
            self.matrix = grown(self.matrix, capacity_for(count), square=True)
        if count == known + 1:
            row = slopes[known] if self.metric is None else slopes[known] * self.metric
            self.matrix[:count, known] = self.matrix[known, :count] = products(slopes, row)
            return
        metric = np.ones(slopes.shape[1]) if self.metric is None else self.metric
        among = _gram(slopes, metric, np.flatnonzero(metric), known)
        self.matrix[:count, known:count] = among
        self.matrix[known:count, :count] = among.T

    def change(self, metric: Array, slopes: Any) -> None:
        """Take another metric; if few coordinates change, by an update of low rank."""
        count = slopes.shape[0]
        free = np.flatnonzero(metric)
        if 2 * free.size <= metric.size:
            self.matrix[:count, :count] = _gram(slopes, metric, free)
        elif not self._update(metric, slopes):
            self.matrix[:count, :count] = _gram(slopes, metric, np.arange(metric.size))
            self._updates = 0
        self.metric = metric

    def _update(self, metric: Array, slopes: Any) -> bool:
        """Add the difference of the metrics; return False if that would be slow, or cancel digits."""
        if self.metric is None or self._updates == _UPDATES:
            return False
        changed = np.flatnonzero(metric != self.metric)
        if changed.size > metric.size // _FEW:
            return False
        leading = self.matrix[: slopes.shape[0], : slopes.shape[0]]
        before = leading.diagonal().copy()
        leading += _gram(slopes, metric - self.metric, changed)
        self._updates += 1
        return bool((leading.diagonal() >= _CANCELLED * before).all())

    def keep(self, kept: Array) -> None:
        """Remove all rows but those with the numbers `kept`."""
        count = kept.shape[0]
        self.matrix[:count, :count] = self.matrix[np.ix_(kept, kept)]


def _gram(slopes: Any, metric: Array, where: Array, first: int = 0) -> Array:
    """Return the products, over some coordinates, in the metric, of the rows with those from `first` on."""
    total = np.zeros((slopes.shape[0], slopes.shape[0] - first))
    for part in parts_of(where, metric.size):
        columns = slopes[:, part]
        total += columns @ (columns[first:] * metric[part]).T
    return total


def capacity_for(count: int) -> int:
    """Return the power of two that holds `count` rows."""
    return max(16, 1 << (count - 1).bit_length())


def grown(array: Array, capacity: int, square: bool = False) -> Array:
    """Return an array of zeros with `capacity` rows (and columns, if square) that starts with `array`."""
    shape = (capacity, capacity) if square else (capacity, *array.shape[1:])
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(size) for size in array.shape)] = array
    return larger
