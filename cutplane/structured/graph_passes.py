"""Forests in compiled loops: the best labelling by messages from the leaves to the roots, and back."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import NUMBERS, routine


@routine(fastmath=NUMBERS)
def best_labellings(
    starts, first_edge, edges, order, parents, links, forests, low, high, unaries, pairs, choices, found
):  # fmt: skip
    """Fill `found` with labellings of largest score of those graphs low <= i < high that are forests.

    Parameters
    ----------
    starts : ndarray of shape (m + 1,)
        Where the nodes of each graph start.
    first_edge : int
        The first edge of graph `low`.
    edges : ndarray of shape (E, 2)
    order : ndarray of shape (N,)
        The nodes of each graph, parents before children.
    parents, links : ndarray of shape (N,)
        The parent of each node, -1 of a root, and the edge to it.
    forests : ndarray of bool, shape (m,)
    unaries : ndarray of shape (n, S)
        The scores of the states of these nodes; overwritten.
    pairs : ndarray of shape (k, S, S)
        The scores of an edge, its first node by rows; edges take turns with the k tables.
    choices : ndarray of shape (n, S)
        Room.
    found : ndarray of shape (n,)
    """
    first, n_states = starts[low], unaries.shape[1]
    for i in range(low, high):
        if not forests[i]:
            continue
        for k in range(starts[i + 1] - 1, starts[i] - 1, -1):
            u = order[k]
            p = parents[u]
            if p < 0:
                continue
            forward = edges[links[u], 0] == u
            table = (links[u] - first_edge) % pairs.shape[0]
            for above in range(n_states):
                best, state = -np.inf, 0
                for s in range(n_states):
                    value = unaries[u - first, s]
                    value += pairs[table, s, above] if forward else pairs[table, above, s]
                    if value > best:
                        best, state = value, s
                unaries[p - first, above] += best
                choices[u - first, above] = state
        for k in range(starts[i], starts[i + 1]):
            u = order[k]
            p = parents[u]
            if p >= 0:
                found[u - first] = choices[u - first, found[p - first]]
                continue
            state = 0
            for s in range(1, n_states):
                if unaries[u - first, s] > unaries[u - first, state]:
                    state = s
            found[u - first] = state
