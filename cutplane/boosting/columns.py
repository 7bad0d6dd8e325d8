"""One column of whatever matrix a hypothesis is asked about."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array


def column(X: Any, j: int) -> Array:
    """Return column j of X, shape (m,), as a view if X is an ndarray.

    Raises
    ------
    InvalidInputError
        If X is not a matrix that has the column.
    """
    X = X if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[1] <= j:
        raise InvalidInputError(f"X has shape {X.shape}; a hypothesis looks at column {j}: pass all columns.")
    if not sparse.issparse(X):
        return X[:, j]
    X = X if X.format in ("csr", "csc") else X.tocsr()
    return X[:, [j]].toarray().ravel()
