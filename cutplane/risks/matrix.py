"""Checks of a data matrix X: finite numbers, and indices within its shape if it is sparse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array, as_real, as_sparse
from cutplane.runtime.chunks import equal_ranges
from cutplane.runtime.threads import run_chunks

TILE = 1 << 16
"""Number of entries tested or converted at a time, because 512 KiB of float64 fit into the cache."""

RUN = 1 << 11
"""Most entries of a tile along the contiguous axis of X, because shorter runs are read slower."""


def as_matrix(X: Any, name: str = "X") -> Any:
    """Return X as a matrix of finite numbers of shape (m, n), or raise `InvalidInputError`.

    float32 and float64 ndarrays, CSR and CSC matrices are not copied; their entries may be in any order and
    stored several times. Other sparse formats are converted to CSR and other number types to float64, once.
    Indices of other types become int32 if they fit, because passes are compiled for each type.
    """
    if sparse.issparse(X):
        X = as_sparse(name, X, ("csr", "csc"), keep_float32=True)
    else:
        X = as_real(name, X, keep_float32=True)
    if X.ndim != 2:
        raise InvalidInputError(f"{name} must have two dimensions, got shape {X.shape}; one row per example.")
    if 0 in X.shape:
        raise InvalidInputError(f"{name} must have at least one row and one column, got shape {X.shape}.")
    if sparse.issparse(X):
        _check_indices(X, name)
        _check_sparse_finite(X, name)
        if X.indptr[-1] and not X.indices.dtype == X.indptr.dtype == np.int32:
            X = _narrowed(X)
    else:
        _check_dense_finite(X, name)
    return X


def contiguous(X: Any) -> Any:
    """Return X, or a copy if it is a view with gaps, because routines would be compiled again for it."""
    return X if sparse.issparse(X) or X.flags.forc else np.ascontiguousarray(X)


def tiles(X: Array) -> Iterator[tuple[slice, slice]]:
    """Cut an ndarray of any memory order into pieces that fit into the cache."""
    m, n = X.shape
    if abs(X.strides[0]) >= abs(X.strides[1]):
        width = min(n, RUN)
        height = max(1, TILE // width)
    else:
        height = min(m, RUN)
        width = max(1, TILE // height)
    for row in range(0, m, height):
        for column in range(0, n, width):
            yield slice(row, min(row + height, m)), slice(column, min(column + width, n))


def _check_dense_finite(X: Array, name: str) -> None:
    if X.flags.forc and _is_finite(X.ravel(order="K")):  # the order in memory is read fastest
        return
    pieces = list(tiles(X))

    def check(few: tuple[int, int]) -> None:
        for rows, columns in pieces[slice(*few)]:
            finite = np.isfinite(X[rows, columns])
            if not finite.all():
                i, j = np.argwhere(~finite)[0] + (rows.start, columns.start)
                raise InvalidInputError(
                    f"{name}[{i}, {j}] is {X[i, j]}; every entry must be finite: impute or drop it."
                )

    run_chunks(check, equal_ranges(len(pieces), X.size / 4))


def _check_sparse_finite(X: Any, name: str) -> None:
    entries = X.data[: X.indptr[-1]]
    if not _is_finite(entries):
        value = entries[~np.isfinite(entries)][0]
        raise InvalidInputError(f"{name}.data holds {value}; every entry must be finite: impute or drop it.")


def _is_finite(numbers: Array) -> bool:
    size = 4 * TILE  # one thread, because several would wait for the interpreter lock

    def check(few: tuple[int, int]) -> bool:
        return all(np.isfinite(numbers[i : min(i + size, few[1])]).all() for i in range(*few, size))

    return all(run_chunks(check, equal_ranges(numbers.size, numbers.size / 4)))


def _check_indices(X: Any, name: str) -> None:
    """Raise an error unless X is valid CSR or CSC, because compiled passes do not check its indices."""
    major, minor = X.shape if X.format == "csr" else X.shape[::-1]
    for part in ("indices", "indptr"):
        array = getattr(X, part)
        if array.dtype.kind not in "iu" or not array.dtype.isnative or array.ndim != 1:
            raise _malformed(X, name, f"{part} is not a vector of integers, but of {array.dtype.str}")
    if X.indptr.size != major + 1 or X.indptr[0] != 0 or (X.indptr[1:] < X.indptr[:-1]).any():
        raise _malformed(X, name, f"indptr does not increase from 0 in {major} steps")
    count = int(X.indptr[-1])
    if count > min(X.indices.size, X.data.size):
        raise _malformed(
            X,
            name,
            f"indptr ends at {count}, but there are {X.indices.size} indices and {X.data.size} entries",
        )
    indices = unsigned(X.indices)

    def check(few: tuple[int, int]) -> None:
        largest = indices[slice(*few)].max(initial=0)  # a negative index is a huge unsigned one
        if largest >= minor:
            where = few[0] + int(indices[slice(*few)].argmax())
            raise _malformed(X, name, f"indices[{where}] is {X.indices[where]}, which is not below {minor}")

    run_chunks(check, equal_ranges(count, count / 4))


def _narrowed(X: Any) -> Any:
    """Return X with indices of 32 bits, or of 64 bits if necessary; the entries are shared."""
    most = max(*X.shape, int(X.indptr[-1]))
    dtype = np.int32 if most <= np.iinfo(np.int32).max else np.int64
    found = type(X)(X.shape, dtype=X.dtype)
    found.data, found.indices, found.indptr = X.data, X.indices.astype(dtype), X.indptr.astype(dtype)
    return found


def unsigned(indices: Array) -> Array:
    """Return a read-only view of indices as unsigned integers of the same size."""
    return read_only(indices.view(f"u{indices.itemsize}"))


def _malformed(X: Any, name: str, complaint: str) -> InvalidInputError:
    return InvalidInputError(
        f"{name} is not in {X.format.upper()} format: {name}.{complaint}; "
        "build it from a scipy.sparse.coo_array((data, (rows, columns)), shape)."
    )
