"""The usual kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.kernels.base import Kernel
from cutplane.kernels.distances import (
    manhattan_distances,
    products,
    squared_distances,
    squared_norms,
    unit_rows,
)
from cutplane.kernels.features import count_monomials, monomials
from cutplane.pieces.validation import Array, as_count, as_scalar


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
        object.__setattr__(self, "coef0", as_scalar("coef0", self.coef0, low=0.0, high_open=True))
        self._set_positive("gamma")

    @property
    def _label(self) -> str:
        return f"polynomial({self.degree})"

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return the powers of the inner products."""
        return self._power(products(A, B))

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return the powers of the squared norms."""
        return self._power(squared_norms(A))

    def factor_columns(self, n_columns: int) -> int:
        """Return the number of monomials."""
        return count_monomials(n_columns, self.degree, self.coef0)

    def evaluate_factor(self, A: Any) -> Array:
        """Return the monomials of `degree`, of lower ones too if coef0 > 0."""
        return monomials(_dense(A), self.degree, self.coef0, self.gamma)

    def _power(self, values: Array) -> Array:
        values *= self.gamma
        values += self.coef0
        return values**self.degree


@dataclass(frozen=True)
class Gaussian(Kernel):
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

    width: float
    smooth = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_positive("width")

    @property
    def _label(self) -> str:
        return f"gaussian({self.width:g})"

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return the kernel's values."""
        out = squared_distances(A, B)
        out /= -2.0 * self.width  # the square of a tiny width would be zero
        out /= self.width
        return np.exp(out, out=out)

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return ones."""
        return np.ones(A.shape[0])


@dataclass(frozen=True)
class Laplacian(Kernel):
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

    width: float
    sparse = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_positive("width")

    @property
    def _label(self) -> str:
        return f"laplacian({self.width:g})"

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return the kernel's values."""
        out = manhattan_distances(A, B)
        out /= -self.width
        return np.exp(out, out=out)

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return ones."""
        return np.ones(A.shape[0])


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

    def evaluate_diagonal(self, A: Any) -> Array:
        """Return 1, or 0 for a zero row."""
        return squared_norms(unit_rows(A))

    def factor_columns(self, n_columns: int) -> int:
        """Return the number of columns."""
        return n_columns

    def evaluate_factor(self, A: Any) -> Array:
        """Return the rows divided by their norms."""
        return _dense(unit_rows(A))
