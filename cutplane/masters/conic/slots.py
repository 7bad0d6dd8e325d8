"""Places for rows in a pool of fixed size, which doubles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.masters.base import HALF_SPACE
from cutplane.pieces.validation import Array

_FREE = -1
_FIRST = 16


class Placement(NamedTuple):
    """Where the rows are.

    Attributes
    ----------
    places : ndarray of shape (K,)
        The place of each row.
    new : ndarray of int
        The rows that have just got their place; all of them if the pool has grown.
    vacated : ndarray of int
        The places that have lost their row, some of which may be taken again.
    grown : bool
        Whether the pool is larger than before, and every place anew.
    """

    places: Array
    new: Array
    vacated: Array
    grown: bool


class Slots:
    """Gives each row a place that it keeps until it is removed, or until the pool grows.

    The places of a block are consecutive, and all blocks have equally many; the last places are those of the
    half-spaces. So the block of a place never changes.

    Parameters
    ----------
    n_blocks : int
    """

    def __init__(self, n_blocks: int):
        self.n_blocks = n_blocks
        self.per_block = 0
        self.half_spaces = 0
        self._ids = np.empty(0, dtype=np.int64)

    @property
    def size(self) -> int:
        """Number of places."""
        return self._ids.shape[0]

    @property
    def blocks(self) -> Array:
        """The block of each place."""
        blocks = np.repeat(np.arange(self.n_blocks), self.per_block)
        return np.concatenate([blocks, np.full(self.half_spaces, HALF_SPACE)])

    def place(self, ids: Array, blocks: Array) -> Placement:
        """Free the places of the rows that are gone and give the new rows theirs; grow if it is full."""
        groups = np.where(blocks == HALF_SPACE, self.n_blocks, blocks)
        counts = np.bincount(groups, minlength=self.n_blocks + 1)
        grown = self._grow(int(counts[:-1].max(initial=1)), int(counts[-1]))
        vacated = np.flatnonzero((self._ids != _FREE) & ~np.isin(self._ids, ids))
        self._ids[vacated] = _FREE
        new = np.flatnonzero(~np.isin(ids, self._ids))
        for group in np.unique(groups[new]):
            members = new[groups[new] == group]
            start = group * self.per_block
            stop = start + self.per_block if group < self.n_blocks else self.size
            free = start + np.flatnonzero(self._ids[start:stop] == _FREE)
            self._ids[free[: members.size]] = ids[members]
        order = np.argsort(self._ids)
        places = order[np.searchsorted(self._ids, ids, sorter=order)]
        return Placement(places, new, vacated, grown)

    def _grow(self, per_block: int, half_spaces: int) -> bool:
        if per_block <= self.per_block and half_spaces <= self.half_spaces:
            return False
        self.per_block = _doubled(max(self.per_block, _FIRST // self.n_blocks, 1), per_block)
        if half_spaces:
            self.half_spaces = _doubled(max(self.half_spaces, _FIRST), half_spaces)
        self._ids = np.full(self.n_blocks * self.per_block + self.half_spaces, _FREE, dtype=np.int64)
        return True


def _doubled(size: int, needed: int) -> int:
    while size < needed:
        size *= 2
    return size
