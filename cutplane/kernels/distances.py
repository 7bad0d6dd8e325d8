"""Inner products and distances of the rows of two matrices, dense or CSR."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array

_FEW_COLUMNS = 32
"""With no more columns, differences are squared themselves: no digits cancel, at an acceptable cost."""


def products(A: Any, B: Any) -> Array:
    """Return <a_i, b_j>, shape (n, m)."""
    out = A @ B.T
    return out.toarray() if sparse.issparse(out) else np.asarray(out)


def squared_norms(A: Any) -> Array:
    """Return <a_i, a_i>, shape (n,)."""
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


def squared_distances(A: Any, B: Any) -> Array:
    """Return ||a_i - b_j||^2, shape (n, m)."""
    is_dense = not (sparse.issparse(A) or sparse.issparse(B))
    if is_dense and A.shape[1] == 1:
        out = A - B.T
        return np.multiply(out, out, out=out)
    if is_dense and A.shape[1] <= _FEW_COLUMNS:
        from scipy.spatial.distance import cdist

        return cdist(A, B, "sqeuclidean")
    same = A is B
    if is_dense:  # what the rows have in common would cost digits
        centre = B.mean(axis=0)
        A, B = A - centre, B - centre
    out = products(A, B)
    out *= -2.0
    out += squared_norms(A)[:, np.newaxis]
    out += squared_norms(B)
    np.maximum(out, 0.0, out=out)
    if same:
        np.fill_diagonal(out, 0.0)
    return out


def manhattan_distances(A: Array, B: Array) -> Array:
    """Return ||a_i - b_j||_1, shape (n, m)."""
    if A.shape[1] == 1:
        out = A - B.T
        return np.abs(out, out=out)
    from scipy.spatial.distance import cdist

    return cdist(A, B, "cityblock")


def unit_rows(A: Any) -> Any:
    """Return the rows divided by their norms; zero rows stay zero."""
    if sparse.issparse(A):
        peaks = np.asarray(abs(A).max(axis=1).toarray()).ravel()
        scaled = sparse.diags_array(_inverses(peaks)) @ A
        return sparse.diags_array(_inverses(np.sqrt(squared_norms(scaled)))) @ scaled
    scaled = A * _inverses(np.abs(A).max(axis=1))[:, np.newaxis]
    return scaled * _inverses(np.sqrt(squared_norms(scaled)))[:, np.newaxis]


def _inverses(sizes: Array) -> Array:
    return np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)
