"""Hypotheses whose outputs are given as the columns of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.boosting.weak_learner import TIE, column
from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_signs, as_vector
from cutplane.risks.data import Data, make_data
from cutplane.risks.matrix import as_matrix


@dataclass(frozen=True)
class Column:
    """h(x) = sign * x_j.

    Parameters
    ----------
    j : int
        Index of the column.
    sign : {1, -1}, default 1

    Examples
    --------
    >>> import numpy as np
    >>> Column(1, -1).predict(np.array([[0.0, 0.5], [0.0, 1.0]])).tolist()
    [-0.5, -1.0]
    """

    j: int
    sign: int = 1

    def predict(self, X: Any) -> Array:
        """Return sign times column j of X, shape (n,)."""
        return self.sign * column(X, self.j).astype(np.float64)


@dataclass(frozen=True)
class HypothesisMatrix:
    """A weak learner whose hypotheses are the columns of X: h_j(x_i) = x_ij in [-1, 1].

    Use it for outputs that are already computed, for example opinions of experts or predictions of
    classifiers. The hypothesis with the largest edge is found exactly, by one transposed product:

        max over j of   sum_i d_i y_i x_ij,   or with `symmetric` of its absolute value.

    Parameters
    ----------
    symmetric : bool, default False
        Whether the negative of each column is also a hypothesis.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.boosting import HypothesisMatrix
    >>> X, y = np.array([[1.0, 0.5], [1.0, -1.0]]), np.array([-1.0, 1.0])
    >>> oracle = HypothesisMatrix(symmetric=True).bind(X, y)
    >>> hypothesis, margins = oracle.best(np.array([0.5, 0.5]))
    >>> hypothesis, margins.tolist()
    (Column(j=1, sign=-1), [0.5, 1.0])
    """

    symmetric: bool = False

    def bind(self, X: Any, y: Array) -> BoundMatrix:
        """Return the edge oracle for X with entries in [-1, 1]; float32 and float64 data are not copied."""
        X = as_matrix(X)
        entries = X.data[: X.indptr[-1]] if sparse.issparse(X) else X
        low, high = entries.min(initial=0.0), entries.max(initial=0.0)
        if low < -1.0 or high > 1.0:
            raise InvalidInputError(
                f"X contains {low if low < -1.0 else high}, but outputs of hypotheses must be in [-1, 1]: "
                "divide each column by its largest absolute value."
            )
        signs = as_signs("HypothesisMatrix", as_vector("y", y, X.shape[0]))
        return BoundMatrix(signs, make_data(X, np.array([0, X.shape[0]])), self.symmetric)


@dataclass(frozen=True, eq=False)
class BoundMatrix:
    """The edge oracle of a `HypothesisMatrix` on given examples."""

    y: Array
    data: Data
    symmetric: bool
    exact = True

    def best(self, d: Array) -> tuple[Column, Array]:
        """Return the column with the largest edge and its margins; ties give the first column, sign +1."""
        edges = self.data.transposed_times(as_vector("d", d, self.y.size) * self.y)
        sizes = np.abs(edges) if self.symmetric else edges
        j = int(np.argmax(sizes >= sizes.max() - TIE))
        best = Column(j, -1 if sizes[j] != edges[j] else 1)
        return best, self.y * best.predict(self.data.X)
