"""Passes over a data matrix X of any layout: X v, X'u, and parts of X'u, on several threads.

All is accumulated in float64 and nothing is copied: float32 data are converted number by number, in
registers, so that a pass is as accurate as one over float64 data and moves half as much memory.
"""

from __future__ import annotations

from typing import Any

from scipy import sparse

from cutplane.pieces.validation import Array
from cutplane.risks.dense_data import DenseData
from cutplane.risks.matrix import as_matrix
from cutplane.risks.sparse_data import SparseData
from cutplane.risks.vectors import Data

__all__ = ["Data", "DenseData", "SparseData", "as_matrix", "make_data"]


def make_data(X: Any, edges: Array) -> Data:
    """Return the passes over a matrix that `as_matrix` has checked.

    Parameters
    ----------
    X : ndarray, CSR or CSC of shape (m, n)
    edges : ndarray of int of shape (n_blocks + 1,)
        Increasing from 0 to m: the rows edges[k] <= i < edges[k + 1] form block k.

    Examples
    --------
    >>> import numpy as np
    >>> data = make_data(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 2]))
    >>> data.times(np.array([1.0, 1.0])).tolist(), data.transposed_times(np.array([1.0, 0.0])).tolist()
    ([3.0, 7.0], [1.0, 2.0])
    """
    return (SparseData if sparse.issparse(X) else DenseData)(X, edges)
