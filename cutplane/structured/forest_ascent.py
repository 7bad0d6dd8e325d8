"""Block-coordinate ascent for the max-margin risks of linear chains and of forests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.structured.ascent import CachedAscent, Epoch
from cutplane.structured.mixture import pack, unpack

if TYPE_CHECKING:
    from cutplane.structured.chain import ChainRisk
    from cutplane.structured.graph import GraphRisk

_SEED = 0x9E3779B97F4A7C15
_PER_READ, _PER_VISIT = 1.0, 50.0
"""Nanoseconds, on a usual machine, of an entry of a row read for one state, and of a visit, in an epoch."""


_NONE = np.empty(0, np.int64)
CHAINS = _NONE, np.empty((0, 2), np.int64), _NONE, _NONE, _NONE, np.empty(0, np.bool_)
"""The edges of linear chains: from each position of a sequence to the next."""


class Forests(NamedTuple):
    """Labelled chains or forests as compiled block steps read them."""

    rows: tuple[Array, Array, Array, Array]
    """The features of the nodes, as `as_rows` returns them."""
    links: Array
    """The features of the edges, shape (E, k); a single row holds for all."""
    starts: Array
    """Where the nodes of each forest start, shape (m + 1,)."""
    edges: tuple[Array, Array, Array, Array, Array, Array]
    """Where the edges of each forest start, and what `best_labellings` takes of them; or `CHAINS`."""
    labels: Array
    """The true ones, shape (N,)."""
    n_states: int
    entries: float
    """Stored entries of a row, on average."""
    work: float
    """Nanoseconds, roughly, that it takes to decode all."""


class ForestAscent(CachedAscent):
    """Slots of labellings and their shares, and the weights that follow from them, updated in place.

    Parameters
    ----------
    risk : ChainRisk or GraphRisk
    data : Forests
    quadratic : DiagonalQuadratic
        With equal positive weights.
    multipliers : ndarray, optional
        Where to start, as `multipliers` returns them; by default at the true labellings.
    """

    def __init__(
        self,
        risk: ChainRisk | GraphRisk,
        data: Forests,
        quadratic: DiagonalQuadratic,
        multipliers: Array | None = None,
    ):
        self.risk, self.data, m = risk, data, data.starts.size - 1
        self.lam = float(quadratic.weights[0])
        self._sizes = np.diff(data.starts)
        self._labels = data.labels[np.newaxis].copy()
        self._shares = np.ones((1, m))
        self._used = np.zeros((1, m), dtype=np.int64)
        self._counts = np.ones(m, dtype=np.int64)
        x = quadratic.centre
        if multipliers is not None:
            self._take(multipliers)
            x = x - risk.dual_cut(multipliers)[0][0] / self.lam
        self._weights = self._split(x)
        self._early, self._change = (_zeros_like(self._weights) for _ in range(2))
        self._visits, self._late, self._now = 0, 1.0, 0
        self._order, self._seed = np.arange(m), np.uint64(_SEED)
        S, counts = data.n_states, np.diff(data.edges[0])
        self._tables = np.empty((2, self._sizes.max(), S))
        self._pairs = np.empty((min(counts.max(initial=0), len(data.links)), S * S))

    @property
    def x(self) -> Array:
        """The point that follows from the labellings and their shares, shape (dim,)."""
        return _joined(self._weights)

    @property
    def average(self) -> Array:
        """The average of the iterates, the k-th with a weight in proportion to k, shape (dim,)."""
        return self.x - _joined(self._early) / self._late

    @property
    def multipliers(self) -> Array:
        """The labellings with a share."""
        return pack(self._shares, self._labels, self._sizes)

    def epoch(self, exact: bool) -> Epoch:
        """Visit every example in random order; the cost is counted, not measured, as runs are repeated."""
        from cutplane.linear.epochs import shuffle
        from cutplane.structured.forest_passes import epoch

        data, risk = self.data, self.risk
        self._make_room(int(self._counts.max()) + exact)
        self._seed = np.uint64(shuffle(self._order, self._order.size, self._seed))
        self._now += 1
        room = np.empty((2, len(self._labels)))
        gap, rise, work, self._visits, self._late = epoch(
            data.rows, data.links, data.starts, data.edges, self._order, data.labels,
            risk.costs, risk.weights, self.lam, exact, self._now,
            *self._weights, *self._early, self._visits, self._late,
            self._labels, self._shares, self._used, self._counts,
            *self._change, *self._tables, self._pairs, room,
        )  # fmt: skip
        cost = _PER_READ * work * data.entries + _PER_VISIT * self._sizes.size
        return Epoch(gap, rise, cost + exact * data.work)

    def _split(self, x: Array) -> tuple[Array, Array]:
        """Return the weights of states, shape (n, S), and of pairs of states, shape (k, S S), of a vector."""
        S, k = self.data.n_states, self.data.links.shape[1]
        emissions, transitions = np.split(x, [x.size - S * S * k])
        return emissions.reshape(S, -1).T.copy(), transitions.reshape(S * S, k).T.copy()

    def _take(self, multipliers: Array) -> None:
        """Fill the slots."""
        slots = list(unpack(multipliers, self._sizes))
        self._make_room(len(slots))
        self._shares[:] = 0.0
        self._counts[:] = 0
        for k, (there, shares, places, numbers) in enumerate(slots):
            self._shares[k, there] = shares
            self._labels[k, places] = numbers
            self._counts[there] += 1

    def _make_room(self, slots: int) -> None:
        """Have so many slots."""
        if len(self._labels) < slots:
            more = slots + slots // 2 - len(self._labels)
            for name in ("_labels", "_shares", "_used"):
                known = getattr(self, name)
                setattr(self, name, np.concatenate([known, np.zeros((more, known.shape[1]), known.dtype)]))


def _joined(parts: tuple[Array, Array]) -> Array:
    emissions, transitions = parts
    return np.concatenate([emissions.T.ravel(), transitions.T.ravel()])


def _zeros_like(parts: tuple[Array, Array]) -> tuple[Array, Array]:
    return np.zeros_like(parts[0]), np.zeros_like(parts[1])
