"""Forests in a graph, with a root for each tree."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from cutplane.pieces.validation import Array


class RootedForest:
    """Breadth-first trees from the node of largest degree of each connected component.

    Parameters
    ----------
    edges : ndarray of int, shape (m, 2)
        Distinct pairs of nodes.
    chosen : ndarray of int
        The numbers of the edges that may be used.
    n_nodes : int

    Attributes
    ----------
    component : ndarray of int, shape (n_nodes,)
    n_components : int
    above : ndarray of int, shape (n_nodes,)
        The parent of each node; a root is its own.
    upward : ndarray of int, shape (n_nodes,)
        The edge to the parent; -1 for a root.
    depth : ndarray of int, shape (n_nodes,)

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.graphical.primal.rooted_forest import RootedForest
    >>> star = RootedForest(np.array([[0, 2], [1, 2], [0, 1]]), np.array([0, 1]), 4)
    >>> star.above.tolist(), star.upward.tolist(), star.sides(np.array([True, False, False])).tolist()
    ([2, 2, 2, 3], [0, 1, -1, -1], [1, 0, 0, 0])
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
        """Return 0 or 1 for each node, 0 for the roots, so that the ends of tree edges differ as is said.

        Parameters
        ----------
        differs : ndarray of bool, shape (m,)
            Of all edges.
        """
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
