"""The two sides of a cut, read off a spanning forest of the edges whose values are surest."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from cutplane.graphical.primal.rooted_forest import RootedForest
from cutplane.pieces.validation import Array


def two_sides(edges: Array, c: Array, n_nodes: int) -> Array:
    """Return a side, 0 or 1, of each node, so that the ends of the surest edges differ as c says.

    Parameters
    ----------
    edges : ndarray of int, shape (m, 2)
        Distinct pairs of nodes.
    c : ndarray of shape (m,)
        In [0, 1]: how far the ends are on different sides. The edges of a forest that is maximal with respect
        to |c - 1/2| are believed.
    n_nodes : int

    Returns
    -------
    ndarray of int, shape (n_nodes,)
        In each connected component the sides may be exchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.graphical.primal.spanning_tree import two_sides
    >>> two_sides(np.array([[0, 1], [1, 2], [0, 2]]), np.array([1.0, 0.9, 0.6]), 3).tolist()
    [1, 0, 1]
    """
    low, high = np.sort(edges, axis=1).T
    unsure = 2.0 - np.abs(2.0 * c - 1.0)  # zero would mean that there is no edge
    graph = sparse.csr_array((unsure, (low, high)), shape=(n_nodes, n_nodes))
    tree = csgraph.minimum_spanning_tree(graph).tocoo()
    keys = low * n_nodes + high
    order = np.argsort(keys)
    believed = order[np.searchsorted(keys[order], tree.row.astype(np.int64) * n_nodes + tree.col)]
    return RootedForest(edges, believed, n_nodes).sides(c > 0.5)
