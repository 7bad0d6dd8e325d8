"""The banks of kernels that the estimators know by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.preprocessing import StandardScaler

from cutplane.exceptions import InvalidInputError
from cutplane.kernels import Gaussian, Kernel, Linear, Polynomial, single_feature_kernels

_OCTAVES = range(-2, 3)


def default_kernels(n_features: int) -> list[Kernel]:
    """Return 8 kernels for standardised features: linear, polynomial, and Gaussian ones of five widths.

    The widths are sqrt(n_features) times powers of 2: random points are sqrt(2 n_features) from one another.
    """
    size = float(n_features) ** 0.5
    return [
        Linear(),
        *(Polynomial(degree, gamma=1.0 / n_features) for degree in (2, 3)),
        *(Gaussian(size * 2.0**octave) for octave in _OCTAVES),
    ]


BANKS = {"default": default_kernels, "single-feature": single_feature_kernels}


def as_kernels(kernels: Any, n_features: int) -> Sequence[Kernel]:
    """Return the kernels that a name stands for, or those given."""
    if isinstance(kernels, Kernel):
        return [kernels]
    if isinstance(kernels, str) and kernels in BANKS:
        return BANKS[kernels](n_features)
    if isinstance(kernels, list | tuple) and all(isinstance(kernel, Kernel) for kernel in kernels):
        return kernels
    raise InvalidInputError(
        f"kernels must be one of {sorted(BANKS)} or a list of kernels such as cutplane.kernels.Linear(), got "
        f"{kernels!r}. Matrices are for cutplane.mkl.MKL."
    )


def as_scaler(kernels: Any, is_sparse: bool) -> Any:
    """Return what standardises the features for the banks with a name; None for given kernels.

    Sparse data are scaled, not centred.
    """
    return StandardScaler(with_mean=not is_sparse) if isinstance(kernels, str) else None
