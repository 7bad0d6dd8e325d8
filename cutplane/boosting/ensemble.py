"""Convex combinations of hypotheses, and the columns of data that these look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array


@dataclass(frozen=True, eq=False)
class Ensemble:
    """x -> sum_k weights_k h_k(x), the hypotheses of weight zero left out.

    Attributes
    ----------
    hypotheses : tuple
        Objects with ``predict(X)``, ndarray of shape (n,) of values in [-1, 1].
    weights : ndarray of shape (K,)
        Positive; they sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.boosting import Ensemble, Stump
    >>> ensemble = Ensemble((Stump(0, 1.0, 1), Stump(0, 2.0, 1)), np.array([0.75, 0.25]))
    >>> ensemble.decision_function(np.array([[0.0], [1.5], [3.0]])).tolist()
    [-1.0, 0.5, 1.0]
    """

    hypotheses: tuple[Any, ...]
    weights: Array

    @staticmethod
    def of(hypotheses: Sequence[Any], weights: Array) -> Ensemble:
        """Return the ensemble of those with a positive weight, scaled to sum 1."""
        used = np.flatnonzero(weights > 0.0).tolist()
        return Ensemble(tuple(hypotheses[k] for k in used), weights[used] / weights[used].sum())

    def __len__(self) -> int:
        return len(self.hypotheses)

    def __repr__(self) -> str:
        return f"Ensemble({len(self)} hypotheses)"

    def decision_function(self, X: Any) -> Array:
        """Return the weighted mean of the hypotheses, shape (n,), in [-1, 1]."""
        X = as_columns(X)
        total = np.zeros(X.shape[0])
        for hypothesis, weight in zip(self.hypotheses, self.weights, strict=True):
            total += weight * hypothesis.predict(X)
        return total

    def predict(self, X: Any) -> Array:
        """Return the signs of `decision_function`, shape (n,); 0 counts as +1."""
        return np.where(self.decision_function(X) >= 0.0, 1.0, -1.0)


def as_columns(X: Any) -> Any:
    """Return X as an ndarray or a CSC matrix, in which a column is found without a pass over all entries."""
    return X.tocsc() if sparse.issparse(X) else np.asarray(X)


def column(X: Any, j: int) -> Array:
    """Return column j of X, shape (m,), as a view if X is an ndarray."""
    X = X if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] <= j:
        raise InvalidInputError(f"X has shape {X.shape}; a hypothesis looks at column {j}: pass all columns.")
    if not sparse.issparse(X):
        return X[:, j]
    X = X if X.format in ("csr", "csc") else X.tocsr()
    return X[:, [j]].toarray().ravel()
