"""From the parameters of the kernel estimators to kernels, and to features of low rank."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import linalg, sparse

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.kernels.chi_square import ChiSquare
from cutplane.kernels.functions import Cosine, Gaussian, Laplacian, Linear, Polynomial
from cutplane.kernels.given import as_kernel
from cutplane.pieces.validation import Array, as_count, as_positive

WITH_GAMMA = "rbf", "poly", "laplacian", "chi2"
NAMES = *WITH_GAMMA, "linear", "cosine", "precomputed"


def number_of(gamma: Any, X: Any) -> float:
    """Return gamma as a number: "scale" is 1 / (d var X), "auto" is 1 / d, for d columns."""
    if isinstance(gamma, str):
        if gamma not in ("scale", "auto"):
            raise InvalidInputError(f'gamma must be "scale", "auto" or a number > 0, got {gamma!r}.')
        if gamma == "auto":
            return 1.0 / X.shape[1]
        if sparse.issparse(X):
            variance = float(X.multiply(X).mean() - X.mean() ** 2)
        else:
            variance = float(X.var())
        return 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0
    return as_positive("gamma", gamma)


def make_kernel(kernel: Any, X: Any, gamma: Any, degree: Any, coef0: Any) -> Kernel:
    """Return a kernel by its name, or the given one."""
    if not isinstance(kernel, str) or kernel == "precomputed":
        return as_kernel(kernel)
    if kernel not in NAMES:
        raise InvalidInputError(
            f"kernel must be one of {list(NAMES)}, a kernel such as cutplane.kernels.Gaussian(1.0), or a "
            f"function of two matrices, got {kernel!r}."
        )
    if kernel == "linear":
        return Linear()
    if kernel == "cosine":
        return Cosine()
    number = number_of(gamma, X)
    if kernel == "rbf":
        return Gaussian(math.sqrt(0.5 / number))
    if kernel == "poly":
        return Polynomial(degree, coef0, number)
    return Laplacian(1.0 / number) if kernel == "laplacian" else ChiSquare(number)


def basis_of(kernel: Kernel, X: Any, n_basis: Any, seed: Any) -> tuple[Array, Array, Array]:
    """Return a random basis, the Nystroem features of all examples, and the map to coefficients.

    With the block K_bb = U S U' of the basis, the features are K_mb U S^-1/2; weights w of these are the
    coefficients U S^-1/2 w of the basis.
    """
    from sklearn.utils import check_random_state

    count = min(as_count("n_basis", n_basis), X.shape[0])
    chosen = np.sort(check_random_state(seed).permutation(X.shape[0])[:count])
    columns = kernel.cross(X, kernel.select(X, chosen))
    block = columns[chosen]
    values, vectors = linalg.eigh(0.5 * (block + block.T))
    kept = values > count * np.finfo(np.float64).eps * values[-1]
    if values[-1] <= 0.0 or values[0] < -1e-6 * values[-1]:
        raise InvalidInputError(
            f"The kernel {kernel.name!r} is not positive semidefinite: a matrix of {count} examples has the "
            f"eigenvalue {values[0]:.3g}, and the largest is {values[-1]:.3g}."
        )
    back = vectors[:, kept] / np.sqrt(values[kept])
    return chosen, columns @ back, back
