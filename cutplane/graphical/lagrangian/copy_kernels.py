"""The costs that the copies of a variable exchange: coordinates of vectors whose sum over the copies is zero.

The basis is orthonormal: coordinate j >= 1 takes sqrt(j / (j + 1)) from copy j and gives 1 / sqrt(j (j + 1))
to each of the copies before it.
"""

from __future__ import annotations

import math

import numpy as np

from cutplane.runtime.compiling import routine


@routine
def exchange(copy_starts, copies, node_starts, x, costs):
    """Add to the costs of the nodes what the multipliers x say; nothing changes in sum over the copies.

    The copies of the v-th variable are the nodes ``copies[copy_starts[v]:copy_starts[v + 1]]``.
    """
    given = np.empty(node_starts[-1])
    place = 0
    for v in range(copy_starts.size - 1):
        nodes = copies[copy_starts[v] : copy_starts[v + 1]]
        k = node_starts[nodes[0] + 1] - node_starts[nodes[0]]
        given[:k] = 0.0
        for j in range(nodes.size - 1, 0, -1):
            taken, share = math.sqrt(j / (j + 1.0)), 1.0 / math.sqrt(j * (j + 1.0))
            for s in range(k):
                multiplier = x[place + (j - 1) * k + s]
                costs[node_starts[nodes[j]] + s] += given[s] - taken * multiplier
                given[s] += share * multiplier
        for s in range(k):
            costs[node_starts[nodes[0]] + s] += given[s]
        place += (nodes.size - 1) * k


@routine
def coordinates(copy_starts, copies, node_starts, costs, x):
    """Set x to the multipliers with which `exchange` adds these costs, less their mean over the copies."""
    given = np.empty(node_starts[-1])
    place = 0
    for v in range(copy_starts.size - 1):
        nodes = copies[copy_starts[v] : copy_starts[v + 1]]
        k = node_starts[nodes[0] + 1] - node_starts[nodes[0]]
        given[:k] = costs[node_starts[nodes[0]] : node_starts[nodes[0]] + k]
        for j in range(1, nodes.size):
            taken, share = math.sqrt(j / (j + 1.0)), 1.0 / math.sqrt(j * (j + 1.0))
            for s in range(k):
                cost = costs[node_starts[nodes[j]] + s]
                x[place + s] = share * given[s] - taken * cost
                given[s] += cost
            place += k


@routine
def disagreement(copy_starts, copies, node_starts, blocks, states, slopes):
    """Subtract from `slopes`, one row per block, the derivatives of the energies by the multipliers."""
    place = 0
    for v in range(copy_starts.size - 1):
        nodes = copies[copy_starts[v] : copy_starts[v + 1]]
        k = node_starts[nodes[0] + 1] - node_starts[nodes[0]]
        for j in range(1, nodes.size):
            share = 1.0 / math.sqrt(j * (j + 1.0))
            for i in range(j):
                slopes[blocks[nodes[i]], place + states[nodes[i]]] -= share
            slopes[blocks[nodes[j]], place + states[nodes[j]]] += math.sqrt(j / (j + 1.0))
            place += k
