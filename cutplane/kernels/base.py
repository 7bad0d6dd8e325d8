"""The interface of a kernel: a positive semidefinite function of two examples, on columns of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_positive
from cutplane.risks.matrix import as_matrix

_SHOWN = 4
"""Largest number of columns listed in a kernel's name, because names are used as headings."""
_FEW = 100
"""Number of columns up to which a factor is used even if the kernel reads fewer columns of the data, because
such a product costs as much as one exponential."""

_TILE = 64
"""Rows of a diagonal block, because whole blocks are computed although only their diagonals are needed."""

Features = int | tuple[int, ...] | None


class ProductForm(NamedTuple):
    """k(a_i, b_j) = finish(<left_i, right_j>): a matrix product, then an entrywise function in place."""

    left: Any
    right: Any
    finish: Callable[[Array], Array]


@dataclass(frozen=True)
class Kernel(ABC):
    """A positive semidefinite function k(x, z) of all columns of the data, or of some.

    A subclass implements `evaluate` and `evaluate_diagonal`. If it has a finite-dimensional feature map F
    with <F(x), F(z)> = k(x, z), it may also implement `factor_columns` and `evaluate_factor`. All of these
    methods receive only the columns in `features`, as float64.

    Parameters
    ----------
    features : int or tuple of int, optional
        The columns of the data that the kernel uses; by default all.

    Attributes
    ----------
    smooth : bool
        Whether the eigenvalues of its matrices decay fast, so that a low-rank factor is tried.
    sparse : bool
        Whether `evaluate` accepts CSR matrices.
    known : bool
        Whether the class guarantees a symmetric positive semidefinite function. Kernels without this
        guarantee, such as `FunctionKernel`, are tested.
    """

    features: Features = field(default=None, kw_only=True)
    smooth: ClassVar[bool] = False
    sparse: ClassVar[bool] = True
    known: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", as_features(self.features))

    @property
    def name(self) -> str:
        """A description such as "gaussian(0.5) of feature 3"."""
        return self.describe()

    def describe(self, feature_names: Sequence[str] | None = None) -> str:
        """Return a description, with the names of the columns if they are given."""
        if self.features is None:
            return self._label
        chosen = (self.features,) if isinstance(self.features, int) else self.features
        if len(chosen) > _SHOWN:
            return f"{self._label} of {len(chosen)} features"
        if feature_names is not None:
            return f"{self._label} of {', '.join(str(feature_names[j]) for j in chosen)}"
        return f"{self._label} of feature{'s' * (len(chosen) > 1)} {', '.join(map(str, chosen))}"

    @property
    def _label(self) -> str:
        return type(self).__name__.lower()

    def __call__(self, X: Any, Z: Any = None) -> Array:
        """Return the matrix of k(x_i, z_j).

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (m, n)
        Z : ndarray or sparse matrix of shape (p, n), optional
            By default X.

        Returns
        -------
        ndarray of shape (m, p)
            float64.

        Raises
        ------
        InvalidInputError
            If an entry is not finite, a column is missing, a value overflows, or X is sparse although the
            kernel accepts dense data only.
        """
        X = self.check(as_matrix(X))
        A = select_columns(X, self.features)
        if Z is None:
            B = A
        else:
            Z = as_matrix(Z, "Z")
            if Z.shape[1] != X.shape[1]:
                raise InvalidInputError(
                    f"X has {X.shape[1]} columns and Z has {Z.shape[1]}; pass the same columns."
                )
            B = select_columns(self.check(Z, "Z"), self.features)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.finite(self.evaluate(A, B))

    def diagonal(self, X: Any) -> Array:
        """Return k(x_i, x_i), shape (m,)."""
        A = select_columns(self.check(as_matrix(X)), self.features)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.finite(self.evaluate_diagonal(A))

    def factor(self, X: Any) -> Array | None:
        """Return F of shape (m, r) with F F' = K(X, X), or None if the kernel has no F with few columns."""
        A = select_columns(self.check(as_matrix(X)), self.features)
        columns = self.factor_columns(A.shape[1])
        if columns is None or columns > max(_FEW, A.shape[1]):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return self.finite(self.evaluate_factor(A))

    def check(self, X: Any, name: str = "X") -> Any:
        """Return X if the kernel can be evaluated on it; else raise `InvalidInputError` about `name`."""
        largest, n = -1 if self.features is None else int(np.max(self.features)), X.shape[1]
        if largest >= n:
            raise InvalidInputError(
                f"The kernel {self.name!r} needs column {largest}, but X has {n} columns, 0 to {n - 1}."
            )
        if not self.sparse and sparse.issparse(X) and not isinstance(self.features, int):
            raise InvalidInputError(
                f"The kernel {self.name!r} accepts dense data only, got {name} in {X.format.upper()}; pass "
                f"{name}.toarray(), or a kernel of one feature."
            )
        return X

    def check_examples(self, X: Any) -> Any:
        """Return X if it can be a training set, or raise `InvalidInputError`."""
        return self.check(X)

    def restrict(self, X: Any, chosen: Array) -> Any:
        """Return the training set of some of the examples."""
        return X[chosen]

    def matrix_of(self, X: Any) -> Array | None:
        """Return the kernel matrix of a training set if X already contains it; else None."""
        return None

    def select(self, X: Any, chosen: Array) -> Any:
        """Return some examples of a training set, for `cross`."""
        return X[chosen]

    def cross(self, Z: Any, examples: Any) -> Array:
        """Return the matrix of k(z_i, x_j) with examples that `select` returned."""
        return self(Z, examples)

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return a new float64 matrix of k(a_i, b_j); the default applies `scaled` to `measure`."""
        measured = self.measure(A, B)
        if measured is None:
            raise NotImplementedError(
                f"{type(self).__name__} must implement evaluate, or measure and scaled."
            )
        return self.scaled(measured)

    @abstractmethod
    def evaluate_diagonal(self, A: Any) -> Array:
        """Return k(a_i, a_i), a new vector."""

    def measure(self, A: Any, B: Any) -> Array | None:
        """Return a new matrix that does not depend on the scale, such as distances; None if there is none.

        `scaled` turns it into the values of any kernel of this class.
        """
        return None

    def scaled(self, measured: Array) -> Array:
        """Turn the result of `measure` into k(a_i, b_j), in place."""
        raise NotImplementedError(f"{type(self).__name__} has no measure.")

    def products(self, A: Any, B: Any) -> ProductForm | None:
        """Return k(a_i, b_j) as a function of inner products; None if the kernel has no such form."""
        return None

    def factor_columns(self, n_columns: int) -> int | None:
        """Return the number of columns of `evaluate_factor` for such data; None without a factor."""
        return None

    def evaluate_factor(self, A: Any) -> Array:
        """Return F with <F(x), F(z)> = k(x, z)."""
        raise NotImplementedError(f"{type(self).__name__} has no factor.")

    def _set_positive(self, name: str, value: float) -> None:
        object.__setattr__(self, name, as_positive(name, value))

    def finite(self, values: Array) -> Array:
        """Return values of the kernel, or raise `InvalidInputError` if one is not finite."""
        if not np.isfinite(values).all():
            i = int(np.argwhere(~np.isfinite(values))[0][0])
            raise InvalidInputError(
                f"The kernel {self.name!r} is not finite at row {i} of X: its values overflow; divide the "
                "columns by their standard deviations."
            )
        return values


@dataclass(frozen=True)
class Precomputed(Kernel):
    """The kernel whose values are the entries of X itself.

    Row i of X holds k(x_i, z_j) for the examples z_j of the training set. For training, X is square.

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
        if X.shape[0] != X.shape[1]:
            raise InvalidInputError(f"A precomputed kernel matrix must be square, got shape {X.shape}.")
        return self.check(X)

    def restrict(self, X: Any, chosen: Array) -> Array:
        return X[np.ix_(chosen, chosen)]

    def matrix_of(self, X: Any) -> Array:
        return X

    def select(self, X: Any, chosen: Array) -> Array:
        return np.array(chosen)

    def cross(self, Z: Any, examples: Any) -> Array:
        return np.asarray(Z, dtype=np.float64)[:, examples]

    def evaluate(self, A: Any, B: Any) -> Array:
        return np.array(A, dtype=np.float64)

    def evaluate_diagonal(self, A: Any) -> Array:
        return A.diagonal().copy()


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A kernel that is given by a function.

    Parameters
    ----------
    function : callable
        (A, B) -> the matrix of k(a_i, b_j), of shape (n, m), for matrices of shapes (n, d) and (m, d).
    features : int or tuple of int, optional
        The columns that the kernel uses; by default all.

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
        out = np.array(self.function(A, B), dtype=np.float64)
        if out.shape != (A.shape[0], B.shape[0]):
            raise InvalidInputError(
                f"The kernel {self.name!r} must return a matrix of shape {(A.shape[0], B.shape[0])}, one "
                f"entry for each pair of rows, got shape {out.shape}."
            )
        return out

    def evaluate_diagonal(self, A: Any) -> Array:
        parts = [A[start : start + _TILE] for start in range(0, A.shape[0], _TILE)]
        return np.concatenate([self.evaluate(part, part).diagonal() for part in parts])


