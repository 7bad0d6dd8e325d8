"""Banks of kernel matrices that were computed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.bank import Bank, Stored
from cutplane.kernels.definite import ASYMMETRY, check_definite
from cutplane.kernels.matrices import FactoredKernels, GivenMatrix, SymmetricMatrices, panel_ranges
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_real
from cutplane.risks.matrix import TILE

_SMALL = 1 << 22
"""Entries of a matrix that are all checked, because reading them is cheap; of a larger one a sample is."""
_SAMPLE = 1000
"""Pairs of entries in the sample, because a matrix that is not symmetric usually has many wrong pairs."""
_WHOLE = 128
"""Rows of a matrix tested for negative eigenvalues as a whole, because that takes no more memory than its
sums."""


@dataclass(frozen=True, eq=False, repr=False)
class PrecomputedKernels(Bank):
    """Kernel matrices K_1, ..., K_n of shape (m, m), as they are.

    They are neither copied nor read at once, so that memory-mapped arrays larger than the memory may be
    given; each pass reads the part of each matrix up to its diagonal, or above it if columns are contiguous.

    Parameters
    ----------
    matrices : array_like of shape (n_kernels, m, m), or sequence of arrays of shape (m, m)
        Symmetric and positive semidefinite. Others than float32 and float64 are converted to float64.
    names : sequence of str, optional
        By default "kernel 0", "kernel 1", ...

    Attributes
    ----------
    n_kernels, n_samples : int
    names : tuple of str

    Raises
    ------
    InvalidInputError
        If there are no matrices, their shapes do not fit, or one has an entry that is not finite, a negative
        one on its diagonal, is not symmetric, or is found not to be positive semidefinite; the message names
        the entries, or the direction. Of matrices with more than 4 million entries, the diagonal and 1000
        pairs of entries are checked for symmetry; of those with more than 128 rows, three principal blocks
        of 128 rows for negative eigenvalues.

    Notes
    -----
    With a large matrix that has negative eigenvalues which this does not find, the problems in which the bank
    is used are not convex, and their bounds do not hold. If need be, add a multiple of the identity, or cut
    off the negative eigenvalues.

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
    _stored: Stored = field(init=False)

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
        stored = FactoredKernels(m, n), dense
        set_fields(self, matrices=matrices, names=names, n_samples=m, _scales=np.ones(n), _stored=stored)

    @property
    def stored(self) -> Stored:
        return self._stored

    @property
    def dtype(self) -> np.dtype[Any]:
        """The least accurate type of the matrices."""
        return min((matrix.dtype for matrix in self.matrices), key=lambda dtype: dtype.itemsize)

    def predict(self, Z: Any, weights: Array, a: Array) -> Array:
        """Return the sum of weights_k Z_k a.

        Parameters
        ----------
        Z : array_like of shape (n_kernels, p, m), or sequence of arrays of shape (p, m)
            Kernels of p new points with the m examples. Those with weight zero are not read: they may be
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
            raise InvalidInputError("Z holds no matrix; give those of the kernels with weight.")
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
            _stored=tuple(part.restricted(numbers) for part in self.stored),
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
        If it is none of these.

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
            f"matrices[{k}][{i}, {i}] is {diagonal[i]}; the diagonal of a kernel is finite and nonnegative."
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
    """Return where a matrix, or a sample of a large one, is not symmetric or not finite."""
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
