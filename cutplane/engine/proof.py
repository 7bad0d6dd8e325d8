"""The multipliers of the best lower bound, kept valid when their rows are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cutplane.engine.bundle import AGGREGATE, Bundle
from cutplane.engine.slopes import rows_to_matrix, stacked
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import Rows


class Origins(NamedTuple):
    """Where rows come from, by query: a point, multipliers of examples; and the solution found there."""

    points: Mapping[int, Array]
    duals: dict[int, Array]
    solutions: dict[int, tuple[Any, ...]]


class Proof:
    """Ids and multipliers of the rows that give the best lower bound.

    Parameters
    ----------
    ids, multipliers : ndarray of shape (K,)
    """

    def __init__(self, ids: Array | None = None, multipliers: Array | None = None):
        self.ids = np.empty(0, dtype=np.int64) if ids is None else ids
        self.multipliers = np.empty(0) if multipliers is None else multipliers
        self._kept: tuple[Rows, Origins] | None = None
        self._kept_weights: dict[int, float] | None = None

    @classmethod
    def of(cls, rows: Rows) -> Proof:
        """Return a proof by rows that need not be in a bundle, and have no query points."""
        proof = cls()
        proof._kept, proof._kept_weights = (rows, Origins({}, {}, {})), {}
        return proof

    def keep(self, bundle: Bundle) -> None:
        """Copy the rows in use, which may be dropped from the bundle."""
        if self._kept is None:
            self._kept_weights = self.weights(bundle)
            self._kept = self._gather(bundle)

    def rows(self, bundle: Bundle) -> tuple[Rows, Origins]:
        """Return the rows that came from queries, with their multipliers, and where they came from.

        These are the rows of the bundle, those in use that have left it, and, in the place of aggregates, the
        rows that they were made of.
        """
        weights = self.weights(bundle)
        places, inside = _places(bundle, list(weights))
        multipliers = np.zeros(len(bundle))
        columns: Any = bundle.offsets, bundle.blocks, bundle.queries, multipliers
        origins: Any = bundle.points, bundle.duals, bundle.solutions
        if self._kept is None and inside.all():
            multipliers[places] = [*weights.values()]
            rows = bundle.queries != AGGREGATE
            slopes = bundle.lend() if rows.all() else bundle.slopes[np.flatnonzero(rows)]
            found = Rows(slopes, *(column[rows] for column in columns))
            return found, Origins(*(known.copy() for known in origins))
        kept, before = self._gather(bundle) if self._kept is None else self._kept
        idle = bundle.queries != AGGREGATE
        idle[places[inside]] = False
        parts: Any = (
            np.concatenate([column[idle], own]) for column, own in zip(columns, kept[1:], strict=True)
        )
        others = bundle.slopes if idle.all() else bundle.slopes[np.flatnonzero(idle)]
        slopes = stacked(others, kept.slopes)
        return Rows(slopes, *parts), Origins(*(now | then for now, then in zip(origins, before, strict=True)))

    def weights(self, bundle: Bundle) -> dict[int, float]:
        """Return the multipliers of the rows in use that came from queries, by id."""
        if self._kept_weights is not None:
            return self._kept_weights
        used = self.multipliers > 0.0
        return bundle.bases(np.searchsorted(bundle.ids, self.ids[used]), self.multipliers[used])

    def _gather(self, bundle: Bundle) -> tuple[Rows, Origins]:
        weights = self.weights(bundle)
        ids, shares = np.array(list(weights), dtype=np.int64), np.array(list(weights.values()))
        places, inside = _places(bundle, ids)
        rows = places[inside]
        gone = [bundle.retired[base] for base in ids[~inside].tolist()]
        slopes = bundle.slopes[rows]
        if gone:
            slopes = stacked(slopes, rows_to_matrix([entry.slope for entry in gone], bundle.dim))
        queries = np.append(bundle.queries[rows], [entry.query for entry in gone]).astype(np.int64)
        used = set(queries.tolist())
        origins: Any = (
            {query: known[query] for query in used & known.keys()}
            for known in (bundle.duals, bundle.solutions)
        )
        gathered = Rows(
            slopes,
            np.append(bundle.offsets[rows], [entry.offset for entry in gone]),
            np.append(bundle.blocks[rows], [entry.block for entry in gone]).astype(np.int64),
            queries,
            np.append(shares[inside], shares[~inside]),
        )
        return gathered, Origins(bundle.points.only(used), *origins)


def _places(bundle: Bundle, ids: Any) -> tuple[Array, Array]:
    """Return where ids are in a bundle, or would be, and which ones are there."""
    ids = np.array(ids, dtype=np.int64)
    places = np.searchsorted(bundle.ids, ids)
    if not len(bundle):
        return places, np.zeros(ids.size, dtype=bool)
    return places, bundle.ids[np.minimum(places, len(bundle) - 1)] == ids
