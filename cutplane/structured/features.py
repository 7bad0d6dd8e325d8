"""Joint features as a user gives them: dense vectors, sparse rows, or pairs of indices and values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.exceptions import OracleError
from cutplane.pieces.validation import Array


class Factors(NamedTuple):
    """A vector by some of its entries: indices, which may repeat, and what to add there."""

    indices: Array
    values: Array

    def dot(self, w: Array) -> float:
        """Return the inner product with w."""
        return float(self.values @ w[self.indices])

    def add_to(self, out: Array, factor: float) -> None:
        """Add a multiple to a dense vector."""
        np.add.at(out, self.indices, factor * self.values)

    def minus(self, other: Factors) -> Factors:
        """Return the difference, each index once."""
        indices, where = np.unique(np.concatenate([self.indices, other.indices]), return_inverse=True)
        return Factors(indices, np.bincount(where, np.concatenate([self.values, -other.values])))

    def times(self, factor: float) -> Factors:
        """Return a multiple."""
        return Factors(self.indices, factor * self.values)


def dimension_of(feature: Any) -> int | None:
    """Return the number of coordinates of a joint feature; None if it is a pair of indices and values."""
    if sparse.issparse(feature):
        return int(feature.shape[-1])
    return None if isinstance(feature, tuple) else int(np.size(feature))


def as_factors(feature: Any, dim: int) -> Factors:
    """Return what `joint_feature` returned by its entries, or raise `OracleError`."""
    try:
        if sparse.issparse(feature):
            entries = feature.tocoo()
            indices, values = entries.coords[-1], entries.data
            fits = feature.shape[-1] == dim and feature.size <= np.size(values) + dim
            fits &= len(feature.shape) == 1 or feature.shape[0] == 1
        elif isinstance(feature, tuple):
            indices, values = np.asarray(feature[0]), np.asarray(feature[1])
            fits = len(feature) == 2 and indices.shape == values.shape and indices.ndim == 1
            fits &= indices.dtype.kind in "iu" or indices.size == 0
        else:
            dense = np.asarray(feature, dtype=np.float64).ravel()
            fits, indices = dense.size == dim, np.flatnonzero(dense)
            values = dense[indices] if fits else dense
        values = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, IndexError) as error:
        raise OracleError(f"joint_feature must return numbers, got {feature!r}: {error}.") from error
    if not fits:
        raise OracleError(
            f"joint_feature must return a vector of {dim} numbers, a sparse row of that length, or a pair "
            f"(indices, values) of equal length, got {_describe(feature)}."
        )
    indices = np.array(indices, dtype=np.int64)
    if indices.size and not (0 <= indices.min() and indices.max() < dim):
        raise OracleError(f"joint_feature returned the index {indices.max()}; indices are below {dim}.")
    if not np.isfinite(values).all():
        raise OracleError("joint_feature returned an entry that is not finite.")
    return Factors(indices, values)


def _describe(feature: Any) -> str:
    shape = getattr(feature, "shape", None)
    return f"{feature!r}" if shape is None else f"shape {shape}"
