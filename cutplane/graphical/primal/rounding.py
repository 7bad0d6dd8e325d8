"""Labellings from fractional marginals."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array


class Relaxation(Protocol):
    """A set of vectors among which are the labellings."""

    def embed(self, labelling: Any) -> Array:
        """Return the vector of a labelling."""
        ...

    def read(self, x: Array) -> Array:
        """Return the labelling that a vector says."""
        ...


class Rounding:
    """Rounds points of a relaxation, improves the labellings by local search, and keeps the best.

    Parameters
    ----------
    model : GraphicalModel
    relaxation : Relaxation

    Attributes
    ----------
    labelling : ndarray of int, shape (n_variables,)
        The best one; at first, all variables in state 0.
    energy : float
        Its energy.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.primal.local_polytope import LocalPolytope
    >>> from cutplane.graphical.primal.rounding import Rounding
    >>> model = GraphicalModel([2, 2], [((0,), [0, 3]), ((0, 1), [[1, 0], [0, 1]])])
    >>> rounding = Rounding(model, LocalPolytope(model))
    >>> point = rounding(np.full(8, 0.5))
    >>> rounding.labelling.tolist(), rounding.energy
    ([0, 1], 0.0)
    """

    def __init__(self, model: FactorGraph, relaxation: Relaxation):
        self.model = model
        self.relaxation = relaxation
        self.labelling = np.zeros(model.n_variables, dtype=np.int64)
        self.energy = model.energy(self.labelling)

    def __call__(self, x: Array) -> Array | None:
        """Round x; return the point of the best labelling known, None if it breaks a hard constraint."""
        self.offer(self.relaxation.read(x))
        return self.relaxation.embed(self.labelling) if math.isfinite(self.energy) else None

    def offer(self, labelling: Array) -> None:
        """Improve a labelling by local search, and keep it if it is the best."""
        from cutplane.graphical.sweeps.local_search import local_search

        labelling = local_search(self.model, labelling)
        energy = self.model.energy(labelling)
        if energy < self.energy:
            self.labelling, self.energy = labelling, energy
