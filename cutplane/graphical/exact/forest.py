"""Exact minimisation over trees and chains by dynamic programming."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array


def is_forest(model: FactorGraph) -> bool:
    """Tell whether the model has factors of two variables only, and these form no cycle.

    Parameters
    ----------
    model : GraphicalModel

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.exact.forest import is_forest
    >>> costs, differ = np.zeros((3, 2)), [[1, 0], [0, 1]]
    >>> is_forest(GraphicalModel.pairwise(costs, [[0, 1], [1, 2]], differ))
    True
    >>> is_forest(GraphicalModel.pairwise(costs, [[0, 1], [1, 2], [0, 2]], differ))
    False
    """
    n, m = model.n_variables, model.n_factors
    if not model.is_pairwise or m >= max(1, n):
        return False
    ends = model.edges
    graph = sparse.coo_array((np.ones(m, dtype=np.int8), (ends[:, 0], ends[:, 1])), shape=(n, n))
    return n == 0 or connected_components(graph, directed=False, return_labels=False) == n - m


def solve_forest(model: FactorGraph) -> tuple[Array | None, float]:
    r"""Return a labelling of least energy of a model without cycles, and that energy.

    .. math:: m_{u}(x_p) = \min_{x_u} \theta_u(x_u) + \sum_{c \text{ child of } u} m_c(x_u)
              + \theta_{up}(x_u, x_p)

    is passed from the leaves to the roots, and the best states back; O(table entries) in time and memory.

    Parameters
    ----------
    model : GraphicalModel
        `is_forest` of it holds.

    Returns
    -------
    labelling : ndarray of int, shape (n_variables,), or None
        None if no labelling has a finite energy.
    energy : float

    Raises
    ------
    InvalidInputError
        If the model has a cycle, or a factor of more than two variables; use `eliminate`.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.graphical import GraphicalModel
    >>> from cutplane.graphical.exact.forest import solve_forest
    >>> costs = np.array([[0.0, 3.0], [1.0, 1.0], [3.0, 0.0]])
    >>> labelling, energy = solve_forest(GraphicalModel.pairwise(costs, [[0, 1], [1, 2]], [[0, 2], [2, 0]]))
    >>> labelling.tolist(), energy
    ([0, 0, 1], 3.0)
    """
    from cutplane.graphical.exact import forest_kernels

    if not is_forest(model):
        raise InvalidInputError(
            f"{model!r} has a cycle or a factor of more than two variables; use eliminate or map."
        )
    if model.n_variables == 0:
        return _checked(model, np.empty(0, dtype=np.int64))
    ends = model.edges
    order = np.argsort(np.concatenate([ends[:, 0], ends[:, 1]]), kind="stable")
    degrees = np.bincount(np.ravel(ends), minlength=model.n_variables)
    labelling = forest_kernels.solve(
        model.cardinalities,
        model.unary_starts,
        model.unaries,
        np.concatenate([[0], np.cumsum(degrees)]),
        np.concatenate([ends[:, 1], ends[:, 0]])[order],
        order % max(1, model.n_factors),
        model.table_starts,
        model.tables,
    )
    return (None, np.inf) if labelling[0] < 0 else _checked(model, labelling)


def _checked(model: FactorGraph, labelling: Array) -> tuple[Array | None, float]:
    energy = model.energy(labelling)
    return (labelling, energy) if energy < np.inf else (None, np.inf)
