"""The bank of the literature: Gaussian and polynomial kernels on each single feature."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel
from cutplane.kernels.functions import Gaussian, Polynomial
from cutplane.pieces.validation import as_count, as_vector

WIDTHS = tuple(2.0**k for k in range(-3, 7))


def single_feature_kernels(
    n_features: int,
    widths: Any = WIDTHS,
    degrees: Iterable[int] = (1, 2, 3),
    also_all: bool = False,
) -> list[Kernel]:
    """Return Gaussian and polynomial kernels on each feature, feature after feature.

    The defaults are the 13 kernels a feature of the experiments with SimpleMKL and smooth MKL, for features
    of standard deviation 1.

    Parameters
    ----------
    n_features : int
        At least 1.
    widths : array_like of float, default 2^-3 to 2^6
        Widths of the Gaussian kernels; positive, maybe none.
    degrees : iterable of int, default (1, 2, 3)
        Degrees of the polynomial kernels; at least 1, maybe none.
    also_all : bool, default False
        Whether the same kernels of all features together come last.

    Raises
    ------
    InvalidInputError
        If a width or a degree is out of range, or there are neither widths nor degrees.

    References
    ----------
    A. Rakotomamonjy, F. Bach, S. Canu, Y. Grandvalet, "SimpleMKL", JMLR 9, 2008.

    Examples
    --------
    >>> from cutplane.kernels import single_feature_kernels
    >>> kernels = single_feature_kernels(30)
    >>> len(kernels), kernels[13].name, kernels[-1].name
    (390, 'gaussian(0.125) of feature 1', 'polynomial(3) of feature 29')
    """
    n_features = as_count("n_features", n_features)
    widths, degrees = as_vector("widths", widths).tolist(), list(degrees)
    if not widths and not degrees:
        raise InvalidInputError("widths and degrees are both empty; give at least one of either.")
    columns = [*range(n_features), *([None] if also_all else [])]
    return [
        kernel
        for j in columns
        for kernel in (
            *(Gaussian(width, features=j) for width in widths),
            *(Polynomial(degree, features=j) for degree in degrees),
        )
    ]
