"""Models of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.model import GraphicalModel


def from_pgmpy(model: Any) -> GraphicalModel:
    r"""Convert a Markov network, a factor graph or a Bayesian network of pgmpy.

    .. math:: E(x) = - \sum_A \ln \varphi_A(x_A)

    Parameters
    ----------
    model : pgmpy.models.DiscreteMarkovNetwork, DiscreteBayesianNetwork or FactorGraph
        Its factors are potentials :math:`\varphi_A \geq 0`, or conditional probabilities.

    Returns
    -------
    GraphicalModel
        Its variables are in the order of ``model.nodes``, without the factors of a factor graph; its states
        are in the order of pgmpy's state names.

    Raises
    ------
    InvalidInputError
        If `model` is of another type, or a factor has a negative entry.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from cutplane.graphical import from_pgmpy
    >>> factor = SimpleNamespace(variables=["rain", "wet"], values=[[8.0, 1.0], [0.0, 1.0]])
    >>> model = from_pgmpy(SimpleNamespace(nodes=["rain", "wet"], factors=[factor]))
    >>> model.map().labelling.tolist(), model.energy([1, 0])
    ([0, 0], inf)
    """
    given = getattr(model, "factors", None) or [cpd.to_factor() for cpd in getattr(model, "cpds", ())]
    if not given:
        raise InvalidInputError(f"Expected a model of pgmpy with factors or CPDs, got {model!r}.")
    factors, states = [], {}
    for factor in given:
        values = np.asarray(factor.values, dtype=np.float64)
        if not (values >= 0.0).all():
            raise InvalidInputError(f"A factor of {factor.variables} has an entry that is not at least 0.")
        with np.errstate(divide="ignore"):
            factors.append((factor.variables, -np.log(values)))
        states |= dict(zip(factor.variables, values.shape, strict=True))
    nodes = [node for node in model.nodes if node in states]
    numbers = {node: u for u, node in enumerate(nodes)}
    return GraphicalModel(
        [states[node] for node in nodes],
        [(tuple(numbers[node] for node in scope), table) for scope, table in factors],
    )


def from_networkx(graph: Any, energies: str = "energies") -> GraphicalModel:
    r"""Convert a graph of networkx with energies of its nodes and edges.

    .. math:: E(x) = \sum_u \theta_u(x_u) + \sum_{uv} \theta_{uv}(x_u, x_v)

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        A node has a vector of the energies of its states; an edge (u, v) has a matrix with the states of u in
        its rows. An undirected edge begins with the node that is earlier in ``graph.nodes``.
    energies : str, default "energies"
        The name of the attribute.

    Returns
    -------
    GraphicalModel
        Its variables are in the order of ``graph.nodes``.

    Raises
    ------
    InvalidInputError
        If a node or an edge has no energies, or a matrix has another shape than its nodes.

    Examples
    --------
    >>> import networkx as nx  # doctest: +SKIP
    >>> graph = nx.cycle_graph(5)  # doctest: +SKIP
    >>> nx.set_node_attributes(graph, [0.0, 0.1], "energies")  # doctest: +SKIP
    >>> nx.set_edge_attributes(graph, [[1, 0], [0, 1]], "energies")  # doctest: +SKIP
    >>> from_networkx(graph).map().energy  # doctest: +SKIP
    1.2
    """
    if not hasattr(graph, "nodes"):
        raise InvalidInputError(f"Expected a graph of networkx, got {graph!r}.")
    numbers = {node: u for u, node in enumerate(graph.nodes)}
    vectors, factors = [], []
    for node, attributes in graph.nodes(data=True):
        if energies not in attributes:
            raise InvalidInputError(f"The node {node!r} has no attribute {energies!r}.")
        if np.ndim(attributes[energies]) != 1:
            raise InvalidInputError(f"The node {node!r} must have a vector of energies, one for each state.")
        vectors.append(attributes[energies])
        factors.append(((numbers[node],), vectors[-1]))
    for u, v, attributes in graph.edges(data=True):
        if energies not in attributes:
            raise InvalidInputError(f"The edge {(u, v)!r} has no attribute {energies!r}.")
        pair = (numbers[u], numbers[v])
        factors.append((pair if graph.is_directed() else tuple(sorted(pair)), attributes[energies]))
    return GraphicalModel([len(vector) for vector in vectors], factors)
