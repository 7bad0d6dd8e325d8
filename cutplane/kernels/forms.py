"""The two forms in which a bank holds a kernel function on its examples: a factor of low rank, or values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.kernels.base import Kernel
from cutplane.kernels.normalization import Step
from cutplane.kernels.panels import panel_ranges
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import read_only

_FIRST_LOOK = 16
"""Columns before the rank is guessed."""


@dataclass(frozen=True, eq=False)
class Factor:
    """K = F F'."""

    F: Array

    @property
    def factor(self) -> Array:
        """F."""
        return self.F

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
    """The matrix of a kernel function, computed where it is needed."""

    kernel: Kernel
    A: Any
    steps: tuple[Step, ...] = ()
    n_bytes = 0
    factor = None

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
    """Return a factor with at most m / 4 columns (16 for few examples), or else the values."""
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


def low_rank_factor(
    column: Callable[[int], Array], diagonal: Array, cap: int, tol: float, patient: bool = False
) -> Array | None:
    """Return F with K - F F' positive semidefinite and K_ii - |F_i|^2 <= tol * K_ii for each i, or None.

    Pivoted Cholesky: the next column is that of the example with the largest residual K_ii - |F_i|^2, as part
    of K_ii, so that examples with small values are as accurate as others.
    """
    residual = diagonal.astype(np.float64)
    inverses = np.divide(1.0, residual, out=np.zeros_like(residual), where=residual > 0.0)
    total = max(1, np.count_nonzero(inverses))
    rows = np.empty((min(_FIRST_LOOK, cap), residual.size))
    shares: list[float] = []  # what is left of K_ii on average, before each column
    for r in range(cap + 1):
        relative = residual * inverses
        pivot = int(relative.argmax())
        shares.append(float(relative.sum() / total))
        if relative[pivot] <= tol:
            return rows[:r].copy().T
        if r == cap or (r >= _FIRST_LOOK and not patient and _promised_rank(shares, tol) > 2 * cap):
            return None
        if r == rows.shape[0]:
            rows = np.concatenate([rows, np.empty((min(r, cap - r), residual.size))])
        row = rows[r]
        row[:] = column(pivot)
        if r:
            row -= rows[:r, pivot] @ rows[:r]
        row /= math.sqrt(residual[pivot])
        residual -= row * row
        np.maximum(residual, 0.0, out=residual)
        residual[pivot] = 0.0
    return None


def _promised_rank(shares: list[float], tol: float) -> float:
    """Guess the rank from the last quarter of the columns.

    The residuals of smooth kernels fall linearly at first, later geometrically or faster.
    """
    r, left = len(shares) - 1, shares[-1]
    before = 3 * r // 4
    if left > 0.01:
        fall, rest = (shares[before] - left) / (r - before), left
    else:
        fall, rest = math.log(shares[before] / left) / (r - before), math.log(max(left / tol, 1.0))
    return r + rest / fall if fall > 0.0 else math.inf
