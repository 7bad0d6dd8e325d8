"""Classes that are the leaves of a tree."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array, as_integers


class Hierarchy:
    """A tree (or several) whose leaves are classes, for costs of mistakes and shared weights.

    A mistake costs the number of edges between two classes. The score of a class is the sum of the scores of
    the nodes on the path from the root, <x, sum_v V[v]>. Therefore classes that are close share information
    [1]_. An ordinary `MulticlassRisk` can use both, as a cost matrix and as a linear image.

    Parameters
    ----------
    parents : array_like of int, shape (n_nodes,)
        The parent of each node; -1 for a root.

    Attributes
    ----------
    leaves : ndarray of shape (p,)
        The nodes without children in ascending order, which are the classes 0, 1, ..., p - 1.
    paths : csr_array of shape (p, n_nodes)
        1 if a node is the class or one of its ancestors, including the root, else 0.
    distances : ndarray of shape (p, p)
        The number of edges between two classes. Roots of different trees count as children of one node.

    Raises
    ------
    InvalidInputError
        If `parents` is not a vector of such integers, or contains a cycle.

    References
    ----------
    .. [1] L. Cai, T. Hofmann, "Hierarchical document categorization with support vector machines", CIKM 2004,
       doi:10.1145/1031171.1031186.

    Examples
    --------
    Two animals, two plants, one mineral:

    >>> import numpy as np, cutplane as cut
    >>> tree = cut.structured.Hierarchy([-1, 0, 0, 1, 1, 2, 2, 0])
    >>> tree.distances.astype(int).tolist()[0]
    [0, 2, 4, 4, 3]
    >>> X, y = np.repeat(np.eye(5), 2, axis=0), np.repeat(np.arange(5), 2)
    >>> risk = cut.MulticlassRisk(X, y, cut.losses.MulticlassHinge(tree.distances)) @ tree.spread(5)
    >>> result = cut.Problem(risk, cut.L2(1e-2)).solve(tol=1e-6)
    >>> W = tree.paths @ result.x.reshape(-1, 5)
    >>> print(round(result.objective, 4), (X @ W.T).argmax(axis=1).tolist())
    0.1286 [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    """

    def __init__(self, parents: Any):
        found = as_integers("parents", parents)
        n = found.size
        if found.ndim != 1 or n == 0 or found.min() < -1 or found.max() >= n:
            raise InvalidInputError(
                f"parents must be a vector of nodes 0, 1, ..., and -1 for roots, got {parents!r}."
            )
        self.parents = read_only(found)
        self.leaves = read_only(np.setdiff1d(np.arange(n), found))
        rows, nodes = np.arange(self.leaves.size), self.leaves
        entries: list[Any] = []
        while nodes.size and len(entries) < n:
            entries.append((rows, nodes))
            above = self.parents[nodes]
            rows, nodes = rows[above >= 0], above[above >= 0]
        owners, ancestors = (np.concatenate(part) for part in zip(*entries or [(rows, nodes)], strict=True))
        if nodes.size or np.unique(ancestors).size < n:  # a cycle above a leaf, or without leaves
            raise InvalidInputError(f"parents contain a cycle: {parents!r}.")
        self.paths = sparse.csr_array((np.ones(owners.size), (owners, ancestors)), (self.leaves.size, n))

    def __repr__(self) -> str:
        return f"Hierarchy({self.leaves.size} classes, {self.parents.size} nodes)"

    @cached_property
    def distances(self) -> Array:
        """The number of edges between two classes, shape (p, p)."""
        shared = (self.paths @ self.paths.T).toarray()
        depths = np.diag(shared)
        return read_only(depths[:, np.newaxis] + depths - 2.0 * shared)

    def spread(self, n_features: int) -> sparse.csr_array:
        """Return the matrix that maps the weights V of nodes to the weights W of classes, both row by row.

        Parameters
        ----------
        n_features : int
            The number of columns of W; with an intercept, one more than the columns of X.
        """
        return sparse.csr_array(sparse.kron(self.paths, sparse.eye_array(n_features)))
