"""A function of a kernel's space, for predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.kernels.base import Kernel
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import as_matrix
from cutplane.runtime.threads import run_chunks

_BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class KernelFunction:
    """z -> sum_j coefficients_j k(x_j, z) + intercept.

    Attributes
    ----------
    kernel : Kernel
    examples : object
        Those x_j with a coefficient, as `Kernel.select` returns them.
    coefficients : ndarray of shape (n_support,) or (n_support, k)
        Of one function, or of k.
    intercept : float or ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import KernelFunction, Linear
    >>> f = KernelFunction(Linear(), np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([1.0, 0.5]), 3.0)
    >>> f.decision_function(np.array([[5.0, 7.0]])).tolist()
    [15.0]
    """

    kernel: Kernel
    examples: Any
    coefficients: Array
    intercept: Any = 0.0

    def decision_function(self, Z: Any) -> Array:
        """Return the values at the rows of Z, shape (n,) or (n, k)."""
        Z = as_matrix(Z, "Z")
        Z = Z.tocsr() if not isinstance(Z, np.ndarray) else Z
        out = np.zeros((Z.shape[0], *self.coefficients.shape[1:])) + self.intercept
        if self.coefficients.size == 0:
            return out
        height = max(1, _BLOCK // len(self.coefficients))

        def part(start: int) -> None:
            rows = slice(start, start + height)
            out[rows] += self.kernel.cross(Z[rows], self.examples) @ self.coefficients

        run_chunks(part, range(0, Z.shape[0], height))
        return out
