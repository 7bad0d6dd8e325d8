"""Linear maps x -> A x, for functions of a linear image or of some coordinates of a vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import as_matrix, brief, set_fields
from cutplane.pieces.validation import Array, as_count, as_vector

_FEW = 256
"""Number of dense columns of an operator computed at a time, because all of them may not fit into memory."""


class LinearMap(ABC):
    """x -> A x, with A of shape (rows, dim).

    Attributes
    ----------
    shape : tuple of int
    matrix : ndarray or csr_array
        A as a matrix.
    open : bool
        Whether `dim` is only the least possible dimension.
    """

    matrix: Any
    open: bool = False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(Number of rows, dim)."""

    @abstractmethod
    def __call__(self, x: Array) -> Array:
        """Return A x."""

    @abstractmethod
    def transposed(self, s: Array) -> Array:
        """Return A's, for s of shape (rows,), or each row of s."""

    @abstractmethod
    def shown(self) -> str:
        """Return the text after h in the repr of x -> h(A x), such as " @ <3x4 matrix>"."""

    def resolve(self, dim: int) -> LinearMap:
        """Return the map with its dimension fixed to `dim`, or raise `InvalidInputError`."""
        if dim != self.shape[1]:
            raise InvalidInputError(
                f"A piece{self.shown()} is a function of {self.shape[1]} coordinates, "
                f"but dimension {dim} is needed."
            )
        return self

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        return cp.Constant(self.matrix) @ x


@dataclass(frozen=True, eq=False)
class MatrixMap(LinearMap):
    """The map of a dense or sparse matrix of float64."""

    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    def __call__(self, x: Array) -> Array:
        return self.matrix @ x

    @cached_property
    def _columns(self) -> Any:
        """The transposed matrix in CSR form, stored because scipy would build it for every product."""
        return sparse.csr_array(self.matrix.T)

    def transposed(self, s: Array) -> Array:
        if sparse.issparse(self.matrix):
            return np.ascontiguousarray((self._columns @ s.T).T)
        return s @ self.matrix

    def shown(self) -> str:
        return f" @ {brief(self.matrix)}"


@dataclass(frozen=True, eq=False)
class DiagonalMap(LinearMap):
    """The map of a diagonal matrix, which multiplies each coordinate by a number."""

    diagonal: Array

    @property
    def shape(self) -> tuple[int, int]:
        return self.diagonal.size, self.diagonal.size

    @property
    def matrix(self) -> Any:
        """The diagonal matrix."""
        return sparse.csr_array(sparse.diags_array(self.diagonal))

    def __call__(self, x: Array) -> Array:
        return self.diagonal * x

    def transposed(self, s: Array) -> Array:
        return self.diagonal * s

    def shown(self) -> str:
        return " @ <{}x{} matrix>".format(*self.shape)


@dataclass(frozen=True, eq=False)
class OperatorMap(LinearMap):
    """The map of a scipy `LinearOperator`, whose matrix is computed only for cvxpy and linear forms."""

    operator: LinearOperator

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape

    def __call__(self, x: Array) -> Array:
        return np.asarray(self.operator.matvec(x), dtype=np.float64)

    def transposed(self, s: Array) -> Array:
        product = self.operator.rmatvec(s) if s.ndim == 1 else self.operator.rmatmat(s.T).T
        return np.asarray(product, dtype=np.float64)

    @cached_property
    def matrix(self) -> Any:
        """A in CSR form, computed a few columns at a time."""
        dim = self.shape[1]
        units = (np.eye(dim, min(_FEW, dim - start), k=-start) for start in range(0, dim, _FEW))
        columns = [np.asarray(self.operator.matmat(unit), dtype=np.float64) for unit in units]
        return sparse.csr_array(sparse.hstack([sparse.csc_array(part) for part in columns]))

    def shown(self) -> str:
        return " @ <{}x{} operator>".format(*self.shape)


