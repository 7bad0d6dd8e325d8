"""Exact branch and bound, on reparametrised costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.best import BestLabelling
from cutplane.graphical.exact.reduction import Reduction, reduce_model
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.integrality import finite_sizes
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

if TYPE_CHECKING:
    from cutplane.graphical.sweeps.reparametrization import Reparametrization

_ACCURACY, _ROUNDING = 1e-9, 1e-14
_EPS = float(np.finfo(np.float64).eps)
_PER_COST = 16
_SWEEPS = 5
_ROUNDS = 40
_PROGRESS = 1e-4
_PAUSE = 0.5


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What `search` has found: no labelling is below the bound, be the search finished or not.

    Finished means proven: no labelling is better by more than 1e-9 of the energy, or the rounding errors of
    costs.
    """

    labelling: Array | None
    energy: float
    bound: float
    nodes: int
    finished: bool


def search(
    model: FactorGraph,
    labelling: Array | None = None,
    reparametrization: Reparametrization | None = None,
    *,
    deadline: float = math.inf,
    max_nodes: float = math.inf,
) -> Iterator[SearchResult]:
    r"""Search a labelling of least energy, with a proof, by branch and bound; yield how things stand.

    The reparametrised costs give a bound and, with the energy UB of a labelling, forbid all states with

    .. math:: \text{bound} + \theta'_u(x) - \min \theta'_u \ge UB.

    What is left is made smaller (`reduce_model`) and searched depth-first, the costs being reparametrised
    at each node. Nodes whose remaining problem is narrow enough are solved by variable elimination.

    Parameters
    ----------
    model : GraphicalModel
    labelling : ndarray of int, shape (n_variables,), optional
        One to start from; the better it is, the smaller the tree.
    reparametrization : Reparametrization, optional
        One of this model with a good bound, with clusters or without; by default it is swept here. If it
        forbids states that cannot improve on a labelling, pass that labelling, too.
    deadline : float, default inf
    max_nodes : int, default inf
    """
    run = _Search(model, labelling, deadline, max_nodes, reparametrization)
    for _ in run.steps():
        yield run.result()


class _Incumbent(BestLabelling):
    """The best labelling so far; nodes of bound >= limit cannot improve on it."""

    def __init__(self, model: FactorGraph, labelling: Array | None) -> None:
        super().__init__(model, labelling)
        self.rounding = _ROUNDING * finite_sizes(model.unaries, model.tables).max(initial=0.0)

    @property
    def unit(self) -> float:
        """A number of which all energies are multiples; 0 if rounding errors hide it."""
        unit = self.model.energy_unit
        return unit if self.rounding < 1e-3 * unit else 0.0

    @property
    def limit(self) -> float:
        """No labelling is looked for of this energy or a larger one."""
        accuracy = max(_ACCURACY * max(self.model.typical_cost, abs(self.energy)), self.rounding)
        return self.energy - max(0.999 * self.unit, accuracy) if self.energy < np.inf else np.inf


@dataclass(frozen=True, eq=False)
class _Expanding:
    """Offers labellings of a reduced model to the incumbent of the original one."""

    best: _Incumbent
    reductions: tuple[Reduction, ...] = ()

    @property
    def limit(self) -> float:
        return self.best.limit

    def offer(self, candidate: Array | None) -> bool:
        if candidate is None:
            return False
        for reduction in reversed(self.reductions):
            candidate = reduction.expand(candidate)
        return self.best.offer(candidate)


