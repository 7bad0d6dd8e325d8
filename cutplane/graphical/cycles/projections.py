"""Graphs of groups of states: what cycle inequalities say about variables of more than two states."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.cycles.cycle_graph import CycleGraph
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array


def projection_graph(model: FactorGraph, groups: Any = None) -> tuple[CycleGraph, Any]:
    r"""Return the graph of groups of states, and the probabilities of their disagreement as a linear map.

    A node is a group S of states of a variable u. An edge joins groups S of u and T of v if some factor has
    both variables; it disagrees when exactly one of the two has its state in its group:

    .. math::
        c = \sum_{i \in S} \mu_u(i) + \sum_{j \in T} \mu_v(j) - 2 \sum_{i \in S, j \in T} \mu_{uv}(i, j)

    With each labelling, c is the cut vector of the two labels "in the group" and "not in it", so that the odd
    cycle inequalities hold for every c of a marginal vector of the marginal polytope.

    Parameters
    ----------
    model : GraphicalModel
    groups : array_like of bool, shape (t, n_states), optional
        Row by row one group for each variable, over all states in the order of ``model.unaries``; empty
        groups and those of all states give no nodes. Default: each state is a group, of two the second only.

    Returns
    -------
    graph : CycleGraph
    projection : sparse array of shape (graph.n_edges, dim)
        c as a function of the marginals: those of all variables in the order of ``model.unaries``, then those
        of the tables of all factors. Where several factors contain two variables, the smallest table is read.

    Raises
    ------
    InvalidInputError
        If `groups` has another shape.

    References
    ----------
    .. [1] D. Sontag, T. Jaakkola, "New outer bounds on the marginal polytope", NIPS 20, 2007.

    Examples
    --------
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.cycles.projections import projection_graph
    >>> graph, projection = projection_graph(GraphicalModel([2, 2], [((0, 1), [[0, 1], [1, 0]])]))
    >>> graph, (projection @ [1, 0, 0, 1, 0, 1, 0, 0]).tolist()
    (CycleGraph(2 nodes, 1 edges), [1.0])
    """
    owners, members, sizes = _nodes(model, groups)
    pairs, marginals = pair_marginals(model)
    first_node = np.searchsorted(owners, np.arange(model.n_variables + 1))
    counts = np.diff(first_node)

    pair, place = _ragged(counts[pairs[:, 0]] * counts[pairs[:, 1]])
    u, v = pairs[pair].T
    edges = np.stack([first_node[u] + place // counts[v], first_node[v] + place % counts[v]], axis=1)

    starts = np.concatenate([[0], np.cumsum(sizes)])
    edge, place = _ragged(sizes[edges[:, 0]] * sizes[edges[:, 1]])
    a, b = edges[edge].T
    states_u = members[starts[a] + place // sizes[b]] - model.unary_starts[owners[a]]
    states_v = members[starts[b] + place % sizes[b]] - model.unary_starts[owners[b]]
    k_u, k_v = model.cardinalities[pairs].T
    offsets = np.concatenate([[0], np.cumsum(k_u * k_v)])
    entries = offsets[pair[edge]] + states_u * k_v[pair[edge]] + states_v
    shape = len(edges), int(offsets[-1])
    both: Any = sparse.csr_array((np.full(edge.size, -2.0), (edge, entries)), shape=shape)

    indicators: Any = sparse.csr_array(
        (np.ones(members.size), members, starts), shape=(owners.size, marginals.shape[1])
    )
    projection = indicators[edges[:, 0]] + indicators[edges[:, 1]] + both @ marginals
    return CycleGraph(owners.size, edges), sparse.csr_array(projection)


def pair_marginals(model: FactorGraph) -> tuple[Array, Any]:
    """Return the pairs of variables that share a factor, and the linear map to their marginals.

    Parameters
    ----------
    model : GraphicalModel

    Returns
    -------
    pairs : ndarray of int, shape (p, 2)
        Ascending.
    marginals : sparse array of shape (q, dim)
        From the marginals, in the order explained at `projection_graph`, to the tables of all pairs.
    """
    factor, place = _ragged(model.arities * (model.arities - 1) // 2)
    second = ((1.0 + np.sqrt(1.0 + 8.0 * place)) / 2.0).astype(np.int64)
    first = place - second * (second - 1) // 2
    links = model.scope_starts[factor][:, None] + np.stack([first, second], axis=1)
    scopes = model.scopes[links]
    order = np.lexsort((factor, model.table_sizes[factor], scopes[:, 1], scopes[:, 0]))
    scopes, links, factor = scopes[order], links[order], factor[order]
    keep = np.ones(len(scopes), dtype=bool)
    keep[1:] = (scopes[1:] != scopes[:-1]).any(axis=1)
    pairs, links, factor = scopes[keep], links[keep], factor[keep]

    k = model.cardinalities
    offsets = np.concatenate([[0], np.cumsum(k[pairs].prod(axis=1))])
    table_starts = model.unaries.size + np.concatenate([[0], np.cumsum(model.table_sizes)])
    pair, entry = _ragged(model.table_sizes[factor])
    i, j = (entry // model.strides[links[pair, side]] % k[pairs[pair, side]] for side in range(2))
    rows = offsets[pair] + i * k[pairs[pair, 1]] + j
    columns = table_starts[factor[pair]] + entry
    shape = int(offsets[-1]), int(table_starts[-1])
    return pairs, sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=shape)


def _nodes(model: FactorGraph, groups: Any) -> tuple[Array, Array, Array]:
    """Return the variable of each node (ascending), the states of all nodes, and how many each has."""
    state_owners = np.repeat(np.arange(model.n_variables), model.cardinalities)
    if groups is None:
        states = np.arange(model.unaries.size)
        alone = model.cardinalities[state_owners] > 2
        alone |= (model.cardinalities[state_owners] == 2) & (states > model.unary_starts[state_owners])
        return state_owners[alone], states[alone], np.ones(int(alone.sum()), dtype=np.int64)
    groups = np.atleast_2d(np.asarray(groups))
    if groups.dtype != np.bool_ or groups.ndim != 2 or groups.shape[1] != model.unaries.size:
        raise InvalidInputError(
            f"groups must be of bool and of shape (t, {model.unaries.size}), got {groups.dtype} of shape "
            f"{groups.shape}."
        )
    row, state = np.nonzero(groups)
    node = row * model.n_variables + state_owners[state]
    sizes = np.bincount(node, minlength=len(groups) * model.n_variables)
    kept = (sizes > 0) & (sizes < np.tile(model.cardinalities, len(groups)))
    chosen = kept[node]
    order = np.lexsort((state[chosen], row[chosen], state_owners[state[chosen]]))
    by_variable = np.arange(sizes.size).reshape(len(groups), -1).T.ravel()
    by_variable = by_variable[kept[by_variable]]
    return by_variable % model.n_variables, state[chosen][order], sizes[by_variable]


def _ragged(counts: Array) -> tuple[Array, Array]:
    """Return the number of the segment of each entry and its place there, for segments of given lengths."""
    ends = np.cumsum(counts)
    segment = np.repeat(np.arange(counts.size), counts)
    return segment, np.arange(segment.size) - (ends - counts)[segment]
