"""Affine expressions of cvxpy as matrices, for the common atoms: sums and products with constants."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array

Parts = dict[int, Any]
"""For variables, by their id: a matrix with a column for each entry, in column-major order."""


def matrices_of(affine: Any) -> tuple[Parts, Array] | None:
    """Return the matrices and the constant of an affine expression, in column-major order.

    None if it has atoms other than sums and products with constants: cvxpy's gradients know those.
    """
    if isinstance(affine, cp.Variable):
        return {affine.id: sparse.eye_array(affine.size, format="csr")}, np.zeros(affine.size)
    if isinstance(affine, cp.Constant):
        return {}, np.ravel(_dense(affine.value), order="F")
    rule = _RULES.get(type(affine).__name__)
    return None if rule is None else rule(affine)


def _sum(affine: Any) -> tuple[Parts, Array] | None:
    parts, offset = {}, np.zeros(affine.size)
    for arg in affine.args:
        found = matrices_of(arg) if arg.shape == affine.shape else None
        if found is None:
            return None
        offset = offset + found[1]
        for key, matrix in found[0].items():
            parts[key] = parts[key] + matrix if key in parts else matrix
    return parts, offset


def _negative(affine: Any) -> tuple[Parts, Array] | None:
    found = matrices_of(affine.args[0])
    return None if found is None else ({key: -matrix for key, matrix in found[0].items()}, -found[1])


def _promoted(affine: Any) -> tuple[Parts, Array] | None:
    if not isinstance(affine.args[0], cp.Constant):
        return None
    return {}, np.full(affine.size, float(np.reshape(_dense(affine.args[0].value), ())))


def _product(affine: Any) -> tuple[Parts, Array] | None:
    """Return those of A @ v, for a constant matrix, or a row, A."""
    left, right = affine.args
    found = matrices_of(right) if isinstance(left, cp.Constant) and right.ndim == 1 else None
    if found is None or left.ndim not in (1, 2):
        return None
    A = left.value if left.ndim == 2 else np.reshape(_dense(left.value), (1, -1))
    A = sparse.csr_array(A) if sparse.issparse(A) else np.asarray(A, dtype=np.float64)
    return {key: A @ matrix for key, matrix in found[0].items()}, np.atleast_1d(A @ found[1])


def _multiple(affine: Any) -> tuple[Parts, Array] | None:
    """Return those of a constant times an expression, entry by entry."""
    constant, other = affine.args
    if not isinstance(constant, cp.Constant):
        constant, other = other, constant
    found = matrices_of(other) if isinstance(constant, cp.Constant) and other.shape == affine.shape else None
    if found is None or constant.shape not in ((), affine.shape):
        return None
    factors = np.broadcast_to(np.ravel(_dense(constant.value), order="F"), (affine.size,))
    scale = sparse.diags_array(factors, format="csr")
    return {key: scale @ matrix for key, matrix in found[0].items()}, factors * found[1]


def _dense(value: Any) -> Any:
    return value.toarray() if sparse.issparse(value) else np.asarray(value, dtype=np.float64)


_RULES = {
    "AddExpression": _sum,
    "NegExpression": _negative,
    "Promote": _promoted,
    "MulExpression": _product,
    "multiply": _multiple,
}
