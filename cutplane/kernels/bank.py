"""A bank of kernels on the same examples: sums, products and quadratic forms, for learning their weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.matrices import FactoredKernels, SymmetricMatrices
from cutplane.pieces.html import table
from cutplane.pieces.validation import Array, as_vector
from cutplane.runtime.chunks import equal_ranges
from cutplane.runtime.threads import run_chunks

Stored = tuple[FactoredKernels, SymmetricMatrices]
"""Kernels, each as a factor or as a matrix."""


@dataclass(frozen=True, eq=False)
class Products:
    """All K_k a of one vector a, in the form in which the bank keeps the kernels; linear in a.

    Parameters
    ----------
    bank : Bank
    coefficients : ndarray
        F'a, for the kernels with a factor F.
    rows : ndarray of shape (n_dense, m)
        K_k a, for the others.
    """

    bank: Bank
    coefficients: Array
    rows: Array

    def combine(self, other: Products, t: float) -> Products:
        """Return the products of a0 + t (a1 - a0) from those of a0 and of a1, without a pass."""
        return Products(
            self.bank,
            self.coefficients + t * (other.coefficients - self.coefficients),
            self.rows + t * (other.rows - self.rows),
        )

    def quadratic_forms(self, a: Array) -> Array:
        """Return a'K_k a, shape (n_kernels,), without a pass."""
        bank, a = self.bank, as_vector("a", a, self.bank.n_samples)
        (factored, dense), forms = bank.stored, self.rows @ a
        if (forms < 0.0).any():  # by rounding, they are zero
            rounding = 8.0 * np.finfo(bank.dtype).eps + bank.n_samples * np.finfo(np.float64).eps
            bound = rounding * float(a @ a) * dense.traces[dense.numbers]
            forms = np.where((forms < 0.0) & (forms >= -bound), 0.0, forms)
        return bank._scales * (factored.quadratic_forms(self.coefficients) + dense.among_all(forms))

    def weighted(self, weights: Array) -> Array:
        """Return the sum of weights_k K_k a, shape (m,); zero weights cost nothing."""
        weights, (factored, dense) = self.bank._scaled_weights(weights), self.bank.stored
        own = weights[dense.numbers]
        chosen = np.flatnonzero(own)
        return factored.weighted_products(weights, self.coefficients) + own[chosen] @ self.rows[chosen]


