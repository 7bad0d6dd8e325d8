"""Sparse weights in the nonnegative unit l2 ball of all ordered tuples, and their running average."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from cutplane.pieces.validation import Array

_SMALL = 1e-3


class TupleWeights:
    """theta >= 0 with ||theta||_2 <= 1 over ordered tuples, equal for all orders of the same factors.

    Kept as one weight W per multiset, the sum over its N orders, of which it takes W^2 / N in the squared
    norm. Projecting on the ball multiplies all weights by a factor, which is kept apart: every step costs
    O(1). So does the average: of ``sum_k eta_k theta_k = sigma theta - lag``, a step changes sigma and one
    entry of the lag.

    Attributes
    ----------
    indices : list of tuple of int
        The multisets that ever had weight, sorted tuples, in the order of their discovery.
    """

    def __init__(self) -> None:
        self.indices: list[tuple[int, ...]] = []
        self._places: dict[tuple[int, ...], int] = {}
        self._scale = 1.0
        self._square = 0.0
        self._sigma = 0.0
        self._mass = 0.0
        self._orders = np.empty(64)
        self._raw = np.zeros(64)
        self._lag = np.zeros(64)
        self._settled = np.zeros(64)

    def record(self, eta: float) -> None:
        """Count the weights in the average, with the weight eta > 0."""
        self._sigma += eta * self._scale
        self._mass += eta

    def add(self, index: tuple[int, ...], amount: float) -> float:
        """Add an amount, spread over the orders of the tuple; return the factor of the projection, <= 1."""
        k = self._place(tuple(sorted(index)))
        change = amount / self._scale
        before = self._raw[k]
        self._raw[k] += change
        self._lag[k] += change * self._sigma
        self._square += (self._raw[k] ** 2 - before**2) / self._orders[k]
        norm = self._scale * math.sqrt(self._square)
        if norm <= 1.0:
            return 1.0
        self._scale /= norm
        if self._scale < _SMALL:
            self._settle()
        return 1.0 / norm

    def current(self) -> Array:
        """Return the weights now, one per entry of `indices`."""
        return self._scale * self._raw[: len(self.indices)]

    def average(self) -> Array:
        """Return the averaged weights, one per entry of `indices`."""
        total = self._settled + self._sigma * self._raw - self._lag
        return np.maximum(total[: len(self.indices)], 0.0) / max(self._mass, 1e-300)

    def _settle(self) -> None:
        """Take the factor into the weights, before rounding is felt in the difference of sigma and lag."""
        self._settled += self._sigma * self._raw - self._lag
        self._lag[:] = 0.0
        self._sigma = 0.0
        self._raw *= self._scale
        self._scale = 1.0
        self._square = float((self._raw[: len(self.indices)] ** 2 / self._orders[: len(self.indices)]).sum())

    def _place(self, index: tuple[int, ...]) -> int:
        place = self._places.setdefault(index, len(self.indices))
        if place == len(self.indices):
            self.indices.append(index)
            if place == self._raw.size:
                for name in ("_orders", "_raw", "_lag", "_settled"):
                    setattr(self, name, np.concatenate([getattr(self, name), np.zeros(place)]))
            self._orders[place] = math.factorial(len(index)) / math.prod(
                math.factorial(count) for count in Counter(index).values()
            )
        return place
