"""What a bank of kernels offers to those who learn their weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.factored import FactoredKernels
from cutplane.kernels.panels import SymmetricMatrices, mirrored
from cutplane.pieces.html import table
from cutplane.pieces.validation import Array, as_vector


@dataclass(frozen=True, eq=False)
class Parts:
    """The kernels of a bank, in two forms."""

    factored: FactoredKernels
    dense: SymmetricMatrices
    which_factored: Array
    which_dense: Array

    def gather(self, factored: Array, dense: Array) -> Array:
        """Return one number per kernel, from those of either form."""
        out = np.empty(self.which_factored.size + self.which_dense.size)
        out[self.which_factored] = factored
        out[self.which_dense] = dense
        return out

    @cached_property
    def traces(self) -> Array:
        """The trace of each kernel."""
        return self.gather(self.factored.traces, self.dense.traces)

    def restricted(self, numbers: Array) -> Parts:
        """Return some of the kernels, in that order."""
        is_factored = np.isin(numbers, self.which_factored)
        return Parts(
            self.factored.restricted(np.searchsorted(self.which_factored, numbers[is_factored])),
            self.dense.restricted(np.searchsorted(self.which_dense, numbers[~is_factored])),
            np.flatnonzero(is_factored),
            np.flatnonzero(~is_factored),
        )


@dataclass(frozen=True, eq=False)
class Products:
    """All K_k a of one vector a, in the form that the bank keeps; linear in a.

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
        a = as_vector("a", a, self.bank.n_samples)
        factored = self.bank.parts.factored.quadratic_forms(self.coefficients)
        return self.bank._forms(factored, self.rows @ a, a)

    def weighted(self, weights: Array) -> Array:
        """Return the sum of weights_k K_k a, shape (m,); zero weights cost nothing."""
        parts, weights = self.bank.parts, self.bank._scaled_weights(weights)
        out = parts.factored.weighted_products(weights[parts.which_factored], self.coefficients)
        dense = weights[parts.which_dense]
        chosen = np.flatnonzero(dense)
        return out + dense[chosen] @ self.rows[chosen]


class Bank(ABC):
    """Kernels K_1, ..., K_n on the same m examples.

    Attributes
    ----------
    n_kernels, n_samples : int
    names : tuple of str
        What each kernel is.
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
    def parts(self) -> Parts:
        """The kernels in the form in which they are kept, before they are scaled."""

    @property
    def traces(self) -> Array:
        """The trace of each kernel, shape (n_kernels,)."""
        return self._scales * self.parts.traces

    @property
    def n_bytes(self) -> int:
        """Memory that the kernels take, in bytes, without what was given."""
        return self.parts.factored.n_bytes + self.parts.dense.n_bytes

    def weighted_sum(self, weights: Array) -> Array:
        """Return the sum of weights_k K_k, shape (m, m), float64, C-ordered and symmetric.

        Parameters
        ----------
        weights : array_like of shape (n_kernels,)
            Zeros cost nothing.
        """
        return self._sum(self._scaled_weights(weights), None)

    def sum_near(self, weights: Array, a: Array, products: Products, allowed: float) -> Array:
        """Return K, the sum of weights_k K_k, without what adds least to a'Ka: at most `allowed` in total.

        What is missing, columns of factors and matrices without a factor, is positive semidefinite.

        Parameters
        ----------
        weights : array_like of shape (n_kernels,)
            Nonnegative.
        a : array_like of shape (m,)
        products : Products
            Those of a.
        allowed : float
        """
        scaled, parts = self._scaled_weights(weights), self.parts
        columns = scaled[parts.which_factored][parts.factored.owners] * np.square(products.coefficients)
        terms = np.concatenate([columns, scaled[parts.which_dense] * np.maximum(products.rows @ a, 0.0)])
        order = np.argsort(terms)
        used = np.ones(terms.size, dtype=bool)
        used[order[: np.searchsorted(np.cumsum(terms[order]), allowed, side="right")]] = False
        return self._sum(scaled, used)

    def _sum(self, scaled: Array, used: Array | None) -> Array:
        out = np.zeros((self.n_samples, self.n_samples))
        parts = self.parts
        count, dense = parts.factored.n_columns, scaled[parts.which_dense]
        parts.factored.add_weighted_sum(
            scaled[parts.which_factored], out, None if used is None else used[:count]
        )
        parts.dense.add_weighted_sum(dense if used is None else np.where(used[count:], dense, 0.0), out)
        return mirrored(out)

    def quadratic_forms(self, a: Array) -> Array:
        """Return a'K_k a for each kernel, shape (n_kernels,): one pass.

        Parameters
        ----------
        a : array_like of shape (m,)
        """
        a = as_vector("a", a, self.n_samples)
        parts = self.parts
        factored = parts.factored.quadratic_forms(parts.factored.coefficients(a))
        return self._forms(factored, parts.dense.quadratic_forms(a), a)

    def products(self, a: Array) -> Products:
        """Return all K_k a: one pass. Products on a line, and their quadratic forms, need none.

        Parameters
        ----------
        a : array_like of shape (m,)
        """
        a = as_vector("a", a, self.n_samples)
        return Products(self, self.parts.factored.coefficients(a), self.parts.dense.products(a))

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
        vars(changed).update(vars(self) | changes)  # what is computed too, which pickling leaves out
        return changed

    def _scaled_weights(self, weights: Array) -> Array:
        return as_vector("weights", weights, self.n_kernels) * self._scales

    def _forms(self, factored: Array, dense: Array, a: Array) -> Array:
        """Gather quadratic forms; where a dense one is negative by rounding, it is zero."""
        parts = self.parts
        if (dense < 0.0).any():
            rounding = 8.0 * np.finfo(self.dtype).eps + self.n_samples * np.finfo(np.float64).eps
            bound = rounding * float(a @ a) * parts.dense.traces
            dense = np.where((dense < 0.0) & (dense >= -bound), 0.0, dense)
        return self._scales * parts.gather(factored, dense)

    def _facts(self) -> dict[str, Any]:
        few = ", ".join(self.names[:3]) + (", ..." if self.n_kernels > 3 else "")
        return {"kernels": f"{self.n_kernels}: {few}", "examples": str(self.n_samples)}

    def _repr_html_(self) -> str:
        return table({"bank": type(self).__name__, **self._facts()})


def as_coefficients(bank: Bank, weights: Any, a: Any) -> tuple[Array, Array]:
    """Return the scaled weights of a bank's kernels, and the coefficients of its examples."""
    return bank._scaled_weights(weights), as_vector("a", a, bank.n_samples)
