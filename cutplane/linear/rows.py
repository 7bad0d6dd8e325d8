"""Rows of an array or of a CSR matrix in compiled loops; columns are the rows of the transpose.

`rows` is a tuple of an array X, and of data, indices and indptr of CSR, one of the two empty, because all
layouts have one routine then; loops take its parts, because numba counts references to the parts of a tuple
each time. The row -1 holds ones. Interpreted, the loops are calls of numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload
from scipy import sparse

from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import unsigned
from cutplane.runtime.compiling import SUMS

_INLINE: Any = {"error_model": "numpy", "fastmath": set(SUMS), "forceinline": True}


def as_rows(X: Any) -> tuple[Array, Array, Array, Array]:
    """Return a C-ordered array or a CSR matrix as `rows`, read-only."""
    if not sparse.issparse(X):
        none = unsigned(np.empty(0, np.int32))
        return read_only(X), read_only(np.empty(0, X.dtype)), none, none
    none = read_only(np.empty((0, 0), X.dtype))
    return none, read_only(X.data), unsigned(X.indices), unsigned(X.indptr)


def compiles(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator of the loops that compiled callers of `plain` inline."""

    def register(loops: Callable[..., Any]) -> Callable[..., Any]:
        overload(plain, _INLINE, strict=False)(lambda *_: loops)
        return loops

    return register


def size(X, data, indices, indptr, i, v):
    """Return the number of entries of row i; of the row of ones the size of v."""
    if i < 0:
        return v.shape[0]
    return X.shape[1] if indptr.shape[0] == 0 else int(indptr[i + 1] - indptr[i])


def dot(X, data, indices, indptr, i, v):
    """Return the product of a row and the first entries of v."""
    if i < 0:
        return v.sum()
    if indptr.shape[0] == 0:
        return X[i] @ v[: X.shape[1]]
    part = slice(indptr[i], indptr[i + 1])
    return data[part] @ v[indices[part]]


def dot_squares(X, data, indices, indptr, i, v):
    """Return the product of the squares of a row and v."""
    if i < 0:
        return v.sum()
    if indptr.shape[0] == 0:
        return np.square(X[i], dtype=np.float64) @ v
    part = slice(indptr[i], indptr[i + 1])
    return np.square(data[part], dtype=np.float64) @ v[indices[part]]


def add(X, data, indices, indptr, i, step, out):
    """Add a multiple of a row to the first entries of `out`."""
    if indptr.shape[0] == 0:
        out[: X.shape[1]] += step * X[i]
    else:
        part = slice(indptr[i], indptr[i + 1])
        out[indices[part]] += step * data[part]


def add_times(X, data, indices, indptr, i, step, d, out):
    """Add a multiple of a row, each entry times an entry of d, to `out`."""
    if i < 0:
        out += step * d
    elif indptr.shape[0] == 0:
        out += step * d * X[i]
    else:
        part = slice(indptr[i], indptr[i + 1])
        out[indices[part]] += step * d[indices[part]] * data[part]


def put(source, target):
    """Copy a vector; numba takes seconds to compile the assignment to a slice."""
    target[:] = source


@compiles(size)
def _size(X, data, indices, indptr, i, v):
    if i < 0:
        return v.shape[0]
    return X.shape[1] if indptr.shape[0] == 0 else np.int64(indptr[i + 1] - indptr[i])


@compiles(dot)
def _dot(X, data, indices, indptr, i, v):
    total = 0.0
    if i < 0:
        for j in range(v.shape[0]):
            total += v[j]
    elif indptr.shape[0] == 0:
        for j in range(X.shape[1]):
            total += X[i, j] * v[j]
    else:
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            total += data[p] * v[indices[p]]
    return total


@compiles(dot_squares)
def _dot_squares(X, data, indices, indptr, i, v):
    total = 0.0
    if i < 0:
        for j in range(v.shape[0]):
            total += v[j]
    elif indptr.shape[0] == 0:
        for j in range(v.shape[0]):
            total += X[i, j] * v[j] * X[i, j]
    else:
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            total += data[p] * v[indices[p]] * data[p]
    return total


@compiles(add)
def _add(X, data, indices, indptr, i, step, out):
    if indptr.shape[0] == 0:
        for j in range(X.shape[1]):
            out[j] += step * X[i, j]
    else:
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            out[indices[p]] += step * data[p]


@compiles(add_times)
def _add_times(X, data, indices, indptr, i, step, d, out):
    if i < 0:
        for j in range(out.shape[0]):
            out[j] += step * d[j]
    elif indptr.shape[0] == 0:
        for j in range(out.shape[0]):
            out[j] += step * d[j] * X[i, j]
    else:
        for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            out[indices[p]] += step * d[indices[p]] * data[p]


@compiles(put)
def _put(source, target):
    for j in range(target.shape[0]):
        target[j] = source[j]
