"""What the risks of linear chains share: the data, weights, and scores of which differences are left."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.risks.base import Risk
from cutplane.risks.examples import as_weights, describe
from cutplane.structured.sequences import Sequences
from cutplane.structured.shares import Shares


class SequenceRisk(Shares, Risk):
    """A mean over sequences of a function of the scores of their labellings; see `ChainRisk`."""

    black_box = False

    def __init__(
        self,
        X: Any,
        y: Any,
        lengths: Any = None,
        n_states: int | None = None,
        sample_weight: Any = None,
        normalize: bool = True,
    ):
        self.sequences = Sequences.of(X, y, lengths, n_states)
        self.n_examples = len(self.sequences)
        self.weights = as_weights(sample_weight, self.n_examples, normalize)
        self.dim = self.sequences.dim

    def __repr__(self) -> str:
        data = self.sequences
        return f"{type(self).__name__}({len(data)} sequences, {describe(data.X)}, {data.n_states} states)"

    @property
    def work(self) -> Array:
        """What it takes to decode all sequences before each, shape (m + 1,)."""
        return self.sequences.work

    def part(self, low: int, high: int) -> Self:
        """Return the sum over the sequences low <= i < high."""
        part = super().part(low, high)
        part.sequences = self.sequences.part(low, high)
        return part

    @property
    def infima(self) -> Array:
        """0: no violation is below that of the true labelling, and no probability above 1; shape (1,)."""
        return np.zeros(1)

    def cancelled(self, z: Array) -> float:
        """Return a bound of the size of the scores, of which only differences are left."""
        return self.sequences.size_of_scores(z, self.weights)
