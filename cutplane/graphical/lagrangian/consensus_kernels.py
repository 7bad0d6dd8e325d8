"""One labelling from trees that disagree."""

from __future__ import annotations

import numpy as np

from cutplane.graphical.lagrangian.tree_kernels import advance
from cutplane.runtime.compiling import routine


@routine
def consensus(
    order,
    copy_starts,
    copies,
    variables,
    hangers,
    node_starts,
    link_starts,
    links,
    positions,
    table_starts,
    tables,
    costs,
):
    """Return a state of each variable, chosen one after the other in this order.

    Each takes the state of least cost: that of what hangs below its copies, and of the factors from which
    they hang, if the variable above has been decided.

    Parameters
    ----------
    order : ndarray of shape (n_variables,)
    copy_starts, copies : ndarray
        The nodes of variable u are ``copies[copy_starts[u]:copy_starts[u + 1]]``.
    variables, hangers : ndarray of shape (n_nodes,)
        The variable of each node, and the factor from which it hangs, -1 for a root.
    costs : ndarray
        The least costs of what hangs from the nodes; the others are as in `minimise_trees`.
    """
    labelling = np.full(order.size, -1)
    scratch = np.empty(node_starts[-1])
    for u in order:
        nodes = copies[copy_starts[u] : copy_starts[u + 1]]
        total = scratch[: node_starts[nodes[0] + 1] - node_starts[nodes[0]]]
        total[:] = 0.0
        for node in nodes:
            total += costs[node_starts[node] : node_starts[node + 1]]
            f = hangers[node]
            if f >= 0 and labelling[variables[links[link_starts[f] + positions[f]]]] >= 0:
                beside = links[link_starts[f] : link_starts[f + 1]]
                table = tables[table_starts[f] :]
                total += _conditioned(node, beside, variables, labelling, node_starts, table, costs)
        labelling[u] = np.argmin(total)
    return labelling


@routine
def _conditioned(node, nodes, variables, labelling, node_starts, table, costs):
    """Return the least cost of a factor for each state of a node, given what has been decided."""
    least = np.full(node_starts[node + 1] - node_starts[node], np.inf)
    tuple_of = np.zeros(nodes.size, dtype=np.int64)
    entry, more = 0, True
    while more:
        value, own = table[entry], 0
        for i in range(nodes.size):
            decided = labelling[variables[nodes[i]]]
            if nodes[i] == node:
                own = tuple_of[i]
            elif decided < 0:
                value += costs[node_starts[nodes[i]] + tuple_of[i]]
            elif decided != tuple_of[i]:
                value = np.inf
                break
        least[own] = min(least[own], value)
        entry += 1
        more = advance(node_starts, nodes, tuple_of)
    return least
