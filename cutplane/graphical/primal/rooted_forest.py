"""Forests in a graph, with a root for each tree, and the cuts that they say."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from cutplane.pieces.validation import Array


class RootedForest:
    """Breadth-first trees of the chosen edges, from the node of largest degree of each connected component.

    A node is in the tree `component`, `depth` steps from its root; `above` is its parent, a root's is itself;
    `upward` is the edge to the parent, -1 for a root.
    """

    def __init__(self, edges: Array, chosen: Array, n_nodes: int):
        low, high = np.sort(edges[chosen], axis=1).T
        graph = sparse.csr_array((np.ones(chosen.size), (low, high)), shape=(n_nodes, n_nodes))
        self.n_components, self.component = csgraph.connected_components(graph, directed=False)
        degrees = np.bincount(np.concatenate([low, high]), minlength=n_nodes)
        by_degree = np.lexsort((-degrees, self.component))
        _, first = np.unique(self.component[by_degree], return_index=True)
        roots = by_degree[first]

        # one more node joins the roots, so that one search finds all trees
        rows, columns = np.append(low, np.full(roots.size, n_nodes)), np.append(high, roots)
        joined = sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=(n_nodes + 1, n_nodes + 1))
        _, above = csgraph.breadth_first_order(joined, n_nodes, directed=False)
        self.above = above[:n_nodes].astype(np.int64)
        self.above[roots] = roots

        child = np.flatnonzero(self.above != np.arange(n_nodes))
        keys = low * n_nodes + high
        order = np.argsort(keys)
        wanted = np.minimum(child, self.above[child]) * n_nodes + np.maximum(child, self.above[child])
        self.upward = np.full(n_nodes, -1)
        self.upward[child] = chosen[order[np.searchsorted(keys[order], wanted)]]
        self.depth = self._sums((self.upward >= 0).astype(np.int64))

    def sides(self, differs: Array) -> Array:
        """Return 0 or 1 for each node, 0 for the roots, so that the ends of tree edges differ as is said."""
        steps = np.zeros(self.upward.size, dtype=np.int64)
        child = np.flatnonzero(self.upward >= 0)
        steps[child] = differs[self.upward[child]]
        return self._sums(steps) % 2

    def _sums(self, steps: Array) -> Array:
        """Return the sum of the steps on the way to the root, going twice as far each time."""
        above, sums = self.above, steps.copy()
        while (above != above[above]).any():
            sums += sums[above]
            above = above[above]
        return sums


def two_sides(edges: Array, c: Array, n_nodes: int) -> Array:
    """Return a side, 0 or 1, of each node, so that the ends of the surest edges differ as c in [0, 1] says.

    The edges of a forest that is maximal with respect to |c - 1/2| are believed; in each connected component
    the sides may be exchanged.
    """
    low, high = np.sort(edges, axis=1).T
    unsure = 2.0 - np.abs(2.0 * c - 1.0)  # zero would mean that there is no edge
    graph = sparse.csr_array((unsure, (low, high)), shape=(n_nodes, n_nodes))
    tree = csgraph.minimum_spanning_tree(graph).tocoo()
    keys = low * n_nodes + high
    order = np.argsort(keys)
    believed = order[np.searchsorted(keys[order], tree.row.astype(np.int64) * n_nodes + tree.col)]
    return RootedForest(edges, believed, n_nodes).sides(c > 0.5)
