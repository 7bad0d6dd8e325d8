"""The usual kernels, and a bank of them for each feature."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel, ProductForm
from cutplane.kernels.distances import (
    manhattan_distances,
    products,
    squared_distances,
    squared_norms,
    unit_rows,
)
from cutplane.kernels.features import count_monomials, monomials
from cutplane.pieces.validation import Array, as_count, as_nonnegative, as_numbers

_FAR = 1e4
"""Half of the squared distance from the centre, in widths, up to which exponents lose four digits at most."""
WIDTHS = tuple(2.0**k for k in range(-3, 7))


def _dense(A: Any) -> Array:
    return A.toarray() if sparse.issparse(A) else A


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, z) = <x, z>.

    Parameters
    ----------
    features : int or tuple of int, optional
        The columns that the kernel looks at; by default all.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import Linear
    >>> Linear(features=1)(np.array([[7.0, 1.0], [8.0, 2.0]])).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    smooth = True

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return the inner products."""
        return products(A, B)

    def products(self, A: Any, B: Any) -> ProductForm:
        """Return the rows themselves."""
        return ProductForm(A, B, lambda out: out)

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return the squared norms."""
        return squared_norms(A)

    def factor_columns(self, n_columns: int) -> int:
        """Return the number of columns."""
        return n_columns

    def evaluate_factor(self, A: Any) -> Array:
        """Return the columns themselves."""
        return _dense(A)


@dataclass(frozen=True)
class Polynomial(Kernel):
    """k(x, z) = (gamma <x, z> + coef0)^degree.

    Parameters
    ----------
    degree : int
        At least 1.
    coef0 : float, default 1.0
        Nonnegative.
    gamma : float, default 1.0
        Positive.
    features : int or tuple of int, optional
        The columns that the kernel looks at; by default all.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import Polynomial
    >>> kernel = Polynomial(2, features=0)
    >>> X = np.array([[1.0], [2.0]])
    >>> kernel(X).tolist(), kernel.factor(X).shape
    ([[4.0, 9.0], [9.0, 25.0]], (2, 3))
    """

    degree: int
    coef0: float = 1.0
    gamma: float = 1.0
    smooth = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "degree", as_count("degree", self.degree))
        object.__setattr__(self, "coef0", as_nonnegative("coef0", self.coef0))
        self._set_positive("gamma", self.gamma)

    @property
    def _label(self) -> str:
        return f"polynomial({self.degree})"

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return the powers of the inner products."""
        return self.scaled(products(A, B))

    def measure(self, A: Any, B: Any) -> Array:
        """Return the inner products."""
        return products(A, B)

    def products(self, A: Any, B: Any) -> ProductForm:
        """Return the rows themselves, and the power."""
        return ProductForm(A, B, self.scaled)

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return the powers of the squared norms."""
        return self.scaled(squared_norms(A))

    def factor_columns(self, n_columns: int) -> int:
        """Return the number of monomials."""
        return count_monomials(n_columns, self.degree, self.coef0)

    def evaluate_factor(self, A: Any) -> Array:
        """Return the monomials of `degree`, of lower ones too if coef0 > 0."""
        return monomials(_dense(A), self.degree, self.coef0, self.gamma)

    def scaled(self, measured: Array) -> Array:
        """Return the powers of inner products."""
        measured *= self.gamma
        measured += self.coef0
        if self.degree > 4:
            return np.power(measured, self.degree, out=measured)
        base = measured.copy() if self.degree > 1 else measured
        for _ in range(self.degree - 1):
            measured *= base
        return measured


@dataclass(frozen=True)
class DistanceKernel(Kernel):
    """A function of the distance of two examples over a positive width, 1 at 0."""

    width: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_positive("width", self.width)

    @property
    def _label(self) -> str:
        return f"{super()._label}({self.width:g})"

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return ones."""
        return np.ones(A.shape[0])


