"""Graphs whose integral edges are contracted, and inequalities lifted from there."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.primal.rooted_forest import RootedForest
from cutplane.pieces.validation import Array


class Contraction:
    """A graph in which edges with c within `tol` of 0 or 1 are contracted, so that fractional ones are left.

    The nodes of a component are surely on the same side as its root or surely on the other one. `pairs` are
    those of components that are joined by fractional edges, `c` how far their roots are on different sides,
    as the edge nearest to them says.

    Examples
    --------
    Node 3 is surely opposite to node 2. A cut of the triangle that is left has at most two of its edges; that
    2 and 3 might be on the same side after all is accounted for by the edge between them.

    >>> import numpy as np
    >>> from cutplane.graphical.primal.contraction import Contraction
    >>> edges = np.array([[0, 1], [0, 2], [1, 3], [2, 3]])
    >>> triangle = Contraction(edges, np.array([0.6, 0.7, 0.4, 1.0]), 4, 1e-6)
    >>> triangle.pairs.tolist(), triangle.c.tolist()
    ([[0, 1], [0, 2], [1, 2]], [0.6, 0.7, 0.6])
    >>> numbers, normal, offset = triangle.lift(np.arange(3), np.ones(3), 2.0)
    >>> numbers.tolist(), normal.tolist(), offset
    ([0, 1, 2, 3], [1.0, 1.0, -1.0, 1.0], 2.0)
    """

    def __init__(self, edges: Array, c: Array, n_nodes: int, tol: float):
        fractional = (c > tol) & (c < 1.0 - tol)
        self._forest = forest = RootedForest(edges, np.flatnonzero(~fractional), n_nodes)
        self._edges, self._differs = edges, c > 0.5
        self.n_components = forest.n_components
        between = np.flatnonzero(fractional)
        ends = np.sort(forest.component[edges[between]], axis=1)
        order = np.lexsort((forest.depth[edges[between]].sum(axis=1), ends[:, 1], ends[:, 0]))
        order = order[ends[order, 0] != ends[order, 1]]
        self.pairs, first = np.unique(ends[order], axis=0, return_index=True)
        self._chosen = between[order[first]]
        turned = forest.sides(self._differs)[edges[self._chosen]].sum(axis=1) == 1
        self._turned = turned
        self.c = np.where(turned, 1.0 - c[self._chosen], c[self._chosen])

    def lift(self, chosen: Array, normal: Array, offset: float) -> tuple[Array, Array, float]:
        """Return (edges, normal, offset) that holds for all cuts, given one over the chosen pairs.

        If an integral edge is not as it was taken to be, the nodes beyond it are on the other side than was
        thought; the coefficient it gets outweighs whatever that may change.
        """
        forest, numbers, turned = self._forest, self._chosen[chosen], self._turned[chosen]
        coefficients = dict(zip(numbers.tolist(), np.where(turned, -normal, normal).tolist(), strict=True))
        offset -= float(normal[turned].sum())
        beyond: dict[int, float] = {}
        total = np.zeros(self.n_components)
        for edge, weight in zip(numbers.tolist(), np.abs(normal).tolist(), strict=True):
            for node in self._edges[edge].tolist():
                total[forest.component[node]] += weight
                while forest.upward[node] >= 0:
                    beyond[node] = beyond.get(node, 0.0) + weight
                    node = int(forest.above[node])
        for node, weight in beyond.items():
            weight = min(weight, float(total[forest.component[node]]) - weight)
            if weight > 1e-12:
                edge = int(forest.upward[node])
                coefficients[edge] = weight if self._differs[edge] else -weight
                offset += weight if self._differs[edge] else 0.0
        return np.array(list(coefficients)), np.array(list(coefficients.values())), offset
