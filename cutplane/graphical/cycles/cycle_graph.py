"""A graph stored for the search of cycles."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array, as_count

_MOST_ARCS = 2**31 - 1


class Arcs(NamedTuple):
    """The two arcs of each edge, grouped by their tails, with the nodes in random order.

    Those from u are numbered from ``starts[u]`` to before ``starts[u + 1]``. Searches that start from each
    node in turn and leave out those before it find more different short cycles than in a regular order (half
    as many rounds on a grid).
    """

    starts: Array
    tails: Array
    heads: Array
    edges: Array


class CycleGraph:
    """An undirected graph without loops and double edges, built once and separated over many times."""

    def __init__(self, n_nodes: int, edges: Any) -> None:
        self.n_nodes = as_count("n_nodes", n_nodes, low=0)
        array = np.asarray(edges)
        if array.size == 0:
            array = np.empty((0, 2), dtype=np.int64)
        if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
            raise InvalidInputError(
                f"edges must be integers of shape (m, 2), got {array.dtype} of shape {array.shape}."
            )
        self.edges = read_only(array.astype(np.int64))
        self._check()

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return self.edges.shape[0]

    @cached_property
    def arcs(self) -> Arcs:
        """The edges in both directions."""
        nodes = np.random.default_rng(0).permutation(self.n_nodes)[self.edges]
        tails, heads = np.concatenate([nodes, nodes[:, ::-1]]).T
        order = np.lexsort((heads, tails))
        starts = np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=self.n_nodes))])
        numbers = order % max(1, self.n_edges)
        return Arcs(*(array.astype(np.int32) for array in (starts, tails[order], heads[order], numbers)))

    def _check(self) -> None:
        edges = self.edges
        if 2 * self.n_edges > _MOST_ARCS or self.n_nodes > _MOST_ARCS // 2:
            raise InvalidInputError(f"{self!r} is too large: at most 2**30 - 1 nodes and as many edges.")
        for wrong, text in (
            ((edges < 0) | (edges >= self.n_nodes), f"nodes are numbered from 0 to {self.n_nodes - 1}."),
            (edges[:, :1] == edges[:, 1:], "the two nodes of an edge must be different."),
        ):
            if wrong.any():
                e = int(np.flatnonzero(wrong.any(axis=1))[0])
                raise InvalidInputError(f"edges[{e}] is {edges[e].tolist()}; {text}")
        pairs = edges.min(axis=1, initial=self.n_nodes) * self.n_nodes + edges.max(axis=1, initial=0)
        _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
        if (counts > 1).any():
            pair = edges[first[np.flatnonzero(counts > 1)[0]]].tolist()
            raise InvalidInputError(f"edges has {pair} more than once; keep one of them.")

    def __repr__(self) -> str:
        return f"CycleGraph({self.n_nodes} nodes, {self.n_edges} edges)"
