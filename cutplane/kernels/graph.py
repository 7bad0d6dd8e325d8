"""Kernels deformed by a graph on the examples, for functions that vary slowly along its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import csgraph

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import as_matrix
from cutplane.pieces.validation import Array, as_numbers, as_scalar


def laplacian(weights: Any, normalized: bool = True) -> sparse.csr_array:
    """Return the Laplacian of a graph: f'Lf is the sum over its edges of w_kl (f_k - f_l)^2.

    Parameters
    ----------
    weights : sparse matrix or array_like of shape (n, n)
        Weights of the edges, at least 0; an edge given in one direction counts in both.
    normalized : bool, default True
        Whether each f_k is first divided by the square root of the degree of k.

    Raises
    ------
    InvalidInputError
        If the matrix is not square, or an entry is negative or not finite.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.kernels.laplacian(np.array([[0.0, 2.0], [0.0, 0.0]]), normalized=False).toarray().tolist()
    [[2.0, -2.0], [-2.0, 2.0]]
    """
    W: Any = sparse.csr_array(as_matrix("weights", weights))
    if W.shape[0] != W.shape[1] or not W.shape[0]:
        raise InvalidInputError(f"The weights of a graph must be a square matrix, got shape {W.shape}.")
    if (W.data < 0.0).any():
        raise InvalidInputError(f"The weights of a graph must be at least 0, got {W.data.min():g}.")
    return sparse.csr_array(csgraph.laplacian(W.maximum(W.T), normed=normalized))


def deformed(K: Array, L: Any, weight: float, labelled: Array) -> tuple[Array, Array]:
    """Return the kernel matrix of the labelled examples under the norm ||f||^2 + weight f'Lf [1]_.

        minimise  lam/2 (||f||^2 + weight f'Lf) + sum over labelled i of c_i l(f(x_i) + b, y_i),

    where f'Lf uses the values of the function f at all n examples. This problem is the kernel machine with
    the returned matrix on the labelled examples alone. Any method for kernel machines can therefore solve and
    certify it.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        The kernel matrix of all examples.
    L : sparse matrix or ndarray of shape (n, n)
        Symmetric and positive semidefinite, such as a `laplacian`.
    weight : float
        At least 0.
    labelled : ndarray of shape (l,)
        The indices of the labelled examples.

    Returns
    -------
    matrix : ndarray of shape (l, l)
    back : ndarray of shape (n, l)
        If a are the coefficients of the machine, ``back @ a`` are the coefficients of all k(x_j, .).

    Raises
    ------
    InvalidInputError
        If the weight is negative, or a shape does not fit.

    References
    ----------
    .. [1] V. Sindhwani, P. Niyogi, M. Belkin, "Beyond the point cloud: from transductive to semi-supervised
       learning", ICML 2005, doi:10.1145/1102351.1102455.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> K, L = np.eye(2), cut.kernels.laplacian(np.array([[0.0, 1.0], [1.0, 0.0]]))
    >>> matrix, back = cut.kernels.deformed(K, L, 1.0, np.array([0]))
    >>> matrix.round(4).tolist(), back.round(4).tolist()        # the neighbour gets a third
    ([[0.6667]], [[0.6667], [0.3333]])
    """
    weight = as_scalar("weight", weight, low=0.0)
    K = as_numbers("K", K)
    L = as_matrix("L", L)
    n = K.shape[0] if K.ndim else 0
    if K.shape != (n, n) or not n:
        raise InvalidInputError(f"K must be a square matrix, got shape {K.shape}.")
    if L.shape != (n, n):
        raise InvalidInputError(f"L must have the shape of K, {K.shape}, got {L.shape}.")
    system = weight * np.asarray(L @ K)
    np.einsum("ii->i", system)[...] += 1.0
    unit = np.zeros((n, labelled.size))
    unit[labelled, np.arange(labelled.size)] = 1.0
    back = linalg.solve(system, unit, overwrite_a=True, overwrite_b=True, check_finite=False)
    matrix = K[labelled] @ back
    return 0.5 * (matrix + matrix.T), back
