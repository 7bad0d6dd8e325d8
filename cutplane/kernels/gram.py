"""The kernel matrix of a training set: rows, computed in blocks when needed, and products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.base import Kernel, select_columns
from cutplane.kernels.definite import check_definite
from cutplane.kernels.rows import BlockSource, CachedRows, DenseRows, KernelRows, gather, product
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import as_matrix
from cutplane.runtime.threads import run_chunks

_TILE = 1 << 17
"""Number of entries of a block, because a block then stays in the second-level cache."""
_STREAM = 256
"""Rows computed at a time for a product, because so many reach full speed and need little memory."""
_REMEMBERED = 4
"""Number of stored products, because a step uses the products of two points and of two slopes."""
_DIGITS = 1e-13
"""Relative difference up to which a vector counts as a multiple of another, because rounding errors of
products have this size."""
_ROUNDINGS = 4.0
"""Factor of n eps ||K|| ||p|| that bounds the error of a product K p and of omitted eigenvalues, because both
are sums of n terms."""
_WHOLE = 3000
"""Number of rows of a matrix up to which eigenvectors are computed, because this takes seconds."""


class Gram(BlockSource):
    """The matrix K_ij = k(x_i, x_j) of m examples, with a cache of rows and of products.

    Rows are float64 if all of them fit the cache, else float32. Products are always float64, because float32
    rows are computed again in float64 for them.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray, sparse array or sparse matrix of shape (m, d)
    cache_bytes : int
        The memory for rows.

    Raises
    ------
    InvalidInputError
        If the kernel refuses X, or if its matrix is found not to be symmetric positive semidefinite.
    """

    def __init__(self, kernel: Kernel, X: Any, cache_bytes: int) -> None:
        self.kernel, self.X, self.cache_bytes = kernel, as_matrix(X), cache_bytes
        if sparse.issparse(self.X):
            self.X = self.X.tocsr()
        kernel.check_examples(self.X)
        self._examples = select_columns(self.X, kernel.features)
        self._given = kernel.matrix_of(self._examples)
        self._remembered: list[tuple[Array, Array]] = []
        with np.errstate(over="ignore", invalid="ignore"):
            self._diagonal = kernel.finite(kernel.evaluate_diagonal(self._examples))
        if (least := float(self._diagonal.min())) < 0.0:
            raise InvalidInputError(
                f"The kernel {kernel.name!r} is not positive semidefinite: k(x, x) = {least:.6g} for row "
                f"{int(self._diagonal.argmin())} of X. Pass a kernel."
            )
        self.dtype = np.dtype(np.float64 if 8 * self.n**2 <= cache_bytes else np.float32)
        if not kernel.known:
            self._check()

    def __getstate__(self) -> dict[str, Any]:
        """Omit the product forms, because their functions cannot be pickled; they are built again."""
        return {name: value for name, value in vars(self).items() if name not in ("_single", "_double")}

    @property
    def n(self) -> int:
        return self.X.shape[0]

    def diagonal(self) -> Array:
        return self._diagonal

    @cached_property
    def cache(self) -> KernelRows:
        """The rows for solvers; all solvers share them."""
        return CachedRows(self, self.cache_bytes) if self._given is None else DenseRows(self._given)

    def rows(self, chosen: Array, out: Array | None = None) -> Array:
        out = np.empty((chosen.size, self.n)) if out is None else out
        height = max(8, _TILE // self.n)
        parts = [slice(start, start + height) for start in range(0, chosen.size, height)]
        run_chunks(lambda part: self._fill(chosen[part], out[part]), parts)
        return out

    def row(self, i: int) -> Array:
        """Return row i of K in float64; callers must not change it."""
        if self._given is None and self.dtype != np.float64:
            return self.rows(np.array([i]))[0]
        self.cache.fetch(i)
        return self.cache.slots[self.cache.where[i]]

    def product(self, a: Array, rows: CachedRows | None = None) -> Array:
        if not a.any():
            return np.zeros(self.n)
        for known, image in self._remembered:
            if (factor := _ratio(a, known, 4.0 * np.finfo(np.float64).eps)) is not None:
                return factor * image
        image = self.compute(a)
        self._remembered = [(a.copy(), image), *self._remembered[: _REMEMBERED - 1]]
        return image.copy()

    def preimage(self, v: Array) -> Array | None:
        """Return p with K p = v up to rounding; None if there is none, or K is too large to find it."""
        if not v.any():
            return np.zeros(self.n)
        for known, image in self._remembered:
            if (factor := _ratio(v, image, _DIGITS)) is not None:
                return factor * known
        if self.n > _WHOLE:
            return None
        values, vectors = self._eigen
        p = vectors @ ((vectors.T @ v) / values)
        outside = v - vectors @ (vectors.T @ v)
        rounding = _ROUNDINGS * self.n * np.finfo(np.float64).eps * values[-1] * np.linalg.norm(p)
        return p if np.linalg.norm(outside) <= rounding else None

    def restricted(self, chosen: Array) -> Gram:
        """Return the matrix of some of the examples; it is copied from this one if all rows fit the cache."""
        other = object.__new__(Gram)
        other.kernel, other.cache_bytes, other.dtype = self.kernel, self.cache_bytes, self.dtype
        other.X, other._examples = self.kernel.restrict(self.X, chosen), self._examples[chosen]
        other._diagonal, other._remembered = self._diagonal[chosen], []
        whole = self._given is not None or self.dtype == np.float64
        other._given = self.block(chosen, chosen) if whole else None
        return other

    def with_kernel(self, kernel: Kernel) -> Gram:
        """Return the matrix of another kernel on the same examples.

        If both kernels have the same class and two float64 matrices fit the cache, their common quantities,
        such as distances, are computed once and stored. Another width then costs one exponential per entry.
        """
        other = Gram(kernel, self.X, self.cache_bytes)
        same = type(kernel) is type(self.kernel) and kernel.features == self.kernel.features
        measured = self._measured if same and 16 * self.n**2 <= self.cache_bytes else None
        if measured is not None:
            other._given = self._tiled(lambda rows: kernel.scaled(measured[rows].copy()))
            np.fill_diagonal(other._given, other._diagonal)
        return other

    @cached_property
    def _measured(self) -> Array | None:
        if self.kernel.measure(self._examples[:1], self._examples[:1]) is None:
            return None
        return self._tiled(lambda rows: self.kernel.measure(self._examples[rows], self._examples))

    def _tiled(self, values: Callable[[slice], Any]) -> Array:
        """Return the matrix of `values`, computed in blocks of rows."""
        out, height = np.empty((self.n, self.n)), max(8, _TILE // self.n)

        def part(start: int) -> None:
            rows = slice(start, start + height)
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                out[rows] = values(rows)

        run_chunks(part, range(0, self.n, height))
        return out

    def block(self, rows: Array, columns: Array) -> Array:
        """Return a new array with the given rows and columns, which may be different sets."""
        cache = self.cache
        if self._given is None and self.dtype != np.float64:
            return self.kernel.cross(self.X[rows], self.kernel.select(self.X, columns))
        cache.fetch_all(rows)
        out = np.empty((rows.size, columns.size))
        gather(cache.slots, cache.where[rows], columns, out)
        return out

    def matrix(self) -> Array:
        """Return K; callers must not change it."""
        return self.rows(np.arange(self.n)) if self._given is None else self._given

    def _fill(self, chosen: Array, out: Array) -> None:
        form = self._single if out.dtype == np.float32 else self._double
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if form is None:
                found = self.kernel.evaluate(self._examples[chosen], self._examples)
                np.copyto(out, found if self.kernel.known else self.kernel.finite(found))
            elif sparse.issparse(form.right):
                np.copyto(out, (form.right.T @ form.left[chosen].toarray().T).T)
                form.finish(out)
            else:
                np.matmul(form.left[chosen], form.right, out=out)
                form.finish(out)
        if self.kernel.known:
            out[np.arange(chosen.size), chosen] = self._diagonal[chosen]

    @cached_property
    def _double(self) -> Any:
        form = self.kernel.products(self._examples, self._examples)
        if form is None:
            return None
        right = form.right.T  # contiguous rows make products of few rows fast
        return form._replace(right=right if sparse.issparse(right) else np.ascontiguousarray(right))

    @cached_property
    def _single(self) -> Any:
        form = self._double
        return form and form._replace(left=form.left.astype(np.float32), right=form.right.astype(np.float32))

    def compute(self, a: Array) -> Array:
        """Return K a in float64, without using or changing the stored products."""
        cache = self.cache
        if isinstance(cache, DenseRows):
            return cache.product(a)
        assert isinstance(cache, CachedRows)
        support = np.flatnonzero(a)
        if self.dtype == np.float64:
            cache.fetch_all(support)
            return product(cache.slots, cache.where, a)
        out = np.zeros(self.n)
        for start in range(0, support.size, _STREAM):
            part = support[start : start + _STREAM]
            out += a[part] @ self.rows(part)
        return out

    def _check(self) -> None:
        def block(chosen: Array) -> Array:
            if self._given is not None:
                return self._given[np.ix_(chosen, chosen)]
            part = self._examples[chosen]
            return self.kernel.finite(self.kernel.evaluate(part, part))

        name = f"The matrix of the kernel {self.kernel.name!r}"
        check_definite(name, self._diagonal, block, None if self._given is None else self._given.__matmul__)

    @cached_property
    def _eigen(self) -> tuple[Array, Array]:
        """The eigenvalues above the rounding error, and their eigenvectors."""
        K = self.matrix()
        values, vectors = linalg.eigh(0.5 * (K + K.T))
        kept = values > self.n * np.finfo(np.float64).eps * values[-1]
        return values[kept], vectors[:, kept]


def _ratio(a: Array, b: Array, digits: float) -> float | None:
    """Return the t with a = t b, up to errors relative to the largest entry; None if there is none."""
    peak = int(np.abs(b).argmax())
    if b[peak] == 0.0:
        return None
    t = float(a[peak] / b[peak])
    return t if t != 0.0 and np.abs(a - t * b).max() <= digits * abs(t * b[peak]) else None
