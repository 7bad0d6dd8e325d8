"""The lower bound for polynomial kernel learning: a norm over all ordered tuples, exact or bounded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cutplane.mkl.polynomial.bases import multisets
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.mkl.polynomial.bases import BaseKernels
    from cutplane.mkl.polynomial.problem import PolynomialMKL


_LISTING = 100.0


class _Term(NamedTuple):
    prefixes: Array
    multiplicities: Array
    power: int


class FormNorm:
    """||q||_2 for ``q_I = a' K_I a / rho_d^2`` over all ordered tuples I, or a bound from above.

    For tuples of degree d, those of e + 1 <= d given first factors are summed as far as the work allows, and
    the others bounded: a sum of squares is at most the square of the sum, which the power of S gives. For e =
    d - 1 that is exact.
    """

    def __init__(self, bases: BaseKernels, rho: Array, work: float):
        self.bases = bases
        self.rho = rho
        self._terms: list[_Term] = []
        self.exact = True
        for degree in range(1, rho.size):
            share = work / max(1, rho.size - 1)
            lengths = [e for e in range(degree) if self._work(e, degree - 1 - e) <= share]
            length = max(lengths, default=0)
            self.exact &= length == degree - 1
            self._terms.append(_Term(*multisets(bases.n_kernels, length), degree - 1 - length))

    def __call__(self, a: Array) -> float:
        """Return the norm or the bound."""
        squares = np.empty(self.rho.size)
        squares[0] = a.sum() ** 4
        for degree, term in enumerate(self._terms, start=1):
            squares[degree] = self.bases.square_sum(a, *term)
        return math.sqrt(float((squares / self.rho**4).sum()))

    def _work(self, length: int, power: int) -> float:
        count = math.comb(self.bases.n_kernels + length - 1, length)
        return count * (self.bases.split_work(power) + _LISTING * (1 + length))


def dual_value(problem: PolynomialMKL, a: Array, norm: FormNorm) -> float:
    """Return ``max over t of <t a, y> - ||t a||^2 / (2 C) - 1/2 ||q(t a)||_2``, at most the optimum."""
    size = float(a @ a) / problem.C + norm(a)
    return 0.5 * float(a @ problem.y) ** 2 / size if size > 0.0 else 0.0
