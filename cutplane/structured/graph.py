"""The max-margin risk of labelled trees and graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.linear.predictor import as_rows
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array, as_numbers
from cutplane.risks.examples import as_labels, describe
from cutplane.risks.matrix import as_matrix
from cutplane.structured.ascent import CachedAscent, ForestAscent, Forests
from cutplane.structured.graphs import Graphs, as_edges
from cutplane.structured.pairwise import PairwiseRisk
from cutplane.structured.risk import Decoder
from cutplane.structured.sequences import PER_STATE, LabelLoss, as_csr_or_dense, stack


class GraphRisk(PairwiseRisk):
    """The mean over m graphs of the largest violation of a margin, for labellings of their nodes.

    The vector w contains node weights E, states x features, and edge weights T, states x states x edge
    features. The score of a labelling s of a graph with node features x and edge features z is [1]_

        F_w(x, s) = sum_u <x_u, E[s_u]> + sum_{(u, v)} <z_uv, T[s_u, s_v]>.

    With the loss D, the number of wrong labels, the risk is

        f(w) = sum_i c_i max_s [D(y_i, s) + F_w(x_i, s) - F_w(x_i, y_i)].

    Parameters
    ----------
    X : list of ndarray or sparse array of shape (n_nodes, n)
        The features of the nodes, one matrix for each graph.
    y : list of array_like of shape (n_nodes,)
        Labels 0, 1, ..., S - 1.
    edges : list of array_like of int, shape (n_edges, 2), or one of these
        The edges of each graph, pairs of its nodes 0, 1, ...; a single array applies to all graphs. The first
        node of an edge is the first index of T, so the order of the nodes matters if T is not symmetric.
    edge_features : list of array_like of shape (n_edges, k), optional
        By default each edge has the feature 1.
    loss : {"hamming", "share"}, default "hamming"
        The number of wrong labels of a graph ("hamming"), or their fraction ("share").
    decoder : {"exact", "outer", "inner"}, default "exact"
        The decoder of graphs with cycles. Forests are always decoded exactly.

        * "exact": finds the best labelling and a bound of all scores. Small graphs are first solved by a
          linear programme, which is often tight, the others by `GraphicalModel.map`, as accurately as the gap
          between the bounds of f requires, from the last labelling and messages. If `map` ends without a
          proof, its bound replaces the value, so that bounds hold and a gap remains.
        * "outer": solves the linear programme over locally consistent marginals. The relaxed risk, an upper
          bound of f, is minimised and certified [2]_.
        * "inner": takes the best labelling that `map` finds without tightening its bound. Cuts and lower
          bounds are valid for f, but values may be too low. A closed gap therefore gives the status TARGET,
          not OPTIMAL.
    n_states : int, optional
        S; by default one more than the largest label.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0 of the graphs, by default 1 each.
    normalize : bool, default True
        Whether the weights c are divided by their sum.

    Attributes
    ----------
    graphs : Graphs
        The checked labels and edges.

    Raises
    ------
    InvalidInputError
        If a shape is wrong, an entry is not finite, a label is not an integer or out of range, an edge joins
        a node to itself or occurs twice, or a weight is negative.
    OracleError
        In ``risk(w)`` and `predict`, if `map` ends without a proof; use "outer" or "inner" in this case.

    Notes
    -----
    A query of forests takes O(N S n + E S^2) operations, on several threads. Linear programmes of graphs with
    the same edges start from the same feasible basis. The steps of `BlockFrankWolfe` are compiled if no graph
    has a cycle; with cycles, the decoders take most of the time.

    References
    ----------
    .. [1] B. Taskar, V. Chatalbashev, D. Koller, "Learning associative Markov networks", ICML 2004,
       doi:10.1145/1015330.1015444.
    .. [2] T. Finley, T. Joachims, "Training structural SVMs when exact inference is intractable", ICML 2008,
       doi:10.1145/1390156.1390195.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X = [np.eye(2)[[0, 1, 0]], np.eye(2)[[1, 1]]]
    >>> risk = cut.structured.GraphRisk(X, [[0, 1, 0], [1, 1]], [[(0, 1), (1, 2)], [(0, 1)]])
    >>> risk
    GraphRisk(2 graphs, 5 x 2 dense float64, 3 edges, 2 states)
    >>> result = cut.Problem(risk, cut.L2(0.1)).solve(tol=1e-6)
    >>> print(round(result.objective, 4), risk.predict(result.x, X, [[(0, 1), (1, 2)], [(0, 1)]]))
    0.05 [array([0, 1, 0]), array([1, 1])]
    """

    def __init__(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        edges: Any,
        edge_features: Sequence[Any] | None = None,
        loss: LabelLoss = "hamming",
        decoder: Decoder = "exact",
        n_states: int | None = None,
        sample_weight: Any = None,
        normalize: bool = True,
    ):
        if not isinstance(X, list | tuple):
            raise InvalidInputError(f"X must be a list of matrices, one for each graph, got {X!r}.")
        rows, labels, sizes = stack(X, y)
        if (sizes < 1).any():
            raise InvalidInputError(f"X[{int(np.argmin(sizes))}] has no nodes; drop empty graphs.")
        self.X = as_csr_or_dense(rows)
        labels, S = as_labels(labels, self.X.shape[0], n_states, "n_states")
        starts = np.append(0, np.cumsum(sizes))
        found = _listed_edges(edges, sizes)
        counts = np.array([len(part) for part in found])
        shifted = [part + start for part, start in zip(found, starts, strict=False)]
        graphs = Graphs(labels, starts, np.concatenate(shifted), np.append(0, np.cumsum(counts)), S)
        self.Z = _edge_features(edge_features, counts)
        self.dim = S * self.X.shape[1] + S * S * self.Z.shape[1]
        self._set(graphs, loss, decoder, sample_weight, normalize)

    def _derive(self) -> None:
        super()._derive()
        by_node, by_edge = self.graphs.over_nodes(0, len(self.graphs), self.weights)
        sizes_of_edges = by_edge @ np.broadcast_to(np.abs(self.Z).sum(axis=1), by_edge.size)
        self._sizes = float(by_node @ np.asarray(abs(self.X).sum(axis=1)).ravel()), float(sizes_of_edges)

    def part(self, low: int, high: int) -> Self:
        part = super().part(low, high)
        part.X, part.Z = self.X[self.graphs.nodes_of(low, high)], self._features_of_edges(low, high)
        part._derive()
        return part

    def __repr__(self) -> str:
        graphs, decoder = self.graphs, "" if self.decoder == "exact" else f", {self.decoder} decoder"
        return (
            f"GraphRisk({len(graphs)} graphs, {describe(self.X)}, {len(graphs.edges)} edges, "
            f"{graphs.n_states} states{decoder})"
        )

    def cancelled(self, z: Array) -> float:
        return sum(
            float(np.abs(part).max(initial=0.0)) * size
            for part, size in zip(self._split(z), self._sizes, strict=True)
        )

    def scores(self, w: Array, low: int, high: int) -> tuple[Array, Array]:
        E, T = self._split(w)
        unaries, S = self.X[self.graphs.nodes_of(low, high)] @ E.T, self.graphs.n_states
        pairs = self._features_of_edges(low, high) @ T.T
        return unaries.astype(np.float64, copy=False), pairs.reshape(len(pairs), S, S)

    def features(self, nodes: Array, edges: Array, low: int, high: int) -> Array:
        of_nodes = (self.X[self.graphs.nodes_of(low, high)].T @ nodes).T
        Z = self._features_of_edges(low, high)
        Z = np.broadcast_to(Z, (len(edges), Z.shape[1]))
        of_edges = edges.reshape(len(edges), self.graphs.n_states**2).T @ Z
        return np.concatenate([of_nodes.ravel(), of_edges.ravel()])

    def block_ascent(self, quadratic: DiagonalQuadratic, multipliers: Array | None = None) -> CachedAscent:
        graphs, S = self.graphs, self.graphs.n_states
        if not graphs.forests.all():
            return super().block_ascent(quadratic, multipliers)
        entries, k = self.X.nnz if sparse.issparse(self.X) else self.X.size, self.Z.shape[1]
        work = PER_STATE * S * (entries + S * (1.0 + k) * len(graphs.edges))
        data = Forests(
            as_rows(self.X), read_only(self.Z), graphs.starts,
            (graphs.edge_starts, graphs.edges, *graphs.walk, graphs.forests),
            graphs.labels.astype(np.min_scalar_type(S - 1)), S, self.costs, self.weights,
            entries / graphs.labels.size + k, work,
        )  # fmt: skip
        slope = None if multipliers is None else self.dual_cut(multipliers)[0][0]
        return ForestAscent(data, quadratic, multipliers, slope)

    def predict(self, w: Array, X: Sequence[Any], edges: Any, edge_features: Any = None) -> list[Array]:
        """Return the labellings of largest score of other graphs, found by this decoder.

        An outer decoder is replaced by an exact one, because its answers are not labellings.

        Parameters
        ----------
        w : ndarray of shape (dim,)
        X, edges, edge_features
            As in `GraphRisk`.

        Returns
        -------
        list of ndarray of shape (n_nodes,)
        """
        empty = [np.zeros(np.shape(part)[0], dtype=np.int64) for part in X]
        decoder = "inner" if self.decoder == "inner" else "exact"
        there = GraphRisk(X, empty, edges, edge_features, "hamming", decoder, self.graphs.n_states)
        if np.shape(w) != (there.dim,):
            raise InvalidInputError(f"w must have shape ({there.dim},) for these graphs, got {np.shape(w)}.")
        parts = [there.labellings(*there.scores(w, *chunk), *chunk) for chunk in there.graphs.chunks]
        return np.split(np.concatenate(parts), there.graphs.starts[1:-1])

    def _split(self, w: Array) -> tuple[Array, Array]:
        """Split w into E, states x features, and T, pairs of states x edge features."""
        S, n = self.graphs.n_states, self.X.shape[1]
        return w[: S * n].reshape(S, n), w[S * n :].reshape(S * S, -1)

    def _features_of_edges(self, low: int, high: int) -> Array:
        return self.Z if len(self.Z) == 1 else self.Z[self.graphs.edges_of(low, high)]


def _listed_edges(edges: Any, sizes: Array) -> list[Array]:
    """Return the checked edges of each graph."""
    alike = isinstance(edges, np.ndarray) and edges.dtype != object
    listed = [edges] * sizes.size if alike else list(edges)
    if len(listed) != sizes.size:
        raise InvalidInputError(
            f"edges must hold one array for each of the {sizes.size} graphs, got {len(listed)}; a single "
            "ndarray of shape (n_edges, 2) applies to all."
        )
    checked: dict[tuple[int, int], Array] = {}
    for i, (part, size) in enumerate(zip(listed, sizes.tolist(), strict=True)):
        if (id(part), size) not in checked:
            checked[id(part), size] = as_edges(part, size, "edges" if alike else f"edges[{i}]")
    return [checked[id(part), size] for part, size in zip(listed, sizes.tolist(), strict=True)]


def _edge_features(features: Sequence[Any] | None, counts: Array) -> Array:
    """Return the checked features of all edges, shape (E, k), or (1, 1) if each edge has the feature 1."""
    if features is None:
        return np.ones((1, 1))
    shapes = [np.shape(part) for part in features]
    if len(shapes) != counts.size or any(
        len(shape) != 2 or shape[0] != count or shape[1] != shapes[0][1]
        for shape, count in zip(shapes, counts.tolist(), strict=True)
    ):
        raise InvalidInputError(
            "edge_features must be a list of matrices of shape (n_edges, k), one row for each edge of each "
            f"graph, got shapes {shapes[:5]}."
        )
    found = np.concatenate([as_numbers(f"edge_features[{i}]", part) for i, part in enumerate(features)])
    return as_matrix(found) if found.size else np.ones((1, 1))
