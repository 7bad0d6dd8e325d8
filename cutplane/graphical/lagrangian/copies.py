"""The copies of a variable in the forests that share it, and the costs they exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.graphical.lagrangian.trees import Trees
    from cutplane.graphical.model import GraphicalModel


@dataclass(frozen=True, eq=False)
class Copies:
    """The unary costs of the nodes of trees; those of the copies of a variable add up to its own.

    Attributes
    ----------
    dim : int
        Number of multipliers: the copies but one of each variable times its states.
    parts : ndarray
        The costs of the states of all nodes where no multiplier is at work: equal parts.
    node_starts : ndarray of shape (n_nodes + 1,)
        Where the costs of each node begin.
    starts, nodes : ndarray
        The nodes of the v-th variable of those with several, ``nodes[starts[v]:starts[v + 1]]``.
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
        from cutplane.graphical.lagrangian.copy_kernels import exchange

        costs = self.parts.copy()
        exchange(self.starts, self.nodes, self.node_starts, x, costs)
        return costs

    def multipliers(self, costs: Array) -> Array:
        """Return the multipliers that add to the nodes these costs, less their mean over the copies."""
        from cutplane.graphical.lagrangian.copy_kernels import coordinates

        x = np.empty(self.dim)
        coordinates(self.starts, self.nodes, self.node_starts, costs, x)
        return x

    def slopes(self, states: Array, blocks: Array, n_blocks: int) -> Array:
        """Return minus the derivatives by the multipliers of the costs of the states of the nodes.

        Parameters
        ----------
        states, blocks : ndarray of int, shape (n_nodes,)
            The state of each node, and the row of the result it counts in.
        n_blocks : int

        Returns
        -------
        ndarray of shape (n_blocks, dim)
        """
        from cutplane.graphical.lagrangian.copy_kernels import disagreement

        slopes = np.zeros((n_blocks, self.dim))
        disagreement(self.starts, self.nodes, self.node_starts, blocks, states, slopes)
        return slopes
