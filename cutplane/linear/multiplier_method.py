"""The proximal method of multipliers for linear predictors, with Newton steps: multipliers and points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from cutplane.linear.costs import PER_SQUARE, cost_of_newton
from cutplane.linear.smoothing import Smoothing, weighted
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.risks.chunks import equal_ranges
from cutplane.risks.passes import sparse_gram
from cutplane.risks.running_sum import RunningSum
from cutplane.runtime.threads import run_chunks

if TYPE_CHECKING:
    from cutplane.linear.predictor import LinearPredictor

_INEXACT = 0.3
"""How close to the minimiser for the present shifts is close enough, in the error of the smoothing."""
_SHRINK = 0.5
"""By what mu shrinks with the shifts; by its square where one step was enough."""
_FLAT = 0.1
"""A line search ends at a slope that has fallen to a tenth: the next step has another direction."""
_ROUNDING = 4e-16
"""Two units in the last place of the risk: a slope below is rounding."""
_SEARCHES = 30
"""Steps of a line search; bisection alone gives nine digits."""


class MultiplierMethod:
    """Newton steps on f(x) + 1/2 sum_j weights_j (x_j - centre_j)^2, with the losses smoothed.

    Each loss is replaced by its Moreau envelope, shifted by multipliers v of the examples: with s_i the
    argument of loss i, ``min over r of phi(r) + (r - s_i - mu v_i)^2 / (2 mu)``. Its slopes are multipliers
    again, which give a cut; close to the minimiser they replace v, and mu is halved [1]_. A smooth loss is
    left as it is. A Newton step costs a pass over the data, the weighted Gram matrix of the examples that lie
    near a kink of their loss, and a Cholesky factor.

    Parameters
    ----------
    risk : LinearPredictor
        One block, few features, rows that can be read, a loss with a second derivative.
    quadratic : DiagonalQuadratic
        Positive weights, but for that of a bias.
    multipliers : ndarray of shape (m,), optional
        Where to start, within the domain of the conjugates.
    predictions : ndarray of shape (m,)
        Those of the point at which the steps start.
    gap : float
        How far from optimal that is: the first `mu` is such that smoothing costs as much.

    References
    ----------
    .. [1] X. Li, D. Sun, K.-C. Toh, "A highly efficient semismooth Newton augmented Lagrangian method for
       solving Lasso problems", SIAM J. Optim. 28, 2018, doi:10.1137/16M1097572.
    """

    def __init__(
        self,
        risk: LinearPredictor,
        quadratic: DiagonalQuadratic,
        multipliers: Array | None,
        predictions: Array,
        gap: float,
    ):
        self.risk = risk
        self.quadratic = quadratic
        self._smoothing = Smoothing(risk, multipliers)
        self._add = RunningSum(risk.data) if risk.data.cheap_rows else risk.data.transposed_times
        m = risk.X.shape[0]
        self._present = (risk.weights > 0.0) + 0.0
        self.multipliers, self._bends = np.empty(m), np.empty(m)
        self._rows = np.empty(0, np.int64)
        self.slopes = np.empty(risk.dim)
        self.offset = math.nan
        self._value = math.nan
        self._steps = 0
        self._smooth(self._smoothing.first_mu(predictions, gap), self._smoothing.shifts)

    @property
    def cost(self) -> float:
        """The cost of the last step, in nanoseconds on a usual machine."""
        m, n = self.risk.X.shape
        return cost_of_newton((m, n, m * self.risk.data.row_entries), self._rows.size)

    def look(self, x: Array, z: Array, value: float) -> tuple[float, float]:
        """Compute multipliers and their cut (`slopes`, `offset`) at x, with predictions z and risk `value`.

        Return two estimates, in the objective, of what separates x from the optimum: its distance from the
        minimiser with the present shifts, and the error of the smoothing.
        """
        self._value = value
        self._look(z)
        distance = self._distance(x)
        if self._mu == 0.0:
            self.offset = value - float(self.slopes @ x)
        error = value - self.offset - float(self.slopes @ x)
        self._steps += 1
        self._stale = self._mu > 0.0 and distance <= _INEXACT * error
        return distance, error

    def advance(self, z: Array) -> None:
        """Take the multipliers as the next shifts, if the last point was close to its minimiser."""
        if self._stale:
            self._smooth((_SHRINK**2 if self._steps == 1 else _SHRINK) * self._mu, self.multipliers)
            self._steps = 0
            self._look(z)

    def direction(self, x: Array) -> Array | None:
        """Return the Newton step at the point looked at; None if rounding errors leave none."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        hessian = self._hessian()
        diagonal = np.einsum("jj->j", hessian)
        loose = diagonal == 0.0  # a bias, where no example is near a kink
        diagonal[loose] = self.risk.weights.sum() / (self._mu or 1.0)
        try:
            factor = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return None
        step = cho_solve(factor, -self._gradient(x), check_finite=False)
        return step if np.isfinite(step).all() else None

    def step_length(self, x: Array, step: Array, z0: Array, z1: Array) -> float:
        """Return about the best t for x + t step, whose predictions are z0 + t (z1 - z0).

        It is 0 where the slope at 0 is not below what rounding makes of it.
        """
        weights = self.quadratic.weights
        rise = float(step @ (weights * (x - self.quadratic.centre)))
        bend = float(step @ (weights * step))
        line = self._smoothing.weighted.line(self._smoothing.shifted(z0), self._smoothing.shifted(z1))
        derivatives = line.derivative or line.newton
        assert derivatives is not None

        def along(t: float) -> tuple[float, float]:
            slope, curvature = derivatives(t)
            return rise + t * bend + slope, bend + curvature

        start, _ = along(0.0)
        if not start < -_ROUNDING * abs(self._value):
            return 0.0
        low, high, t = 0.0, math.inf, 1.0
        for _ in range(_SEARCHES):
            slope, curvature = along(t)
            if abs(slope) <= -_FLAT * start:
                return t
            low, high = (t, high) if slope < 0.0 else (low, t)
            newton = t - slope / curvature if curvature > 0.0 else math.inf
            t = newton if low < newton < min(high, 10.0 * t) else min(0.5 * (low + high), 4.0 * t)
        return low

    @property
    def _mu(self) -> float:
        return self._smoothing.mu

    def _smooth(self, mu: float, shifts: Array) -> None:
        self._smoothing.become(mu, shifts)
        self._unweighted = weighted(self._smoothing.loss, self.risk.y, self._present)

    def _look(self, z: Array) -> None:
        risk, shifted = self.risk, self._smoothing.shifted(z)
        self.multipliers = self._smoothing.into_domain(self._unweighted.derivatives(shifted))
        u = risk.weights * self.multipliers
        slopes = self._add(u)
        self.slopes = np.append(slopes, u.sum()) if risk.intercept else slopes
        if self._mu:
            self.offset = -self._smoothing.conjugate(self.multipliers)
        self._bends = self._smoothing.weighted.second_derivatives(shifted)
        self._rows = np.flatnonzero(self._bends)

    def _gradient(self, x: Array) -> Array:
        return self.quadratic.weights * (x - self.quadratic.centre) + self.slopes

    def _distance(self, x: Array) -> float:
        """Return about how far x is from the minimiser for the present shifts, in the objective."""
        weights = self.quadratic.weights.copy()
        if self.risk.intercept:
            weights[-1] += self._bends.sum()
        squares = self._gradient(x) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return 0.5 * float(np.where(squares > 0.0, squares / weights, 0.0).sum())

    def _hessian(self) -> Array:
        risk, rows = self.risk, self._rows
        n = risk.X.shape[1]
        hessian = np.zeros((risk.dim, risk.dim))
        for part in run_chunks(self._gram, self._shares()):
            hessian[:n, :n] += part
        if risk.intercept:
            if rows.size:
                risk.data.add_rows(rows, self._bends[rows], hessian[n, :n])
            hessian[n, n] = self._bends[rows].sum()
        np.einsum("jj->j", hessian)[:] += self.quadratic.weights
        return hessian

    def _shares(self) -> list[tuple[int, int]]:
        """Split the rows of the Gram matrix in two, if that pays."""
        cost = PER_SQUARE * self._rows.size * self.risk.data.row_entries**2
        return equal_ranges(self._rows.size, cost - 2.0 * self.risk.dim**2, 2)

    def _gram(self, share: tuple[int, int]) -> Array:
        X, rows = self.risk.X, self._rows[slice(*share)]
        n = X.shape[1]
        if sparse.issparse(X):
            out = np.zeros((n, n))
            indices = X.indices.view(np.uint32 if X.indices.itemsize == 4 else np.uint64)
            sparse_gram(X.data, indices, X.indptr, rows, self._bends[rows], out)
            return out + out.T
        scaled = X[rows] * np.sqrt(self._bends[rows])[:, np.newaxis]
        return scaled.T @ scaled
