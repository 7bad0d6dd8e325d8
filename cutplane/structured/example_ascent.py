"""Block-coordinate ascent for any sum over examples of a maximum over labellings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import check_time
from cutplane.structured.ascent import CachedAscent, Epoch
from cutplane.structured.features import Factors
from cutplane.structured.mixture import pack

if TYPE_CHECKING:
    from cutplane.structured.example_sum import ExampleSum

_KEPT = 10
"""Epochs for which a labelling without a share is kept, as published."""


@dataclass(eq=False)
class _Labelling:
    """A labelling that was found, its piece, its share, and the last epoch in which it was the best."""

    numbers: Array
    factors: Factors
    offset: float
    share: float
    used: int


class ExampleAscent(CachedAscent):
    """Labellings with their pieces, and the point that follows from them; see `CachedAscent`.

    The cost of an epoch is measured, for the decoders are the user's.

    Parameters
    ----------
    risk : ExampleSum
    quadratic : DiagonalQuadratic
        With equal positive weights.
    multipliers : ndarray, optional
        Where to start, as `multipliers` returns them; by default at what the decoders return at the centre.
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
        """The point that follows from the labellings and their shares, shape (dim,)."""
        return self._x.copy()

    @property
    def average(self) -> Array:
        """The average of the iterates, the k-th with a weight in proportion to k, shape (dim,)."""
        return self._x - self._early / self._late

    @property
    def multipliers(self) -> Array:
        """The labellings with a share."""
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
        """Visit every example in random order."""
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
        """Keep the best labelling of an example."""
        y, factors, offset = self.risk.best(self._x, i)
        numbers, kept = self.risk.as_numbers(y), self._kept[i]
        if numbers.size != kept[0].numbers.size:
            raise OracleError(
                f"The labellings of example {i} have {kept[0].numbers.size} and {numbers.size} numbers; "
                "certificates need as many for each: pad them in as_numbers."
            )
        if not any(np.array_equal(numbers, one.numbers) for one in kept):
            kept.append(_Labelling(numbers, factors, offset, 0.0, self._now))

    def _visit(self, kept: list[_Labelling]) -> tuple[float, float]:
        """Move share from the worst of the labellings kept to the best; return the gap and the rise."""
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
        kept[:] = [one for one in kept if one.share > 0.0 or self._now - one.used <= _KEPT]
        return max(0.0, gap), rise
