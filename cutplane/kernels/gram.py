"""The kernel matrix of a training set: rows, computed in blocks where they are needed, and products."""

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
"""Entries of a block computed at a time, because they stay in a cache of the second level."""
_STREAM = 256
"""Rows of a product computed at a time, because so many have the full speed and little memory."""
_REMEMBERED = 4
"""Products remembered, because a step needs the products of its two ends and of two slopes."""
_DIGITS = 1e-13
"""Relative difference of a vector from a multiple that is taken for none, because it is the rounding error of
some products and sums."""
_ROUNDINGS = 4.0
"""Error of a product with K, and size of omitted eigenvalues, in n eps ||K|| ||p||, because both are such
sums."""
_WHOLE = 3000
"""Rows of a matrix whose eigenvectors are computed, because that takes seconds."""


class Gram(BlockSource):
    """K_ij = k(x_i, x_j) of m examples; rows are kept in a cache, and products of the last vectors too.

    Rows are float64 if all fit the cache, and else float32. Products are float64: rows that
    are not kept in float64 are computed again for them.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray, sparse array or sparse matrix of shape (m, d)
    cache_bytes : int
        The memory for rows.

    Raises
    ------
    InvalidInputError
        If the kernel refuses X, or is found not to be symmetric and positive semidefinite there.
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
        """Leave out the product forms, because their functions cannot be pickled; they are built again."""
        return {name: value for name, value in vars(self).items() if name not in ("_single", "_double")}

    @property
    def n(self) -> int:
        return self.X.shape[0]

    def diagonal(self) -> Array:
        return self._diagonal

    @cached_property
    def cache(self) -> KernelRows:
        """The rows as solvers see them, shared by all."""
        return CachedRows(self, self.cache_bytes) if self._given is None else DenseRows(self._given)

    def rows(self, chosen: Array, out: Array | None = None) -> Array:
        out = np.empty((chosen.size, self.n)) if out is None else out
        height = max(8, _TILE // self.n)
        parts = [slice(start, start + height) for start in range(0, chosen.size, height)]
        run_chunks(lambda part: self._fill(chosen[part], out[part]), parts)
        return out

    def row(self, i: int) -> Array:
        """Return row i of K in float64, which is not to be changed."""
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
        """Return p with K p = v up to rounding; None if there is none, or none is known for a large K."""
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
        """Return the matrix of some of the examples; if all rows fit the cache, a part of this one."""
        other = object.__new__(Gram)
        other.kernel, other.cache_bytes, other.dtype = self.kernel, self.cache_bytes, self.dtype
        other.X, other._examples = self.kernel.restrict(self.X, chosen), self._examples[chosen]
        other._diagonal, other._remembered = self._diagonal[chosen], []
        whole = self._given is not None or self.dtype == np.float64
        other._given = self.block(chosen, chosen) if whole else None
        return other

    def with_kernel(self, kernel: Kernel) -> Gram:
        """Return the matrix of another kernel on the same examples.

        If it is of the same class, and two float64 matrices fit the cache, the quantities that both are
        functions of, such as distances, are computed once and kept: a width costs one exponential an entry.
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
        """Return a matrix whose rows are computed some at a time."""
        out, height = np.empty((self.n, self.n)), max(8, _TILE // self.n)

        def part(start: int) -> None:
            rows = slice(start, start + height)
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                out[rows] = values(rows)

        run_chunks(part, range(0, self.n, height))
        return out

    def block(self, rows: Array, columns: Array) -> Array:
        """Return a new array with those rows and columns, which need not be the same."""
        cache = self.cache
        if self._given is None and self.dtype != np.float64:
            return self.kernel.cross(self.X[rows], self.kernel.select(self.X, columns))
        cache.fetch_all(rows)
        out = np.empty((rows.size, columns.size))
        gather(cache.slots, cache.where[rows], columns, out)
        return out

    def matrix(self) -> Array:
        """Return K, which is not to be changed."""
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
        """Return K a, float64, recomputed and not remembered."""
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
        """The eigenvalues beyond rounding, and their vectors."""
        K = self.matrix()
        values, vectors = linalg.eigh(0.5 * (K + K.T))
        kept = values > self.n * np.finfo(np.float64).eps * values[-1]
        return values[kept], vectors[:, kept]


def _ratio(a: Array, b: Array, digits: float) -> float | None:
    """Return the number t with a = t b up to relative digits of the largest entry; None if there is none."""
    peak = int(np.abs(b).argmax())
    if b[peak] == 0.0:
        return None
    t = float(a[peak] / b[peak])
    return t if t != 0.0 and np.abs(a - t * b).max() <= digits * abs(t * b[peak]) else None
