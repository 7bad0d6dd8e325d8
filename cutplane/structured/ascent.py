"""When a cache of labellings pays, for block-coordinate ascent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import seconds_left

_MOST = 100
"""Cached epochs after one with decoders: where all that is left is rounding, they might go on for ever."""


class Epoch(NamedTuple):
    """What a visit of every example did."""

    gap: float
    """The sum of the gaps of the examples, each at the time of its visit."""
    rise: float
    """By what the lower bound rose."""
    cost: float
    """In any unit."""


class CachedAscent(ABC):
    """Epochs with decoders, and between them epochs that take labellings found before."""

    @property
    @abstractmethod
    def x(self) -> Array:
        """The point that follows from the labellings and their shares, shape (dim,)."""

    @property
    @abstractmethod
    def average(self) -> Array:
        """The average of the iterates, shape (dim,)."""

    @property
    @abstractmethod
    def multipliers(self) -> Array:
        """Convex combinations of labellings, as `mixture` packs them."""

    @abstractmethod
    def epoch(self, exact: bool) -> Epoch:
        """Visit every example, with its decoder, or with the labellings that are kept of it."""

    def advance(self) -> float:
        """Do an epoch with decoders, and cached ones as long as the last rose no slower than all of them."""
        gap, rise, cost = self.epoch(exact=True)
        for _ in range(_MOST):
            _, more, extra = self.epoch(exact=False)
            rise, cost = rise + more, cost + extra
            if more <= 0.0 or more * cost < rise * extra or seconds_left() == 0.0:
                break
        return gap
