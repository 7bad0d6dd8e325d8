"""Layouts of the same matrix: dense and sparse, in other types and orders, with entries stored in parts."""

import numpy as np
from scipy import sparse


def in_pieces(X):
    """CSR with each entry stored in two unordered parts, and with some zeros stored."""
    rows, columns = (indices.ravel() for indices in np.indices(X.shape))
    stored = (X.ravel() != 0.0) | ((rows + columns) % 2 == 0)
    rows, columns, values = rows[stored], columns[stored], X.ravel()[stored]
    halves = np.concatenate([0.25 * values, 0.75 * values])[::-1]
    rows, columns = np.tile(rows, 2)[::-1], np.tile(columns, 2)[::-1]
    order = np.argsort(rows, kind="stable")
    indptr = np.searchsorted(rows[order], np.arange(X.shape[0] + 1))
    return sparse.csr_array((halves[order], columns[order].astype(np.int32), indptr), shape=X.shape)


DENSE = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
}
SPARSE = {
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "csr float32": lambda X: sparse.csr_matrix(X.astype(np.float32)),
    "pieces": in_pieces,
    "pieces csc": lambda X: in_pieces(X.T).T,
    "coordinates": sparse.coo_array,
}
LAYOUTS = DENSE | SPARSE
