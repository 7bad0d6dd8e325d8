"""Dual cutting planes: sweeps, and larger clusters where these stall, until the bounds meet."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from cutplane.graphical.dual.cluster_scores import PairCosts
from cutplane.graphical.dual.proposals import ClusterProposals
from cutplane.graphical.factor_graph import BestLabelling
from cutplane.graphical.sweeps.decoding import decode
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.runtime.compiling import routine

_SWEEPS = 5
"""Sweeps between two certified bounds, because each of these takes one more pass over all costs."""
_WORTHWHILE = 0.03
"""Share of the gap up to which a rise is slow, because sweeps would need 33 rounds at this pace."""
_STILL = 0.01
"""Share of the gap up to which sweeps stand still, because they would need 100 rounds at this pace."""
_NOTICEABLE = 1e-4
"""Share of the gap that a cluster must close, because 10,000 smaller ones would not close it."""
_CERTAIN = 1e-7
"""Rise relative to the bound that a cluster must promise, because less may be error of the messages."""
_ROUNDING = 1e-10
"""Gap relative to the bound that counts as closed, because rounding errors of the messages are smaller."""
_PATIENCE = 5
"""Rounds without a rise after which the ascent ends, because the bound may pause for a few and rise again."""
_GUESSED = 0.03
"""Joint states of guessed clusters relative to all tables, because none of these is certain to help."""
_DECODING = 4
"""Rounds between two decodings, because each of these takes two greedy labellings and two local searches."""
_FAR = 0.03
"""Share of the bound that counts as the gap at most, because a far energy says little about the bound."""


class ClusterAscent:
    """Raises the lower bound by sweeps and clusters, and decodes labellings; iterating does it step by step.

    A step is five sweeps. If the last one has raised the bound by less than three percent of the gap,
    clusters are added before: those that are certain to raise it or, when it stands still, those that may
    (Sontag et al. 2008, Werner 2010). States that no better labelling can have are forbidden. The iteration
    yields the kind of the clusters, or "sweep"; it ends when the bounds meet, or when nothing is left to try.

    Parameters
    ----------
    reparametrization : Reparametrization
        Where to start; it is changed. If states are forbidden in it because a labelling is known that they
        cannot improve on, give that labelling too.
    tighten : bool, default True
        Whether to add clusters; without, the bound is at most that of the local polytope.
    labelling : ndarray of shape (n_variables,), optional
        The best labelling that is known.
    deadline : float, default inf
        The time on `runtime.clock.clock`, after which a step ends as soon as its stage does.

    Attributes
    ----------
    best : BestLabelling
    bound : float
        The certified lower bound; inf if it is proven that no labelling has finite energy.
    reason : str
        Why the iteration has ended.
    n_clusters, n_sweeps, n_searches : int
        Clusters added, sweeps made, searches for clusters.
    """

    def __init__(
        self,
        reparametrization: Reparametrization,
        tighten: bool = True,
        labelling: Array | None = None,
        deadline: float = math.inf,
    ):
        self.reparametrization = reparametrization
        self.model = model = reparametrization.model
        self.deadline = deadline
        self.tighten = tighten
        self.best = BestLabelling(model, labelling)
        self.bound = -math.inf
        self.reason = "the iteration has not ended"
        self.n_clusters = self.n_sweeps = self.n_searches = 0
        self._proposals = ClusterProposals(model)
        self._floor = -math.inf
        self._rise = math.inf
        self._is_fruitless = False
        self._fixed_at = math.inf

    def __iter__(self) -> Iterator[str]:
        idle = 0
        while True:
            kind = self._tightened() if self.tighten and self._is_slow() else "sweep"
            self._sweep()
            yield kind
            if self.bound >= self.best.energy - self._share(0.0):
                self.reason = (
                    "the bound meets the energy"
                    if self.best.energy < math.inf
                    else "no labelling has finite energy"
                )
                return
            idle = 0 if kind != "sweep" or self._rise > self._share(0.01 * _STILL) else idle + 1
            if idle == _PATIENCE:
                means = "no cluster is left to add" if self.tighten else "tighten=True may raise it"
                self.reason = f"the sweeps no longer raise the bound, and {means}"
                return

    def _is_slow(self) -> bool:
        """Tell whether to look for clusters: later, if the last time none was found."""
        slow = self._share(_STILL) if self._is_fruitless else self._share(_WORTHWHILE, far=1.0)
        return self._rise <= slow

    def _share(self, fraction: float, far: float = _FAR) -> float:
        """Return a fraction of the gap, or of a part of the bound if the energy is still far away."""
        scale = (
            max(self.model.typical_cost, abs(self.bound))
            if abs(self.bound) < math.inf
            else self.model.typical_cost
        )
        return max(_ROUNDING * scale, fraction * min(self.best.energy - self.bound, far * scale))

    def _sweep(self) -> None:
        for _ in range(_SWEEPS):
            self.reparametrization.sweep()
            self.n_sweeps += 1
            if self._is_late():
                break
        floor = self.reparametrization.certified_bound()
        self._rise, self._floor = floor - self._floor, max(floor, self._floor)
        is_due = self.n_sweeps % (_DECODING * _SWEEPS) == _SWEEPS or self.best.labelling is None
        if self._floor < math.inf and is_due:
            self._improve()
        self.bound = max(self.bound, min(self.model.energy_lattice.rounded_up(self._floor), self.best.energy))

    def _tightened(self) -> str:
        """Add clusters and return what they are, "sweep" if there are none."""
        self._improve()
        if self._is_late():
            return "sweep"
        costs = PairCosts.of(self.reparametrization)
        least = max(_CERTAIN * max(self.model.typical_cost, abs(self.bound)), self._share(_NOTICEABLE))
        found, kind = self._proposals.propose(costs, least, costs.tables.size, self._is_late)
        if not found and not self._is_late() and self._rise <= self._share(_STILL):
            beyond = np.zeros(self.model.n_variables)
            if self.best.labelling is not None:
                beyond = excesses(costs, self.best.labelling)
            work = int(_GUESSED * costs.tables.size)
            found, kind = self._proposals.guess(costs, beyond, least, work, self._is_late)
        for scope in found:
            if self._is_late():
                break
            self.n_clusters += self.reparametrization.add_cluster(scope)
        self.n_searches += 1
        self._is_fruitless = not found
        return kind if found else "sweep"

    def _is_late(self) -> bool:
        return clock() > self.deadline

    def _improve(self) -> None:
        """Decode a labelling, and forbid the states that no better one has."""
        self.best.offer(decode(self.reparametrization, self.deadline))
        room = self.best.energy - self._floor
        if not self._is_late() and room <= self._fixed_at:
            self._fixed_at = 0.9 * room
            accuracy = 1e-9 * max(self.model.typical_cost, abs(self.best.energy))
            room += accuracy - 0.999 * self.model.energy_lattice.unit
            room += self.reparametrization.rounding
            for u, state in states_to_forbid(PairCosts.of(self.reparametrization), room):
                self.reparametrization.forbid(u, state)


def states_to_forbid(costs: PairCosts, room: float) -> list[tuple[int, int]]:
    """Return (variable, state) that cost more than `room` above the bound whatever the rest does.

    A labelling costs at least the bound, plus what one of its states costs above the least in the unary and
    in every pair of the variable, by min-marginals.
    """
    alive = np.isfinite(costs.unaries)
    least = np.minimum.reduceat(costs.unaries, costs.unary_starts[:-1])
    variable_of = np.repeat(np.arange(costs.cardinalities.size), costs.cardinalities)
    slacks = np.where(alive, costs.unaries, 0.0) - np.where(alive, least[variable_of], 0.0)
    add_pair_slacks(
        costs.pairs, costs.cardinalities, costs.unary_starts, costs.table_starts, costs.tables, slacks
    )
    places = np.flatnonzero(alive & (slacks > room))
    variables = variable_of[places]
    return list(zip(variables.tolist(), (places - costs.unary_starts[variables]).tolist(), strict=True))


def excesses(costs: PairCosts, labelling: Array) -> Array:
    """Return the excess of the labelling over the least costs of the unary and the pairs of each variable."""
    starts = costs.unary_starts[:-1]
    with np.errstate(invalid="ignore"):  # of a variable without a state left, inf - inf
        total = costs.unaries[starts + labelling] - np.minimum.reduceat(costs.unaries, starts)
    rows, columns = labelling[costs.pairs].T
    places = costs.table_starts + rows * costs.cardinalities[costs.pairs[:, 1]] + columns
    beyond = costs.tables[places]
    if beyond.size:
        with np.errstate(invalid="ignore"):
            beyond -= np.minimum.reduceat(costs.tables, costs.table_starts)
    for side in range(2):
        np.add.at(total, costs.pairs[:, side], beyond)
    return total


@routine
def add_pair_slacks(pairs, cardinalities, unary_starts, table_starts, tables, slacks):
    """Add to the slack of each state its min-marginal in each pair of its variable, less the least one."""
    widest = 1
    for k in cardinalities:
        widest = max(widest, k)
    by_column = np.empty(widest)
    for e in range(pairs.shape[0]):
        u, v = pairs[e, 0], pairs[e, 1]
        rows, columns = cardinalities[u], cardinalities[v]
        table = tables[table_starts[e] : table_starts[e] + rows * columns]
        least = table.min()
        if least == np.inf:
            continue
        by_column[:columns] = np.inf
        for i in range(rows):
            by_row = np.inf
            for j in range(columns):
                cost = table[i * columns + j]
                if cost < by_row:
                    by_row = cost
                if cost < by_column[j]:
                    by_column[j] = cost
            slacks[unary_starts[u] + i] += by_row - least
        for j in range(columns):
            slacks[unary_starts[v] + j] += by_column[j] - least
