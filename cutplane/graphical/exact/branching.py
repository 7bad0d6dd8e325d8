"""Depth-first branch and bound over the states of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy import sparse

from cutplane.graphical.exact import search_passes as passes
from cutplane.graphical.exact.elimination import least_labelling
from cutplane.graphical.exact.elimination_orders import best_order, message_scopes, neighbourhoods
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

_PASSES = 8
_PROGRESS = 0.03
_NARROW = 18.0
_HOPELESS, _REACH = 60.0, 10.0
_TOTAL = 2**27


class Incumbent(Protocol):
    """The best labelling so far; a node whose bound has reached `limit` cannot improve on it."""

    @property
    def limit(self) -> float:
        """The energy that a labelling must stay below to be of interest."""
        ...

    def offer(self, candidate: Array | None) -> bool:
        """Take the labelling if it is better; tell whether it is."""
        ...


@dataclass(frozen=True)
class _Open:
    """A node still to be looked at: the trail undone to `top`, the variable keeping the states of `keep`."""

    top: int
    parent_bound: float
    bound: float
    variable: int
    keep: Array


class Branching:
    """A depth-first search that can be stopped at any node, and be continued.

    A node whose bound is below the limit is solved by elimination if tables of 2^18 entries suffice for that;
    else it is split: the cheapest state of a variable first, then all others. All unary costs and tables of
    the model are >= 0, so that its constant is a lower bound.
    """

    def __init__(self, model: FactorGraph, deadline: float = np.inf) -> None:
        self.model = model
        self._deadline = deadline
        self.nodes = 0
        self.finished = False
        self._network, self._node = passes.root(model)
        self._subproblems = Subproblems(model, self._node.counts, deadline)
        self._open: list[_Open] = []
        self._here = self._expected = model.constant

    def run(self, incumbent: Incumbent, deadline: float = np.inf, max_nodes: float = np.inf) -> None:
        """Search until the tree is exhausted, the deadline has passed, or `nodes` is `max_nodes`."""
        labelling = np.zeros(self.model.n_variables, dtype=np.int64)
        while not self.finished:
            if self.nodes >= max_nodes or clock() > deadline:
                break
            self.nodes += 1
            network, node = self._network, self._with_room()
            bound = passes.propagate(network, node, self._here, incumbent.limit, _PASSES, _PROGRESS)
            if bound < incumbent.limit:
                is_leaf = passes.cheapest(network, node, labelling)
                if self.model.energies(labelling[None])[0] < incumbent.limit:
                    incumbent.offer(labelling)
                if not is_leaf:
                    excess = self._subproblems.excess(node.counts, _NARROW)
                    if excess.any():
                        self._branch(bound, excess)
                        continue
                    try:
                        self._eliminate(incumbent)
                    except TimeoutError:
                        break
            while self._open and self._open[-1].bound >= incumbent.limit:
                self._open.pop()
            if self._open:
                self._resume()
            else:
                self.finished = True

    def lower_bound(self) -> float:
        """Return a bound on the energies of the labellings not ruled out yet; inf if none is left."""
        return np.inf if self.finished else min([self._expected, *(node.bound for node in self._open)])

    def _eliminate(self, incumbent: Incumbent) -> None:
        """Solve what is left."""
        starts, node = self.model.unary_starts, self._node
        states = [node.alive[starts[u] : starts[u] + count] for u, count in enumerate(node.counts)]
        labelling = self._subproblems.solve(states, self._deadline)
        if labelling is not None:
            incumbent.offer(labelling)

    def _branch(self, bound: float, excess: Array) -> None:
        """Go on with the cheapest state of a variable, and leave the others for later."""
        network, node = self._network, self._node
        u = passes.branching_variable(network, node, excess)
        begin = network.block_starts[u]
        alive = node.alive[begin : begin + node.counts[u]]
        costs = node.values[begin + alive]
        first, second = np.argsort(costs, kind="stable")[:2]
        keep = np.zeros(self.model.cardinalities[u], dtype=bool)
        keep[alive[first]] = True
        self._open.append(_Open(int(node.tops[1]), bound, bound + float(costs[second]), u, ~keep))
        node.tops[2] += 1
        passes.restrict(network, self._with_room(), u, keep)
        self._here = self._expected = bound

    def _resume(self) -> None:
        """Go back to the node that was left last."""
        last = self._open.pop()
        passes.undo(self._network, self._node, last.top)
        passes.restrict(self._network, self._with_room(), last.variable, last.keep)
        self._here, self._expected = last.parent_bound, last.bound

    def _with_room(self) -> passes.Node:
        """Have room in the trail for all blocks."""
        node = self._node
        values, blocks = node.values.size, node.stamps.size
        if node.trail.size < node.tops[0] + values or node.trail_blocks.size < node.tops[1] + blocks:
            trail = np.concatenate([node.trail, np.empty(node.trail.size + values)])
            trail_blocks = np.concatenate(
                [node.trail_blocks, np.empty(node.trail_blocks.size + blocks, dtype=np.int64)]
            )
            self._node = node._replace(trail=trail, trail_blocks=trail_blocks)
        return self._node


class Subproblems:
    """One elimination order for all subproblems that are narrow enough to be solved by elimination.

    `counts` are the numbers of states of the variables that are left at first; subproblems have fewer.
    """

    def __init__(self, model: FactorGraph, counts: Array, deadline: float = np.inf) -> None:
        starts, variables = model.scope_starts, model.scopes
        scopes = (
            [tuple(scope.tolist()) for scope in np.split(variables, starts[1:-1])] if starts.size > 1 else []
        )
        near = neighbourhoods(model.n_variables, scopes)
        self._model = model
        self._order, _ = best_order(near, np.log2(np.maximum(counts, 2)), _HOPELESS, deadline)
        if self._order:
            cliques = [sorted({u, *scope}) for u, scope in enumerate(message_scopes(self._order, near))]
            pointers = np.concatenate([[0], np.cumsum([len(clique) for clique in cliques])])
            members = np.concatenate(cliques)
            self._cliques = sparse.csr_array((np.ones(members.size), members, pointers))
            self._members = sparse.csr_array(self._cliques.T)

    def excess(self, counts: Array, width: float) -> Array:
        """Return how much each variable is in the way of tables of 2^width entries; all 0 if these suffice.

        That is in how many larger ones it is, if so many states are left; 1 if that is out of reach, or if
        all tables together are too large.
        """
        if not self._order:
            return np.ones(counts.size)
        widths = self._cliques @ np.log2(counts)
        if widths.max() > width + _REACH:
            return np.ones(counts.size)
        excess = self._members @ (widths > width)
        return excess if excess.any() or np.exp2(widths).sum() <= _TOTAL else np.ones(counts.size)

    def solve(self, states: list[Array], deadline: float = np.inf) -> Array | None:
        """Return the best labelling with these states, if there is one; `TimeoutError` if it is late."""
        return least_labelling(self._model, states, self._order, deadline)
