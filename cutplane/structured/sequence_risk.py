"""What the risks of linear chains share: the data, weights, and scores of which differences are left."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.risks.base import Risk
from cutplane.risks.examples import as_weights, describe
from cutplane.structured.sequences import Sequences


class SequenceRisk(Risk):
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
        self.weights = as_weights(sample_weight, len(self.sequences), normalize)
        self.dim = self.sequences.dim

    def __repr__(self) -> str:
        data = self.sequences
        return f"{type(self).__name__}({len(data)} sequences, {describe(data.X)}, {data.n_states} states)"

    def split(self, n_parts: int) -> list[Any]:
        """Return at most `n_parts` risks of some of the sequences each, whose sum is the risk."""
        return [self._part(where, sequences) for where, sequences in self.sequences.parts(n_parts)]

    def _part(self, where: slice, sequences: Sequences) -> Any:
        part = copy(self)
        part.sequences, part.weights = sequences, self.weights[where]
        return part

    @property
    def infima(self) -> Array:
        """0: no violation is below that of the true labelling, and no probability above 1; shape (1,)."""
        return np.zeros(1)

    def cancelled(self, z: Array) -> float:
        """Return a bound of the size of the scores, of which only differences are left."""
        return self.sequences.size_of_scores(z, self.weights)
