"""Risks that are sums over examples, divided into shares of these."""

from __future__ import annotations

from copy import copy
from typing import ClassVar, Self

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.chunks import balanced_ranges


class Shares:
    """A sum over examples that can be divided: some attributes hold an entry for each of them.

    Attributes
    ----------
    n_examples : int
    per_example : tuple of str
        The names of these attributes.
    """

    n_examples: int
    per_example: ClassVar[tuple[str, ...]] = ("weights",)

    @property
    def work(self) -> Array:
        """What it takes, in any unit, to decode all examples before each, shape (m + 1,)."""
        return np.arange(self.n_examples + 1)

    def part(self, low: int, high: int) -> Self:
        """Return the sum over the examples low <= i < high."""
        part = copy(self)
        part.n_examples = high - low
        for name in self.per_example:
            setattr(part, name, getattr(self, name)[low:high])
        return part

    def split(self, n_parts: int) -> list[Self]:
        """Return at most `n_parts` risks of some of the examples each, whose sum is the risk."""
        return [self.part(low, high) for low, high in balanced_ranges(self.work, n_parts)]
