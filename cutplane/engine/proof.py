"""The multipliers of the best lower bound, kept valid when their rows are dropped."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.engine.bundle import Bundle
from cutplane.validation import Array


class Rows(NamedTuple):
    """A copy of some rows of a bundle."""

    slopes: Array
    offsets: Array
    blocks: Array
    queries: Array
    multipliers: Array


class Proof:
    """Ids and multipliers of the rows that give the best lower bound.

    Parameters
    ----------
    ids, multipliers : ndarray of shape (K,)
    """

    def __init__(self, ids: Array | None = None, multipliers: Array | None = None):
        self.ids = np.empty(0, dtype=np.int64) if ids is None else ids
        self.multipliers = np.empty(0) if multipliers is None else multipliers
        self._kept: tuple[Rows, dict[int, Array]] | None = None

    def keep(self, bundle: Bundle) -> None:
        """Copy the rows in use, which may be dropped from the bundle."""
        if self._kept is None:
            self._kept = self._gather(bundle)

    def _gather(self, bundle: Bundle) -> tuple[Rows, dict[int, Array]]:
        used = self.multipliers > 0.0
        rows = np.searchsorted(bundle.ids, self.ids[used])
        queries = bundle.queries[rows]
        points = {query: bundle.points[query] for query in queries.tolist() if query in bundle.points}
        return (
            Rows(
                bundle.slopes[rows],
                bundle.offsets[rows],
                bundle.blocks[rows],
                queries,
                self.multipliers[used],
            ),
            points,
        )

    def rows(self, bundle: Bundle) -> tuple[Rows, dict[int, Array]]:
        """Return the rows of the bundle with their multipliers, those that have left it, and the points."""
        multipliers = np.zeros(len(bundle))
        everything = Rows(
            bundle.slopes.copy(),
            bundle.offsets.copy(),
            bundle.blocks.copy(),
            bundle.queries.copy(),
            multipliers,
        )
        points = dict(bundle.points)
        if self._kept is None:
            positions = np.searchsorted(bundle.ids, self.ids)
            multipliers[positions] = self.multipliers
            return everything, points
        kept, kept_points = self._kept
        stacked = [np.concatenate([all_rows, some]) for all_rows, some in zip(everything, kept, strict=True)]
        return Rows(*stacked), points | kept_points
