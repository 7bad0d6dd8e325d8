"""Norms of the singular values of a matrix, whose entries a vector holds row after row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import set_fields, short_repr
from cutplane.pieces.validation import Array, as_count
from cutplane.regularizers.base import check_lam
from cutplane.regularizers.norm import Norm


@dataclass(frozen=True, eq=False)
class _MatrixNorm(Norm):
    shape: tuple[int, int]
    lam: float = 1.0

    __repr__ = short_repr

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not isinstance(self.shape, Sequence) or len(self.shape) != 2:
            raise InvalidInputError(f"{name}.shape must be (rows, columns), got {self.shape!r}.")
        shape = tuple(as_count(f"{name}.shape", side) for side in self.shape)
        set_fields(self, shape=shape, lam=check_lam(self.lam))

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of entries."""
        return math.prod(self.shape)

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if the matrix does not have `dim` entries."""
        if self.dim != dim:
            raise InvalidInputError(
                f"{self!r} is of {self.dim} entries, but the problem has dimension {dim}."
            )

    def _svd(self, x: Array) -> tuple[Array, Array, Array]:
        return np.linalg.svd(x.reshape(self.shape), full_matrices=False)

    def _sizes(self, x: Array) -> Array:
        return np.linalg.svd(x.reshape(self.shape), compute_uv=False)

    def _matrix(self, x: Any) -> Any:
        import cvxpy as cp

        return cp.reshape(x, self.shape, order="C")


@dataclass(frozen=True, eq=False)
class NuclearNorm(_MatrixNorm):
    """g(x) = lam times the sum of the singular values of the matrix X of the entries x, row after row.

    It favours matrices of low rank.

    Parameters
    ----------
    shape : tuple of int
        Of X: ``X = x.reshape(shape)``, row-major, as everywhere but in pieces of cvxpy's own.
    lam : float, default 1.0
        Nonnegative and finite.

    Raises
    ------
    InvalidInputError
        If `shape` is not a pair of positive integers.

    References
    ----------
    Fazel, Hindi and Boyd, A rank minimization heuristic with application to minimum order system
    approximation, ACC 2001, doi:10.1109/ACC.2001.945730.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.NuclearNorm((2, 3), lam=0.5).value(np.array([3.0, 0.0, 0.0, 0.0, 0.0, -1.0]))
    2.0
    """

    __repr__ = short_repr

    def norm(self, x: Array) -> float:
        """Return the sum of the singular values."""
        return float(self._sizes(x).sum())

    def norm_slope(self, x: Array) -> Array:
        """Return U V' of the singular vectors."""
        left, _, right = self._svd(x)
        return (left @ right).ravel()

    def dual_norm(self, v: Array) -> tuple[float, Array]:
        """Return the largest singular value and u v' of its vectors."""
        left, sizes, right = self._svd(v)
        return float(sizes[0]), np.outer(left[:, 0], right[0]).ravel()

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as a nuclear norm."""
        import cvxpy as cp

        return self.lam * cp.normNuc(self._matrix(x))


@dataclass(frozen=True, eq=False)
class SpectralNorm(_MatrixNorm):
    """g(x) = lam times the largest singular value of the matrix X of the entries x, row after row.

    Parameters
    ----------
    shape : tuple of int
        Of X: ``X = x.reshape(shape)``, row-major, as everywhere but in pieces of cvxpy's own.
    lam : float, default 1.0
        Nonnegative and finite.

    Raises
    ------
    InvalidInputError
        If `shape` is not a pair of positive integers.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.SpectralNorm((2, 3), lam=0.5).value(np.array([3.0, 0.0, 0.0, 0.0, 0.0, -1.0]))
    1.5
    """

    __repr__ = short_repr

    def norm(self, x: Array) -> float:
        """Return the largest singular value."""
        return float(self._sizes(x)[0])

    def norm_slope(self, x: Array) -> Array:
        """Return u v' of the vectors of the largest singular value."""
        left, _, right = self._svd(x)
        return np.outer(left[:, 0], right[0]).ravel()

    def dual_norm(self, v: Array) -> tuple[float, Array]:
        """Return the sum of the singular values and U V' of their vectors."""
        left, sizes, right = self._svd(v)
        return float(sizes.sum()), (left @ right).ravel()

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as a largest singular value."""
        import cvxpy as cp

        return self.lam * cp.sigma_max(self._matrix(x))
