"""The usual kernels, and banks of kernels for each feature."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel, ProductForm, select_columns
from cutplane.pieces.validation import Array, as_count, as_nonnegative, as_numbers

_FAR = 1e4
"""Largest half squared distance from the centre, in widths, for which a product form is used, because
exponents then lose at most four digits."""
_FEW_COLUMNS = 32
"""Number of columns up to which distances are sums of squared differences, because no digits cancel and the
cost is acceptable."""
WIDTHS = tuple(2.0**k for k in range(-3, 7))


def _dense(A: Any) -> Array:
    return A.toarray() if sparse.issparse(A) else A


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, z) = <x, z>.

    Parameters
    ----------
    features : int or tuple of int, optional
        The columns that the kernel uses; by default all.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import Linear
    >>> Linear(features=1)(np.array([[7.0, 1.0], [8.0, 2.0]])).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """

    smooth = True

    def evaluate(self, A: Any, B: Any) -> Array:
        return products(A, B)

    def products(self, A: Any, B: Any) -> ProductForm:
        return ProductForm(A, B, lambda out: out)

    def evaluate_diagonal(self, A: Any) -> Array:
        return squared_norms(A)

    def factor_columns(self, n_columns: int) -> int:
        return n_columns

    def evaluate_factor(self, A: Any) -> Array:
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
        The columns that the kernel uses; by default all.

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

    def measure(self, A: Any, B: Any) -> Array:
        return products(A, B)

    def products(self, A: Any, B: Any) -> ProductForm:
        return ProductForm(A, B, self.scaled)

    def evaluate_diagonal(self, A: Any) -> Array:
        return self.scaled(squared_norms(A))

    def factor_columns(self, n_columns: int) -> int:
        return count_monomials(n_columns, self.degree, self.coef0)

    def evaluate_factor(self, A: Any) -> Array:
        return monomials(_dense(A), self.degree, self.coef0, self.gamma)

    def scaled(self, measured: Array) -> Array:
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
    """A function of the distance of two examples divided by a positive width, with value 1 at distance 0."""

    width: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_positive("width", self.width)

    @property
    def _label(self) -> str:
        return f"{super()._label}({self.width:g})"

    def evaluate_diagonal(self, A: Any) -> Array:
        return np.ones(A.shape[0])


