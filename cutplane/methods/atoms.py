"""The points of a set that a Frank-Wolfe method has met, and their convex combinations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutplane.pieces.validation import Array


class Atoms:
    """Distinct points, in the order of their discovery, as the rows of an array that doubles when it is full.

    A row is never changed: views of `rows` stay as they are when atoms are added.

    Parameters
    ----------
    first : ndarray of shape (dim,)
    """

    def __init__(self, first: Array):
        self._rows = np.empty((16, first.size))
        self._keys = np.empty(16, dtype=np.int64)
        self._count = 0
        self.index(first)

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Array:
        """Shape (K, dim), read-only."""
        rows = self._rows[: self._count]
        rows.flags.writeable = False
        return rows

    def index(self, atom: Array) -> int:
        """Return the row of this atom, a new one if it was not known."""
        key = hash((atom + 0.0).tobytes())  # 0.0 and -0.0 have the same key
        for row in np.flatnonzero(self._keys[: self._count] == key).tolist():
            if np.array_equal(self._rows[row], atom):
                return row
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
            self._keys = np.concatenate([self._keys, np.empty_like(self._keys)])
        self._rows[self._count] = atom
        self._keys[self._count] = key
        self._count += 1
        return self._count - 1

    def restricted(self, kept: Array) -> Atoms:
        """Return the atoms where `kept`, of shape (K,), is True."""
        rows = np.flatnonzero(kept)
        chosen = Atoms.__new__(Atoms)
        chosen._rows = np.empty_like(self._rows)
        chosen._keys = np.empty_like(self._keys)
        chosen._rows[: rows.size] = self._rows[rows]
        chosen._keys[: rows.size] = self._keys[rows]
        chosen._count = rows.size
        return chosen


@dataclass(frozen=True, eq=False)
class Combination:
    """A point as a convex combination of atoms: ``weights @ atoms``.

    Attributes
    ----------
    atoms : ndarray of shape (K, dim)
        Points of the feasible set.
    weights : ndarray of shape (K,)
        Nonnegative, of sum 1.
    objective : float
        The objective at the point.
    """

    atoms: Array
    weights: Array
    objective: float

    @property
    def x(self) -> Array:
        """The point, up to rounding."""
        return self.weights @ self.atoms
