"""The exponential chi-square kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.kernels.features import select_columns
from cutplane.pieces.validation import Array


@dataclass(frozen=True)
class ChiSquare(Kernel):
    """k(x, z) = exp(-gamma sum_j (x_j - z_j)^2 / (x_j + z_j)), for data without negative entries.

    Where x_j = z_j = 0 the term is 0. It is the exponential of minus a distance of histograms [1]_.

    Parameters
    ----------
    gamma : float, default 1.0
        Positive.
    features : int or tuple of int, optional
        The columns that the kernel looks at; by default all.

    Raises
    ------
    InvalidInputError
        If an entry of the data is negative.

    References
    ----------
    .. [1] J. Zhang, M. Marszalek, S. Lazebnik, C. Schmid, "Local features and kernels for classification of
       texture and object categories", IJCV 73, 2007, doi:10.1007/s11263-006-9794-4.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import ChiSquare
    >>> ChiSquare(0.5)(np.array([[1.0, 0.0], [3.0, 0.0]])).round(4).tolist()
    [[1.0, 0.6065], [0.6065, 1.0]]
    """

    gamma: float = 1.0
    sparse = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_positive("gamma", self.gamma)

    @property
    def _label(self) -> str:
        return f"chi-square({self.gamma:g})"

    def check(self, X: Any, name: str = "X") -> Any:
        """Return X if the kernel can be evaluated there, or raise `InvalidInputError`."""
        A = select_columns(super().check(X, name), self.features)
        if A.min() < 0.0:
            i, j = np.unravel_index(int(A.argmin()), A.shape)
            raise InvalidInputError(
                f"The kernel {self.name!r} takes data without negative entries, but row {i} of {name} "
                f"has {A[i, j]:g}; "
                "pass counts or shares, such as histograms, or take Gaussian."
            )
        return X

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return the kernel's values."""
        return self.scaled(self.measure(A, B))

    def measure(self, A: Any, B: Any) -> Array:
        """Return the distances."""
        from cutplane.kernels.histogram_passes import chi_square_distances

        out = np.empty((A.shape[0], B.shape[0]))
        chi_square_distances(A, B, out)
        return out

    def scaled(self, measured: Array) -> Array:
        """Return the exponentials of distances."""
        measured *= -self.gamma
        return np.exp(measured, out=measured)

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return ones."""
        return np.ones(A.shape[0])