@dataclass(frozen=True)
class Gaussian(DistanceKernel):
    """k(x, z) = exp(-||x - z||^2 / (2 width^2)).

    Parameters
    ----------
    width : float
        Positive. scikit-learn's ``gamma`` is 1 / (2 width^2).
    features : int or tuple of int, optional
        The columns that the kernel uses; by default all.

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

    def measure(self, A: Any, B: Any) -> Array:
        return squared_distances(A, B)

    def scaled(self, measured: Array) -> Array:
        measured /= -2.0 * self.width  # the square of a tiny width would be zero
        measured /= self.width
        return np.exp(measured, out=measured)

    def products(self, A: Any, B: Any) -> ProductForm | None:
        """Return rows whose products are the exponents, or None if too many digits would cancel.

        The exponents are <a, b> / width^2 minus half of both squares. Dense rows are centred first, because
        more digits cancel the farther rows are from the origin.
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
        The columns that the kernel uses; by default all. With sparse data, one column.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import Laplacian
    >>> Laplacian(2.0)(np.array([[0.0], [4.0]])).round(4).tolist()
    [[1.0, 0.1353], [0.1353, 1.0]]
    """

    sparse = False

    def measure(self, A: Any, B: Any) -> Array:
        if A.shape[1] == 1:
            out = A - B.T
            return np.abs(out, out=out)
        from scipy.spatial.distance import cdist

        return cdist(A, B, "cityblock")

    def scaled(self, measured: Array) -> Array:
        measured /= -self.width
        return np.exp(measured, out=measured)


@dataclass(frozen=True)
class Cosine(Kernel):
    """k(x, z) = <x, z> / (||x|| ||z||); 0 where x or z is zero.

    Parameters
    ----------
    features : int or tuple of int, optional
        The columns that the kernel uses; by default all.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import Cosine
    >>> Cosine()(np.array([[3.0, 4.0], [2.0, 0.0], [0.0, 0.0]])).round(4).tolist()
    [[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """

    smooth = True

    def evaluate(self, A: Any, B: Any) -> Array:
        units = unit_rows(A)
        return products(units, units if B is A else unit_rows(B))

    def products(self, A: Any, B: Any) -> ProductForm:
        return ProductForm(unit_rows(A), unit_rows(B), lambda out: out)

    def evaluate_diagonal(self, A: Any) -> Array:
        return squared_norms(unit_rows(A))

    def factor_columns(self, n_columns: int) -> int:
        return n_columns

    def evaluate_factor(self, A: Any) -> Array:
        return _dense(unit_rows(A))


@dataclass(frozen=True)
class ChiSquare(Kernel):
    """k(x, z) = exp(-gamma sum_j (x_j - z_j)^2 / (x_j + z_j)), for data without negative entries.

    Where x_j = z_j = 0 the term is 0. The sum is a distance of histograms [1]_.

    Parameters
    ----------
    gamma : float, default 1.0
        Positive.
    features : int or tuple of int, optional
        The columns that the kernel uses; by default all.

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
        A = select_columns(super().check(X, name), self.features)
        if A.min() < 0.0:
            i, j = np.unravel_index(int(A.argmin()), A.shape)
            raise InvalidInputError(
                f"The kernel {self.name!r} needs data without negative entries, but row {i} of {name} "
                f"contains {A[i, j]:g}; pass counts or frequencies, such as histograms, or use Gaussian."
            )
        return X

    def measure(self, A: Any, B: Any) -> Array:
        from cutplane.kernels.passes import chi_square_distances

        out = np.empty((A.shape[0], B.shape[0]))
        chi_square_distances(A, B, out)
        return out

    def scaled(self, measured: Array) -> Array:
        measured *= -self.gamma
        return np.exp(measured, out=measured)

    def evaluate_diagonal(self, A: Any) -> Array:
        return np.ones(A.shape[0])


def _exponential(out: Array) -> Array:
    return np.exp(out, out=out)


def _with_columns(A: Any, *columns: Array) -> Any:
    extra = np.stack(columns, axis=1)
    return sparse.hstack([A, extra], format="csr") if sparse.issparse(A) else np.hstack([A, extra])


def count_monomials(n_columns: int, degree: int, coef0: float) -> int:
    """Return the number of columns of `monomials`."""
    return math.comb(n_columns + (coef0 > 0.0) + degree - 1, degree)


def monomials(A: Array, degree: int, coef0: float, gamma: float) -> Array:
    """Return the map F with <F(x), F(z)> = (gamma <x, z> + coef0)^degree, shape (m, count_monomials)."""
    terms = [math.sqrt(gamma) * column for column in A.T]
    if coef0 > 0.0:
        terms.append(np.full(A.shape[0], math.sqrt(coef0)))
    picks = list(combinations_with_replacement(range(len(terms)), degree))
    F = np.empty((A.shape[0], len(picks)), order="F")
    for column, pick in zip(F.T, picks, strict=True):
        repeats = math.prod(math.factorial(pick.count(j)) for j in set(pick))
        column[:] = math.sqrt(math.factorial(degree) / repeats)
        for j in pick:
            column *= terms[j]
    return F


def products(A: Any, B: Any) -> Array:
    """Return <a_i, b_j>, shape (n, m)."""
    out = A @ B.T
    return out.toarray() if sparse.issparse(out) else np.asarray(out)


def squared_norms(A: Any) -> Array:
    """Return <a_i, a_i>, shape (n,)."""
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


def squared_distances(A: Any, B: Any) -> Array:
    """Return ||a_i - b_j||^2, shape (n, m)."""
    is_dense = not (sparse.issparse(A) or sparse.issparse(B))
    if is_dense and A.shape[1] == 1:
        out = A - B.T
        return np.multiply(out, out, out=out)
    if is_dense and A.shape[1] <= _FEW_COLUMNS:
        from scipy.spatial.distance import cdist

        return cdist(A, B, "sqeuclidean")
    same = A is B
    if is_dense:  # centred, because a common offset of the rows would cancel digits
        centre = B.mean(axis=0)
        A, B = A - centre, B - centre
    out = products(A, B)
    out *= -2.0
    out += squared_norms(A)[:, np.newaxis]
    out += squared_norms(B)
    np.maximum(out, 0.0, out=out)
    if same:
        np.fill_diagonal(out, 0.0)
    return out


def unit_rows(A: Any) -> Any:
    """Return the rows divided by their norms; zero rows stay zero."""
    if sparse.issparse(A):
        peaks = np.asarray(abs(A).max(axis=1).toarray()).ravel()
        scaled = sparse.diags_array(_inverses(peaks)) @ A
        return sparse.diags_array(_inverses(np.sqrt(squared_norms(scaled)))) @ scaled
    scaled = A * _inverses(np.abs(A).max(axis=1))[:, np.newaxis]
    return scaled * _inverses(np.sqrt(squared_norms(scaled)))[:, np.newaxis]


def _inverses(sizes: Array) -> Array:
    return np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0.0)


def single_feature_kernels(
    n_features: int, widths: Any = WIDTHS, degrees: Iterable[int] = (1, 2, 3), also_all: bool = False
) -> list[Kernel]:
    """Return Gaussian and polynomial kernels on each feature, feature after feature.

    The defaults are the 13 kernels per feature of the experiments with SimpleMKL and smooth MKL, for features
    with standard deviation 1.

    Parameters
    ----------
    n_features : int
        At least 1.
    widths : array_like of float, default 2^-3 to 2^6
        Widths of the Gaussian kernels; positive, may be empty.
    degrees : iterable of int, default (1, 2, 3)
        Degrees of the polynomial kernels; at least 1, may be empty.
    also_all : bool, default False
        Whether the same kernels on all features together are appended.

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
