"""Exact branch and bound on reparametrised costs, after a reduction to a smaller model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.exact.reduction import Reduction, reduce_model
from cutplane.graphical.exact.separable import separated
from cutplane.graphical.factor_graph import BestLabelling, FactorGraph
from cutplane.graphical.factors import GivenFactors, collect, finite_sizes, starts_of
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

if TYPE_CHECKING:
    from cutplane.graphical.sweeps.reparametrization import Reparametrization


_ACCURACY, _ROUNDING = 1e-9, 1e-14
"""Least gain relative to the energy, and rounding error relative to a cost, because long sums err so much."""
_EPS = float(np.finfo(np.float64).eps)
_SWEEPS = 5
"""Sweeps between two measurements of progress, because a single sweep may not raise the bound."""
_ROUNDS = 40
"""Most rounds of sweeps, because branching closes a gap faster than a slow rise of the bound."""
_PROGRESS = 1e-4
"""Least rise of a round, relative to the bound, because branching is faster than slower sweeps."""
_SPLIT = 64
"""Rounding errors within which a table is a sum, because its messages were added to it and subtracted."""
_PAUSE = 0.02
"""Seconds between two yields, because other stages run and pass on their labellings meanwhile."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The result of `search`: its bound is valid, whether the search has finished or not.

    If it has finished, no labelling is better by more than 1e-9 of the energy, or by more than the rounding
    errors of costs.
    """

    labelling: Array | None
    energy: float
    bound: float
    nodes: int
    finished: bool
    open_share: float


def search(
    model: FactorGraph,
    labelling: Array | None = None,
    reparametrization: Reparametrization | None = None,
    *,
    deadline: float = math.inf,
    max_nodes: float = math.inf,
    others: BestLabelling | None = None,
) -> Iterator[SearchResult]:
    r"""Search a labelling of least energy, with a proof, by branch and bound; yield results so far.

    The reparametrised costs give a bound and, with the energy UB of a labelling, forbid all states with

    .. math:: \text{bound} + \theta'_u(x) - \min \theta'_u \ge UB.

    The remaining model is made smaller (`reduce_model`) and searched by `Branching`; the costs are
    reparametrised at each node, and narrow nodes are solved by variable elimination.

    Parameters
    ----------
    model : GraphicalModel
    labelling : ndarray of int, shape (n_variables,), optional
        The start; a better labelling makes a smaller tree.
    reparametrization : Reparametrization, optional
        A reparametrisation of this model with a good bound, with clusters or without. By default sweeps
        compute one. If it forbids states that cannot improve on a labelling, pass this labelling too.
    deadline : float, default inf
    max_nodes : int, default inf
    others : BestLabelling, optional
        Labellings that other stages find meanwhile.
    """
    run = _Search(model, labelling, deadline, max_nodes, reparametrization, others)
    for _ in run.steps():
        yield run.result()


class _Incumbent(BestLabelling):
    """The best labelling so far; nodes of bound >= limit cannot improve on it."""

    def __init__(self, model: FactorGraph, labelling: Array | None) -> None:
        super().__init__(model, labelling)
        self.rounding = _ROUNDING * finite_sizes(model.unaries, model.tables).max(initial=0.0)

    @property
    def unit(self) -> float:
        """A number of which all energies are multiples; 0 if it is below the rounding errors."""
        unit = self.model.energy_lattice.unit
        return unit if self.rounding < 1e-3 * unit else 0.0

    @property
    def limit(self) -> float:
        """The search is restricted to labellings of smaller energies than this."""
        accuracy = max(_ACCURACY * max(self.model.typical_cost, abs(self.energy)), self.rounding)
        return self.energy - max(0.999 * self.unit, accuracy) if self.energy < np.inf else np.inf


@dataclass(frozen=True, eq=False)
class _Expanding:
    """Offers labellings of a reduced model to the incumbent of the original model."""

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
    """The state of a search: `floor` bounds all energies, `bound` the energies below the limit."""

    def __init__(
        self,
        model: FactorGraph,
        labelling: Array | None,
        deadline: float,
        max_nodes: float,
        rep: Reparametrization | None,
        others: BestLabelling | None = None,
    ) -> None:
        if rep is not None and rep.model is not model:
            raise InvalidInputError("reparametrization must be of this model; build it from the same object.")
        self.model, self.rep = model, rep
        self.deadline, self.max_nodes = deadline, max_nodes
        self.best, self.others = _Incumbent(model, labelling), others
        self.floor = self.bound = -np.inf
        self.nodes = 0
        self.open_share = 1.0

    def result(self) -> SearchResult:
        best = self.best
        finished = bool(self.bound >= best.limit)
        bound = max(self.floor, min(self.bound, best.limit) - best.rounding)
        if finished and best.unit:
            bound = best.energy
        bound = float(min(bound, best.energy))
        return SearchResult(best.labelling, best.energy, bound, self.nodes, finished, self.open_share)

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
            if self.bound >= self.best.limit or clock() > self.deadline:
                yield
                return
            sums = rep.model.n_variables + rep.n_factors + 1
            self.best.rounding += rep.rounding + self._rounding_error(rep.model, rep.bound, sums)
            tolerance, whole = self._rounding_error(rep.model, rep.bound, _SPLIT), rep.factors()
            split = separated(rep.model.cardinalities, whole, tolerance)
            self.best.rounding += tolerance * (split.table_starts.size - whole.table_starts.size)
            rewritten = _rewritten(rep, split, self.best.limit)
            reduction = reduce_model(rewritten)
            inner = _Expanding(self.best, (*inner.reductions, reduction))
            if reduction.model.unaries.size > 0.9 * rep.model.unaries.size:
                break
            rep = Reparametrization(reduction.model)
            self.sweep(rep)
        for _ in self.solve(reduction.model, inner):
            yield

    def _rounding_error(self, model: FactorGraph, bound: float, additions: int) -> float:
        """Return the rounding errors of this number of additions to costs above a bound.

        Finite costs are at most the gap, because a cost that raises the bound to the limit is set to inf.
        """
        gap = self.best.energy - bound
        if not math.isfinite(gap):
            gap = float(finite_sizes(model.unaries, model.tables).max(initial=0.0))
        return _EPS * additions * max(gap, 0.0)

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

        tree, before = Branching(model, self.deadline), self.best.rounding
        while True:
            if self.others is not None:
                self.best.offer(self.others.labelling)
            tree.run(inner, min(self.deadline, clock() + _PAUSE), self.max_nodes)
            self.nodes, self.open_share = tree.nodes, tree.open_share
            lost = self._rounding_error(model, model.constant, tree.additions)
            self.best.rounding = max(self.best.rounding, before + lost)
            self.bound = max(self.bound, tree.lower_bound())
            yield
            if tree.finished or self.nodes >= self.max_nodes or clock() > self.deadline:
                return


def _rewritten(rep: Reparametrization, factors: GivenFactors, limit: float) -> FactorGraph:
    """Return the model with these reparametrised costs, all >= 0, and +inf if they reach the limit."""
    cardinalities, n = rep.model.cardinalities, rep.model.n_variables
    arities = np.append(np.diff(factors.scope_starts), np.ones(n, dtype=np.int64))
    scopes = np.append(factors.scopes, np.arange(n))
    costs = np.append(factors.tables, rep.unaries)
    starts = np.append(factors.table_starts, factors.tables.size + rep.model.unary_starts)
    sizes = np.diff(starts)
    with np.errstate(invalid="ignore"):
        costs -= np.repeat(np.minimum.reduceat(costs, starts[:-1]), sizes)
    costs[~(rep.bound + costs < limit)] = np.inf
    is_kept = np.maximum.reduceat(costs, starts[:-1]) > 0.0
    arities_kept = arities[is_kept]
    given = GivenFactors(
        starts_of(arities_kept),
        scopes[np.repeat(is_kept, arities)],
        starts_of(sizes[is_kept])[:-1],
        costs[np.repeat(is_kept, sizes)],
    )
    return FactorGraph.from_arrays(cardinalities, collect(cardinalities, given, rep.bound))