@dataclass(frozen=True)
class Gaussian(DistanceKernel):
    """k(x, z) = exp(-||x - z||^2 / (2 width^2)).

    Parameters
    ----------
    width : float
        Positive. scikit-learn's ``gamma`` is 1 / (2 width^2).
    features : int or tuple of int, optional
        The columns that the kernel looks at; by default all.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import Gaussian
    >>> Gaussian(2.0, features=0).name
    'gaussian(2) of feature 0'
    >>> Gaussian(2.0)(np.array([[0.0], [4.0]])).round(4).tolist()
    [[1.0, 0.1353], [0.1353, 1.0]]
    """

    smooth = True

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return the kernel's values."""
        return self.scaled(squared_distances(A, B))

    def measure(self, A: Any, B: Any) -> Array:
        """Return the squared distances."""
        return squared_distances(A, B)

    def scaled(self, measured: Array) -> Array:
        """Return the exponentials of squared distances."""
        measured /= -2.0 * self.width  # the square of a tiny width would be zero
        measured /= self.width
        return np.exp(measured, out=measured)

    def products(self, A: Any, B: Any) -> ProductForm | None:
        """Return rows whose products are the exponents; None where digits would cancel.

        Dense rows are centred first. <a, b> / width^2 less half of both squares cancels the more digits, the
        farther from the centre the rows are.
        """
        if not sparse.issparse(B):
            centre = B.mean(axis=0)
            A, B = A - centre, B - centre
        A, B = A / self.width, B / self.width
        halves = 0.5 * squared_norms(A), 0.5 * squared_norms(B)
        if not max(half.max() for half in halves) <= _FAR:
            return None
        ones = [np.ones_like(half) for half in halves]
        return ProductForm(
            _with_columns(A, -halves[0], ones[0]), _with_columns(B, ones[1], -halves[1]), _exponential
        )


@dataclass(frozen=True)
class Laplacian(DistanceKernel):
    """k(x, z) = exp(-||x - z||_1 / width).

    Parameters
    ----------
    width : float
        Positive. scikit-learn's ``gamma`` is 1 / width.
    features : int or tuple of int, optional
        The columns that the kernel looks at; by default all. Of sparse data, only one.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import Laplacian
    >>> Laplacian(2.0)(np.array([[0.0], [4.0]])).round(4).tolist()
    [[1.0, 0.1353], [0.1353, 1.0]]
    """

    sparse = False

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return the kernel's values."""
        return self.scaled(manhattan_distances(A, B))

    def measure(self, A: Any, B: Any) -> Array:
        """Return the distances."""
        return manhattan_distances(A, B)

    def scaled(self, measured: Array) -> Array:
        """Return the exponentials of distances."""
        measured /= -self.width
        return np.exp(measured, out=measured)


@dataclass(frozen=True)
class Cosine(Kernel):
    """k(x, z) = <x, z> / (||x|| ||z||); 0 where x or z is zero.

    Parameters
    ----------
    features : int or tuple of int, optional
        The columns that the kernel looks at; by default all.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import Cosine
    >>> Cosine()(np.array([[3.0, 4.0], [2.0, 0.0], [0.0, 0.0]])).round(4).tolist()
    [[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """

    smooth = True

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return the cosines."""
        units = unit_rows(A)
        return products(units, units if B is A else unit_rows(B))

    def products(self, A: Any, B: Any) -> ProductForm:
        """Return the rows divided by their norms."""
        return ProductForm(unit_rows(A), unit_rows(B), lambda out: out)

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return 1, or 0 for a zero row."""
        return squared_norms(unit_rows(A))

    def factor_columns(self, n_columns: int) -> int:
        """Return the number of columns."""
        return n_columns

    def evaluate_factor(self, A: Any) -> Array:
        """Return the rows divided by their norms."""
        return _dense(unit_rows(A))


def _exponential(out: Array) -> Array:
    return np.exp(out, out=out)


def _with_columns(A: Any, *columns: Array) -> Any:
    extra = np.stack(columns, axis=1)
    return sparse.hstack([A, extra], format="csr") if sparse.issparse(A) else np.hstack([A, extra])


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
    widths, degrees = as_numbers("widths", widths).ravel().tolist(), list(degrees)
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
