"""Forests in compiled loops: the best labelling by messages from the leaves to the roots, and back."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import NUMBERS, routine


@routine(fastmath=NUMBERS)
def best_labellings(
    starts, first_edge, edges, order, parents, links, forests, low, high, unaries, pairs, message, found
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
        The scores of the states of these nodes; set to the largest of what is below each of them.
    pairs : ndarray of shape (k, S, S)
        The scores of an edge, its first node by rows; edges take turns with the k tables.
    message : ndarray of shape (S,)
        Room.
    found : ndarray of shape (n,)
        Of ties the first states, the nodes from the roots down.
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
            table = pairs[(links[u] - first_edge) % pairs.shape[0]]
            if edges[links[u], 0] == u:
                for above in range(n_states):
                    message[above] = -np.inf
                for s in range(n_states):
                    known = unaries[u - first, s]
                    for above in range(n_states):
                        value = known + table[s, above]
                        message[above] = value if value > message[above] else message[above]
            else:
                for above in range(n_states):
                    best = -np.inf
                    for s in range(n_states):
                        value = unaries[u - first, s] + table[above, s]
                        best = value if value > best else best
                    message[above] = best
            for above in range(n_states):
                unaries[p - first, above] += message[above]
        for k in range(starts[i], starts[i + 1]):
            u = order[k]
            p = parents[u]
            best, state = -np.inf, 0
            for s in range(n_states):
                value = unaries[u - first, s]
                if p >= 0:
                    e, t = (links[u] - first_edge) % pairs.shape[0], found[p - first]
                    value += pairs[e, s, t] if edges[links[u], 0] == u else pairs[e, t, s]
                if value > best:
                    best, state = value, s
            found[u - first] = state
