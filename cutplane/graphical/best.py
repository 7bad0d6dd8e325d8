"""The best labelling of a model that has been found."""

from __future__ import annotations

import math

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array


class BestLabelling:
    """Keeps the best of the labellings that it is offered: None, of energy inf, until one is allowed.

    Attributes
    ----------
    labelling : ndarray or None
    energy : float
    rounding : float
        As `FactorGraph.rounding` of it; 0 for None.
    """

    def __init__(self, model: FactorGraph, labelling: Array | None = None) -> None:
        self.model = model
        self.labelling: Array | None = None
        self.energy, self.rounding = math.inf, 0.0
        BestLabelling.offer(self, labelling)

    def offer(self, candidate: Array | None) -> bool:
        """Keep the labelling if it is better; tell whether it is."""
        if candidate is None:
            return False
        energy = self.model.energy(candidate)
        if improved := energy < self.energy:
            self.labelling, self.energy = np.array(candidate, dtype=np.int64), energy
            self.rounding = self.model.rounding(candidate)
        return improved
