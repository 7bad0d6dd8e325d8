"""Labels and weights of the rows of a data matrix, and sums over them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import ScalarLoss
from cutplane.losses.pieces import LAST_BITS
from cutplane.pieces.validation import Array, as_count, as_numbers, as_vector, refuse_masked


def as_labels(y: Any, m: int, count: Any, count_name: str) -> tuple[Array, int]:
    """Return the labels 0, 1, ... as an int64 vector of shape (m,), and the number of classes.

    `count` is this number, a parameter with the public name `count_name`; None means one more than the
    largest label.
    """
    remedy = "encode y as numpy.unique(y, return_inverse=True)[1]"
    refuse_masked("y", y)
    try:
        y = as_numbers("y", y, finite=False)
    except InvalidInputError as error:
        raise InvalidInputError(f"{str(error).partition(';')[0]}; {remedy}.") from error
    if y.shape != (m,):
        raise InvalidInputError(f"y must have one label per row of X, shape ({m},), got {y.shape}.")
    wrong = np.flatnonzero(~((y >= 0) & (y == np.floor(y)) & (y < 2**31)))
    if wrong.size:
        raise InvalidInputError(
            f"y must hold labels 0, 1, 2, ..., but y[{wrong[0]}] is {y[wrong[0]]}; {remedy}."
        )
    labels = y.astype(np.int64)
    largest = int(labels.max())
    if count is None:
        return labels, largest + 1
    count = as_count(count_name, count)
    if largest >= count:
        raise InvalidInputError(
            f"{count_name} is {count}, but y[{int(labels.argmax())}] is {largest}; labels start at 0, so "
            f"pass at least {count_name}={largest + 1}, or {remedy}."
        )
    return labels, count


def as_weights(sample_weight: Any, m: int, normalize: bool) -> Array:
    """Return weights >= 0 of shape (m,), by default 1 each; with `normalize` their sum is 1."""
    if sample_weight is None:
        return np.full(m, 1.0 / m if normalize else 1.0)
    weights = as_vector("sample_weight", sample_weight, m)
    if (weights < 0.0).any():
        where = int(np.argmin(weights))
        raise InvalidInputError(
            f"sample_weight[{where}] is {weights[where]:g}; every weight must be at least 0."
        )
    if not normalize:
        return weights
    total = weights.sum()
    if total == 0.0:
        raise InvalidInputError(
            "sample_weight is zero for every example; give some a weight, or pass normalize=False."
        )
    return weights / total


def split_rows(risk: Any, n_parts: int, **changes: Any) -> list[Any]:
    """Split a risk into at most `n_parts` risks of contiguous rows of nearly equal number, whose sum it is.

    `risk` is a dataclass with `X`, `y`, `sample_weight` and `normalize`. CSC data are copied.
    """
    weights = as_weights(risk.sample_weight, len(risk.y), risk.normalize)
    parts = []
    for low, high in ranges_of(len(risk.y), n_parts):
        rows: dict[str, Any] = {"X": risk.X[low:high], "y": risk.y[low:high]}
        parts.append(replace(risk, **rows, sample_weight=weights[low:high], normalize=False, **changes))
    return parts


def ranges_of(m: int, n_parts: int) -> list[tuple[int, int]]:
    """Split range(m) into at most `n_parts` ranges of nearly equal length."""
    count = min(n_parts, m)
    return list(pairwise((np.arange(count + 1) * m // count).tolist()))


def describe(X: Any) -> str:
    """Return the shape, the layout and the number type of a data matrix, for a repr."""
    return f"{X.shape[0]} x {X.shape[1]} {X.format if sparse.issparse(X) else 'dense'} {X.dtype}"


def bias_slopes(u: Array, edges: Array) -> Array:
    """Return the sum over each block of the derivatives u of the weighted losses, one row per block.

    A sum that is below the rounding errors of its terms is set to 0. For example, the derivatives of two
    classes of equal weight cancel at the origin. A slope of 1e-17 in an unregularized bias would be harmful,
    because the minimiser of the model would then be near 1e16.
    """
    from cutplane.risks.passes import add_exactly

    sums = np.empty((edges.size - 1, *u.shape[1:]))
    add_exactly(u.reshape(len(u), -1), edges, sums.reshape(len(sums), -1))
    return sums


def weighted_conjugates(loss: ScalarLoss, u: Array, y: Array, weights: Array, edges: Array) -> Array:
    """Return the sum over each block of weights_i l*(u_i, y_i), rounded up, because it lowers a cut."""
    heights = np.multiply(weights, loss.conjugate(u, y), out=np.zeros_like(u), where=weights > 0.0)
    return np.add.reduceat(heights, edges[:-1]) + LAST_BITS * np.add.reduceat(np.abs(heights), edges[:-1])
