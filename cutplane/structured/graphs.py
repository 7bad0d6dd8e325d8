"""Labelled graphs: nodes and edges of one graph after the other, checked once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_integers

_ROOM = 1 << 18
"""Scores that are computed together: 2 MiB."""


@dataclass(frozen=True, eq=False)
class Graphs:
    """Checked graphs.

    Attributes
    ----------
    labels : ndarray of shape (N,)
        0, 1, ..., S - 1, of the nodes of all graphs.
    starts : ndarray of shape (m + 1,)
        Where the nodes of each graph start.
    edges : ndarray of shape (E, 2)
        Two of the N nodes each, those of the first graph first.
    edge_starts : ndarray of shape (m + 1,)
    n_states : int
        S.
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
        """How many scores all graphs before each have, shape (m + 1,)."""
        return self.starts * self.n_states + self.edge_starts * self.n_states**2

    def nodes_of(self, low: int, high: int) -> slice:
        """Return where the nodes of the graphs low <= i < high are."""
        return slice(int(self.starts[low]), int(self.starts[high]))

    def edges_of(self, low: int, high: int) -> slice:
        """Return where their edges are."""
        return slice(int(self.edge_starts[low]), int(self.edge_starts[high]))

    def ends(self, low: int, high: int) -> Array:
        """Return their edges, by nodes that are counted from the first of theirs."""
        return self.edges[self.edges_of(low, high)] - self.starts[low]

    def sums(self, low: int, high: int, of_nodes: Array, of_edges: Array) -> Array:
        """Return the sums of numbers of nodes and edges over each of the graphs low <= i < high."""
        owners = np.repeat(np.arange(high - low), np.diff(self.edge_starts[low : high + 1]))
        total = np.add.reduceat(of_nodes, self.starts[low:high] - self.starts[low])
        return total + np.bincount(owners, of_edges, minlength=high - low)

    def over_nodes(self, low: int, high: int, values: Array) -> tuple[Array, Array]:
        """Return numbers of the graphs low <= i < high, repeated for their nodes, and for their edges."""
        return (
            np.repeat(values, np.diff(self.starts[low : high + 1])),
            np.repeat(values, np.diff(self.edge_starts[low : high + 1])),
        )

    @cached_property
    def walk(self) -> tuple[Array, Array, Array]:
        """All nodes, parents before children; the parent of each, -1 of a root; and the edge to it."""
        from cutplane.graphical.exact.forest import breadth_first

        n, count = self.labels.size, len(self.edges)
        near = np.argsort(self.edges.ravel(order="F"), kind="stable")
        degrees = np.bincount(self.edges.ravel(), minlength=n)
        others = self.edges[:, ::-1].ravel(order="F")[near]
        return breadth_first(np.append(0, np.cumsum(degrees)), others, near % max(1, count))

    @cached_property
    def forests(self) -> Array:
        """Which graphs have no cycle, shape (m,)."""
        trees = np.add.reduceat(self.walk[1] < 0, self.starts[:-1], dtype=np.int64)
        return np.diff(self.edge_starts) == np.diff(self.starts) - trees

    @cached_property
    def chunks(self) -> list[tuple[int, int]]:
        """Ranges of graphs whose scores are computed together."""
        return list(self._chunks())

    def _chunks(self) -> Iterator[tuple[int, int]]:
        before, low = self.work, 0
        while low < len(self):
            high = max(low + 1, int(np.searchsorted(before, before[low] + _ROOM, side="right")) - 1)
            yield low, high
            low = high


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
            f"{where}[{k}] is {found[k]}; an edge must join two different nodes, and no other edge the same."
        )
    return found
