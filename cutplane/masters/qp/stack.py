"""Rows of a set above the rows of a pool, as one matrix that copies neither."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.pieces.validation import Array


class Stack:
    """Two matrices, one above the other: what a master reads of the rows of a pool.

    Parameters
    ----------
    above, below : ndarray
        With equally many columns.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.masters.qp.stack import Stack
    >>> stack = Stack(np.ones((1, 2)), np.array([[2.0, 3.0]]))
    >>> (stack @ np.ones(2)).tolist(), stack[:, [1]].tolist()
    ([2.0, 5.0], [[1.0], [3.0]])
    """

    def __init__(self, above: Array, below: Array):
        self.above, self.below = above, below

    @property
    def shape(self) -> tuple[int, int]:
        """Of the whole matrix."""
        return self.above.shape[0] + self.below.shape[0], self.above.shape[1]

    def __matmul__(self, x: Array) -> Array:
        return np.concatenate([self.above @ x, self.below @ x])

    def __getitem__(self, key: Any) -> Any:
        """Return some rows: a stack, if they are given by a slice and all columns are wanted."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, int):
            return self[[rows], columns][0]
        split = self.above.shape[0]
        if not isinstance(rows, slice):
            parts = [self.above[row] if row < split else self.below[row - split] for row in rows]
            return np.array(parts).reshape(len(parts), self.shape[1])[:, columns]
        begin, end, _ = rows.indices(self.shape[0])
        if begin >= split:
            return self.below[begin - split : max(end - split, 0), columns]
        above, below = self.above[begin : min(end, split)], self.below[: max(end - split, 0)]
        if isinstance(columns, slice) and columns == slice(None):
            return Stack(above, below)
        return np.concatenate([above[:, columns], below[:, columns]])
