"""Penalties of differences between neighbours: total variation and trend filtering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import as_count
from cutplane.regularizers.base import Regularizer
from cutplane.regularizers.l1 import L1


def total_variation(shape: int | Sequence[int], lam: float = 1.0) -> Regularizer:
    """Return g(x) = lam times the sum of |x_i - x_j| over all neighbours i, j on a grid.

    ``total_variation(n, a) + L1(b)`` is the fused lasso.

    Parameters
    ----------
    shape : int or tuple of int
        Of the grid; x holds its values row after row (row-major).
    lam : float, default 1.0
        Nonnegative and finite.

    Returns
    -------
    LinearImage
        ``L1(lam) @ D`` with the sparse matrix D of the differences along each axis.

    Raises
    ------
    InvalidInputError
        If `shape` does not hold positive integers, or no two points are neighbours.

    References
    ----------
    Tibshirani, Saunders, Rosset, Zhu and Knight, Sparsity and smoothness via the fused lasso, J. R. Stat.
    Soc. B 67 (2005), doi:10.1111/j.1467-9868.2005.00490.x.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.total_variation((2, 3)).value(np.array([0.0, 0.0, 1.0, 0.0, 0.0, 1.0]))
    2.0
    """
    sides = [as_count("shape", side) for side in (shape if isinstance(shape, Sequence) else (shape,))]
    parts = []
    for axis, side in enumerate(sides):
        if side > 1:
            factors = [sparse.eye_array(other) for other in sides]
            factors[axis] = differences(side, 1)
            product: Any = sparse.eye_array(1)
            for factor in factors:
                product = sparse.kron(product, factor)
            parts.append(sparse.csr_array(product))
    if not parts:
        raise InvalidInputError(f"total_variation needs two neighbours, but the shape is {shape!r}.")
    return L1(lam) @ sparse.vstack(parts)


def trend_filter(dim: int, lam: float = 1.0, order: int = 1) -> Regularizer:
    """Return g(x) = lam times the sum of the absolute differences of order ``order + 1`` of x_1, ..., x_dim.

    It favours x that are polynomials of degree `order` on few pieces.

    Parameters
    ----------
    dim : int
        Greater than ``order + 1``.
    lam : float, default 1.0
        Nonnegative and finite.
    order : int, default 1
        0 is `total_variation`; 1 gives piecewise linear, 2 piecewise quadratic trends.

    Returns
    -------
    LinearImage
        ``L1(lam) @ D`` with the sparse matrix D of the differences.

    Raises
    ------
    InvalidInputError
        If a number is out of range.

    References
    ----------
    Kim, Koh, Boyd and Gorinevsky, l1 trend filtering, SIAM Review 51 (2009), doi:10.1137/070690274.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.trend_filter(5).value(np.array([0.0, 1.0, 2.0, 2.0, 2.0]))
    1.0
    """
    order = as_count("order", order, low=0)
    return L1(lam) @ differences(as_count("dim", dim, low=order + 2), order + 1)


def differences(dim: int, order: int) -> sparse.csr_array:
    """Return the matrix of the differences of this order of `dim` numbers, shape (dim - order, dim)."""
    matrix: Any = sparse.eye_array(dim, format="csr")
    for _ in range(order):
        matrix = matrix[1:] - matrix[:-1]
    return sparse.csr_array(matrix)
