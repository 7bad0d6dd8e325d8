"""The proximal method of multipliers for linear predictors, with Newton steps: multipliers and points."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.linear.costs import PER_SQUARE, cost_of_newton
from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.losses.pieces import Pieces
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.risks.chunks import equal_ranges
from cutplane.risks.passes import sparse_gram
from cutplane.risks.running_sum import RunningSum
from cutplane.risks.weighted_loss import WeightedLoss, weighted_loss
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
_SAMPLE = 512
"""Examples that tell the first mu, to the factor of 4 that it is rounded to."""
_SHARE = 0.2
"""The first smoothing costs at most a fifth of what the risk has above its infimum."""
_RANGE = 30
"""The first mu lies within 4^-30 and 4^30, beyond all digits."""


@dataclass(frozen=True, eq=False)
class Outlined(ScalarLoss):
    """The loss with given pieces of a given variable."""

    phi: Pieces
    variable: Any = "residual"

    def outline(self) -> Pieces:
        """Return the pieces."""
        return self.phi


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
        phi = pieces_of(risk.loss)
        self._phi = phi if phi is not None and phi.jumps.any() else None
        self._add = RunningSum(risk.data) if risk.data.cheap_rows else risk.data.transposed_times
        m = risk.X.shape[0]
        self._present = (risk.weights > 0.0) + 0.0
        self._centre = np.zeros(m) if multipliers is None else multipliers
        self.multipliers, self._bends = np.empty(m), np.empty(m)
        self._rows = np.empty(0, np.int64)
        self.slopes = np.empty(risk.dim)
        self.offset = math.nan
        self._value = math.nan
        self._steps = 0
        self._conjugate = self._conjugates(risk.y, risk.weights)
        self._smooth(0.0 if self._phi is None else self._first_mu(predictions, gap))

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
            self._centre = self.multipliers
            self._smooth((_SHRINK**2 if self._steps == 1 else _SHRINK) * self._mu)
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
        line = self._losses.line(self._shifted(z0), self._shifted(z1))
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

    def _smooth(self, mu: float) -> None:
        self._mu = mu
        y, loss = self.risk.y, self._envelope(mu)
        self._unweighted, self._losses = (_weighted(loss, y, c) for c in (self._present, self.risk.weights))

    def _envelope(self, mu: float) -> ScalarLoss:
        if self._phi is None:
            return self.risk.loss
        return Outlined(self._phi.envelope(mu), self.risk.loss.variable)

    def _shifted(self, z: Array) -> Array:
        return z + self._mu * self._centre if self._mu else z

    def _look(self, z: Array) -> None:
        risk, shifted = self.risk, self._shifted(z)
        self.multipliers = self._into_domain(self._unweighted.derivatives(shifted), risk.y)
        u = risk.weights * self.multipliers
        slopes = self._add(u)
        self.slopes = np.append(slopes, u.sum()) if risk.intercept else slopes
        self.offset = -self._conjugate(self.multipliers)
        self._bends = self._losses.second_derivatives(shifted)
        self._rows = np.flatnonzero(self._bends)

    def _conjugates(self, y: Array, weights: Array) -> Callable[[Array], float]:
        """Return the weighted sum of the conjugates of the losses, as a function of the multipliers."""
        if self._phi is None:
            return lambda u: math.nan
        targets = np.zeros(y.size) if self.risk.loss.variable == "margin" else weights * y
        star = Outlined(self._phi.star, self.risk.loss.variable)
        losses = _weighted(star, y if star.variable == "margin" else np.zeros(y.size), weights)
        return lambda u: float(losses.values(u)[0] + u @ targets)

    def _into_domain(self, u: Array, y: Array) -> Array:
        """Return u with what rounding has put outside the domain of the conjugates put back."""
        if self._phi is None:
            return u
        low, high = self._phi.domain
        return y * np.clip(y * u, low, high) if self.risk.loss.variable == "margin" else np.clip(u, low, high)

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

    def _first_mu(self, z: Array, gap: float) -> float:
        """Return the power of 4 for which smoothing at the predictions z costs about `gap`."""
        rows = slice(None, None, max(1, z.size // _SAMPLE))
        y, weights, z = self.risk.y[rows], self.risk.weights[rows], z[rows]
        total = float(weights.sum())
        if not total > 0.0:
            return 1.0
        weights = weights * (self.risk.weights.sum() / total)
        value = float(weights @ self.risk.loss.value(z, y))
        gap = min(gap, _SHARE * (value - float(weights @ self.risk.loss.infimum(y))))
        conjugate = self._conjugates(y, weights)

        def costs_more(k: int) -> bool:
            u = self._into_domain(self._envelope(4.0**k).derivative(z, y), y)
            return value - float((weights * u) @ z) + conjugate(u) > gap

        k = 0
        step = -1 if costs_more(0) else 1
        while abs(k) < _RANGE and costs_more(k) == (step < 0):
            k += step
        return 4.0**k


def _weighted(loss: ScalarLoss, y: Array, weights: Array) -> WeightedLoss:
    return weighted_loss(loss, y, weights, np.array([0, y.size]))
