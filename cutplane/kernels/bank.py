"""Banks of kernels on the same examples: sums, products and quadratic forms, for learning their weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.definite import ASYMMETRY, check_definite
from cutplane.kernels.matrices import FactoredKernels, GivenMatrix, SymmetricMatrices, panel_ranges
from cutplane.pieces.html import table
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_real, as_vector
from cutplane.risks.matrix import TILE
from cutplane.runtime.chunks import equal_ranges
from cutplane.runtime.threads import run_chunks

_SMALL = 1 << 22
"""Number of entries of a matrix up to which symmetry is checked for all, because reading them is cheap;
larger matrices are sampled."""
_SAMPLE = 1000
"""Pairs of entries in the sample, because a matrix that is not symmetric usually has many wrong pairs."""
_WHOLE = 128
"""Rows of a matrix up to which its whole spectrum is tested, because the test then needs little memory."""

BankParts = tuple[FactoredKernels, SymmetricMatrices]
"""The kernels stored as factors, and the kernels stored as matrices."""


@dataclass(frozen=True, eq=False)
class Products:
    """All products K_k a with one vector a, stored as the bank stores the kernels; linear in a.

    Parameters
    ----------
    bank : Bank
    coefficients : ndarray
        F'a for the kernels that are stored as a factor F.
    rows : ndarray of shape (n_dense, m)
        K_k a for the other kernels.
    """

    bank: Bank
    coefficients: Array
    rows: Array

    def combine(self, other: Products, t: float) -> Products:
        """Return the products of a0 + t (a1 - a0) from the products of a0 and a1, without a pass."""
        return Products(
            self.bank,
            self.coefficients + t * (other.coefficients - self.coefficients),
            self.rows + t * (other.rows - self.rows),
        )

    def quadratic_forms(self, a: Array) -> Array:
        """Return a'K_k a, shape (n_kernels,), without reading kernels."""
        bank, a = self.bank, as_vector("a", a, self.bank.n_samples)
        (factored, dense), forms = bank.parts, self.rows @ a
        if (forms < 0.0).any():  # negative because of rounding errors
            rounding = 8.0 * np.finfo(bank.dtype).eps + bank.n_samples * np.finfo(np.float64).eps
            bound = rounding * float(a @ a) * dense.traces[dense.numbers]
            forms = np.where((forms < 0.0) & (forms >= -bound), 0.0, forms)
        return bank._scales * (factored.quadratic_forms(self.coefficients) + dense.among_all(forms))

    def weighted(self, weights: Array) -> Array:
        """Return the sum of weights_k K_k a, shape (m,); kernels with weight zero are skipped."""
        weights, (factored, dense) = self.bank._scaled_weights(weights), self.bank.parts
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
        The type in which kernels are stored, float64 or float32.
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
    def parts(self) -> BankParts:
        """The kernels as they are stored, before scaling."""

    @property
    def traces(self) -> Array:
        """The trace of each kernel, shape (n_kernels,)."""
        factored, dense = self.parts
        return self._scales * (factored.traces + dense.traces)

    @property
    def n_bytes(self) -> int:
        """Memory of the stored kernels in bytes, without the user's data."""
        return sum(part.n_bytes for part in self.parts)

    def weighted_sum(self, weights: Array) -> Array:
        """Return the sum of weights_k K_k, shape (m, m), float64, C-ordered and symmetric.

        Parameters
        ----------
        weights : array_like of shape (n_kernels,)
            Kernels with weight zero are skipped.
        """
        return self._sum(self._scaled_weights(weights), None)

    def sum_near(self, weights: Array, a: Array, products: Products, allowed: float) -> Array:
        """Return the sum of weights_k K_k without the terms that contribute least to a'Ka.

        The omitted terms are columns of factors and whole matrices. Their sum is positive semidefinite and
        contributes at most `allowed` to a'Ka.

        Parameters
        ----------
        weights : array_like of shape (n_kernels,)
            Nonnegative.
        a : array_like of shape (m,)
        products : Products
            The products of a.
        allowed : float
        """
        scaled, (factored, dense) = self._scaled_weights(weights), self.parts
        columns = scaled[factored.owners] * np.square(products.coefficients)
        terms = np.concatenate([columns, scaled[dense.numbers] * np.maximum(products.rows @ a, 0.0)])
        order = np.argsort(terms)
        used = np.ones(terms.size, dtype=bool)
        used[order[: np.searchsorted(np.cumsum(terms[order]), allowed, side="right")]] = False
        return self._sum(scaled, used)

    def _sum(self, scaled: Array, used: Array | None) -> Array:
        from cutplane.kernels import passes

        (factored, dense), out = self.parts, np.zeros((self.n_samples, self.n_samples))
        columns, matrices = (None, True) if used is None else np.split(used, [factored.n_columns])
        factored.add_weighted_sum(scaled, out, columns)
        dense.add_weighted_sum(np.where(matrices, scaled[dense.numbers], 0.0), out)
        run_chunks(lambda rows: passes.mirror(out, *rows), equal_ranges(out.shape[0], out.size / 2))
        return out

    def quadratic_forms(self, a: Array) -> Array:
        """Return a'K_k a for each kernel, shape (n_kernels,); reads the kernels once.

        Parameters
        ----------
        a : array_like of shape (m,)
        """
        return self.products(a).quadratic_forms(a)

    def products(self, a: Array) -> Products:
        """Return all K_k a; reads the kernels once.

        The products of points on a line, and quadratic forms, follow from the result without reading kernels.

        Parameters
        ----------
        a : array_like of shape (m,)
        """
        a, (factored, dense) = as_vector("a", a, self.n_samples), self.parts
        return Products(self, factored.coefficients(a), dense.products(a))

    @abstractmethod
    def predict(self, Z: Any, weights: Array, a: Array) -> Array:
        """Return the sum of weights_k K_k(Z, X) a, one number per new point."""

    def scaled(self, factors: Array) -> Self:
        """Return the bank of the kernels factors_k K_k, without computing or copying kernels.

        Parameters
        ----------
        factors : array_like of shape (n_kernels,)
            Nonnegative.
        """
        factors = as_vector("factors", factors, self.n_kernels)
        if (factors < 0.0).any():
            k = int(factors.argmin())
            raise InvalidInputError(
                f"factors[{k}] is {factors[k]}, but a negative multiple of a kernel is not a kernel; "
                "pass nonnegative factors."
            )
        return self._changed(_scales=self._scales * factors)

    def restricted(self, indices: Any) -> Self:
        """Return the bank of some kernels in the given order, without computing them again.

        Parameters
        ----------
        indices : array_like of int, or of bool of shape (n_kernels,)
            At least one, without repetition.
        """
        chosen = np.asarray(indices)
        try:
            numbers = np.atleast_1d(np.arange(self.n_kernels)[chosen if chosen.size else []])
        except IndexError as error:
            raise InvalidInputError(
                f"indices must be integers below {self.n_kernels}, or a mask of that length: {error}."
            ) from error
        if numbers.ndim != 1 or not numbers.size or np.unique(numbers).size < numbers.size:
            raise InvalidInputError(f"indices must name at least one kernel, and none twice, got {chosen}.")
        return self._restricted(numbers)

    @abstractmethod
    def _restricted(self, numbers: Array) -> Self:
        """Return the bank of the kernels with these numbers."""

    def _changed(self, **changes: Any) -> Self:
        changed = object.__new__(type(self))
        vars(changed).update(vars(self) | changes)  # includes computed kernels, which pickling omits
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


