"""Points moved into the dual of a cone, so that a dual value computed from them is a bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array


def into_dual_cone(z: Array, dims: Any, upper: bool) -> Array:
    """Return a point of the dual cone close to z.

    Parameters
    ----------
    z : ndarray of shape (m,)
        A dual point of ``A x + s = b, s in K``, K a product of cones in the order zero, nonnegative,
        second-order, positive semidefinite (a triangle as a vector, off-diagonal entries times sqrt(2)),
        exponential, power.
    dims : cvxpy.reductions.dcp2cone.cone_matrix_stuffing.ConeDims
        Their sizes.
    upper : bool
        Whether the triangles are upper ones (stacked by columns) or lower ones.

    Returns
    -------
    ndarray of shape (m,)
        z, projected on the nonnegative and semidefinite cones; in the others some coordinates are moved.
    """
    y = z.copy()
    start = dims.zero + dims.nonneg
    y[dims.zero : start] = np.maximum(y[dims.zero : start], 0.0)
    moves: list[tuple[int, Callable[[Array], None]]] = [
        *((size, _second_order) for size in dims.soc),
        *((size * (size + 1) // 2, partial(_semidefinite, upper=upper)) for size in dims.psd),
        *((3, _exponential) for _ in range(dims.exp)),
        *((3, partial(_power, alphas=np.array([alpha, 1.0 - alpha]))) for alpha in dims.p3d),
        *((len(alphas) + 1, partial(_power, alphas=np.asarray(alphas))) for alphas in dims.pnd),
    ]
    for size, move in moves:
        move(y[start : start + size])
        start += size
    return y


def _second_order(y: Array) -> None:
    y[0] = max(y[0], float(np.linalg.norm(y[1:])))


def _semidefinite(y: Array, upper: bool) -> None:
    size = math.isqrt(2 * y.size)
    columns, rows = np.tril_indices(size) if upper else np.triu_indices(size)
    scaling = np.where(rows == columns, 1.0, math.sqrt(2.0))
    matrix = np.zeros((size, size))
    matrix[rows, columns] = matrix[columns, rows] = y / scaling
    eigenvalues, vectors = np.linalg.eigh(matrix)
    if eigenvalues[0] < 0.0:
        matrix = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T
        y[:] = matrix[rows, columns] * scaling


def _exponential(y: Array) -> None:
    """Dual of s_2 exp(s_1 / s_2) <= s_3, s_2 > 0: -u exp(v / u - 1) <= w, u < 0, or u = 0, v >= 0, w >= 0."""
    y[2] = max(y[2], 0.0)
    u, v, w = (float(entry) for entry in y)
    if u >= 0.0:
        y[:] = 0.0, max(v, 0.0), w
        return
    exponent = min(v / u - 1.0, 700.0)
    lifted_w = -u * math.exp(exponent)
    if lifted_w <= w:
        return
    lifted_v = u * (1.0 + math.log(w / -u)) if w > 0.0 else math.inf
    if lifted_v - v < lifted_w - w:
        y[1] = lifted_v
    elif exponent < 700.0:
        y[2] = lifted_w
    else:
        y[:] = 0.0, max(v, 0.0), w


def _power(y: Array, alphas: Array) -> None:
    """Dual of {prod_i s_i^alpha_i >= |s_last|}: {prod_i (u_i / alpha_i)^alpha_i >= |w|, u >= 0}."""
    y[:-1] = np.maximum(y[:-1], 0.0)
    most = float(np.prod((y[:-1] / alphas) ** alphas))
    y[-1] = np.clip(y[-1], -most, most)
