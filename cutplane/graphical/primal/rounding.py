"""Labellings from fractional marginals."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.best import BestLabelling
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.primal.disagreement import Disagreements
from cutplane.graphical.primal.local_polytope import LocalPolytope
from cutplane.pieces.validation import Array


class Rounding(BestLabelling):
    """Rounds points of a relaxation, improves the labellings by local search, and keeps the best.

    At first, that is the one with all variables in state 0, if it is allowed.
    """

    def __init__(self, model: FactorGraph, relaxation: Disagreements | LocalPolytope):
        super().__init__(model, np.zeros(model.n_variables, dtype=np.int64))
        self.relaxation = relaxation

    def __call__(self, x: Array) -> Array | None:
        """Round x; return the point of the best labelling known, None if it breaks a hard constraint."""
        self.offer(self.relaxation.read(x))
        return None if self.labelling is None else self.relaxation.embed(self.labelling)

    def offer(self, candidate: Array | None) -> bool:
        """Improve a labelling by local search, and keep it if it is better; tell whether it is."""
        from cutplane.graphical.sweeps.local_search import local_search

        return super().offer(None if candidate is None else local_search(self.model, candidate))