def as_kernel(kernel: Any) -> Kernel:
    """Convert a kernel, "precomputed" or a function to a kernel, or raise `InvalidInputError`."""
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


def as_features(features: Any) -> Features:
    """Return None, a column number or a tuple of different ones, or raise `InvalidInputError`."""
    if features is None:
        return None
    single = _is_index(features)
    columns = (features,) if single else features
    if not isinstance(columns, tuple | list | range | np.ndarray) or not all(map(_is_index, columns)):
        raise InvalidInputError(
            f"features must be None, a column number or a tuple of them, got {features!r}."
        )
    columns = tuple(int(j) for j in columns)
    if not columns or min(columns) < 0 or len(set(columns)) < len(columns):
        raise InvalidInputError(
            f"features must be different column numbers, at least one and none negative, got {features!r}."
        )
    return columns[0] if single else columns


def select_columns(X: Any, features: Features) -> Any:
    """Return some columns of the result of `as_matrix` as float64, in C order or CSR.

    A single column is returned dense. Data that already have this form are not copied.
    """
    columns = [features] if isinstance(features, int) else features
    A = X if columns is None else X[:, list(columns)]
    if not sparse.issparse(A):
        return np.ascontiguousarray(A, dtype=np.float64)
    A = A.tocsr().astype(np.float64, copy=False)
    return A.toarray() if isinstance(features, int) else A


def _is_index(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
