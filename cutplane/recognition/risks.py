"""The rows of a model as risks."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array
from cutplane.recognition.curves import same
from cutplane.recognition.images import Bias, Core, Data, Image, Whole
from cutplane.recognition.losses import fit
from cutplane.recognition.rows import Rows
from cutplane.recognition.stack import Stack
from cutplane.risks.linear import LinearRisk


def linear_risk(rows: Rows, stack: Stack) -> tuple[LinearRisk, float] | None:
    """Return rows as (risk, constant), with the user's own matrix if it fits x; None if they are no loss."""
    image = rows.image
    scale = _common_scale(image)
    found = fit(
        rows.function, rows.weight, np.ones(image.shift.size) if scale is None else scale, image.shift
    )
    if found is None:
        return None
    own = _own_matrix(image, stack) if scale is not None else None
    if own is not None and not (own[1] and found.factor is not None):
        X, intercept = own
    else:
        X, intercept = matrix_of(image, stack, scale), False
    if found.factor is not None:
        X = _scaled(X, found.factor)
    mean = same(found.weight * found.weight.size, 1.0)
    weights = None if mean or same(found.weight, 1.0) else found.weight
    risk = LinearRisk(X, found.y, found.loss, weights, normalize=mean, intercept=intercept)
    return risk, found.constant


def linear_costs(rows: Rows, stack: Stack) -> tuple[Array, float]:
    """Return (c, constant) of rows that are linear: <c, x> + constant."""
    constant, slope, _ = rows.function.coefficients[0]  # pyright: ignore[reportAttributeAccessIssue]
    costs = np.zeros(stack.dim)
    for core, scale in rows.image.parts:
        where, matrix = _columns(core, rows.image.shift.size, stack)
        costs[where] += matrix.T @ (slope * scale * rows.weight)
    return costs, float(rows.weight @ (constant + slope * rows.image.shift))


def matrix_of(image: Image, stack: Stack, without: Array | None = None) -> Any:
    """Return the linear part of an image, with a column for each entry of x; without a scale of all parts."""
    m = image.shift.size
    blocks = []
    for core, scale in image.parts:
        where, matrix = _columns(core, m, stack)
        if without is None:
            matrix = _scaled(matrix, scale)
        elif not same(scale, without):
            matrix = -matrix
        blocks.append((where, matrix))
    held = sum(matrix.shape[1] for _, matrix in blocks)
    if all(not sparse.issparse(matrix) for _, matrix in blocks) and stack.dim <= 2 * held:
        total = np.zeros((m, stack.dim))
        for where, matrix in blocks:
            total[:, where] += matrix
        return total
    return sum(
        (_placed(matrix, where, stack.dim) for where, matrix in blocks), sparse.csr_array((m, stack.dim))
    )


def bias_sign(image: Image) -> tuple[Any, float] | None:
    """Return (b, 1) for rows X w + b, (b, -1) for X w - b, up to a scale of each row; None for others."""
    if len(image.parts) != 2:
        return None
    (first, a), (second, b) = image.parts
    if isinstance(first, Bias):
        (first, a), (second, b) = (second, b), (first, a)
    if not (isinstance(first, Data) and isinstance(second, Bias)):
        return None
    sign = 1.0 if same(a, b) else -1.0 if same(a, -b) else 0.0
    return (second.variable, sign) if sign else None


def _common_scale(image: Image) -> Array | None:
    """Return the scale that all parts have, but for the sign of a bias."""
    if len(image.parts) == 1:
        return image.parts[0][1]
    if bias_sign(image) is None:
        return None
    return next(scale for core, scale in image.parts if isinstance(core, Data))


def _own_matrix(image: Image, stack: Stack) -> tuple[Any, bool] | None:
    """Return the matrix of the user and whether there is an intercept, if x is (w) or (w, b)."""
    data = next((core for core, _ in image.parts if isinstance(core, Data)), None)
    if data is None or stack.slice_of(data.variable).start or stack.sign_of(data.variable) < 0.0:
        return None
    if len(image.parts) == 1:
        return (data.X, False) if stack.dim == data.X.shape[1] else None
    bias = bias_sign(image)
    fits = bias is not None and stack.dim == data.X.shape[1] + 1 and stack.sign_of(bias[0]) == bias[1]
    return (data.X, True) if fits else None


def _columns(core: Core, m: int, stack: Stack) -> tuple[slice, Any]:
    """Return where a core acts, and its matrix there."""
    if isinstance(core, Whole):
        return slice(0, stack.dim), stack.matrix(core.expression)
    where = stack.slice_of(core.variable)
    sign = stack.sign_of(core.variable)
    matrix = core.X if isinstance(core, Data) else np.ones((m, 1))
    return where, matrix if sign == 1.0 else sign * matrix


def _scaled(matrix: Any, factors: Array) -> Any:
    if sparse.issparse(matrix):
        return sparse.csr_array(sparse.diags_array(factors) @ sparse.csr_array(matrix))
    return factors[:, np.newaxis] * matrix


def _placed(matrix: Any, where: slice, dim: int) -> Any:
    block = sparse.coo_array(matrix)
    rows, columns = block.coords
    return sparse.csr_array((block.data, (rows, columns + where.start)), shape=(matrix.shape[0], dim))
