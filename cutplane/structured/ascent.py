"""Block-coordinate ascent on the dual of a sum over examples of maxima over labellings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import check_time, seconds_left
from cutplane.structured.mixture import pack, unpack

if TYPE_CHECKING:
    from cutplane.structured.example_sum import ExampleSum, Factors

_MOST = 100
"""Largest number of cached epochs in a row, because rounding errors could continue them forever."""
KEPT = 10
"""Number of epochs for which an unused labelling stays in the cache, because the authors use this number."""
_SEED = 0x9E3779B97F4A7C15
"""Seed of the random orders, the golden ratio in binary, because its bits are well mixed."""
_PER_READ, _PER_VISIT = 1.0, 50.0
"""Nanoseconds for reading a row entry for one state, and for a visit, because cached epochs stop when they
cost too much."""


class Epoch(NamedTuple):
    """The sum of the gaps of all examples at their visits, the increase of the lower bound, and the cost."""

    gap: float
    rise: float
    cost: float


class CachedAscent(ABC):
    """A `BlockAscent` that alternates epochs with decoders and epochs with cached labellings."""

    @abstractmethod
    def epoch(self, exact: bool) -> Epoch:
        """Visit every example: with `exact` by its decoder, otherwise only by cached labellings."""

    def advance(self) -> float:
        """Do an epoch with decoders, then cached epochs as long as the bound increases as fast as before."""
        gap, rise, cost = self.epoch(exact=True)
        for _ in range(_MOST):
            _, more, extra = self.epoch(exact=False)
            rise, cost = rise + more, cost + extra
            if more <= 0.0 or more * cost < rise * extra or seconds_left() == 0.0:
                break
        return gap


@dataclass(eq=False)
class _Labelling:
    """A labelling, its slope and offset, its share, and the last epoch in which it was the best one."""

    numbers: Array
    factors: Factors
    offset: float
    share: float
    used: int


class ExampleAscent(CachedAscent):
    """Ascent with labellings of any kind, for the decoders of an `ExampleSum`.

    The cost of an epoch is measured time, because decoders are user code. The ascent starts from
    `multipliers`, or from the labellings that the decoders return at the centre of the quadratic.
    """

    def __init__(self, risk: ExampleSum, quadratic: DiagonalQuadratic, multipliers: Array | None = None):
        self.risk = risk
        self.lam = float(quadratic.weights[0])
        self._x = quadratic.centre.copy()
        self._early = np.zeros(risk.dim)
        self._visits, self._late, self._now = 0, 1.0, 0
        self._rng = np.random.default_rng(0)
        self._kept: list[list[_Labelling]] = [[] for _ in range(risk.n_examples)]
        if multipliers is None:
            for i, kept in enumerate(self._kept):
                y, factors, offset = risk.best(quadratic.centre, i)
                kept.append(_Labelling(risk.as_numbers(y), factors, offset, 1.0, 0))
        else:
            for i, share, numbers in risk.labellings_in(multipliers):
                factors, offset = risk.piece(i, risk.from_numbers(i, numbers))
                self._kept[i].append(_Labelling(numbers, factors, offset, share, 0))
        for kept in self._kept:
            for one in kept:
                one.factors.add_to(self._x, -one.share / self.lam)

    @property
    def x(self) -> Array:
        """The primal point of the labellings and their shares, shape (dim,)."""
        return self._x.copy()

    @property
    def average(self) -> Array:
        """The average of the iterates, with weight k for iterate k, shape (dim,)."""
        return self._x - self._early / self._late

    @property
    def multipliers(self) -> Array:
        """The labellings with positive shares, packed as in `mixture`."""
        sizes = np.array([kept[0].numbers.size for kept in self._kept])
        shape = max(map(len, self._kept)), len(self._kept)
        shares, labels = np.zeros(shape), np.zeros((shape[0], sizes.sum()))
        ends = np.cumsum(sizes)
        for i, kept in enumerate(self._kept):
            for k, one in enumerate(kept):
                shares[k, i] = one.share
                labels[k, ends[i] - sizes[i] : ends[i]] = one.numbers
        return pack(shares, labels, sizes)

    def epoch(self, exact: bool) -> Epoch:
        began, gap, rise = clock(), 0.0, 0.0
        self._now += 1
        for i in self._rng.permutation(len(self._kept)).tolist():
            if exact:
                check_time()
                self._decode(i)
            met, more = self._visit(self._kept[i])
            gap, rise = gap + met, rise + more
        return Epoch(gap, rise, clock() - began)

    def _decode(self, i: int) -> None:
        """Store the best labelling of example i."""
        y, factors, offset = self.risk.best(self._x, i)
        numbers, kept = self.risk.as_numbers(y), self._kept[i]
        if numbers.size != kept[0].numbers.size:
            raise OracleError(
                f"The labellings of example {i} have {kept[0].numbers.size} and {numbers.size} numbers, but "
                "certificates need the same number for all of them; pad them in as_numbers."
            )
        if not any(np.array_equal(numbers, one.numbers) for one in kept):
            kept.append(_Labelling(numbers, factors, offset, 0.0, self._now))

    def _visit(self, kept: list[_Labelling]) -> tuple[float, float]:
        """Transfer share from the worst to the best labelling; return the gap and the bound's increase."""
        self._visits += 1
        late, self._late = self._late, self._late * (self._visits + 2.0) / self._visits
        heights = [one.factors.dot(self._x) + one.offset for one in kept]
        best = max(range(len(kept)), key=heights.__getitem__)
        worst = min((k for k, one in enumerate(kept) if one.share > 0.0), key=heights.__getitem__)
        height = heights[best] - heights[worst]
        gap = heights[best] - sum(one.share * h for one, h in zip(kept, heights, strict=True))
        kept[best].used, rise = self._now, 0.0
        if height > 0.0:
            change = kept[best].factors.minus(kept[worst].factors)
            square, far = float(change.values @ change.values), kept[worst].share
            if square * far > self.lam * height:
                far = self.lam * height / square
            rise = far * (height - 0.5 * far * square / self.lam)
            change.add_to(self._x, -far / self.lam)
            change.add_to(self._early, -late * far / self.lam)
            kept[best].share += far
            kept[worst].share = max(0.0, kept[worst].share - far)
        kept[:] = [one for one in kept if one.share > 0.0 or self._now - one.used <= KEPT]
        return max(0.0, gap), rise


