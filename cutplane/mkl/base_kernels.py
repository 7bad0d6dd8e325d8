"""Base kernels for learning products of kernels: linear kernels of single variables, or Gram matrices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array, as_count, as_numbers

Tuples = Sequence[tuple[int, ...]]

_CHUNK = 1 << 21
"""Number of entries in a block of products, because 16 MB fit into a processor's cache."""
_ASYMMETRY = 1e-8
"""Relative asymmetry of a Gram matrix that counts as a rounding error, because float32 matrices have it."""


class GramBases:
    """r base kernels on m examples, given as Gram matrices, with the operations for sampling their products.

    A *weighting* is a matrix ``M = a a' o K_i o K_j ...`` over pairs of examples, where ``o`` is the
    entrywise product. S is the sum of the kernels, and its powers are entrywise. A subclass may represent
    weightings in a cheaper form.

    Parameters
    ----------
    matrices : array_like of shape (r, m, m)
        Symmetric and positive semidefinite, which is not checked. Entries may be negative.
    degree : int
        The largest number of factors of a product; at least 0.

    Attributes
    ----------
    n_kernels, n_samples, degree : int
    """

    n_kernels: int
    n_samples: int
    degree: int

    def __init__(self, matrices: Any, degree: int):
        matrices = as_numbers("matrices", matrices)
        if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or not matrices.size:
            raise InvalidInputError(f"Gram matrices must have shape (r, m, m), got {matrices.shape}.")
        if np.abs(matrices - matrices.transpose(0, 2, 1)).max() > _ASYMMETRY * np.abs(matrices).max():
            raise InvalidInputError("Gram matrices must be symmetric; pass (K + K') / 2.")
        self.matrices = np.ascontiguousarray(matrices)
        self.degree = as_count("degree", degree, low=0)
        self.n_kernels, self.n_samples = matrices.shape[:2]
        self._sum = matrices.sum(axis=0)

    def __repr__(self) -> str:
        return f"GramBases({self.n_kernels} kernels, {self.n_samples} examples, degree {self.degree})"

    def weighting(self, a: Array) -> Array:
        """Return the weighting M = a a'."""
        return np.outer(a, a)

    def absorb(self, weighting: Array, j: int) -> Array:
        """Return the weighting M o K_j."""
        return weighting * self.matrices[j]

    def total(self, weighting: Array, power: int) -> float:
        """Return <M, S^power>."""
        return float(np.vdot(weighting, self._sum**power))

    def split(self, weighting: Array, power: int) -> Array:
        """Return <M, K_j o S^power> for each j, shape (r,); they sum to <M, S^(power + 1)>."""
        return self.matrices.reshape(self.n_kernels, -1) @ (weighting * self._sum**power).ravel()

    def split_work(self, power: int) -> float:
        """Return the number of multiplications of a `split`."""
        return float(self.n_kernels) * self.n_samples**2

    def product(self, index: tuple[int, ...]) -> Array:
        """Return the product of the kernels in `index`: v of shape (m,) if it is v v', else its matrix."""
        return np.prod(self.matrices[list(index)], axis=0)

    def monomials(self, indices: Tuples) -> Array:
        """Return the vectors v of products v v', one column for each index."""
        raise InvalidInputError("Gram matrices have no variables, so there is no polynomial; use predict(Z).")

    def weighted_sum(self, indices: Tuples, weights: Array) -> Array:
        """Return the matrix sum_I weights_I K_I, shape (m, m); products with weight zero are skipped."""
        matrix = np.zeros((self.n_samples, self.n_samples))
        for k in np.flatnonzero(weights).tolist():
            matrix += weights[k] * self.product(indices[k])
        return matrix

    def predict(self, Z: Any, indices: Tuples, weights: Array, a: Array) -> Array:
        """Return sum_I weights_I K_I(Z, X) a, shape (n,), for the base kernels Z of shape (r, n, m)."""
        Z = np.asarray(Z, dtype=np.float64)
        if Z.ndim != 3 or Z.shape[0] != self.n_kernels or Z.shape[2] != self.n_samples:
            raise InvalidInputError(
                f"Z must hold the kernels between new and training examples, shape ({self.n_kernels}, n, "
                f"{self.n_samples}), got {Z.shape}."
            )
        answer = np.zeros(Z.shape[1])
        for k in np.flatnonzero(weights).tolist():
            answer += weights[k] * (np.prod(Z[list(indices[k])], axis=0) @ a)
        return answer

    def square_sum(self, a: Array, prefixes: Array, multiplicities: Array, power: int) -> float:
        """Return sum over (prefix, multiplicity) of multiplicity * sum_j <M_prefix, K_j o S^power>^2."""
        total = 0.0
        for prefix, multiplicity in zip(prefixes.tolist(), multiplicities, strict=True):
            weighting = self.weighting(a)
            for j in prefix:
                weighting = self.absorb(weighting, j)
            total += multiplicity * float((self.split(weighting, power) ** 2).sum())
        return total


BaseKernels = GramBases