class Bank(ABC):
    """Kernels K_1, ..., K_n on the same m examples.

    Attributes
    ----------
    n_kernels, n_samples : int
    names : tuple of str
        Descriptions of the kernels.
    dtype : dtype
        float64, or float32 if kernels are kept in it.
    """

    n_samples: int
    names: tuple[str, ...]
    dtype: Any
    _scales: Array

    @property
    def n_kernels(self) -> int:
        """Number of kernels."""
        return self._scales.size

    def __len__(self) -> int:
        return self.n_kernels

    @property
    @abstractmethod
    def stored(self) -> Stored:
        """The kernels in the forms in which they are kept, before they are scaled."""

    @property
    def traces(self) -> Array:
        """The trace of each kernel, shape (n_kernels,)."""
        factored, dense = self.stored
        return self._scales * (factored.traces + dense.traces)

    @property
    def n_bytes(self) -> int:
        """Memory that the kernels take, in bytes, without the given data."""
        return sum(part.n_bytes for part in self.stored)

    def weighted_sum(self, weights: Array) -> Array:
        """Return the sum of weights_k K_k, shape (m, m), float64, C-ordered and symmetric.

        Parameters
        ----------
        weights : array_like of shape (n_kernels,)
            Zeros cost nothing.
        """
        return self._sum(self._scaled_weights(weights), None)

    def sum_near(self, weights: Array, a: Array, products: Products, allowed: float) -> Array:
        """Return K, the sum of weights_k K_k, without the parts that add least to a'Ka: at most `allowed` in
        total.

        The missing part, columns of factors and whole matrices, is positive semidefinite.

        Parameters
        ----------
        weights : array_like of shape (n_kernels,)
            Nonnegative.
        a : array_like of shape (m,)
        products : Products
            Those of a.
        allowed : float
        """
        scaled, (factored, dense) = self._scaled_weights(weights), self.stored
        columns = scaled[factored.owners] * np.square(products.coefficients)
        terms = np.concatenate([columns, scaled[dense.numbers] * np.maximum(products.rows @ a, 0.0)])
        order = np.argsort(terms)
        used = np.ones(terms.size, dtype=bool)
        used[order[: np.searchsorted(np.cumsum(terms[order]), allowed, side="right")]] = False
        return self._sum(scaled, used)

    def _sum(self, scaled: Array, used: Array | None) -> Array:
        from cutplane.kernels import passes

        (factored, dense), out = self.stored, np.zeros((self.n_samples, self.n_samples))
        columns, matrices = (None, True) if used is None else np.split(used, [factored.n_columns])
        factored.add_weighted_sum(scaled, out, columns)
        dense.add_weighted_sum(np.where(matrices, scaled[dense.numbers], 0.0), out)
        run_chunks(lambda rows: passes.mirror(out, *rows), equal_ranges(out.shape[0], out.size / 2))
        return out

    def quadratic_forms(self, a: Array) -> Array:
        """Return a'K_k a for each kernel, shape (n_kernels,): one pass.

        Parameters
        ----------
        a : array_like of shape (m,)
        """
        return self.products(a).quadratic_forms(a)

    def products(self, a: Array) -> Products:
        """Return all K_k a: one pass. Products on a line, and their quadratic forms, need none.

        Parameters
        ----------
        a : array_like of shape (m,)
        """
        a, (factored, dense) = as_vector("a", a, self.n_samples), self.stored
        return Products(self, factored.coefficients(a), dense.products(a))

    @abstractmethod
    def predict(self, Z: Any, weights: Array, a: Array) -> Array:
        """Return the sum of weights_k K_k(Z, X) a, one number per new point."""

    def scaled(self, factors: Array) -> Self:
        """Return the bank of factors_k K_k; nothing is computed or copied.

        Parameters
        ----------
        factors : array_like of shape (n_kernels,)
            Nonnegative.
        """
        factors = as_vector("factors", factors, self.n_kernels)
        if (factors < 0.0).any():
            k = int(factors.argmin())
            raise InvalidInputError(f"factors[{k}] is {factors[k]}; a kernel times it is no kernel: use abs.")
        return self._changed(_scales=self._scales * factors)

    def restricted(self, indices: Any) -> Self:
        """Return the bank of some kernels, in the given order; what is computed of them is kept.

        Parameters
        ----------
        indices : array_like of int, or of bool of shape (n_kernels,)
            At least one, none twice.
        """
        chosen = np.asarray(indices)
        try:
            numbers = np.atleast_1d(np.arange(self.n_kernels)[chosen if chosen.size else []])
        except IndexError as error:
            raise InvalidInputError(
                f"indices must be integers below {self.n_kernels}, or a mask of that length: {error}."
            ) from error
        if numbers.ndim != 1 or not numbers.size or np.unique(numbers).size < numbers.size:
            raise InvalidInputError(
                f"indices must be those of at least one kernel, none twice, got {chosen}."
            )
        return self._restricted(numbers)

    @abstractmethod
    def _restricted(self, numbers: Array) -> Self:
        """Return the bank of the kernels with these numbers."""

    def _changed(self, **changes: Any) -> Self:
        changed = object.__new__(type(self))
        vars(changed).update(vars(self) | changes)  # computed forms too, which pickling omits
        return changed

    def _scaled_weights(self, weights: Array) -> Array:
        return as_vector("weights", weights, self.n_kernels) * self._scales

    def _coefficients(self, weights: Any, a: Any) -> tuple[Array, Array]:
        """Return the scaled weights of the kernels, and the coefficients of the examples."""
        return self._scaled_weights(weights), as_vector("a", a, self.n_samples)

    def _facts(self) -> dict[str, Any]:
        few = ", ".join(self.names[:3]) + (", ..." if self.n_kernels > 3 else "")
        return {"kernels": f"{self.n_kernels}: {few}", "examples": str(self.n_samples)}

    def _repr_html_(self) -> str:
        return table({"bank": type(self).__name__, **self._facts()})
