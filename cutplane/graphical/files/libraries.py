"""Models of other libraries: OpenGM, pgmpy and networkx."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.files.builder import ModelBuilder
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.validation import Array
from cutplane.runtime.extras import require_extra

_FIRST_KIND = 16000
"""The number of explicit functions, because the format numbers its kinds of functions from it on."""

_TableOf = Callable[[tuple[int, ...], Array], Array]


def _of_difference(cost: Callable[[Array, Array], Array]) -> _TableOf:
    return lambda shape, values: cost(np.abs(np.subtract.outer(*map(np.arange, shape))).astype(float), values)


def _of_equality(shape: tuple[int, ...], values: Array) -> Array:
    states = np.indices(shape)
    return np.where((states == states[:1]).all(axis=0), values[0], values[1])


_KINDS: dict[int, tuple[int, _TableOf]] = {
    2: (1, _of_difference(lambda d, v: v[0] * d)),
    3: (2, _of_difference(lambda d, v: v[1] * np.minimum(d, v[0]))),
    4: (1, _of_difference(lambda d, v: v[0] * d**2)),
    5: (2, _of_difference(lambda d, v: v[1] * np.minimum(d**2, v[0]))),
    6: (2, _of_equality),
    7: (2, _of_equality),
}
"""Number of values, and table, of each kind of function: differences (3, 5: truncated), Potts functions."""
_WITH_DIMENSION = {0, 7}
"""Kinds whose shape is preceded by its length; functions of the other kinds have two variables."""


def read_opengm(path: str | os.PathLike[str], name: str = "gm") -> GraphicalModel:
    r"""Read a model of OpenGM [1]_, whose factors are summed, from an HDF5 file.

    .. math:: E(x) = \sum_A f_A(x_A)

    Functions of the following kinds are read: explicit, absolute and squared difference (truncated too),
    Potts, and Potts of many variables. Needs h5py, from the extra ``hdf5``.

    Parameters
    ----------
    path : str or Path
    name : str, default "gm"
        The group of the model in the file.

    Returns
    -------
    GraphicalModel

    Raises
    ------
    InvalidInputError
        If the file is not in this format, or has functions of another kind.
    MissingExtraError
        If h5py is not installed.

    References
    ----------
    .. [1] B. Andres, T. Beier, J. H. Kappes, "OpenGM: a C++ library for discrete graphical models", 2012,
       arXiv:1206.0111.

    Examples
    --------
    >>> from cutplane.graphical import read_opengm
    >>> model = read_opengm("segmentation.h5")  # doctest: +SKIP
    """
    h5py = require_extra("h5py", "hdf5")
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError(f"path must be the path of an HDF5 file, got {type(path).__name__}.")
    file_name = os.fspath(path)

    def fail(reason: str) -> NoReturn:
        raise InvalidInputError(f"{file_name}: {reason}.")

    try:
        with h5py.File(path, "r") as file:
            if not isinstance(file.get(name), h5py.Group):
                fail(f"there is no group {name!r}; groups are {', '.join(map(repr, file)) or 'none'}")
            return _read(file[name], fail)
    except FileNotFoundError:
        raise
    except (OSError, KeyError, ValueError, IndexError) as error:
        raise InvalidInputError(f"{file_name} is not a model of OpenGM: {error}.") from error


def _read(group: Any, fail: Callable[[str], NoReturn]) -> GraphicalModel:
    header = group["header"][()].ravel().tolist()
    cardinalities = group["numbers-of-states"][()].ravel().tolist()
    kinds = header[5 : 5 + 2 * header[4] : 2]
    functions = [list(_functions(group.get(f"function-id-{kind}"), kind, fail)) for kind in kinds]
    builder = ModelBuilder(cardinalities, fail)
    factors = group["factors"][()].ravel().tolist() if header[3] else []
    at = 0
    for _ in range(header[3]):
        number, kind, arity = factors[at : at + 3]
        scope = factors[at + 3 : at + 3 + arity]
        at += 3 + arity
        if max(scope, default=0) >= len(cardinalities) or len(set(scope)) != len(scope):
            fail(f"a factor has the variables {scope}, which must be distinct and below {len(cardinalities)}")
        shape, values, table = functions[kind][number]
        if shape != builder.shape(scope):
            fail(f"a function of shape {shape} is used for variables of {builder.shape(scope)} states")
        builder.check_room(int(np.prod(shape, dtype=np.float64)))
        builder.add(scope, table(shape, values))
    return builder.model()


def _functions(
    group: Any, number: int, fail: Callable[[str], NoReturn]
) -> Iterator[tuple[tuple[int, ...], Array, _TableOf]]:
    """Yield shape, values and table of each function of a kind."""
    if group is None:
        return
    kind = number - _FIRST_KIND
    if kind != 0 and kind not in _KINDS:
        fail(f"functions of kind {number} are not supported; save them as explicit functions")
    indices, values = group["indices"][()].ravel().tolist(), group["values"][()].ravel().astype(np.float64)
    at = start = 0
    while at < len(indices):
        dimension = indices[at] if kind in _WITH_DIMENSION else 2
        at += kind in _WITH_DIMENSION
        shape = tuple(indices[at : at + dimension])
        at += dimension
        count, table = _KINDS.get(kind, (int(np.prod(shape)), lambda shape, v: v.reshape(shape, order="F")))
        yield shape, values[start : start + count], table
        start += count


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
