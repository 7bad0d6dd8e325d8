"""Subproblems of a search that are narrow enough to be solved by elimination."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from cutplane.graphical.exact.elimination import least_labelling
from cutplane.graphical.exact.elimination_orders import best_order, message_scopes, neighbourhoods
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array

_HOPELESS, _REACH = 60.0, 10.0
_TOTAL = 2**27


class Remainders:
    """One elimination order for all subproblems of a model.

    Parameters
    ----------
    model : GraphicalModel
    counts : ndarray of int
        The numbers of states of the variables that are left at first; subproblems have fewer.
    deadline : float, default inf
        The time, as `cutplane.runtime.clock.clock` tells it, after which no better order is looked for.
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
        """Return the best labelling that takes its states from `states`; None if all are infeasible.

        Raises
        ------
        TimeoutError
            If the deadline has passed.
        """
        return least_labelling(self._model, states, self._order, deadline)
