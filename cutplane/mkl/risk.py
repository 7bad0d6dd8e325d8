"""The risk of multiple kernel learning: the optimum of a kernel machine as a function of the weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.kernels.definite import NEGATIVE
from cutplane.pieces.validation import Array
from cutplane.risks.base import Estimate, OnDemandRisk

if TYPE_CHECKING:
    from cutplane.kernels.bank import Bank, Products
    from cutplane.kernels.machine import KernelMachine, MachineSolution

_ROUGH = 0.1
"""Relative accuracy of the first cut, because the model has no other cut yet."""
_MACHINE = 0.3
"""Share of the allowed error for the gap of the machine, because dropped kernels cause an error, too."""
_DROPPED = 0.2
"""Share of the allowed error for dropped parts of kernels, because an approximate sum needs a shorter
pass."""
_ATTEMPTS = 6
"""Largest number of attempts, because each one needs more accuracy, and rounding limits it."""


class TrainedMachine(NamedTuple):
    """A trained kernel machine, and a'K_k a for its coefficients a, shape (n_kernels,)."""

    solution: MachineSolution
    forms: Array


class MKLRisk(OnDemandRisk):
    """D(beta) = min over f in H_beta, b of 1/2 ||f||^2 + C sum_i l(f(x_i) + b, y_i), for beta >= 0.

    H_beta has the kernel sum_k beta_k K_k. By duality D is the maximum over a of ``-sum_i phi_i(a_i) - 1/2
    sum_k beta_k a'K_k a`` with ``phi_i(a) = C l*(-a / C, y_i)``. Therefore each feasible a gives a cut with
    the slopes ``-1/2 a'K_k a``. D is convex and nonincreasing in beta.

    Parameters
    ----------
    bank : Bank
    machine : KernelMachine
        Loss, targets, C and intercept.
    """

    def __init__(self, bank: Bank, machine: KernelMachine):
        self.bank = bank
        self.machine = machine
        self.dim = bank.n_kernels
        self._last: tuple[Array, Products] | None = None

    def __repr__(self) -> str:
        return f"MKLRisk({self.bank!r}, {self.machine!r})"

    @property
    def infima(self) -> Array:
        return np.array([-self.machine.conjugate_sum(np.zeros(self.bank.n_samples))])

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return the slopes (1, n_kernels) and offsets (1,) of the cut of coefficients u, shape (m,).

        The offset is -inf if u is not feasible in the dual.
        """
        if not self.machine.feasible(u):
            return np.zeros((1, self.dim)), np.array([-np.inf])
        return self._cut(u, self._forms(u))

    def answer(self, a: Array) -> Estimate:
        """Return an estimate with given coefficients, without a value, from which `estimate` can start."""
        return Estimate(np.empty(1), *self.dual_cut(a), a)

    def estimate(self, x: Array, accuracy: float, start: Estimate | None = None) -> Estimate:
        solution, forms = self.fit(x, accuracy, start)
        slopes, offsets = self._cut(solution.a, forms)
        values = np.maximum(solution.primal_value, slopes @ x + offsets)  # equal except for rounding
        return Estimate(values, slopes, offsets, solution.a)

    def fit(
        self, x: Array, accuracy: float, start: Estimate | None = None, share: float = _DROPPED
    ) -> TrainedMachine:
        """Train a machine whose objective, an upper bound of D(x), is within `accuracy` of its cut at x.

        Parts of kernels with a small contribution to a'Ka are dropped from the sum K. This can only increase
        the objective, by at most half of their contribution. `share` is the share of the accuracy for this
        increase.
        """
        x = np.maximum(x, 0.0)
        a = None if start is None else start.multipliers
        wanted = accuracy if math.isfinite(accuracy) else _ROUGH * self._size(start, x)
        for _ in range(_ATTEMPTS):
            allowed = 2.0 * share * wanted
            if a is None or not allowed > 0.0:
                kernel = self.bank.weighted_sum(x)
            else:
                kernel = self.bank.sum_near(x, a, self._products(a), allowed)
            solution = self.machine.solve(kernel, a, _MACHINE * wanted, trusted=True)
            a, forms = solution.a, self._forms(solution.a)
            error = solution.primal_value - solution.dual_value
            missing = 0.5 * float(x @ forms - a @ solution.predictions)
            enough = accuracy if math.isfinite(accuracy) else _ROUGH * abs(solution.primal_value)
            if error + missing <= max(enough, 1e-12 * abs(solution.primal_value)) or accuracy == 0.0:
                break
            wanted = min(wanted, enough)
            if missing > share * wanted:
                share *= 0.1
        return TrainedMachine(solution, forms)

    def _products(self, a: Array) -> Products:
        if self._last is None or not np.array_equal(self._last[0], a):
            self._last = a.copy(), self.bank.products(a)
        return self._last[1]

    def _forms(self, a: Array) -> Array:
        forms = self._products(a).quadratic_forms(a)
        least = -NEGATIVE[np.dtype(self.bank.dtype).newbyteorder("=")] * self.bank.traces * float(a @ a)
        if (forms < least).any():
            k = int(np.argmin(forms - least))
            raise InvalidInputError(
                f"{self.bank.names[k]} is not positive semidefinite: a'K a = {forms[k]:.3g} for the "
                "coefficients a of a machine. Pass a kernel, or K with its negative eigenvalues set to 0."
            )
        return forms

    def _size(self, start: Estimate | None, x: Array) -> float:
        if start is not None:
            return max(float(start.slopes[0] @ x + start.offsets[0]), 0.0)
        return abs(self.machine.primal(0.0, np.zeros(self.bank.n_samples))[0])

    def _cut(self, a: Array, forms: Array) -> tuple[Array, Array]:
        return -0.5 * forms[np.newaxis], np.array([-self.machine.conjugate_sum(a)])
