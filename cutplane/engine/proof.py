"""The multipliers of the best lower bound, kept valid when their rows are dropped."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cutplane.engine.bundle import Bundle
from cutplane.engine.slopes import stacked
from cutplane.validation import Array


class Rows(NamedTuple):
    """A copy of some rows of a bundle."""

    slopes: Any
    offsets: Array
    blocks: Array
    queries: Array
    multipliers: Array


Origins = dict[int, Array]


class Proof:
    """Ids and multipliers of the rows that give the best lower bound.

    Parameters
    ----------
    ids, multipliers : ndarray of shape (K,)
    """

    def __init__(self, ids: Array | None = None, multipliers: Array | None = None):
        self.ids = np.empty(0, dtype=np.int64) if ids is None else ids
        self.multipliers = np.empty(0) if multipliers is None else multipliers
        self._kept: tuple[Rows, Origins, Origins] | None = None

    def keep(self, bundle: Bundle) -> None:
        """Copy the rows in use, which may be dropped from the bundle."""
        if self._kept is None:
            self._kept = self._gather(bundle)

    def _gather(self, bundle: Bundle) -> tuple[Rows, Origins, Origins]:
        used = self.multipliers > 0.0
        rows = np.searchsorted(bundle.ids, self.ids[used])
        queries = bundle.queries[rows]
        points, duals = (
            {query: origins[query] for query in queries.tolist() if query in origins}
            for origins in (bundle.points, bundle.duals)
        )
        return (
            Rows(
                bundle.slopes[rows],
                bundle.offsets[rows],
                bundle.blocks[rows],
                queries,
                self.multipliers[used],
            ),
            points,
            duals,
        )

    def rows(self, bundle: Bundle) -> tuple[Rows, Origins, Origins]:
        """Return the rows of the bundle with their multipliers, those that have left it, points and duals."""
        multipliers = np.zeros(len(bundle))
        everything = Rows(
            bundle.slopes.copy(),
            bundle.offsets.copy(),
            bundle.blocks.copy(),
            bundle.queries.copy(),
            multipliers,
        )
        points, duals = dict(bundle.points), dict(bundle.duals)
        if self._kept is None:
            positions = np.searchsorted(bundle.ids, self.ids)
            multipliers[positions] = self.multipliers
            return everything, points, duals
        kept, kept_points, kept_duals = self._kept
        both = [
            np.concatenate([all_rows, some]) for all_rows, some in zip(everything[1:], kept[1:], strict=True)
        ]
        return Rows(stacked(everything.slopes, kept.slopes), *both), points | kept_points, duals | kept_duals
