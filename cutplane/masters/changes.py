"""What changed among the rows since a master last saw them, and the scale it solves them in."""

from __future__ import annotations

import math

import numpy as np

from cutplane.masters.base import HALF_SPACE, Rows
from cutplane.validation import Array

_ROUNDING = 1e-14


def survivors(known: Array, ids: Array) -> Array:
    """Return a mask over the `known` ids: those still among `ids`, where they come first, in order."""
    if known.size <= ids.size and np.array_equal(known, ids[: known.size]):
        return np.ones(known.size, dtype=bool)
    return np.isin(known, ids, assume_unique=True)


def is_finite(rows: Rows) -> bool:
    """Tell whether every entry of the rows is finite, and small enough to be summed."""
    with np.errstate(all="ignore"):
        return bool(np.isfinite(rows.slopes.sum() + rows.offsets.sum()))


def objective_scale(slopes: Array, offsets: Array, blocks: Array) -> float:
    """Return the power of two that brings the largest slope of a cut close to 1; 1 if they are all zero.

    Slopes that are lost in the rounding of the offsets count as zero.
    """
    cuts = blocks != HALF_SPACE
    largest = np.abs(slopes[cuts]).max(initial=0.0)
    if largest:
        largest = max(largest, _ROUNDING * np.abs(offsets[cuts]).max(initial=0.0))
    return math.ldexp(1.0, -math.frexp(largest)[1]) if math.isfinite(largest) else 1.0


def row_factors(slopes: Array, blocks: Array, scale: float) -> Array:
    """Return a factor per row: `scale` for cuts, for half-spaces a power of two that makes the slope about 1.

    If the objective is multiplied by `scale` and each row by its factor, x stays the same, and the
    multipliers of the rows are those of the scaled rows times ``factors / scale``.
    """
    factors = np.full(blocks.shape[0], scale)
    half_spaces = blocks == HALF_SPACE
    largest = np.abs(slopes[half_spaces]).max(axis=1, initial=0.0)
    factors[half_spaces] = np.ldexp(1.0, -np.frexp(largest)[1])
    return factors
