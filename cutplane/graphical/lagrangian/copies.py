"""The copies of a variable in the forests that share it, and the costs they exchange.

The multipliers are coordinates of vectors whose sum over the copies is zero, in an orthonormal basis:
coordinate j >= 1 takes sqrt(j / (j + 1)) from copy j and gives 1 / sqrt(j (j + 1)) to each one before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

if TYPE_CHECKING:
    from cutplane.graphical.lagrangian.trees import Trees
    from cutplane.graphical.model import GraphicalModel


@dataclass(frozen=True, eq=False)
class Copies:
    """The unary costs of the nodes of trees; those of the copies of a variable add up to its own.

    `parts` are the costs where no multiplier is at work: equal parts, those of each node from `node_starts`
    on. The nodes of the v-th variable of those with several are ``nodes[starts[v]:starts[v + 1]]``; there are
    `dim` multipliers, the copies but one of each variable times its states.
    """

    dim: int
    parts: Array
    node_starts: Array
    starts: Array
    nodes: Array

    @classmethod
    def of(cls, model: GraphicalModel, trees: Trees) -> Copies:
        """Divide the unary costs of a model among the nodes of its trees."""
        counts = np.bincount(trees.variables, minlength=model.n_variables)
        shared = counts > 1
        nodes = np.argsort(trees.variables, kind="stable")
        sizes = np.diff(trees.starts)
        where = np.repeat(model.unary_starts[trees.variables] - trees.starts[:-1], sizes)
        return cls(
            dim=int(((counts - 1) * model.cardinalities)[shared].sum()),
            parts=model.unaries[where + np.arange(where.size)] / np.repeat(counts[trees.variables], sizes),
            node_starts=trees.starts,
            starts=np.concatenate([[0], np.cumsum(counts[shared])]),
            nodes=nodes[shared[trees.variables[nodes]]],
        )

    def costs(self, x: Array) -> Array:
        """Return the costs of the states of all nodes at the multipliers x, shape (dim,)."""
        costs = self.parts.copy()
        exchange(self.starts, self.nodes, self.node_starts, x, costs)
        return costs

    def multipliers(self, costs: Array) -> Array:
        """Return the multipliers that add to the nodes these costs, less their mean over the copies."""
        x = np.empty(self.dim)
        coordinates(self.starts, self.nodes, self.node_starts, costs, x)
        return x

    def slopes(self, states: Array, blocks: Array, n_blocks: int) -> Array:
        """Return minus the derivatives by the multipliers of the costs of the states of the nodes.

        Each node counts in the row of the result that its entry of `blocks` says.
        """
        slopes = np.zeros((n_blocks, self.dim))
        disagreement(self.starts, self.nodes, self.node_starts, blocks, states, slopes)
        return slopes


@routine
def exchange(copy_starts, copies, node_starts, x, costs):
    """Add to the costs of the nodes what the multipliers x say; nothing changes in sum over the copies.

    The copies of the v-th variable are the nodes ``copies[copy_starts[v]:copy_starts[v + 1]]``.
    """
    given = np.empty(node_starts[-1])
    place = 0
    for v in range(copy_starts.size - 1):
        nodes = copies[copy_starts[v] : copy_starts[v + 1]]
        k = node_starts[nodes[0] + 1] - node_starts[nodes[0]]
        given[:k] = 0.0
        for j in range(nodes.size - 1, 0, -1):
            taken, share = math.sqrt(j / (j + 1.0)), 1.0 / math.sqrt(j * (j + 1.0))
            for s in range(k):
                multiplier = x[place + (j - 1) * k + s]
                costs[node_starts[nodes[j]] + s] += given[s] - taken * multiplier
                given[s] += share * multiplier
        for s in range(k):
            costs[node_starts[nodes[0]] + s] += given[s]
        place += (nodes.size - 1) * k


@routine
def coordinates(copy_starts, copies, node_starts, costs, x):
    """Set x to the multipliers with which `exchange` adds these costs, less their mean over the copies."""
    given = np.empty(node_starts[-1])
    place = 0
    for v in range(copy_starts.size - 1):
        nodes = copies[copy_starts[v] : copy_starts[v + 1]]
        k = node_starts[nodes[0] + 1] - node_starts[nodes[0]]
        for s in range(k):
            given[s] = costs[node_starts[nodes[0]] + s]
        for j in range(1, nodes.size):
            taken, share = math.sqrt(j / (j + 1.0)), 1.0 / math.sqrt(j * (j + 1.0))
            for s in range(k):
                cost = costs[node_starts[nodes[j]] + s]
                x[place + s] = share * given[s] - taken * cost
                given[s] += cost
            place += k


@routine
def disagreement(copy_starts, copies, node_starts, blocks, states, slopes):
    """Subtract from `slopes`, one row per block, the derivatives of the energies by the multipliers."""
    place = 0
    for v in range(copy_starts.size - 1):
        nodes = copies[copy_starts[v] : copy_starts[v + 1]]
        k = node_starts[nodes[0] + 1] - node_starts[nodes[0]]
        for j in range(1, nodes.size):
            share = 1.0 / math.sqrt(j * (j + 1.0))
            for i in range(j):
                slopes[blocks[nodes[i]], place + states[nodes[i]]] -= share
            slopes[blocks[nodes[j]], place + states[nodes[j]]] += math.sqrt(j / (j + 1.0))
            place += k
