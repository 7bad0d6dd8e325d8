"""Bounds and labellings from the multipliers of a Lagrangian over trees, while the engine improves them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cutplane.engine.gap import relative_gap
from cutplane.engine.history import History, Record
from cutplane.engine.state import State
from cutplane.graphical.best import BestLabelling
from cutplane.graphical.lagrangian.risk import TreeLagrangian
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.validation import Array
from cutplane.status import Status
from cutplane.stopping import Stop, StoppingRule

_INTERVAL = 1.25
"""Labellings are sought when the number of iterations has grown by this factor."""


class TreeDecoder(StoppingRule):
    """Keeps the best bound and labelling, and stops a run on the Lagrangian when they meet within `tol`."""

    def __init__(self, lagrangian: TreeLagrangian, tol: float):
        self.lagrangian = lagrangian
        self.tol = tol
        self.best = BestLabelling(lagrangian.model)
        self.bound = -math.inf
        self.multipliers: Array | None = None
        self._ceiling = _highest_energy(lagrangian.model)
        self._decoded = False
        self._next = 0.0
        self._trace: dict[int, tuple[float, float]] = {}

    @property
    def gap(self) -> float:
        """The relative gap between bound and energy."""
        return relative_gap(self.bound, self.best.energy)

    def __call__(self, state: State) -> Stop | None:
        """Take the bound of the best multipliers, at times their labellings; say whether the two meet."""
        if state.x is not None and state.x is not self.multipliers:
            self.multipliers = state.x
            self.bound = max(self.bound, self.lagrangian.bound(state.x))
            self._decoded = False
        if not self._decoded and state.iteration >= self._next:
            self.decode()
            self._next = _INTERVAL * state.iteration
        self._trace[state.iteration] = self.bound, self.best.energy
        return self.verdict

    @property
    def verdict(self) -> Stop | None:
        """What the bounds prove: that the labelling is optimal, or that none is allowed."""
        if self.bound > self._ceiling:
            return Stop(Status.INFEASIBLE, "the bound is above the energy of every labelling that is allowed")
        if self.gap <= self.tol:
            return Stop(Status.OPTIMAL, f"the best labelling is optimal within a gap of {self.gap:.2g}")
        return None

    def decode(self) -> None:
        """Take the best of the labellings that the multipliers suggest."""
        if self.multipliers is not None and not self._decoded:
            labellings = self.lagrangian.labellings(self.multipliers)
            self.offer(labellings[self.lagrangian.model.energies(labellings).argmin()])
            self._decoded = True

    def offer(self, labelling: Array) -> None:
        """Improve a labelling by local search, and keep it if it is the best so far."""
        from cutplane.graphical.sweeps.local_search import local_search

        self.best.offer(local_search(self.lagrangian.model, labelling))

    def view(self, state: State) -> State:
        """Return the state with bounds of the energy in place of those of minus the bound."""
        return State(self._in_energies(state.record), state.x)

    def history(self, records: Iterable[Record]) -> History:
        """Return the history of a run in terms of energies, the last record as things stand now."""
        seen = [self._in_energies(record) for record in records]
        return History([*seen[:-1], replace(seen[-1], lower_bound=self.bound, upper_bound=self.best.energy)])

    def _in_energies(self, record: Record) -> Record:
        bound, energy = self._trace.get(record.iteration, (self.bound, self.best.energy))
        return replace(record, lower_bound=bound, upper_bound=energy)


def _highest_energy(model: GraphicalModel) -> float:
    """Return a number above the energy of every labelling that is allowed."""
    starts, which = np.unique(model.table_starts, return_inverse=True)
    highest = [_highest(model.unaries, model.unary_starts[:-1]), _highest(model.tables, starts)[which]]
    size = sum(float(np.abs(part).sum()) for part in highest) + abs(model.constant)
    return sum(float(part.sum()) for part in highest) + model.constant + 1e-9 * size


def _highest(costs: Array, starts: Array) -> Array:
    """Return the largest finite cost after each start."""
    return np.maximum.reduceat(np.where(np.isinf(costs), -np.inf, costs), starts) if starts.size else starts
