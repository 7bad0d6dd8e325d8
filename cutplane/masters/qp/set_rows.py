"""The rows of a polyhedron, as half-spaces in front of the rows of a pool."""

from __future__ import annotations

import numpy as np

from cutplane.masters.base import HALF_SPACE, Rows
from cutplane.masters.qp.active_set import EQUATION
from cutplane.masters.qp.gram import capacity_for, grown
from cutplane.masters.rows import survivors
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array


class StackedRows:
    """The half-spaces of a linear form without auxiliaries, then the rows of a pool.

    Parameters
    ----------
    form : LinearForm
        Each finite row bound becomes a half-space, a row with equal bounds becomes an `EQUATION`.
    """

    def __init__(self, form: LinearForm):
        rows = form.rows.toarray()
        equal = form.row_lower == form.row_upper
        above, below = np.isfinite(form.row_upper), np.isfinite(form.row_lower) & ~equal
        self.own = int(above.sum() + below.sum())
        self._count = self.own
        self._slopes = np.vstack([rows[above], -rows[below]])
        self._offsets = np.concatenate([-form.row_upper[above], form.row_lower[below]])
        self._blocks = np.full(self.own, HALF_SPACE)
        self._blocks[: equal[above].size][equal[above]] = EQUATION
        self._ids = np.arange(self.own) - self.own

    def take(self, rows: Rows) -> None:
        """Copy what is new in the pool, and forget what has left it."""
        ids, known = rows.ids, self._count - self.own
        if known and (ids.shape[0] < known or ids[known - 1] != self._ids[self._count - 1]):
            kept = np.flatnonzero(survivors(self._ids[self.own : self._count], ids))
            known = kept.shape[0]
            for array in (self._slopes, self._offsets, self._blocks, self._ids):
                array[self.own : self.own + known] = array[self.own + kept]
        self._count = self.own + ids.shape[0]
        if self._count > self._ids.shape[0]:
            for name in ("_slopes", "_offsets", "_blocks", "_ids"):
                setattr(self, name, grown(getattr(self, name), capacity_for(self._count)))
        new = slice(self.own + known, self._count)
        self._slopes[new] = rows.slopes[known:]
        self._offsets[new] = rows.offsets[known:]
        self._blocks[new] = rows.blocks[known:]
        self._ids[new] = ids[known:]

    @property
    def slopes(self) -> Array:
        """Shape (K, dim)."""
        return self._slopes[: self._count]

    @property
    def offsets(self) -> Array:
        """Shape (K,)."""
        return self._offsets[: self._count]

    @property
    def blocks(self) -> Array:
        """Shape (K,)."""
        return self._blocks[: self._count]

    @property
    def ids(self) -> Array:
        """Shape (K,); negative for the rows of the form."""
        return self._ids[: self._count]
