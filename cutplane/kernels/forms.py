"""The two forms in which a bank holds a kernel function on its examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.kernels.base import Kernel
from cutplane.kernels.low_rank import low_rank_factor
from cutplane.kernels.normalization import Step
from cutplane.kernels.panels import panel_ranges
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import read_only


@dataclass(frozen=True, eq=False)
class Factor:
    """K = F F'."""

    F: Array

    def diagonal(self) -> Array:
        """Return K_ii, shape (m,)."""
        return np.einsum("ij,ij->i", self.F, self.F)

    def means(self) -> Array:
        """Return the means of the rows of K, shape (m,)."""
        return self.F @ self.F.mean(axis=0)

    def then(self, step: Step) -> Factor:
        """Return the form after one more step of normalisation."""
        return Factor(step.factored(self.F))


@dataclass(frozen=True, eq=False)
class Values:
    """The matrix of a kernel function, computed where it is needed.

    Parameters
    ----------
    kernel : Kernel
    A : ndarray or CSR of shape (m, d)
        The columns that the kernel looks at.
    steps : tuple of Step
        Its normalisation.
    """

    kernel: Kernel
    A: Any
    steps: tuple[Step, ...] = ()
    n_bytes = 0

    def diagonal(self) -> Array:
        """Return K_ii, shape (m,)."""
        diagonal = self.kernel.evaluate_diagonal(self.A)
        for step in self.steps:
            diagonal = step.diagonal(diagonal)
        return diagonal

    def means(self) -> Array:
        """Return the means of the rows of K, shape (m,)."""
        m = self.A.shape[0]
        parts = [self._block(slice(*rows), slice(0, m)).mean(axis=1) for rows in panel_ranges(m)]
        return np.concatenate(parts)

    def then(self, step: Step) -> Values:
        """Return the form after one more step of normalisation."""
        return Values(self.kernel, self.A, (*self.steps, step))

    def panel(self, number: int, first: int, stop: int) -> Array:
        """Return rows first to stop, up to column `stop`."""
        return read_only(np.ascontiguousarray(self._block(slice(first, stop), slice(0, stop))))

    def _block(self, rows: slice, columns: slice) -> Array:
        K = self.kernel.evaluate(self.A[rows], self.A[columns])
        for step in self.steps:
            K = step.examples(K, rows, columns)
        return K


def cheapest_form(kernel: Kernel, A: Any, tol: float) -> Factor | Values:
    """Return a factor with at most m / 4 columns (16 for few examples), or else the values.

    Parameters
    ----------
    kernel : Kernel
    A : ndarray or CSR of shape (m, d)
        The columns that the kernel looks at.
    tol : float
        Part of the trace that the factor may leave out.

    Raises
    ------
    InvalidInputError
        If the kernel is not finite at an example.
    """
    m = A.shape[0]
    diagonal = kernel.finite(kernel.evaluate_diagonal(A))
    cap = max(m // 4, min(m, 16))
    columns = kernel.factor_columns(A.shape[1])
    if columns is not None and columns <= cap:
        return Factor(kernel.evaluate_factor(A))
    few_values = A.shape[1] == 1 and np.unique(A).size <= cap
    if not (kernel.smooth or few_values):
        return Values(kernel, A)
    F = low_rank_factor(lambda i: kernel.evaluate(A, A[i : i + 1])[:, 0], diagonal, cap, tol, few_values)
    return Values(kernel, A) if F is None else Factor(F)
