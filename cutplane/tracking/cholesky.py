"""A Cholesky factor with updates: rows and columns added or removed, and matrices of rank one added."""

from __future__ import annotations

import math

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, routine

_SINGULAR = 1e-12
"""Share of its diagonal entry up to which a pivot counts as zero, also after a downdate of rank one, because
rounding errors of its sum are about as large."""


@routine(fastmath=SUMS)
def _forward(L, n, b):
    """Solve L x = b in place, with the first n rows of L."""
    for i in range(n):
        total = b[i]
        for j in range(i):
            total -= L[i, j] * b[j]
        b[i] = total / L[i, i]


@routine(fastmath=SUMS)
def _backward(L, n, b):
    """Solve L'x = b in place, with the first n rows of L."""
    for i in range(n - 1, -1, -1):
        b[i] /= L[i, i]
        for j in range(i):
            b[j] -= L[i, j] * b[i]


@routine(fastmath=SUMS)
def _drop(L, n, place):
    """Drop a row and column of LL', by rotations."""
    for i in range(place + 1, n):
        for j in range(i + 1):
            L[i - 1, j] = L[i, j]
    for j in range(place, n - 1):
        a, b = L[j, j], L[j, j + 1]
        size = math.hypot(a, b)
        c, s = a / size, b / size
        for i in range(j, n - 1):
            a, b = L[i, j], L[i, j + 1]
            L[i, j] = c * a + s * b
            L[i, j + 1] = c * b - s * a


@routine(fastmath=SUMS)
def _add_square(L, n, sign, u):
    """Turn LL' into LL' + sign uu', which must be positive definite; u is overwritten."""
    for j in range(n):
        pivot = L[j, j]
        size = math.sqrt(pivot * pivot + sign * u[j] * u[j])
        c, s = size / pivot, u[j] / pivot
        L[j, j] = size
        for i in range(j + 1, n):
            L[i, j] = (L[i, j] + sign * s * u[i]) / c
            u[i] = c * u[i] - s * L[i, j]


class CholeskyFactor:
    """LL' = H, positive definite, with `size` rows."""

    def __init__(self) -> None:
        self.size = 0
        self._L = np.zeros((16, 16))

    def solve(self, b: Array) -> Array:
        """Return the solution x of H x = b."""
        x = b.copy()
        _forward(self._L, self.size, x)
        _backward(self._L, self.size, x)
        return x

    def append(self, column: Array, diagonal: float) -> bool:
        """Add a row and column, unless H would be singular; tell whether it was added."""
        n, row = self.size, column.copy()
        _forward(self._L, n, row)
        pivot = diagonal - float(row @ row)
        if not pivot > _SINGULAR * diagonal:
            return False
        if n == len(self._L):
            self._L = np.pad(self._L, (0, n))
        self._L[n, :n], self._L[n, n] = row, math.sqrt(pivot)
        self.size += 1
        return True

    def remove(self, place: int) -> None:
        """Drop a row and column."""
        _drop(self._L, self.size, place)
        self.size -= 1

    def add(self, u: Array, weight: float) -> bool:
        """Add weight uu', unless H would be singular; tell whether it was added."""
        u = math.sqrt(abs(weight)) * u
        if weight < 0.0:
            half = u.copy()
            _forward(self._L, self.size, half)
            if not 1.0 - float(half @ half) > _SINGULAR:
                return False
        _add_square(self._L, self.size, math.copysign(1.0, weight), u)
        return True

    def factorise(self, H: Array) -> bool:
        """Factorise another matrix, unless it is singular; tell whether it was factorised."""
        try:
            L = np.linalg.cholesky(H)
        except np.linalg.LinAlgError:
            return False
        if (L.diagonal() ** 2 <= _SINGULAR * np.square(L).sum(axis=1)).any():
            return False
        self.size = len(H)
        self._L = np.zeros((max(16, 2 * self.size),) * 2)
        self._L[: self.size, : self.size] = L
        return True