_NONE = np.empty(0, np.int64)
CHAINS = _NONE, np.empty((0, 2), np.int64), _NONE, _NONE, _NONE, np.empty(0, np.bool_)
"""The edges of linear chains, which join each position of a sequence with the next one."""


class Forests(NamedTuple):
    """Labelled chains or forests in the form for compiled block steps.

    Attributes
    ----------
    rows : tuple of ndarray
        The features of the nodes, as `as_rows` returns them.
    links : ndarray of shape (E, k)
        The features of the edges; a single row applies to all edges.
    starts : ndarray of shape (m + 1,)
        The index at which the nodes of each forest start.
    edges : tuple of ndarray
        The argument `edges` of `best_labellings`.
    labels : ndarray of shape (N,)
        The true labels.
    n_states : int
    costs, weights : ndarray of shape (m,)
        The cost of a wrong label in each forest, and the weight of the forest.
    entries : float
        Mean number of stored entries of a row.
    work : float
        Approximate time for decoding all forests, in nanoseconds.
    """

    rows: tuple[Array, Array, Array, Array]
    links: Array
    starts: Array
    edges: tuple[Array, Array, Array, Array, Array, Array]
    labels: Array
    n_states: int
    costs: Array
    weights: Array
    entries: float
    work: float


class ForestAscent(CachedAscent):
    """Compiled ascent for forests, with labellings in slots, their shares, and the weights, updated in place.

    It starts from `multipliers`, whose cut has the slope `slope`, or from the true labellings.
    """

    def __init__(
        self,
        data: Forests,
        quadratic: DiagonalQuadratic,
        multipliers: Array | None = None,
        slope: Array | None = None,
    ):
        self.data, m = data, data.starts.size - 1
        self.lam = float(quadratic.weights[0])
        self._sizes = np.diff(data.starts)
        self._labels = data.labels[np.newaxis].copy()
        self._shares = np.ones((1, m))
        self._used = np.zeros((1, m), dtype=np.int64)
        self._counts = np.ones(m, dtype=np.int64)
        if multipliers is not None:
            self._take(multipliers)
        self._weights = self._split(quadratic.centre - (0.0 if slope is None else slope / self.lam))
        self._early, self._change = (tuple(map(np.zeros_like, self._weights)) for _ in range(2))
        self._visits, self._late, self._now = 0, 1.0, 0
        self._order, self._seed = np.arange(m), np.uint64(_SEED)
        S, counts = data.n_states, np.diff(data.edges[0])
        self._tables = np.empty((2, self._sizes.max(), S))
        self._pairs = np.empty((min(counts.max(initial=0), len(data.links)), S * S))

    @property
    def x(self) -> Array:
        """The primal point of the labellings and their shares, shape (dim,)."""
        return _joined(self._weights)

    @property
    def average(self) -> Array:
        """The average of the iterates, with weight k for iterate k, shape (dim,)."""
        return self.x - _joined(self._early) / self._late

    @property
    def multipliers(self) -> Array:
        """The labellings with positive shares, packed as in `mixture`."""
        return pack(self._shares, self._labels, self._sizes)

    def epoch(self, exact: bool) -> Epoch:
        """Visit every example in random order; the cost is counted, because measured times vary."""
        from cutplane.linear.dual_ascent import shuffle
        from cutplane.structured.forest_passes import epoch

        data = self.data
        self._make_room(int(self._counts.max()) + exact)
        self._seed = np.uint64(shuffle(self._order, self._order.size, self._seed))
        self._now += 1
        room = np.empty((2, len(self._labels)))
        gap, rise, work, self._visits, self._late = epoch(
            data.rows, data.links, data.starts, data.edges, self._order, data.labels,
            data.costs, data.weights, self.lam, exact, self._now,
            *self._weights, *self._early, self._visits, self._late,
            self._labels, self._shares, self._used, self._counts,
            *self._change, *self._tables, self._pairs, np.empty(data.n_states), room,
        )  # fmt: skip
        cost = _PER_READ * work * data.entries + _PER_VISIT * self._sizes.size
        return Epoch(gap, rise, cost + exact * data.work)

    def _split(self, x: Array) -> tuple[Array, Array]:
        """Split x into weights of states, shape (n, S), and of pairs of states, shape (k, S S)."""
        S, k = self.data.n_states, self.data.links.shape[1]
        emissions, transitions = np.split(x, [x.size - S * S * k])
        return emissions.reshape(S, -1).T.copy(), transitions.reshape(S * S, k).T.copy()

    def _take(self, multipliers: Array) -> None:
        """Fill the slots from multipliers."""
        slots = list(unpack(multipliers, self._sizes))
        self._make_room(len(slots))
        self._shares[:] = 0.0
        self._counts[:] = 0
        for k, (there, shares, places, numbers) in enumerate(slots):
            self._shares[k, there] = shares
            self._labels[k, places] = numbers
            self._counts[there] += 1

    def _make_room(self, slots: int) -> None:
        """Enlarge the arrays to at least `slots` slots."""
        if len(self._labels) < slots:
            more = slots + slots // 2 - len(self._labels)
            for name in ("_labels", "_shares", "_used"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros((more, old.shape[1]), old.dtype)]))


def _joined(parts: tuple[Array, ...]) -> Array:
    return np.concatenate([part.T.ravel() for part in parts])
