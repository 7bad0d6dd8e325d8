"""Graphs of states: what cycle inequalities say about variables of more than two states."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.graphical.cycles.cycle_graph import CycleGraph
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array


def projection_graph(model: FactorGraph) -> tuple[CycleGraph, Any]:
    r"""Return the graph of states, and the probabilities of their disagreement as a linear map.

    A node is a state i of a variable u; of two states only the second is one. An edge joins states i of u and
    j of v if some factor has both variables; it disagrees when exactly one of the two is in its state:

    .. math:: c = \mu_u(i) + \mu_v(j) - 2 \mu_{uv}(i, j)

    With each labelling, c is the cut vector of the two labels "in the state" and "not in it", so that the odd
    cycle inequalities hold for every c of a marginal vector of the marginal polytope (Sontag, Jaakkola 2007).
    The map takes the marginals of all variables, then those of the tables of all factors; where several
    factors contain two variables, the smallest table is read.

    Examples
    --------
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.cycles.projections import projection_graph
    >>> graph, projection = projection_graph(GraphicalModel([2, 2], [((0, 1), [[0, 1], [1, 0]])]))
    >>> graph, (projection @ [1, 0, 0, 1, 0, 1, 0, 0]).tolist()
    (CycleGraph(2 nodes, 1 edges), [1.0])
    """
    owners, members = _nodes(model)
    pairs, marginals = pair_marginals(model)
    first_node = np.searchsorted(owners, np.arange(model.n_variables + 1))
    counts = np.diff(first_node)

    pair, place = _ragged(counts[pairs[:, 0]] * counts[pairs[:, 1]])
    u, v = pairs[pair].T
    edges = np.stack([first_node[u] + place // counts[v], first_node[v] + place % counts[v]], axis=1)

    states = members[edges] - model.unary_starts[owners[edges]]
    k_u, k_v = model.cardinalities[pairs].T
    offsets = np.concatenate([[0], np.cumsum(k_u * k_v)])
    entries = offsets[pair] + states[:, 0] * k_v[pair] + states[:, 1]
    numbers = np.arange(len(edges))
    both: Any = sparse.csr_array(
        (np.full(len(edges), -2.0), (numbers, entries)), shape=(len(edges), int(offsets[-1]))
    )
    indicators: Any = sparse.csr_array(
        (np.ones(members.size), members, np.arange(owners.size + 1)), shape=(owners.size, marginals.shape[1])
    )
    projection = indicators[edges[:, 0]] + indicators[edges[:, 1]] + both @ marginals
    return CycleGraph(owners.size, edges), sparse.csr_array(projection)


def pair_marginals(model: FactorGraph) -> tuple[Array, Any]:
    """Return the pairs of variables that share a factor, and the linear map to their tables of marginals."""
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


def _nodes(model: FactorGraph) -> tuple[Array, Array]:
    """Return the variable of each node (ascending) and its state, as a place in ``model.unaries``."""
    owners = np.repeat(np.arange(model.n_variables), model.cardinalities)
    states = np.arange(model.unaries.size)
    alone = model.cardinalities[owners] > 2
    alone |= (model.cardinalities[owners] == 2) & (states > model.unary_starts[owners])
    return owners[alone], states[alone]


def _ragged(counts: Array) -> tuple[Array, Array]:
    """Return the number of the segment of each entry and its place there, for segments of given lengths."""
    ends = np.cumsum(counts)
    segment = np.repeat(np.arange(counts.size), counts)
    return segment, np.arange(segment.size) - (ends - counts)[segment]
