"""Kernel machines: the minimum over a space of functions of the losses plus half the squared norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutplane.kernels.definite import check_along, check_definite
from cutplane.kernels.descent import Descent
from cutplane.kernels.dual import DualForm, dual_form
from cutplane.kernels.rows import CACHE_BYTES, as_rows
from cutplane.kernels.steps import best_intercept
from cutplane.losses.base import ScalarLoss
from cutplane.pieces.validation import Array, as_count, as_scalar, as_vector
from cutplane.runtime.threads import one_blas_thread

_SUM_TOLERANCE = 1e-12
"""Allowed error of a sum relative to its terms, because sums have rounding errors."""


@dataclass(frozen=True, eq=False)
class MachineSolution:
    """A feasible dual point with its function f = K a and its bounds.

    Attributes
    ----------
    a : ndarray of shape (m,)
        The coefficients: f(x) = sum_i a_i k(x_i, x).
    intercept : float
        The optimal b for f, the middle of the interval if there are several; 0 for a machine without
        intercept.
    predictions : ndarray of shape (m,)
        K a; the intercept is not included.
    dual_value, primal_value : float
        -sum_i phi_i(a_i) - a'Ka / 2 and a'Ka / 2 + C sum_i l(f(x_i) + b, y_i). The optimum is between them.
    n_steps : int
        Steps of the solver.
    """

    a: Array
    intercept: float
    predictions: Array
    dual_value: float
    primal_value: float
    n_steps: int

    @property
    def gap(self) -> float:
        """primal_value - dual_value."""
        return self.primal_value - self.dual_value


@dataclass(frozen=True, eq=False)
class KernelMachine:
    """The kernel machine

        minimise  1/2 ||f||^2 + C sum_i l(f(x_i) + b, y_i)   over functions f of the kernel's space, and b,

    solved in the dual with phi_i(a) = C l*(-a / C, y_i):

        maximise  -sum_i phi_i(a_i) - 1/2 a'Ka   over a in R^m,   with sum a = 0 if there is an intercept.

    Parameters
    ----------
    loss : ScalarLoss
        `Hinge`, `SquaredHinge`, `ModifiedHuber`, `Squared`, `Absolute`, `Quantile`, `EpsilonInsensitive`,
        `SquaredEpsilonInsensitive` or `Huber`, because their conjugates are quadratic on an interval.
    y : array_like of shape (m,)
        The targets; labels -1 and 1 for the first three.
    C : float
        The weight of the losses; greater than 0.
    intercept : bool, default True
        Whether there is an intercept b, which is not regularised; otherwise b = 0.
    cache_bytes : int, default 200 MiB
        The memory for rows, if they are computed by an object.

    Raises
    ------
    InvalidInputError
        If the dual of the loss is not a quadratic programme, the loss refuses the targets, or C is not
        positive.

    Notes
    -----
    Steps on pairs of coordinates (single coordinates without an intercept), chosen by second-order
    information, alternate with Newton steps on the free coordinates, that is the coordinates strictly within
    their bounds. Each kind takes about half of the time. A Newton step with n free coordinates needs 8 n^2
    bytes.

    Coordinates that stay at a bound are ignored for a while if this saves time; the part of K for the n other
    coordinates, at most 0.7 m, is copied. All coordinates are included again before the gap is tested.

    The steps do not depend on measured times. After 10^7 + 1000 m steps the current solution is returned with
    its true gap.

    References
    ----------
    R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set selection using second order information for training
    support vector machines", JMLR 6 (2005), 1889-1918.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.kernels.machine import KernelMachine
    >>> from cutplane.losses import Hinge
    >>> x = np.array([-2.0, -1.0, 1.0, 3.0])
    >>> solution = KernelMachine(Hinge(), np.sign(x), C=10.0).solve(np.outer(x, x))
    >>> solution.a.round(6).tolist(), round(solution.primal_value, 6)
    ([0.0, -0.5, 0.5, 0.0], 0.5)
    """

    loss: ScalarLoss
    y: Array
    C: float
    intercept: bool = True
    cache_bytes: int = CACHE_BYTES
    form: DualForm = field(init=False, repr=False)

    def __post_init__(self) -> None:
        form = dual_form(self.loss, self.y, self.C, self.intercept)
        object.__setattr__(self, "form", form)
        object.__setattr__(self, "y", form.linear)
        object.__setattr__(self, "C", float(self.C))
        object.__setattr__(self, "cache_bytes", as_count("cache_bytes", self.cache_bytes))

    @one_blas_thread()
    def solve(
        self, K: Any, a0: Any = None, accuracy: float = 0.0, *, trusted: bool = False
    ) -> MachineSolution:
        """Solve the dual from a0 until primal_value - dual_value <= accuracy or rounding prevents progress.

        Parameters
        ----------
        K : ndarray of shape (m, m), or object
            A symmetric float64 matrix, positive semidefinite up to rounding; not copied if it is in C or
            Fortran order. Or an object with ``n``, ``diagonal()`` and ``row(i)``, where both methods return
            shape (m,).
        a0 : array_like of shape (m,), default 0
            The starting point. `into_domain` is applied to a point that is not feasible.
        accuracy : float, default 0
            In the unit of the objective; with 0 the gap is reduced to its rounding error.
        trusted : bool, default False
            Whether the tests that K is a kernel matrix are skipped.

        Raises
        ------
        InvalidInputError
            If K has the wrong shape or type, has entries that are not finite, or is found not to be symmetric
            positive semidefinite; the message names the entries or the direction. A matrix of up to 512 rows
            is tested as a whole. In a larger matrix, some principal blocks are tested, such as the block of
            the largest coefficients of the solution. If K is an array, the least eigenvalue after 20 Lanczos
            steps is also tested.
        """
        m = self.y.size
        accuracy = as_scalar("accuracy", accuracy, low=0.0)
        a = np.zeros(m) if a0 is None else self.into_domain(a0)
        rows = as_rows(K, m, self.cache_bytes)
        if not trusted:
            check_definite("K", rows.diagonal, rows.block, rows.product if rows.complete else None)
        descent = Descent(self.form, rows, a)
        descent.run(accuracy)
        if not trusted:
            check_along("K", rows, a, descent.predictions)
        half_norm = 0.5 * float(a @ descent.predictions)
        residuals = self.y - descent.predictions
        b = float(self.form.middles(residuals, descent.b).sum())
        dual = -self.form.conjugates(a) - half_norm
        primal = half_norm + self.form.losses(residuals - b)
        return MachineSolution(a, b, descent.predictions, dual, max(primal, dual), descent.n_steps)

    def feasible(self, a: Any) -> bool:
        """Return whether a is within its bounds and, with an intercept, its sum is 0 up to rounding."""
        a = as_vector("a", a, self.y.size)
        if (a < self.form.lower).any() or (a > self.form.upper).any():
            return False
        return not self.intercept or abs(float(a.sum())) <= _SUM_TOLERANCE * self._size(a)

    def into_domain(self, a: Any) -> Array:
        """Return a feasible copy of a.

        a is clipped to its bounds; with an intercept, the coefficients of the sign with the larger sum are
        then scaled down. Zeros stay zeros, and a feasible a does not change.
        """
        a = np.clip(as_vector("a0", a, self.y.size), self.form.lower, self.form.upper)
        return a if self.feasible(a) else self.form.feasible(a)

    def conjugate_sum(self, a: Array) -> float:
        """Return sum_i phi_i(a_i); inf outside the bounds."""
        inside = (a >= self.form.lower).all() and (a <= self.form.upper).all()
        return self.form.conjugates(a) if inside else math.inf

    def primal(self, norm2: float, predictions: Array) -> tuple[float, float]:
        """Return the minimum of norm2 / 2 + C sum_i l(predictions_i + b, y_i) over b, and its b."""
        form, b = self.form, 0.0
        residuals = self.y - predictions
        if self.intercept:
            b = best_intercept(residuals, form.tube, form.ridge, form.lower, form.upper, 0.0, 0.0)
        return 0.5 * norm2 + form.losses(residuals - b), b

    def _size(self, a: Array) -> float:
        return max(self.C * a.size, float(np.abs(a).sum()))
