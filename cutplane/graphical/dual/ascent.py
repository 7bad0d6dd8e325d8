"""Dual cutting planes: sweeps, and larger clusters when sweeps stall, until the bounds meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np

from cutplane.graphical.dual.cycles import (
    Cycles,
    PairCosts,
    Scope,
    grown_sets,
    guaranteed_increases,
    set_increases,
    short_cycles,
    triplets_of,
)
from cutplane.graphical.dual.frustrated_cycles import frustrated_cycles
from cutplane.graphical.factor_graph import BestLabelling, FactorGraph
from cutplane.graphical.sweeps.decoding import decode
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

_SWEEPS = 5
"""Number of sweeps between two certified bounds, because each bound takes another pass over all costs."""
_WORTHWHILE = 0.03
"""Share of the gap up to which an increase is slow, because sweeps would need 33 more such rounds."""
_STILL = 0.01
"""Share of the gap up to which sweeps count as stalled, because they would need 100 more such rounds."""
_CLUSTERS = 10_000
"""Clusters per model, besides one per factor, that must suffice to close the gap, because each costs time."""
_CERTAIN = 1e-7
"""Least increase, relative to the bound, that a cluster must guarantee, because a smaller one may be a
rounding error."""
_ROUNDING = 1e-10
"""Gap relative to the bound that counts as closed, because rounding errors of the messages are smaller."""
_PATIENCE = 5
"""Number of rounds without an increase after which the ascent ends, because the bound may increase again
after a few."""
_GUESSED = 0.03
"""Joint states of guessed clusters relative to all table entries, few because such clusters may not help."""
_DECODING = 4
"""Rounds between two decodings, because labellings after fewer rounds are nearly the same."""
_FAR = 0.03
"""Largest gap relative to the bound in all rules, because the energy of a poor labelling is far too high."""
_AT_ONCE = 1000
"""Cycles triangulated at once, because often the first few hundred are enough."""
_AT_LEAST = 8
"""Clusters proposed even if they are large, because each proposal searches the whole graph again."""


class ClusterAscent:
    """An iterator whose steps increase the lower bound by sweeps and clusters, and decode labellings.

    A step consists of five sweeps. If the previous step increased the bound by less than three percent of the
    gap, clusters are added first: clusters that certainly increase the bound or, if it stalls, clusters that
    may increase it (Sontag et al. 2008, Werner 2010). States that no better labelling can have are forbidden.
    A step yields the kind of its clusters, or "sweep". The iteration ends when bound and energy meet, or when
    neither sweeps nor clusters increase the bound.

    Parameters
    ----------
    reparametrization : Reparametrization
        The start, which is changed in place. If states are forbidden in it because they cannot improve on
        some labelling, pass this labelling too.
    tighten : bool, default True
        Whether to add clusters; without clusters, the bound is at most the bound of the local polytope.
    labelling : ndarray of shape (n_variables,), optional
        The best labelling so far.
    deadline : float, default inf
        The time on `runtime.clock.clock` after which a step ends with its current stage.

    Attributes
    ----------
    best : BestLabelling
    bound : float
        The certified lower bound; inf if it is proven that no labelling has finite energy.
    reason : str
        Why the iteration has ended.
    n_clusters, n_sweeps, n_searches : int
        Numbers of clusters added, of sweeps, and of searches for clusters.
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
        self._until_decoding = 0

    def __iter__(self) -> Iterator[str]:
        idle = 0
        while True:
            kind = self._tightened() if self.tighten and self.is_slow() else "sweep"
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
                means = "no further cluster was found" if self.tighten else "tighten=True may raise it"
                self.reason = f"the sweeps no longer raise the bound, and {means}"
                return

    def is_slow(self) -> bool:
        """Tell whether to search for clusters; after a search without clusters, the next one is later."""
        slow = self._share(_STILL) if self._is_fruitless else self._share(_WORTHWHILE, far=1.0)
        return self._rise <= slow

    def _share(self, fraction: float, far: float = _FAR) -> float:
        """Return a fraction of the gap, where a gap above `far` times the bound is replaced by this limit."""
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
        self._until_decoding -= 1
        if self._floor < math.inf and (self._until_decoding < 0 or self.best.labelling is None):
            self._improve(forbids=self.n_sweeps > _SWEEPS)
            self._until_decoding = _DECODING - 1
        self.bound = max(self.bound, min(self.model.energy_lattice.rounded_up(self._floor), self.best.energy))

    def _tightened(self) -> str:
        """Add clusters and return their kind, "sweep" if there are none."""
        self._improve()
        if self._is_late():
            return "sweep"
        costs = PairCosts.of(self.reparametrization)
        least = max(
            _CERTAIN * max(self.model.typical_cost, abs(self.bound)),
            self._share(1.0 / (_CLUSTERS + self.model.n_factors)),
        )
        found, kind = self._proposals.propose(costs, least, costs.tables.size, self._is_late)
        if not found and not self._is_late() and self._rise <= self._share(_STILL):
            beyond = np.zeros(self.model.n_variables)
            if self.best.labelling is not None:
                beyond = excesses(costs, self.best.labelling)
            found, kind = self._proposals.guess(costs, beyond, least, int(_GUESSED * costs.tables.size))
        for scope in found:
            if self._is_late():
                break
            self.n_clusters += self.reparametrization.add_cluster(scope)
        self.n_searches += 1
        self._is_fruitless = not found
        return kind if found else "sweep"

    def _is_late(self) -> bool:
        return clock() > self.deadline

    def _improve(self, forbids: bool = True) -> None:
        """Decode a labelling, and forbid the states that no better labelling can have."""
        self.best.offer(decode(self.reparametrization, self.deadline))
        room = self.best.energy - self._floor
        if forbids and not self._is_late() and room <= self._fixed_at:
            self._fixed_at = 0.9 * room
            accuracy = 1e-9 * max(self.model.typical_cost, abs(self.best.energy))
            room += accuracy - 0.999 * self.model.energy_lattice.unit
            room += self.reparametrization.rounding
            for u, state in states_to_forbid(self.reparametrization, room):
                self.reparametrization.forbid(u, state)


