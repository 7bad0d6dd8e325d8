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
"""Columns listed in a name at most, because names are headings."""
_FEW = 100
"""Columns of a factor at most if the kernel uses fewer, because a product with so many costs as much as an
exponential."""

_TILE = 64
"""Rows of a block whose diagonal is taken, because a function of two matrices gives whole blocks."""

Features = int | tuple[int, ...] | None


class ProductForm(NamedTuple):
    """k(a_i, b_j) = finish(<left_i, right_j>): a matrix product, and an entrywise function of it in place."""

    left: Any
    right: Any
    finish: Callable[[Array], Array]


@dataclass(frozen=True)
class Kernel(ABC):
    """k(x, z), positive semidefinite, on all columns of the data or on some of them.

    A subclass implements `evaluate` and `evaluate_diagonal`, and may give a feature map of finitely many
    columns, with <F(x), F(z)> = k(x, z), by `factor_columns` and `evaluate_factor`. These get the columns of
    `features` as float64.

    Parameters
    ----------
    features : int or tuple of int, optional
        The columns of the data that the kernel uses; by default all.

    Attributes
    ----------
    smooth : bool
        Whether the eigenvalues of its matrices fall fast, so that a factor of low rank is worth a try.
    sparse : bool
        Whether `evaluate` takes CSR matrices.
    known : bool
        Whether it is known to be symmetric and positive semidefinite, so that it need not be tested.
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
            If an entry is not finite, a column is missing, X is sparse and the kernel takes dense data only,
            or a value overflows.
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
        """Return F with F F' = the matrix of X, shape (m, r), or None if the kernel has no small one."""
        A = select_columns(self.check(as_matrix(X)), self.features)
        columns = self.factor_columns(A.shape[1])
        if columns is None or columns > max(_FEW, A.shape[1]):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return self.finite(self.evaluate_factor(A))

    def check(self, X: Any, name: str = "X") -> Any:
        """Return X, called `name`, if the kernel can be evaluated there, or raise `InvalidInputError`."""
        largest, n = -1 if self.features is None else int(np.max(self.features)), X.shape[1]
        if largest >= n:
            raise InvalidInputError(
                f"The kernel {self.name!r} needs column {largest}, but X has {n} columns, 0 to {n - 1}."
            )
        if not self.sparse and sparse.issparse(X) and not isinstance(self.features, int):
            raise InvalidInputError(
                f"The kernel {self.name!r} takes dense data, got {name} in {X.format.upper()}; pass "
                f"{name}.toarray(), or let the kernel look at one feature."
            )
        return X

    def check_examples(self, X: Any) -> Any:
        """Return X if it can be a training set, or raise `InvalidInputError`."""
        return self.check(X)

    def restrict(self, X: Any, chosen: Array) -> Any:
        """Return the training set of some of the examples."""
        return X[chosen]

    def matrix_of(self, X: Any) -> Array | None:
        """Return the matrix of a training set if it is there already; else None."""
        return None

    def select(self, X: Any, chosen: Array) -> Any:
        """Return some examples of a training set, for `cross`."""
        return X[chosen]

    def cross(self, Z: Any, examples: Any) -> Array:
        """Return the matrix of k(z_i, x_j) with examples that `select` returned."""
        return self(Z, examples)

    def evaluate(self, A: Any, B: Any) -> Array:
        """Return a new matrix of k(a_i, b_j), float64: by default `scaled` applied to `measure`."""
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
        """Return a new matrix of which all kernels of this class are functions, whatever their scale; or
        None.
        """
        return None

    def scaled(self, measured: Array) -> Array:
        """Return k(a_i, b_j) from a `measure`; in place."""
        raise NotImplementedError(f"{type(self).__name__} has no measure.")

    def products(self, A: Any, B: Any) -> ProductForm | None:
        """Return the matrix of k(a_i, b_j) as a function of inner products; None if it is none."""
        return None

    def factor_columns(self, n_columns: int) -> int | None:
        """Return the number of columns of `evaluate_factor` on so many columns; None if it has none."""
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
    """The kernel that a function gives.

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
                f"The kernel {self.name!r} must return a matrix of shape {(A.shape[0], B.shape[0])} for so "
                f"many rows, got shape {out.shape}."
            )
        return out

    def evaluate_diagonal(self, A: Any) -> Array:
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


def as_features(features: Any) -> Features:
    """Return None, an int or a tuple of ints, none negative and none twice, or raise `InvalidInputError`."""
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
    """Return columns of a matrix that `as_matrix` has checked, as float64, C-ordered or CSR.

    A single column is dense. Data that have that form are not copied.
    """
    columns = [features] if isinstance(features, int) else features
    A = X if columns is None else X[:, list(columns)]
    if not sparse.issparse(A):
        return np.ascontiguousarray(A, dtype=np.float64)
    A = A.tocsr().astype(np.float64, copy=False)
    return A.toarray() if isinstance(features, int) else A


def _is_index(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
