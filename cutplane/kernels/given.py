"""Kernels that the user gives: as a matrix, or as a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.pieces.validation import Array

_TILE = 64


@dataclass(frozen=True)
class Precomputed(Kernel):
    """The kernel whose values are the entries of X itself.

    Row i of X holds k(x_i, z_j) for the examples z_j of the training set, so that X is square there.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import Precomputed
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> Precomputed()(K).tolist(), Precomputed().diagonal(K).tolist()
    ([[2.0, 1.0], [1.0, 2.0]], [2.0, 2.0])
    """

    sparse = False
    known = False

    def check_examples(self, X: Any) -> Any:
        """Return X if it is square."""
        if X.shape[0] != X.shape[1]:
            raise InvalidInputError(f"A precomputed kernel matrix must be square, got shape {X.shape}.")
        return self.check(X)

    def restrict(self, X: Any, chosen: Array) -> Array:
        """Return those rows and columns."""
        return X[np.ix_(chosen, chosen)]

    def matrix_of(self, X: Any) -> Array:
        """Return X."""
        return X

    def select(self, X: Any, chosen: Array) -> Array:
        """Return the numbers of the examples, which stand for them."""
        return np.array(chosen)

    def cross(self, Z: Any, examples: Any) -> Array:
        """Return those columns of Z."""
        return np.asarray(Z, dtype=np.float64)[:, examples]

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return the entries: A itself."""
        return np.array(A, dtype=np.float64)

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return the diagonal of A."""
        return A.diagonal().copy()


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """The kernel that a function gives.

    Parameters
    ----------
    function : callable
        (A, B) -> the matrix of k(a_i, b_j), of shape (n, m), for matrices of shapes (n, d) and (m, d).
    features : int or tuple of int, optional
        The columns that the kernel looks at; by default all.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import FunctionKernel
    >>> FunctionKernel(lambda A, B: A @ B.T)(np.array([[1.0], [2.0]])).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    function: Callable[[Any, Any], Any]
    known = False

    @property
    def _label(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return what the function returns, as float64."""
        out = np.array(self.function(A, B), dtype=np.float64)
        if out.shape != (A.shape[0], B.shape[0]):
            raise InvalidInputError(
                f"The kernel {self.name!r} must return a matrix of shape {(A.shape[0], B.shape[0])} for so "
                f"many rows, got shape {out.shape}."
            )
        return out

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return the diagonals of small blocks."""
        parts = [A[start : start + _TILE] for start in range(0, A.shape[0], _TILE)]
        return np.concatenate([self.evaluate(part, part).diagonal() for part in parts])


def as_kernel(kernel: Any) -> Kernel:
    """Return a kernel, "precomputed" or a function as a kernel, or raise `InvalidInputError`."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str) and kernel == "precomputed":
        return Precomputed()
    if callable(kernel) and not isinstance(kernel, type):
        return FunctionKernel(kernel)
    hint = f"; did you mean {kernel.__name__}(...)?" if isinstance(kernel, type) else ""
    raise InvalidInputError(
        'kernel must be a kernel such as cutplane.kernels.Gaussian(1.0), "precomputed", or a function of two '
        f"matrices, got {kernel!r}{hint}."
    )
