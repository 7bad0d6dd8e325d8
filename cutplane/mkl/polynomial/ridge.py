"""Kernel ridge regression whose kernel changes by one product and a factor at a time."""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from cutplane.pieces.validation import Array

_symv, _syr = get_blas_funcs(("symv", "syr"), dtype=np.float64)
_potrf, _potri = get_lapack_funcs(("potrf", "potri"), dtype=np.float64)

_ACCURACY = 1e-12
_MANY = 8
_MOST = 60
_SMALL = 1e-6


class RidgeSystem:
    """Solves (K + I / C) a = y again and again while K grows by terms and shrinks by factors.

    K = scale * kernel; a factor changes the scale alone. The solution comes from conjugate gradients, started
    at the last one and preconditioned by the inverse of the system as it was when last factored, kept up with
    every term of rank one since: O(m^2) as long as few iterations do, and factored anew when they do not.
    Only the preconditioner suffers from rounding.

    Parameters
    ----------
    y : ndarray of shape (m,)
    C : float
    """

    def __init__(self, y: Array, C: float):
        m = y.size
        self.y = y
        self.C = C
        self.scale = 1.0
        self.n_factorizations = 0
        self._kernel = np.zeros((m, m), order="F")
        self._inverse = np.asfortranarray(np.eye(m) * C)
        self._solution = C * y

    def add(self, weight: float, product: Array) -> None:
        """Add weight times a product kernel, v v' if it is a vector v."""
        weight /= self.scale
        if product.ndim == 2:
            self._kernel += weight * product
            return
        image = _symv(1.0, self._inverse, product, lower=1)
        shrink = weight / (1.0 + weight * float(product @ image))
        self._kernel = _syr(weight, product, lower=1, a=self._kernel, overwrite_a=1)
        self._inverse = _syr(-shrink, image, lower=1, a=self._inverse, overwrite_a=1)
        self._solution -= shrink * float(product @ self._solution) * image

    def rescale(self, factor: float) -> None:
        """Multiply K by a factor."""
        self.scale *= factor
        if self.scale < _SMALL:
            self._kernel *= self.scale
            self._solution /= self.scale
            self.scale = 1.0
            self._factor()

    def solve(self) -> Array:
        """Return a."""
        if not self._iterate(_MANY):
            self._factor()
            self._iterate(_MOST)
        return self._solution / self.scale

    @property
    def _ridge(self) -> float:
        return 1.0 / (self.scale * self.C)

    def _factor(self) -> None:
        """Invert the system as it is; one that rounding made indefinite keeps the inverse it had."""
        system = self._kernel.copy(order="F")
        system[np.diag_indices_from(system)] += self._ridge
        factor, failed = _potrf(system, lower=1, overwrite_a=1)
        if not failed:
            self._inverse, failed = _potri(factor, lower=1, overwrite_c=1)
        self.n_factorizations += 1

    def _iterate(self, most: int) -> bool:
        """Improve the solution by conjugate gradients; tell whether its error is small in the dual value."""
        x, ridge = self._solution, self._ridge
        residual = self.y - _symv(1.0, self._kernel, x, lower=1) - ridge * x
        direction = np.zeros_like(x)
        before = np.inf
        for _ in range(most + 1):
            image = _symv(1.0, self._inverse, residual, lower=1)
            size = float(residual @ image)
            if size <= _ACCURACY * abs(float(self.y @ x)):
                return True
            direction = image + (size / before) * direction
            product = _symv(1.0, self._kernel, direction, lower=1) + ridge * direction
            step = size / float(direction @ product)
            x += step * direction
            residual -= step * product
            before = size
        return False