class LinearBases(GramBases):
    """The kernels kappa_j(x, z) = x_j z_j, whose products are the monomials of the input variables.

    A product of rank-one kernels has rank one, so a weighting is a vector w. S^e is stored as a factor with
    one column per monomial of degree e if there are fewer monomials than examples, else as a matrix.

    Parameters
    ----------
    X : array_like of shape (m, r)
        Dense.
    degree : int
        The largest number of factors of a product; at least 0.
    constant : bool, default False
        Whether a constant variable 1 is appended.
    """

    def __init__(self, X: Any, degree: int, constant: bool = False):
        self.constant = bool(constant)
        self.n_inputs = 0
        self.X = self._columns("X", X)
        self.n_samples, self.n_kernels = self.X.shape
        self.n_inputs = self.n_kernels - self.constant
        self.degree = as_count("degree", degree, low=0)
        self._padded = np.column_stack([self.X, np.ones(self.n_samples)])
        self._factors: dict[int, Array] = {}
        self._matrices: dict[int, Array] = {}
        for power in range(self.degree + 1):
            if math.comb(self.n_kernels + power - 1, power) < self.n_samples or power == 0:
                prefixes, multiplicities = multisets(self.n_kernels, power)
                self._factors[power] = _products(self._padded, prefixes) * np.sqrt(multiplicities)
            else:
                self._matrices[power] = (self.X @ self.X.T) ** power

    def __repr__(self) -> str:
        return f"LinearBases({self.n_kernels} variables, {self.n_samples} examples, degree {self.degree})"

    def weighting(self, a: Array) -> Array:
        return a

    def absorb(self, weighting: Array, j: int) -> Array:
        return weighting * self.X[:, j]

    def total(self, weighting: Array, power: int) -> float:
        if power in self._factors:
            return float(((weighting @ self._factors[power]) ** 2).sum())
        return float(weighting @ (self._matrices[power] @ weighting))

    def split(self, weighting: Array, power: int) -> Array:
        if power == 0:
            return (weighting @ self.X) ** 2
        columns = weighting[:, None] * self.X
        if power in self._factors:
            return ((self._factors[power].T @ columns) ** 2).sum(axis=0)
        return np.einsum("tj,tj->j", columns, self._matrices[power] @ columns)

    def split_work(self, power: int) -> float:
        width = self._factors[power].shape[1] if power in self._factors else self.n_samples
        return float(self.n_samples) * self.n_kernels * width

    def product(self, index: tuple[int, ...]) -> Array:
        return np.prod(self.X[:, list(index)], axis=1)

    def monomials(self, indices: Tuples) -> Array:
        return _products(self._padded, self._as_rows(indices))

    def weighted_sum(self, indices: Tuples, weights: Array) -> Array:
        matrix = np.zeros((self.n_samples, self.n_samples))
        for rows, share in self._chunks(indices, weights, self.n_samples):
            columns = _products(self._padded, rows) * np.sqrt(share)
            matrix += columns @ columns.T
        return matrix

    def predict(self, Z: Any, indices: Tuples, weights: Array, a: Array) -> Array:
        Z = self._columns("Z", Z)
        padded = np.column_stack([Z, np.ones(len(Z))])
        answer = np.zeros(len(Z))
        for rows, share in self._chunks(indices, weights, max(len(Z), self.n_samples)):
            answer += _products(padded, rows) @ (share * (a @ _products(self._padded, rows)))
        return answer

    def square_sum(self, a: Array, prefixes: Array, multiplicities: Array, power: int) -> float:
        if power:
            return super().square_sum(a, prefixes, multiplicities, power)
        total, size = 0.0, max(1, _CHUNK // max(1, self.n_samples))
        for begin in range(0, len(prefixes), size):
            rows = slice(begin, begin + size)
            forms = _products(self._padded, prefixes[rows]).T @ (a[:, None] * self.X)
            total += float(multiplicities[rows] @ (forms**4).sum(axis=1))
        return total

    def _columns(self, name: str, value: Any) -> Array:
        matrix = as_numbers(name, value)
        if matrix.ndim != 2 or self.n_inputs not in (0, matrix.shape[-1]):
            wanted = f"(n, {self.n_inputs})" if self.n_inputs else "(m, r)"
            raise InvalidInputError(f"{name} must have shape {wanted}, got {matrix.shape}.")
        if not matrix.size:
            raise InvalidInputError(f"{name} must have at least one row and one column, got {matrix.shape}.")
        return np.column_stack([matrix, np.ones(len(matrix))]) if self.constant else matrix

    def _chunks(self, indices: Tuples, weights: Array, height: int) -> Any:
        used = np.flatnonzero(weights).tolist()
        rows, size = self._as_rows([indices[k] for k in used]), max(1, _CHUNK // height)
        for begin in range(0, len(used), size):
            part = slice(begin, begin + size)
            yield rows[part], weights[used[part]]

    def _as_rows(self, indices: Tuples) -> Array:
        """Return the indices as rows of equal length, padded with the index of the column of ones."""
        rows = np.full((len(indices), self.degree), self.n_kernels)
        for row, index in zip(rows, indices, strict=True):
            row[: len(index)] = index
        return rows


def _products(padded: Array, rows: Array) -> Array:
    """Return, for each row of column numbers, the entrywise product of these columns of `padded`."""
    columns = np.ones((padded.shape[0], rows.shape[0]))
    for factor in rows.T:
        columns *= padded[:, factor]
    return columns


def multisets(n: int, size: int) -> tuple[Array, Array]:
    """Return the multisets of `size` elements of range(n), as sorted rows, and their numbers of orders."""
    count = math.comb(n + size - 1, size)
    flat = (j for chosen in combinations_with_replacement(range(n), size) for j in chosen)
    rows = np.fromiter(flat, dtype=np.int64, count=count * size).reshape(count, size)
    run, repeats = np.ones(count), np.ones(count)  # the product of count! over the distinct elements
    for left, right in zip(rows.T[:-1], rows.T[1:], strict=True):
        run = np.where(left == right, run + 1.0, 1.0)
        repeats *= run
    return rows, math.factorial(size) / repeats


def orders_of(index: tuple[int, ...]) -> int:
    """Return the number of orders of the entries of a multi-index."""
    return math.factorial(len(index)) // math.prod(map(math.factorial, Counter(index).values()))