@dataclass(frozen=True, eq=False)
class Selection(LinearMap):
    """x -> x[index].

    Parameters
    ----------
    index : slice, or array_like of int or bool
        The selected coordinates, without repetition. Booleans have shape (dim,).
    dim : int, optional
        The dimension of x; by default the least possible dimension, until `resolve` fixes one.
    size : int, optional
        The number of coordinates that `index` must select.
    """

    index: Any
    dim: int | None = None
    size: int | None = None
    open: bool = False

    def __post_init__(self) -> None:
        index, dim = self.index, self.dim
        if not isinstance(index, slice):
            index = np.array(index)
            if index.dtype == np.bool_ and index.ndim == 1:
                dim = index.size if dim is None else dim
                if index.size != dim:
                    raise InvalidInputError(f"The mask has {index.size} entries, the vector {dim}.")
                index = np.flatnonzero(index)
            if index.ndim != 1 or not index.size or not np.issubdtype(index.dtype, np.integer):
                raise InvalidInputError(
                    "An index must be a slice, or a nonempty vector of integers or booleans, "
                    f"got {self.index!r}."
                )
            index.flags.writeable = False
        chosen = dim if dim is not None else self._least(index)
        set_fields(self, index=index, dim=as_count("dim", chosen), open=self.open or dim is None)
        if np.unique(self.positions).size < self.positions.size:
            raise InvalidInputError(f"The index {brief(np.array(self.index))} selects a coordinate twice.")

    def _least(self, index: Any) -> int:
        """Return the least dimension in which the index selects the required number of coordinates."""
        if not isinstance(index, slice):
            far = max(_farthest(index), index.size)
            apart = (dim for dim in range(far, far + index.size) if np.unique(index % dim).size == index.size)
            return next(apart, far)
        far, size = _farthest(index), self.size or 1
        for dim in range(max(far, size), far + size * abs(index.step or 1) + 2):
            count = len(range(*index.indices(dim)))
            if count == size or (self.size is None and count > 0):
                return dim
        raise InvalidInputError(f"{_shown(index)} does not select {size} coordinates of any vector.")

    @cached_property
    def positions(self) -> Array:
        """The selected coordinates, as integers >= 0."""
        index, dim = self.index, self.dim
        assert dim is not None
        far = _farthest(index)
        positions = (
            np.arange(dim)[index] if isinstance(index, slice) else np.where(index < 0, index + dim, index)
        )
        if far > dim or not positions.size:
            fault = "goes beyond" if far > dim else "selects nothing of"
            raise InvalidInputError(f"{_shown(index)} {fault} a vector of dimension {dim}.")
        if self.size not in (None, positions.size):
            raise InvalidInputError(
                f"{_shown(index)} selects {positions.size} of {dim} coordinates, but the piece is a function "
                f"of {self.size}."
            )
        return positions

    @property
    def shape(self) -> tuple[int, int]:
        assert self.dim is not None
        return self.positions.size, self.dim

    def resolve(self, dim: int) -> LinearMap:
        return replace(self, dim=dim) if self.open and dim != self.dim else super().resolve(dim)

    def __call__(self, x: Array) -> Array:
        return x[self.index]

    def transposed(self, s: Array) -> Array:
        return self.spread(s, 0.0)

    def spread(self, entries: Array, outside: float) -> Array:
        """Return a vector, or rows, with the entries at the selected coordinates and `outside` elsewhere."""
        out = np.full((*entries.shape[:-1], self.shape[1]), outside)
        out[..., self.index] = entries
        return out

    @property
    def mask(self) -> Array:
        """Whether each coordinate is selected, shape (dim,)."""
        return self.spread(np.ones(1), 0.0) > 0.0

    @property
    def matrix(self) -> Any:
        """The selected rows of the identity."""
        rows, dim = self.shape
        return sparse.csr_array((np.ones(rows), (np.arange(rows), self.positions)), shape=(rows, dim))

    def cvxpy_form(self, x: Any) -> Any:
        return x[self.positions]

    def shown(self) -> str:
        return f".on({_shown(self.index)})"


def _farthest(index: Any) -> int:
    """Return the least dimension of a vector that has all coordinates of the index."""
    if isinstance(index, slice):
        return max([0, *(abs(side) for side in (index.start, index.stop) if side is not None)])
    return max(int(index.max()) + 1, -int(index.min()))


def _shown(index: Any) -> str:
    if isinstance(index, slice):
        sides = (index.start, index.stop) if index.step is None else (index.start, index.stop, index.step)
        return f"slice({', '.join(map(str, sides))})"
    return brief(np.asarray(index, dtype=np.float64))


def as_linear_map(owner: str, matrix: Any, rows: int | None = None) -> LinearMap:
    """Return a dense or sparse matrix, or a `LinearOperator`, as a map with `rows` rows.

    Raises
    ------
    InvalidInputError
        If it is not a matrix of finite numbers, has no rmatvec, or has another number of rows.
    """
    if isinstance(matrix, LinearOperator):
        found: LinearMap = OperatorMap(matrix)
        _check_operator(matrix)
    else:
        diagonal = getattr(matrix, "format", None) == "dia" and matrix.offsets.tolist() == [0]
        checked = as_matrix(f"The matrix after {owner} @", matrix)
        square = checked.shape[0] == checked.shape[1]
        found = DiagonalMap(checked.diagonal()) if diagonal and square else MatrixMap(checked)
    if rows not in (None, found.shape[0]) or 0 in found.shape:
        wanted = "at least one row and one column" if rows is None else f"shape ({rows}, any)"
        raise InvalidInputError(
            f"{owner} @ B is the function x -> {owner}(B x): B must have {wanted}, got shape {found.shape}."
        )
    return found


def _check_operator(operator: LinearOperator) -> None:
    if np.issubdtype(operator.dtype, np.complexfloating):
        raise InvalidInputError(f"A LinearOperator must be real, got dtype {operator.dtype}.")
    try:
        operator.rmatvec(np.zeros(operator.shape[0]))
    except NotImplementedError as error:
        raise InvalidInputError("A LinearOperator needs rmatvec for subgradients; give it one.") from error


def as_shift(b: Any, dim: int) -> Array:
    """Return b as a read-only vector of shape (dim,)."""
    vector = as_vector("b", b, dim).copy()
    vector.flags.writeable = False
    return vector