@dataclass(frozen=True, eq=False, repr=False)
class PrecomputedKernels(Bank):
    """Given kernel matrices K_1, ..., K_n of shape (m, m).

    The matrices are neither copied nor read at once. They may therefore be memory-mapped arrays that are
    larger than the memory. Each pass reads one triangle of each matrix: the lower one, or the upper one if
    columns are contiguous.

    Parameters
    ----------
    matrices : array_like of shape (n_kernels, m, m), or sequence of arrays of shape (m, m)
        Symmetric and positive semidefinite. Types other than float32 and float64 are converted to float64.
    names : sequence of str, optional
        By default "kernel 0", "kernel 1", ...

    Attributes
    ----------
    n_kernels, n_samples : int
    names : tuple of str

    Raises
    ------
    InvalidInputError
        If there are no matrices, if their shapes differ, or if a matrix has an entry that is not finite or a
        negative diagonal entry, is not symmetric, or is found not to be positive semidefinite. The message
        names the entries or the direction. In matrices with more than 4 million entries, the diagonal and
        1000 pairs of entries are checked for symmetry. In matrices with more than 128 rows, three principal
        blocks of 128 rows are tested for negative eigenvalues.

    Notes
    -----
    The tests may miss negative eigenvalues of a large matrix. Problems with such a matrix are not convex, and
    their bounds are not valid. If in doubt, add a multiple of the identity, or set the negative eigenvalues
    to zero.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import PrecomputedKernels
    >>> bank = PrecomputedKernels([np.eye(2), np.ones((2, 2))], names=["identity", "constant"])
    >>> bank
    PrecomputedKernels(2 kernels, 2 examples)
    >>> bank.quadratic_forms([1.0, 1.0]).tolist(), bank.weighted_sum([1.0, 0.5]).tolist()
    ([2.0, 4.0], [[1.5, 0.5], [0.5, 1.5]])
    >>> bank.predict(np.ones((2, 3, 2)), [1.0, 0.5], [1.0, 1.0]).tolist()
    [3.0, 3.0, 3.0]
    """

    matrices: Any
    names: Any = None
    n_samples: int = field(init=False)
    _scales: Array = field(init=False)
    _parts: BankParts = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.matrices, np.ndarray | Sequence):
            raise InvalidInputError(
                "matrices must be an array of shape (n, m, m) or a sequence of matrices, got "
                f"{type(self.matrices).__name__}."
            )
        matrices = tuple(
            as_real(f"matrices[{k}]", matrix, keep_float32=True) for k, matrix in enumerate(self.matrices)
        )
        if not matrices:
            raise InvalidInputError("matrices is empty; give at least one kernel matrix.")
        m, n = matrices[0].shape[0] if matrices[0].ndim else 0, len(matrices)
        for k, matrix in enumerate(matrices):
            _check(k, matrix, m)
        names = tuple(f"kernel {k}" for k in range(n)) if self.names is None else tuple(map(str, self.names))
        if len(names) != n:
            raise InvalidInputError(f"names must name {n} kernels, got {len(names)} names.")
        dense = SymmetricMatrices(m, n, np.arange(n), tuple(map(GivenMatrix, matrices)))
        parts = FactoredKernels(m, n), dense
        set_fields(self, matrices=matrices, names=names, n_samples=m, _scales=np.ones(n), _parts=parts)

    @property
    def parts(self) -> BankParts:
        return self._parts

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 if any matrix has this type, else float64."""
        return min((matrix.dtype for matrix in self.matrices), key=lambda dtype: dtype.itemsize)

    def predict(self, Z: Any, weights: Array, a: Array) -> Array:
        """Return the sum of weights_k Z_k a.

        Parameters
        ----------
        Z : array_like of shape (n_kernels, p, m), or sequence of arrays of shape (p, m)
            Kernels of p new points with the m examples. A matrix with weight zero is not read and may be
            None.
        weights : array_like of shape (n_kernels,)
        a : array_like of shape (m,)

        Returns
        -------
        ndarray of shape (p,)
        """
        weights, a = self._coefficients(weights, a)
        if not isinstance(Z, np.ndarray | Sequence) or len(Z) != self.n_kernels:
            raise InvalidInputError(
                f"Z must hold one matrix for each of the {self.n_kernels} kernels, of shape (p, "
                f"{self.n_samples})."
            )
        known = next((k for k in range(len(Z)) if Z[k] is not None), None)
        if known is None:
            raise InvalidInputError(
                "Z holds no matrix; give the matrices of all kernels with nonzero weight."
            )
        p = np.shape(Z[known])[0] if np.ndim(Z[known]) else 0
        out = np.zeros(p)
        for k in np.flatnonzero(weights).tolist():
            block = as_real(f"Z[{k}]", Z[k], keep_float32=True)
            if block.shape != (p, self.n_samples):
                raise InvalidInputError(
                    f"Z[{k}] must have shape ({p}, {self.n_samples}), one row per new point, got "
                    f"{block.shape}."
                )
            height = max(1, TILE // self.n_samples)
            for i in range(0, p, height):
                out[i : i + height] += weights[k] * (block[i : i + height] @ a)
        return out

    def _restricted(self, numbers: Array) -> Self:
        return self._changed(
            matrices=tuple(self.matrices[k] for k in numbers),
            names=tuple(self.names[k] for k in numbers),
            _scales=self._scales[numbers],
            _parts=tuple(part.restricted(numbers) for part in self.parts),
        )

    def __repr__(self) -> str:
        return f"PrecomputedKernels({self.n_kernels} kernels, {self.n_samples} examples)"


def as_bank(kernels: Any) -> Bank:
    """Return a bank of kernels.

    Parameters
    ----------
    kernels : Bank, array_like of shape (n, m, m), or sequence of arrays of shape (m, m)
        A bank is returned as it is; matrices as `PrecomputedKernels`.

    Raises
    ------
    InvalidInputError
        If `kernels` is none of these.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels import as_bank
    >>> as_bank(np.ones((3, 2, 2)))
    PrecomputedKernels(3 kernels, 2 examples)
    """
    if isinstance(kernels, Bank):
        return kernels
    if isinstance(kernels, Sequence) and any(callable(kernel) for kernel in kernels):
        raise InvalidInputError("Kernel functions need examples; pass KernelBank(kernels, X).")
    return PrecomputedKernels(kernels)


def _check(k: int, matrix: Array, m: int) -> None:
    if matrix.shape != (m, m) or not m:
        hint = "; for one kernel, pass K[np.newaxis]" if matrix.ndim == 1 else ""
        raise InvalidInputError(
            f"matrices[{k}] must be square, like the first one, got shape {matrix.shape}{hint}."
        )
    diagonal = matrix.diagonal()
    if not (np.isfinite(diagonal).all() and diagonal.min() >= 0.0):
        i = int(np.argmin(np.where(np.isfinite(diagonal), diagonal, -np.inf)))
        raise InvalidInputError(
            f"matrices[{k}][{i}, {i}] is {diagonal[i]}; a kernel matrix has a finite nonnegative diagonal."
        )
    place = _asymmetry(matrix, ASYMMETRY[matrix.dtype.newbyteorder("=")] * float(diagonal.max()))
    if place is not None:
        i, j = place
        raise InvalidInputError(
            f"matrices[{k}] must be finite and symmetric, but entry [{i}, {j}] is {matrix[i, j]} and "
            f"[{j}, {i}] is {matrix[j, i]}; pass (K + K.T) / 2."
        )
    check_definite(
        f"matrices[{k}]",
        diagonal.astype(np.float64),
        lambda chosen: matrix[np.ix_(chosen, chosen)],
        whole=_WHOLE,
    )


def _asymmetry(matrix: Array, tol: float) -> tuple[int, int] | None:
    """Return an entry that is not finite or not symmetric, or None; large matrices are sampled."""
    m = matrix.shape[0]
    if matrix.size > _SMALL:
        i, j = np.random.default_rng(0).integers(m, size=(2, _SAMPLE))
        wrong = _differs(matrix[i, j], matrix[j, i], tol)
        where = int(np.argmax(wrong))
        return (int(i[where]), int(j[where])) if wrong.any() else None
    for first, stop in panel_ranges(m):
        wrong = _differs(matrix[first:stop, :stop], matrix[:stop, first:stop].T, tol)
        if wrong.any():
            i, j = np.argwhere(wrong)[0].tolist()
            return first + i, j
    return None


def _differs(low: Array, high: Array, tol: float) -> Array:
    with np.errstate(invalid="ignore"):
        return ~(np.abs(low - high) <= tol)
