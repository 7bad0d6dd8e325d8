"""Examples in Dask collections: their classes, their moments, and the risks of their blocks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cutplane.distributed.risk import DistributedRisk
from cutplane.distributed.sources import blocks, distribute
from cutplane.estimators.formulation import Loss, is_joint
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array
from cutplane.risks.linear import LinearRisk
from cutplane.risks.multiclass import MulticlassRisk
from cutplane.runtime.extras import require_extra

Encoder = Callable[[Array, "Array | None"], "tuple[Array, Array | None]"]
"""A map from the targets and weights of the examples of a block to the targets and weights of a problem."""


def is_collection(X: Any) -> bool:
    """Return whether the examples are a Dask collection."""
    return callable(getattr(X, "__dask_graph__", None))


class RemoteExamples:
    """Examples in Dask arrays, dataframes or series, which stay on the workers."""

    def __init__(self, X: Any, y: Any, sample_weight: Any):
        dask = require_extra("distributed", "distributed")
        given = [X, y] if sample_weight is None else [X, y, sample_weight]
        if not all(is_collection(each) for each in given):
            raise InvalidInputError(
                "X is a Dask collection, so y and sample_weight must also be Dask collections."
            )
        try:
            self.client = dask.get_client()
        except ValueError as error:
            raise InvalidInputError(
                "X is a Dask collection, but there is no Dask client; create a distributed.Client first."
            ) from error
        self.names = np.asarray(X.columns, dtype=object) if hasattr(X, "columns") else None
        self._data = given
        dims = [each.ndim for each in self._data]
        if dims != [2, 1, 1][: len(dims)]:
            raise InvalidInputError(
                f"X must be a matrix, y and sample_weight vectors, got dimensions {dims}."
            )
        self.n_features = int(self._data[0].shape[1])

    def classes(self) -> tuple[Array, Array]:
        """Return the distinct targets and the total weight of each."""
        labels, totals = zip(*self._of_targets(_tally), strict=True)
        found, where = np.unique(np.concatenate(labels), return_inverse=True)
        return found, np.bincount(where, np.concatenate(totals))

    def moments(self) -> tuple[float, float, float]:
        """Return the total weight, the mean and the standard deviation of the targets."""
        total, first, second = np.sum(self._of_targets(_moments), axis=0).tolist()
        if total <= 0.0:
            raise InvalidInputError("sample_weight is zero for every example; pass some positive weights.")
        mean = first / total
        return total, mean, float(np.sqrt(max(0.0, second / total - mean * mean)))

    def risks(
        self, encoders: list[Encoder], loss: Loss, total: float, intercept: bool, n_scores: int
    ) -> list[DistributedRisk]:
        """Return the mean loss of each problem."""
        if len(encoders) > 1:  # the problems share the blocks
            self._data = self.client.persist(self._data)
        return [
            distribute(
                self.client,
                blocks(partial(_risk, encode, loss, intercept, n_scores), *self._data),
                weights=1.0 / total,
            )
            for encode in encoders
        ]

    def _of_targets(self, summary: Callable[..., Any]) -> list[Any]:
        tasks = [block.made for block in blocks(summary, *self._data[1:])]
        found: Any = self.client.gather(self.client.compute(tasks))
        return [each for each in found if each is not None]


def as_given(y: Array, weights: Array | None) -> tuple[Array, Array | None]:
    """Return the targets and weights unchanged, as the encoder of regression."""
    return y, weights


def by_class(
    classes: Array, targets: Array, factors: Array, y: Array, weights: Array | None
) -> tuple[Array, Array]:
    """Return the targets of the classes of the examples, and their weights times the factors."""
    labels = np.searchsorted(classes, y)
    return targets[labels], factors[labels] * (1.0 if weights is None else weights)


def _risk(
    encode: Encoder, loss: Any, intercept: bool, n_scores: int, X: Any, y: Array, weights: Array | None = None
) -> LinearRisk | MulticlassRisk:
    X, (target, weights) = _as_arrays(X)[0], encode(*_as_arrays(y, weights))
    if is_joint(loss):
        return MulticlassRisk(X, target, loss, n_scores, weights, normalize=False, intercept=intercept)
    return LinearRisk(X, target, loss, weights, normalize=False, intercept=intercept)


def _tally(y: Array, weights: Array | None = None) -> tuple[Array, Array]:
    y, weights = _as_arrays(y, weights)
    classes, labels = np.unique(y, return_inverse=True)
    return classes, np.bincount(labels, weights).astype(np.float64)


def _moments(y: Array, weights: Array | None = None) -> Array:
    y, weights = _as_arrays(y, weights)
    weights = np.ones(len(y)) if weights is None else weights
    return np.array([weights.sum(), weights @ y, weights @ np.square(y)])


def _as_arrays(*parts: Any) -> list[Any]:
    """Return blocks of dataframes as arrays, and blocks of arrays unchanged."""
    return [part.to_numpy() if hasattr(part, "to_numpy") else part for part in parts]
