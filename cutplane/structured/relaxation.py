"""The best marginals of a graph by a linear programme, from a feasible basis that is kept.

The basis of the last programme would be nearer to the solution, but then of several solutions the one that is
found would depend on what was solved before, and certificates ask for the same answer again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import OracleError
from cutplane.masters.base import MasterStatus
from cutplane.masters.highs import PRIMAL_SIMPLEX, living_model, rerun, set_costs
from cutplane.masters.units import unit_of
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array

_ACCURACY = 1e-6
"""How far the multipliers may leave the value open, relative to the scores: HiGHS reaches 1e-9."""


class BestMarginals:
    """Maximises scores over the local polytope of a graph; it holds for all scores.

    Parameters
    ----------
    n_nodes, n_states : int
    edges : ndarray of shape (E, 2)
    """

    def __init__(self, n_nodes: int, n_states: int, edges: Array):
        self.shape = n_nodes, n_states, len(edges)
        self._rows = _local_polytope(n_nodes, n_states, edges)
        self._right = np.append(np.ones(n_nodes), np.zeros(self._rows.shape[0] - n_nodes))
        self._model: Any = None
        self._basis: Any = None

    def __call__(self, unaries: Array, pairs: Array) -> tuple[Array, Array, float]:
        """Return marginals of nodes, shape (n, S), and of edges, shape (E, S, S), and a bound of the scores.

        `unaries` and `pairs` are the scores, of these shapes; the bound follows from the multipliers.

        Raises
        ------
        OracleError
            If the multipliers do not prove that they are the best.
        """
        n, S, E = self.shape
        cost = -np.append(unaries.ravel(), pairs.ravel())
        unit = unit_of(float(np.abs(cost).max()))
        cost /= unit
        if self._model is None:
            zeros, ones = np.zeros(cost.size), np.ones(cost.size)
            form = LinearForm(zeros, zeros, ones, self._rows, self._right, self._right)
            self._model = living_model(form, PRIMAL_SIMPLEX)
            rerun(self._model)
            self._basis = self._model.getBasis()
        set_costs(self._model, cost)
        self._model.setBasis(self._basis)
        status, message = rerun(self._model)
        if status is not MasterStatus.SOLVED:
            raise OracleError(f"The relaxed graph could not be solved. {message}")
        solution = self._model.getSolution()
        x = np.clip(solution.col_value, 0.0, 1.0)
        duals = np.array(solution.row_dual)
        bound = duals @ self._right + np.minimum(cost - self._rows.T @ duals, 0.0).sum()
        if not cost @ x - bound <= _ACCURACY * np.abs(cost).sum():
            raise OracleError(
                f"The relaxed graph was solved to {unit * (cost @ x - bound):.2g} only; rescale the features."
            )
        return x[: n * S].reshape(n, S), x[n * S :].reshape(E, S, S), -unit * float(bound)


def _local_polytope(n: int, S: int, edges: Array) -> Any:
    """Return rows: the marginals of a node sum to 1, those of an edge to those of its two nodes."""
    E, one = len(edges), np.ones((1, S))
    states = sparse.eye_array(S)
    of_nodes = sparse.block_diag([one] * n)
    blocks: list[list[Any]] = [[of_nodes, None]]
    for end, sums in enumerate((sparse.kron(states, one), sparse.kron(one, states))):
        picked = sparse.csr_array((np.ones(E), (np.arange(E), edges[:, end])), shape=(E, n))
        if E:
            blocks.append([-sparse.kron(picked, states), sparse.kron(sparse.eye_array(E), sums)])
    rows = sparse.csr_array(sparse.block_array(blocks) if E else of_nodes)
    rows.indptr, rows.indices = rows.indptr.astype(np.int32), rows.indices.astype(np.int32)
    return rows
