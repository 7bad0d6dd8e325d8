"""Chains and grids of variables, and random grids for comparing methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factors import as_energies, as_list
from cutplane.graphical.model import GraphicalModel
from cutplane.pieces.validation import Array, as_count, as_nonnegative


def chain(unaries: Any, tables: Any) -> GraphicalModel:
    """Return a chain: each variable is paired with the next.

    Parameters
    ----------
    unaries : array_like of shape (n, k), or sequence of vectors
    tables : array_like of shape (k, k) or (n - 1, k, k), or sequence of n - 1 matrices
        The costs of a variable (rows) and the next one (columns).

    Examples
    --------
    >>> from cutplane.graphical import chain
    >>> print(chain([[0, 2], [1, 1], [2, 0]], [[0, 3], [3, 0]]).brute_force()[1])
    3.0
    """
    unaries = unaries if isinstance(unaries, np.ndarray) else as_list("unaries", unaries)
    numbers = np.arange(len(unaries))
    return GraphicalModel.pairwise(unaries, np.stack([numbers[:-1], numbers[1:]], axis=1), tables)


def grid(unaries: Any, horizontal: Any, vertical: Any = None, *, wrap: bool = False) -> GraphicalModel:
    """Return a grid: each variable is paired with the next one in its row and in its column.

    The variable in row i and column j has the number ``i * width + j``.

    Parameters
    ----------
    unaries : array_like of shape (height, width, k)
        For example, the costs of k labels at each pixel of an image.
    horizontal : array_like of shape (k, k) or (height, width - 1, k, k)
        The costs of a variable (rows) and its right neighbour (columns). All pairs share a single table.
    vertical : array_like of shape (k, k) or (height - 1, width, k, k), optional
        The costs of a variable (rows) and the variable below (columns); by default `horizontal`, if that is a
        single table.
    wrap : bool, default False
        Whether the last column is paired with the first, and the last row with the first: a torus. Separate
        tables of the pairs then have shape (height, width, k, k). Needs at least 3 rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.graphical import grid
    >>> grid(np.zeros((3, 4, 2)), [[0, 1], [1, 0]])
    GraphicalModel(12 variables, 2 states, 17 factors of arity 2)
    """
    unaries = as_energies("unaries", unaries)
    if unaries.ndim != 3:
        raise InvalidInputError(f"unaries must have shape (height, width, k), got {unaries.shape}.")
    height, width, k = unaries.shape
    if k < 1:
        raise InvalidInputError(f"unaries has shape {unaries.shape}, but a variable has at least one state.")
    if wrap and min(height, width) < 3:
        raise InvalidInputError(f"A torus needs at least 3 rows and columns, got {height} x {width}.")
    horizontal = as_energies("horizontal", horizontal)
    if vertical is None and horizontal.ndim != 2:
        raise InvalidInputError("vertical tables are needed if horizontal is not a single table.")
    vertical = horizontal if vertical is None else as_energies("vertical", vertical)
    numbers = np.arange(height * width).reshape(height, width)
    right = np.roll(numbers, -1, axis=1), numbers
    below = np.roll(numbers, -1, axis=0), numbers
    if not wrap:
        right, below = (numbers[:, 1:], numbers[:, :-1]), (numbers[1:], numbers[:-1])
    edges = np.concatenate(
        [np.stack([here.ravel(), there.ravel()], axis=1) for there, here in (right, below)]
    )
    flat = unaries.reshape(-1, k)
    if horizontal.ndim == 2 and np.array_equal(horizontal, vertical):
        return GraphicalModel.pairwise(flat, edges, horizontal)
    tables = [
        _spread(name, table, (*there.shape, k, k))
        for name, table, (there, _) in (("horizontal", horizontal, right), ("vertical", vertical, below))
    ]
    return GraphicalModel.pairwise(flat, edges, np.concatenate(tables))


def spin_glass(
    height: int, width: int, *, field: float = 0.0, wrap: bool = False, seed: int = 0
) -> GraphicalModel:
    r"""Return an Ising grid with random couplings of both signs.

    .. math:: E(s) = \sum_{uv} J_{uv} s_u s_v + \sum_u h_u s_u, \qquad s_u = 2 x_u - 1 \in \{-1, 1\}

    with :math:`J_{uv}` uniform in [-1, 1] and :math:`h_u` in [-field, field].

    Parameters
    ----------
    height, width : int
    field : float, default 0
        Nonnegative. With field 0 and without `wrap`, cycle inequalities solve the model, because its graph is
        planar.
    wrap : bool, default False
        Whether the grid is a torus.
    seed : int, default 0

    Examples
    --------
    >>> from cutplane.graphical import spin_glass
    >>> print(round(spin_glass(3, 4).brute_force()[1], 4))
    -7.712
    """
    rng, field = np.random.default_rng(seed), as_nonnegative("field", field)
    height, width = as_count("height", height), as_count("width", width)
    spins = np.array([-1.0, 1.0])
    unaries = rng.uniform(-field, field, (height, width, 1)) * spins
    shapes = ((height, width - (not wrap)), (height - (not wrap), width))
    right, below = (rng.uniform(-1, 1, shape)[..., None, None] * np.outer(spins, spins) for shape in shapes)
    return grid(unaries, right, below, wrap=wrap)


def potts(height: int, width: int, n_labels: int, *, mixed: bool = False, seed: int = 0) -> GraphicalModel:
    r"""Return a random Potts model on a grid: different labels of neighbours have a cost, or a negative one.

    .. math:: E(x) = \sum_u \theta_u(x_u) + \sum_{uv} \lambda_{uv} [x_u \neq x_v]

    with :math:`\theta_u` uniform in [0, 1] and :math:`\lambda_{uv}` in [0, 1].

    Parameters
    ----------
    height, width, n_labels : int
    mixed : bool, default False
        Whether :math:`\lambda_{uv}` is uniform in [-1, 1] instead: then the local polytope is not tight.
    seed : int, default 0

    Examples
    --------
    >>> from cutplane.graphical import potts
    >>> print(round(potts(2, 3, 4).brute_force()[1], 4))
    1.9943
    """
    rng, k = np.random.default_rng(seed), as_count("n_labels", n_labels)
    height, width = as_count("height", height), as_count("width", width)
    unaries = rng.uniform(0, 1, (height, width, k))
    right, below = (
        rng.uniform(-1 if mixed else 0, 1, shape)[..., None, None] * (1 - np.eye(k))
        for shape in ((height, width - 1), (height - 1, width))
    )
    return grid(unaries, right, below)


def _spread(name: str, table: Array, shape: tuple[int, ...]) -> Array:
    if table.shape not in (shape, shape[2:]):
        raise InvalidInputError(f"{name} must have shape {shape[2:]} or {shape}, got {table.shape}.")
    return np.broadcast_to(table, shape).reshape(-1, *shape[2:])