class _Search:
    """The state of a search: `floor` bounds all labellings, `bound` those of an energy below the limit."""

    def __init__(
        self,
        model: FactorGraph,
        labelling: Array | None,
        deadline: float,
        max_nodes: float,
        rep: Reparametrization | None,
    ) -> None:
        if rep is not None and rep.model is not model:
            raise InvalidInputError(
                "reparametrization must be one of this model; build it from the same object."
            )
        self.model, self.rep = model, rep
        self.deadline, self.max_nodes = deadline, max_nodes
        self.best = _Incumbent(model, labelling)
        self.floor = self.bound = -np.inf
        self.nodes = 0

    def result(self) -> SearchResult:
        best = self.best
        finished = bool(self.bound >= best.limit)
        bound = max(self.floor, min(self.bound - best.rounding, best.limit))
        if finished and best.unit:
            bound = best.energy
        return SearchResult(best.labelling, best.energy, float(min(bound, best.energy)), self.nodes, finished)

    def steps(self) -> Iterator[None]:
        """Reduce the model while that helps, then branch."""
        from cutplane.graphical.sweeps.decoding import decode
        from cutplane.graphical.sweeps.reparametrization import Reparametrization

        rep = self.rep
        if rep is None:
            rep = Reparametrization(self.model)
            self.sweep(rep)
        self.floor = rep.certified_bound()
        inner = _Expanding(self.best)
        while True:
            self.bound = max(self.bound, rep.bound)
            if self.bound < np.inf:
                inner.offer(decode(rep, self.deadline))
            yield
            if self.bound >= self.best.limit or clock() > self.deadline:
                return
            self._count_rounding(rep)
            rewritten = _rewritten(rep, self.best.limit, self.deadline)
            if rewritten is None:
                return
            reduction = reduce_model(rewritten, self.deadline)
            inner = _Expanding(self.best, (*inner.reductions, reduction))
            if reduction.model.unaries.size > 0.9 * rep.model.unaries.size:
                break
            rep = Reparametrization(reduction.model)
            self.sweep(rep)
        for _ in self.solve(reduction.model, inner):
            yield

    def _count_rounding(self, rep: Reparametrization) -> None:
        """Take into account what the costs of a reparametrisation, and sums of them, lack in accuracy.

        Sums of its nonnegative costs that are of interest are below the gap, so that each of the additions
        on the way through the tree errs by a rounding unit of that at most.
        """
        gap = self.best.energy - rep.bound
        lost = rep.rounding
        if math.isfinite(gap):
            lost += _EPS * _PER_COST * (rep.model.n_variables + rep.model.n_factors + 1) * max(gap, 0.0)
        self.best.rounding += lost

    def sweep(self, rep: Reparametrization) -> None:
        """Sweep until the bound makes no progress."""
        before = -math.inf
        for _ in range(_ROUNDS + 1):
            bound = before
            for _ in range(_SWEEPS):
                bound = rep.sweep()
                if clock() > self.deadline:
                    return
            if before > -math.inf and not bound - before > _PROGRESS * max(
                self.model.typical_cost, abs(bound)
            ):
                return
            before = bound

    def solve(self, model: FactorGraph, inner: _Expanding) -> Iterator[None]:
        """Search a model whose costs are all >= 0."""
        from cutplane.graphical.exact.branching import Branching

        tree = Branching(model, self.deadline)
        while not tree.finished and self.nodes < self.max_nodes and clock() <= self.deadline:
            tree.run(inner, min(self.deadline, clock() + _PAUSE), self.max_nodes)
            self.nodes = tree.nodes
            self.bound = max(self.bound, tree.lower_bound())
            yield


def _rewritten(rep: Reparametrization, limit: float, deadline: float) -> FactorGraph | None:
    """Return the model in reparametrised costs, all >= 0, those that lift a labelling to the limit +inf.

    None if the deadline has passed.
    """
    bound = rep.bound
    factors = []
    for number in range(rep.n_factors + rep.model.n_variables):
        if clock() > deadline:
            return None
        u = number - rep.n_factors
        scope, table = ((u,), rep.unary(u)) if u >= 0 else (rep.scopes(number), rep.table(number))
        costs = table - table.min()
        if costs.any():
            factors.append((scope, np.where(bound + costs < limit, costs, np.inf)))
    return FactorGraph(rep.model.cardinalities, factors, constant=bound)
