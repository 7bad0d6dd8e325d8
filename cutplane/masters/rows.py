"""Rows of masters: sides of linear forms, changes since the last solve, scaled copies and products."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from cutplane.masters.base import HALF_SPACE, Rows
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import row_sizes

_ROUNDING = 1e-14
"""Least unit of slopes relative to the offsets, because smaller slopes are below the rounding errors of
offsets."""
_LONG = 1000
"""Columns above which only the nonzero ones are gathered, because gathering is not faster for fewer."""
_SPARSE = 8
"""Ratio of all columns to gathered ones above which gathering is faster, because gathering a column takes
about as long as reading eight in order."""


class Sides(NamedTuple):
    """A linear form as A u <= b: first equations, then negated lower sides (`signs` -1), then upper sides.

    `rows` is the row of the form for each side; the number of rows plus j stands for a bound of u_j.
    """

    A: sparse.csr_array
    b: Array
    n_equations: int
    rows: Array
    signs: Array

    def multipliers(self, held: Array, count: int) -> Array:
        """Return the multipliers of the rows, positive at lower sides, from the multipliers of all sides."""
        return np.bincount(self.rows, -self.signs * held, self.b.size + count)[:count]


def sides_of(form: LinearForm, bounds: bool) -> Sides:
    """Return the finite sides of the rows of a linear form, and of its bounds."""
    rows, lower, upper = form.rows, form.row_lower, form.row_upper
    if bounds:
        n, lower, upper = form.n_columns, np.append(lower, form.lower), np.append(upper, form.upper)
        data, indices = np.append(rows.data, np.ones(n)), np.append(rows.indices, np.arange(n))
        starts = np.append(rows.indptr, rows.indptr[-1] + np.arange(1, n + 1))
        rows = sparse.csr_array((data, indices, starts), shape=(lower.size, n))
    equal = np.flatnonzero(lower == upper)
    below, above = (np.flatnonzero(np.isfinite(side) & (lower != upper)) for side in (lower, upper))
    signs = np.repeat([1.0, -1.0, 1.0], [equal.size, below.size, above.size])
    order = np.concatenate([equal, below, above])
    b = signs * np.concatenate([upper[equal], lower[below], upper[above]])
    return Sides(scaled(rows[order], signs), b, equal.size, order, signs)


def survivors(known: Array, ids: Array) -> Array:
    """Return a mask of the `known` ids that still exist; `ids` starts with these."""
    if known.size <= ids.size and np.array_equal(known, ids[: known.size]):
        return np.ones(known.size, dtype=bool)
    return np.isin(known, ids, assume_unique=True)


class RowCopies:
    """Copies of the rows of a pool, after fixed rows with negative ids.

    Only new rows are copied; `stated`, if given, transforms their slopes and offsets.
    """

    def __init__(self, slopes: Array, offsets: Array, blocks: Array, stated: Any = None):
        self.count = self._total = offsets.size
        self._stated = stated
        self._arrays = [slopes, offsets, blocks, np.arange(self.count) - self.count]

    def of(self, rows: Rows) -> Rows:
        """Return the fixed rows, then the copies of the pool's rows."""
        own, ids = self.count, rows.ids
        mine = self._arrays[3][own : self._total]
        known = mine.size
        if known and (ids.size < known or ids[known - 1] != mine[-1]):
            kept = np.flatnonzero(survivors(mine, ids))
            known = kept.size
            for array in self._arrays:
                array[own : own + known] = array[own + kept]
        self._total = total = own + ids.size
        if total > self._arrays[3].shape[0]:
            self._arrays = [grown(array, capacity_for(total)) for array in self._arrays]
        if known < ids.size:
            slopes, offsets, blocks = rows.slopes[known:], rows.offsets[known:], rows.blocks[known:]
            if self._stated is not None:
                slopes, offsets = self._stated(slopes, offsets, blocks)
            for array, part in zip(self._arrays, (slopes, offsets, blocks, ids[known:]), strict=True):
                array[own + known : total] = part
        slopes, offsets, blocks, ids = (array[:total] for array in self._arrays)
        return cast(Rows, SimpleNamespace(slopes=slopes, offsets=offsets, blocks=blocks, ids=ids))


def capacity_for(count: int) -> int:
    """Return the smallest power of two, at least `count`."""
    return max(16, 1 << (count - 1).bit_length())


def grown(array: Array, capacity: int, square: bool = False) -> Array:
    """Return an array of zeros with `capacity` rows (and columns, if square) that starts with `array`."""
    shape = (capacity, capacity) if square else (capacity, *array.shape[1:])
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(size) for size in array.shape)] = array
    return larger


def is_finite(rows: Rows) -> bool:
    """Tell whether every entry of the rows is finite, and small enough for their sum."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(rows.slopes.sum() + rows.offsets.sum()))


def objective_scale(slopes: Any, offsets: Array, blocks: Array) -> float:
    """Return the power of two that scales the largest slope of a cut to about 1; 1 if all are zero.

    Slopes below the rounding errors of the offsets count as zero.
    """
    cuts = blocks != HALF_SPACE
    largest = row_sizes(slopes[cuts]).max(initial=0.0)
    if largest:
        largest = max(largest, _ROUNDING * np.abs(offsets[cuts]).max(initial=0.0))
    return math.ldexp(1.0, -math.frexp(largest)[1]) if math.isfinite(largest) else 1.0


def row_factors(slopes: Any, blocks: Array, scale: float) -> Array:
    """Return a factor per row: `scale` for cuts, and a power of two that scales a half-space's slope to 1.

    If the objective is multiplied by `scale` and each row by its factor, x stays the same, and the
    multipliers of the rows are ``factors / scale`` times the multipliers of the scaled rows.
    """
    factors = np.full(blocks.shape[0], scale)
    half_spaces = blocks == HALF_SPACE
    factors[half_spaces] = np.ldexp(1.0, -np.frexp(row_sizes(slopes[half_spaces]))[1])
    return factors


def products(slopes: Any, x: Array) -> Array:
    """Return the product of each row with x; if x is sparse, only the necessary columns are read."""
    if x.size >= _LONG and _SPARSE * np.count_nonzero(x) <= x.size and not sparse.issparse(slopes):
        where = np.flatnonzero(x)
        return slopes[:, where] @ x[where]
    return slopes @ x


def sizes_at(slopes: Any, x: Array) -> Array:
    """Return the size of the terms of the product of each row with x."""
    return abs(slopes) @ np.abs(x)


def scaled(slopes: Any, factors: Array) -> Any:
    """Return each row of a matrix, dense or sparse, times its factor."""
    if not sparse.issparse(slopes):
        return slopes * factors[:, None]
    values = slopes.data * np.repeat(factors, np.diff(slopes.indptr))
    return sparse.csr_array((values, slopes.indices, slopes.indptr), shape=slopes.shape)