class ClusterProposals:
    """Proposes clusters that it has not proposed before."""

    def __init__(self, model: FactorGraph) -> None:
        self._cardinalities = model.cardinalities
        self._larger = [model.factor(int(a)).variables for a in np.flatnonzero(model.arities > 2)]
        self._known: dict[Scope, None] = {}

    def propose(
        self, costs: PairCosts, least: float, work: int, is_late: Callable[[], bool]
    ) -> tuple[list[Scope], str]:
        """Return clusters that certainly increase the bound by more than `least`, best first, and their kind.

        They are triangles and chordless squares or, if there are none, longer frustrated cycles. They have at
        most `work` joint states in total, unless there are only a few of them.
        """
        short = short_cycles(costs)
        found = self._new(short, guaranteed_increases(costs, short, is_late), least, work)
        if found or is_late():
            return found, "short cycles"
        long = frustrated_cycles(costs, least, is_late)
        return self._new(long, guaranteed_increases(costs, long, is_late), least, work), "frustrated cycles"

    def guess(self, costs: PairCosts, excesses: Array, least: float, work: int) -> tuple[list[Scope], str]:
        """Return clusters that may together increase the bound, although none certainly does, and their kind.

        These kinds are tried in order until one exists: factors of more than two variables, because as
        clusters they agree on the marginals of pairs; clusters and triangles extended by one variable, if
        they certainly help; short cycles, first those on which the labelling exceeds the bound most (by the
        `excesses` of the variables); other extended clusters and triangles.
        """
        found = self._taken(self._larger, work)
        if found:
            return found, "larger factors"
        short = short_cycles(costs)
        triangles = short.variables[: 3 * np.count_nonzero(np.diff(short.starts) == 3)].reshape(-1, 3)
        grown = grown_sets(costs, dict.fromkeys([*self._known, *map(tuple, triangles.tolist())]))
        increases = set_increases(costs, grown)
        order = np.argsort(-increases, kind="stable").tolist()
        found = self._taken((grown[i] for i in order if increases[i] > least), work)
        if found:
            return found, "grown clusters"
        if len(short):
            beyond = np.add.reduceat(excesses[short.variables], short.starts[:-1])
            found = self._new(short, beyond, -1.0, work)
        if found:
            return found, "all short cycles"
        return self._taken((grown[i] for i in order), work), "grown clusters"

    def _new(self, cycles: Cycles, increases: Array, least: float, work: int) -> list[Scope]:
        """Return new triplets that triangulate the cycles of larger increases than `least`."""
        order = np.argsort(-increases, kind="stable")[: np.count_nonzero(increases > least)]
        parts = (order[begin : begin + _AT_ONCE] for begin in range(0, order.size, _AT_ONCE))
        rows = (triplets_of(cycles, part, self._cardinalities).tolist() for part in parts)
        return self._taken(map(tuple, chain.from_iterable(rows)), work)

    def _taken(self, scopes: Iterable[Scope], work: int) -> list[Scope]:
        found = []
        for scope in scopes:
            if scope not in self._known:
                self._known[scope] = None
                found.append(scope)
                work -= int(np.prod(self._cardinalities[list(scope)]))
                if work <= 0 and len(found) >= _AT_LEAST:
                    break
        return found


def states_to_forbid(reparametrization: Reparametrization, room: float) -> list[tuple[int, int]]:
    """Return each (variable, state) whose labellings all cost more than the bound plus `room`.

    A labelling costs at least the bound plus, for each of its states, the cost minus the least cost.
    """
    model, unaries = reparametrization.model, reparametrization.unaries
    variables = np.repeat(np.arange(model.n_variables), model.cardinalities)
    least = np.minimum.reduceat(unaries, model.unary_starts[:-1])[variables]
    places = np.flatnonzero((unaries < np.inf) & (unaries > least + room))
    variables = variables[places]
    return list(zip(variables.tolist(), (places - model.unary_starts[variables]).tolist(), strict=True))


def excesses(costs: PairCosts, labelling: Array) -> Array:
    """Return the excess of the labelling over the least costs of the unary and the pairs of each variable."""
    starts = costs.unary_starts[:-1]
    with np.errstate(invalid="ignore"):  # inf - inf if all states of a variable are forbidden
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
