"""A proof of a lower bound by cases, without branch and bound, `eliminate` and linear programmes."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.dual.ascent import ClusterAscent, states_to_forbid
from cutplane.graphical.exact.clique_tree import CliqueTree
from cutplane.graphical.exact.orders import best_order, message_scopes, neighbourhoods, scopes_of
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.sweeps.reparametrization import Reparametrization
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

_SWEEPS = 2
"""Sweeps between two bounds of a case, because a bound takes as long as two sweeps."""
_PROGRESS = 0.05
"""Least share of the missing bound that sweeps must add, because a case costs as much as some sweeps."""
_ENTRIES = 2**18
"""Entries of the cliques of a case that is eliminated, because additions take as long as preparations."""
_TURN = 0.1
"""Seconds of the first turn, because most proofs need less."""

_Case = tuple[float, int, Reparametrization]


class Checker:
    """Proves by cases that no labelling has an energy below `wanted`; a case is a set of allowed states.

    The bound of a case follows from messages (`Reparametrization.certified_bound`) or, if the cliques of its
    free variables are small, from elimination by another algorithm than `eliminate`. Sweeps propose messages;
    any messages prove a bound. If the bound is too low, the case is divided in two: a variable has its
    cheapest state, or another one.

    Parameters
    ----------
    model : FactorGraph
    wanted : float
    start : Reparametrization, optional
        Messages to start from, for a model with the same factors.

    Attributes
    ----------
    n_cases : int
        Number of cases so far, including divided ones.
    """

    def __init__(self, model: FactorGraph, wanted: float, start: Reparametrization | None = None):
        self.model, self.wanted, self.n_cases = model, wanted, 0
        self._root = Reparametrization(model) if start is None else start.restated(model)
        self._starts = model.unary_starts[:-1]
        self._failures = np.ones(model.n_variables)
        self._degrees = 1.0 + np.bincount(model.scopes, minlength=model.n_variables)

    def run(self, deadline: float = math.inf) -> float:
        """Return the bound that is proven for all labellings: `wanted`, or less if the time ends before.

        Cases are proven in turns of growing length with clusters that raise the bound of all labellings,
        because clusters alone suffice for many models, and cases alone for many others.
        """
        if not self.model.n_variables:
            return min(self.wanted, self.model.constant)
        ascent = ClusterAscent(self._root.copy(), deadline=deadline)
        cases: list[_Case] = [(-math.inf, -1, self._root)]
        steps, least, turn, by_clusters = iter(ascent), self.wanted, _TURN, -math.inf
        while True:
            least = min(least, self._prove(cases, min(deadline, clock() + turn)))
            if not cases or by_clusters >= self.wanted or clock() > deadline:
                by_cases = min([least, *(bound for bound, _, _ in cases)])
                return min(self.wanted, max(by_cases, by_clusters))
            end = clock() + turn
            while clock() < end and next(steps, None):
                pass
            messages = ascent.reparametrization.restated(self.model)  # without the states that it forbids
            by_clusters = max(by_clusters, self._rounded(messages.certified_bound()))
            turn *= 2.0

    def _prove(self, cases: list[_Case], deadline: float) -> float:
        """Prove or divide cases until none remains or the deadline passes; return the least proven bound."""
        least = self.wanted
        while cases and clock() <= deadline:
            known, u, case = cases.pop()
            self.n_cases += 1
            bound, is_exact = max(known, self._bound(case, deadline)), False
            allowed = np.isfinite(case.unaries) & np.isfinite(self.model.unaries)
            counts = np.add.reduceat(allowed, self._starts, dtype=np.int64)
            if bound < self.wanted and counts.max() <= 1:
                bound, is_exact = self._energy(allowed), True
            elif bound < self.wanted and self._entries(counts) <= _ENTRIES:
                bound, is_exact = self._eliminated(allowed, bound, deadline)
            if bound >= self.wanted or is_exact:
                least = min(least, bound)
                self._failures[u] += u >= 0
            else:
                cases += self._divided(case, bound, counts)
        return least

    def _bound(self, case: Reparametrization, deadline: float) -> float:
        """Sweep, forbid states of labellings that are proven to be no better, and return the bound."""
        bound = -math.inf
        while True:
            case.sweep(_SWEEPS)
            before, bound = bound, max(bound, self._rounded(case.certified_bound()))
            missing = self.wanted - bound
            if missing <= 0.0 or clock() > deadline:
                return bound
            found = states_to_forbid(case, missing + 2.0 * case.rounding)
            for u, state in found:
                case.forbid(u, state)
            if not found and bound - before <= _PROGRESS * missing:
                return bound

    def _rounded(self, bound: float) -> float:
        return self.model.energy_lattice.rounded_up(bound)

    def _energy(self, allowed: Array) -> float:
        """Return the energy of the only labelling; inf if a variable has no state."""
        places = np.flatnonzero(allowed)
        return self.model.energy(places - self._starts) if places.size == self._starts.size else math.inf

    @cached_property
    def _cliques(self) -> tuple[Array, Array]:
        """The variables of the cliques of an order of elimination, and where each clique begins."""
        model = self.model
        near = neighbourhoods(model.n_variables, scopes_of(model))
        order, _ = best_order(near, np.log2(np.maximum(model.cardinalities, 2.0)))
        cliques = [sorted({u, *scope}) for u, scope in enumerate(message_scopes(order, near))]
        sizes = np.array([len(clique) for clique in cliques])
        return np.concatenate(cliques), np.cumsum(sizes) - sizes

    def _entries(self, counts: Array) -> float:
        members, starts = self._cliques
        return float(np.exp2(np.add.reduceat(np.log2(np.maximum(counts, 1))[members], starts)).sum())

    def _eliminated(self, allowed: Array, bound: float, deadline: float) -> tuple[float, bool]:
        """Return the least energy and True, or the given bound and False if the elimination fails."""
        try:
            tree = CliqueTree(self.model, allowed, deadline=deadline, max_entries=4 * _ENTRIES)
        except (InvalidInputError, TimeoutError):
            return bound, False
        return self._rounded(float(tree.lower_bounds(tree.least()[1]))), True

    def _divided(self, case: Reparametrization, bound: float, counts: Array) -> list[_Case]:
        """Return the case without the cheapest state of a variable, and the case with this state only.

        The variable has few states, many factors, and cases in which it was chosen were proven soon.
        """
        u = int(np.where(counts > 1, counts / (self._degrees * self._failures), np.inf).argmin())
        costs, fixed = case.unary(u), case.copy()
        state = int(costs.argmin())
        case.forbid(u, state)
        for other in np.flatnonzero(np.arange(costs.size) != state).tolist():
            fixed.forbid(u, other)
        return [(bound, u, case), (bound, u, fixed)]
