"""Labelled graphs, stored one after the other, and linear programmes for their best marginals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.masters.base import MasterStatus
from cutplane.masters.units import unit_of
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array, as_integers

_ROOM = 1 << 18
"""Number of scores computed together, because these 2 MiB stay in the cache."""
_ACCURACY = 1e-6
"""Relative gap of a linear programme that is accepted, because HiGHS reaches 1e-9."""


@dataclass(frozen=True, eq=False)
class Graphs:
    """m checked graphs: the labels of all N nodes, and all edges as pairs of nodes, shape (E, 2).

    The nodes and edges of each graph start at `starts` and `edge_starts`, shape (m + 1,).
    """

    labels: Array
    starts: Array
    edges: Array
    edge_starts: Array
    n_states: int

    def __len__(self) -> int:
        return self.starts.size - 1

    def part(self, low: int, high: int) -> Graphs:
        """Return the graphs low <= i < high."""
        starts, edge_starts = (each[low : high + 1] for each in (self.starts, self.edge_starts))
        labels, edges = self.labels[self.nodes_of(low, high)], self.ends(low, high)
        return Graphs(labels, starts - starts[0], edges, edge_starts - edge_starts[0], self.n_states)

    @property
    def work(self) -> Array:
        """The cumulative number of scores of the graphs, shape (m + 1,)."""
        return self.starts * self.n_states + self.edge_starts * self.n_states**2

    def nodes_of(self, low: int, high: int) -> slice:
        """Return the range of the nodes of the graphs low <= i < high."""
        return slice(int(self.starts[low]), int(self.starts[high]))

    def edges_of(self, low: int, high: int) -> slice:
        """Return the range of the edges of the graphs low <= i < high."""
        return slice(int(self.edge_starts[low]), int(self.edge_starts[high]))

    def ends(self, low: int, high: int) -> Array:
        """Return the edges of the graphs low <= i < high; node 0 is the first node of graph low."""
        return self.edges[self.edges_of(low, high)] - self.starts[low]

    def sums(self, low: int, high: int, of_nodes: Array, of_edges: Array) -> Array:
        """Return, for each of the graphs low <= i < high, the sum of the values of its nodes and edges."""
        owners = np.repeat(np.arange(high - low), np.diff(self.edge_starts[low : high + 1]))
        total = np.add.reduceat(of_nodes, self.starts[low:high] - self.starts[low])
        return total + np.bincount(owners, of_edges, minlength=high - low)

    def over_nodes(self, low: int, high: int, values: Array) -> tuple[Array, Array]:
        """Repeat one value for each of the graphs low <= i < high for its nodes, and for its edges."""
        return (
            np.repeat(values, np.diff(self.starts[low : high + 1])),
            np.repeat(values, np.diff(self.edge_starts[low : high + 1])),
        )

    @cached_property
    def walk(self) -> tuple[Array, Array, Array]:
        """All nodes, parents before children; the parent of each node, or -1; and the edge to it."""
        from cutplane.graphical.trees import hang

        n, count = self.labels.size, len(self.edges)
        starts = 2 * np.arange(count + 1)
        used, ends, order, _ = hang(starts, self.edges.ravel(), np.arange(count), np.arange(n), n)
        parents, edges = np.full((2, n), -1)
        children = self.edges[used, 1 - ends]
        parents[children], edges[children] = self.edges[used, ends], used
        return order, parents, edges

    @cached_property
    def forests(self) -> Array:
        """A mask of the graphs without cycles, shape (m,)."""
        trees = np.add.reduceat(self.walk[1] < 0, self.starts[:-1], dtype=np.int64)
        return np.diff(self.edge_starts) == np.diff(self.starts) - trees

    @cached_property
    def chunks(self) -> list[tuple[int, int]]:
        """Ranges of graphs whose scores are computed together."""
        before, edges = self.work, [0]
        while edges[-1] < len(self):
            ahead = int(np.searchsorted(before, before[edges[-1]] + _ROOM, side="right")) - 1
            edges.append(max(edges[-1] + 1, ahead))
        return list(pairwise(edges))


def as_edges(edges: Any, n_nodes: int, where: str = "edges") -> Array:
    """Return checked edges of a graph with `n_nodes` nodes, shape (E, 2)."""
    found = as_integers(where, edges)
    if found.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != 2:
        raise InvalidInputError(
            f"{where} must be pairs of nodes, integers of shape (n_edges, 2), got {edges!r}."
        )
    if found.min() < 0 or found.max() >= n_nodes:
        wrong = int(np.flatnonzero((found < 0) | (found >= n_nodes))[0]) // 2
        raise InvalidInputError(f"{where}[{wrong}] is {found[wrong]}; the nodes are 0 to {n_nodes - 1}.")
    keys = np.sort(found, axis=1) @ np.array([n_nodes, 1])
    _, first = np.unique(keys, return_index=True)
    wrong = np.flatnonzero(found[:, 0] == found[:, 1])
    if wrong.size or first.size < len(found):
        k = int(wrong[0]) if wrong.size else int(np.setdiff1d(np.arange(len(found)), first)[0])
        raise InvalidInputError(
            f"{where}[{k}] is {found[k]}; an edge must join two different nodes, and may occur only once."
        )
    return found


class BestMarginals:
    """A linear programme that maximises given scores over the local polytope of a graph.

    It always starts from the first feasible basis and not from the last optimal one, because certificates
    need the same solution in every query, even if there are several.
    """

    def __init__(self, n_nodes: int, n_states: int, edges: Array):
        self.shape = n_nodes, n_states, len(edges)
        self._rows = _local_polytope(n_nodes, n_states, edges)
        self._right = np.append(np.ones(n_nodes), np.zeros(self._rows.shape[0] - n_nodes))
        self._model: Any = None
        self._basis: Any = None

    def __call__(self, unaries: Array, pairs: Array) -> tuple[Array, Array, float]:
        """Return optimal marginals of nodes and of edges, and an upper bound of the optimum.

        The scores `unaries`, shape (n, S), and `pairs`, shape (E, S, S), have the shapes of the marginals.
        The bound is computed from the multipliers.

        Raises
        ------
        OracleError
            If the multipliers do not prove that the marginals are optimal.
        """
        from cutplane.masters.highs import PRIMAL_SIMPLEX, living_model, rerun, set_costs

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
    """Return the constraints: node marginals sum to 1, and edge marginals sum to node marginals."""
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
