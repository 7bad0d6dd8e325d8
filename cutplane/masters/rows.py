"""What changed among the rows since a master last saw them, and the scale it solves them in."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.masters.base import HALF_SPACE, Rows
from cutplane.pieces.validation import Array

_ROUNDING = 1e-14
_LONG = 1000
"""Columns from which on to gather some of them can pay."""
_SPARSE = 8
"""A column that is gathered takes about as long as so many that are read in order."""
_PART = 8192
"""Columns that are copied at a time."""


def survivors(known: Array, ids: Array) -> Array:
    """Return a mask over the `known` ids: those still among `ids`, where they come first, in order."""
    if known.size <= ids.size and np.array_equal(known, ids[: known.size]):
        return np.ones(known.size, dtype=bool)
    return np.isin(known, ids, assume_unique=True)


def is_finite(rows: Rows) -> bool:
    """Tell whether every entry of the rows is finite, and small enough to be summed."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(rows.slopes.sum() + rows.offsets.sum()))


def objective_scale(slopes: Any, offsets: Array, blocks: Array) -> float:
    """Return the power of two that brings the largest slope of a cut close to 1; 1 if they are all zero.

    Slopes that are lost in the rounding of the offsets count as zero.
    """
    cuts = blocks != HALF_SPACE
    largest = row_sizes(slopes[cuts]).max(initial=0.0)
    if largest:
        largest = max(largest, _ROUNDING * np.abs(offsets[cuts]).max(initial=0.0))
    return math.ldexp(1.0, -math.frexp(largest)[1]) if math.isfinite(largest) else 1.0


def row_factors(slopes: Any, blocks: Array, scale: float) -> Array:
    """Return a factor per row: `scale` for cuts, for half-spaces a power of two that makes the slope about 1.

    If the objective is multiplied by `scale` and each row by its factor, x stays the same, and the
    multipliers of the rows are those of the scaled rows times ``factors / scale``.
    """
    factors = np.full(blocks.shape[0], scale)
    half_spaces = blocks == HALF_SPACE
    factors[half_spaces] = np.ldexp(1.0, -np.frexp(row_sizes(slopes[half_spaces]))[1])
    return factors


def products(slopes: Any, x: Array) -> Array:
    """Return the product of each row with x; of a sparse x only those columns are read that it needs."""
    if x.size >= _LONG and _SPARSE * np.count_nonzero(x) <= x.size and not sparse.issparse(slopes):
        where = np.flatnonzero(x)
        return slopes[:, where] @ x[where]
    return slopes @ x


def sizes_at(slopes: Any, x: Array) -> Array:
    """Return the size of the terms that the product of each row with x is a sum of."""
    if sparse.issparse(slopes):
        return abs(slopes) @ np.abs(x)
    total, where = np.zeros(slopes.shape[0]), np.flatnonzero(x)
    for part in parts_of(where, x.size):
        total += np.abs(slopes[:, part]) @ np.abs(x[part])
    return total


def parts_of(where: Array, dim: int) -> Iterator[Any]:
    """Return these of `dim` columns, in order, in parts of which a copy takes little memory."""
    for begin in range(0, where.size, _PART):
        whole = where.size == dim
        yield slice(begin, begin + _PART) if whole else where[begin : begin + _PART]


def row_sizes(slopes: Any) -> Array:
    """Return the largest absolute entry of each row of a matrix, dense or sparse."""
    if not sparse.issparse(slopes):
        return np.abs(slopes).max(axis=1, initial=0.0)
    return abs(slopes).max(axis=1).toarray() if slopes.nnz else np.zeros(slopes.shape[0])


def scaled(slopes: Any, factors: Array) -> Any:
    """Return each row of a matrix, dense or sparse, times its factor."""
    if not sparse.issparse(slopes):
        return slopes * factors[:, None]
    values = slopes.data * np.repeat(factors, np.diff(slopes.indptr))
    return sparse.csr_array((values, slopes.indices, slopes.indptr), shape=slopes.shape)
