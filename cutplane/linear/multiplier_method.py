"""The proximal method of multipliers for linear predictors, with Newton steps: multipliers and points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dposv  # pyright: ignore[reportAttributeAccessIssue]

from cutplane.engine.costs import cost_of_newton
from cutplane.linear.smoothing import Smoothing
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.risks.data import RunningSum
from cutplane.risks.examples import bias_slopes
from cutplane.risks.matrix import unsigned
from cutplane.risks.passes import sparse_gram
from cutplane.runtime.chunks import equal_ranges
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
        self._edges = np.array([0, risk.X.shape[0]])
        self._free = not quadratic.is_strict
        self._begin(self._smoothing.shifts, predictions, gap)

    def become(self, quadratic: DiagonalQuadratic, x: Array, z: Array) -> None:
        """Take another quadratic; multipliers found at x, with predictions z, are the first shifts."""
        self.quadratic = quadratic
        _, z = self.look(x, z)
        self._begin(self.multipliers, z, self.value - self.bound)

    def _begin(self, shifts: Array, predictions: Array, gap: float) -> None:
        self._steps = 0
        self._smoothing.become(self._smoothing.first_mu(predictions, gap), shifts)

    @property
    def cost(self) -> float:
        """The cost of the last step, in nanoseconds on a usual machine."""
        m, n = self.risk.X.shape
        return cost_of_newton((m, n, m * self.risk.data.row_entries), self._rows.size)

    def look(self, x: Array, z: Array) -> tuple[Array, Array]:
        """Compute multipliers and their cut at x, with predictions z; return both with the best free bias.

        It sets `multipliers` and `slopes`, `value` (of the objective there), and `bound`: what the cut
        proves, or -inf if it is not flat where it has to be.
        """
        if self._free:
            shift = self._best_shift(z)
            x, z = x.copy(), z + shift
            x[-1] += shift
        self._look(z)
        risk = self._smoothing.risk_at(z)
        self.value = risk + self.quadratic(x)
        self._size = abs(self.value)
        distance = self._distance(x)
        along = float(self.slopes @ x)
        self.offset = -self._smoothing.conjugate(self.multipliers) if self._mu else risk - along
        error = risk - self.offset - along
        self.bound = self._bound()
        self._steps += 1
        self._stale = self._mu > 0.0 and distance <= _INEXACT * error
        return x, z

    def direction(self, x: Array, z: Array) -> Array | None:
        """Return the Newton step at the point looked at; None if rounding errors leave none.

        If that point was close to the minimiser for the present shifts, its multipliers are the next ones.
        """
        if self._stale:
            self._smoothing.become((_SHRINK**2 if self._steps == 1 else _SHRINK) * self._mu, self.multipliers)
            self._steps = 0
            self._look(z)
        _, step, failed = dposv(self._hessian(), -self._gradient(x), lower=1)
        return None if failed or not np.isfinite(step).all() else step

    def step_length(self, x: Array, step: Array, z0: Array, z1: Array) -> float:
        """Return about the best t for x + t step, whose predictions are z0 + t (z1 - z0).

        It is 0 where the slope at 0 is not below what rounding makes of it.
        """
        weighted = self.quadratic.weights * step
        rise, bend = float(weighted @ (x - self.quadratic.centre)), float(weighted @ step)
        losses = self._smoothing.along(z0, z1)

        def along(t: float) -> tuple[float, float]:
            slope, curvature = losses(t)
            return rise + t * bend + slope, bend + curvature

        start, _ = along(0.0)
        return _zero(along, start, 1.0, -_FLAT * start) if start < -_ROUNDING * self._size else 0.0

    def _best_shift(self, z: Array) -> float:
        """Return the shift of all predictions z at which the slopes of the envelopes add up to zero."""
        along = self._smoothing.along(z, z + 1.0)
        start, bend = along(0.0)
        if start == 0.0:
            return 0.0
        sign = -math.copysign(1.0, start)
        first = abs(start) / bend if bend > 0.0 else 1.0

        def ahead(t: float) -> tuple[float, float]:
            slope, curvature = along(sign * t)
            return sign * slope, curvature

        return sign * _zero(ahead, -abs(start), first, _ROUNDING * float(self.risk.weights.sum()))

    @property
    def _mu(self) -> float:
        return self._smoothing.mu

    def _look(self, z: Array) -> None:
        risk = self.risk
        self.multipliers, self._bends = self._smoothing.look(z)
        u = risk.weights * self.multipliers
        slopes = self._add(u)
        self.slopes = np.concatenate([slopes, bias_slopes(u, self._edges)]) if risk.intercept else slopes
        self._rows = self._bends.nonzero()[0]

    def _bound(self) -> float:
        """Return the least value of the cut and the quadratic, as far as `offset` is known."""
        slopes, weights, centre = self.slopes, self.quadratic.weights, self.quadratic.centre
        if self._free:
            if slopes[-1] != 0.0:
                return -math.inf
            slopes, weights, centre = slopes[:-1], weights[:-1], centre[:-1]
        return self.offset + float(slopes @ centre) - 0.5 * float(slopes @ (slopes / weights))

    def _gradient(self, x: Array) -> Array:
        return self.quadratic.weights * (x - self.quadratic.centre) + self.slopes

    def _distance(self, x: Array) -> float:
        """Return about how far x is from the minimiser for the present shifts, in the objective."""
        gradient, weights = self._gradient(x), self.quadratic.weights
        if not self.risk.intercept:
            return 0.5 * float(gradient @ (gradient / weights))
        slope, weight = float(gradient[-1]), float(weights[-1] + self._bends.sum())
        along_bias = slope**2 / weight if weight > 0.0 else math.inf if slope else 0.0
        return 0.5 * (along_bias + float(gradient[:-1] @ (gradient[:-1] / weights[:-1])))

    def _hessian(self) -> Array:
        risk = self.risk
        n, hessian = risk.X.shape[1], np.zeros((risk.dim, risk.dim))
        shares = self._shares()
        parts = [self._gram(shares[0])] if len(shares) == 1 else run_chunks(self._gram, shares)
        for gram, border in parts:
            hessian[:n, :n] += gram
            if border is not None:
                hessian[n, :n] += border
        if risk.intercept:
            hessian[n, n] = self._bends.sum()
        diagonal = hessian.ravel()[:: risk.dim + 1]
        diagonal += self.quadratic.weights
        if not diagonal.all():  # a bias, where no example is near a kink
            diagonal[diagonal == 0.0] = risk.weights.sum() / (self._mu or 1.0)
        return hessian

    def _shares(self) -> list[tuple[int, int]]:
        """Split the rows of the Gram matrix in two, if that pays."""
        work = 0.5 * self._rows.size * self.risk.data.row_entries**2
        return equal_ranges(self._rows.size, work - 2.0 * self.risk.dim**2, 2)

    def _gram(self, share: tuple[int, int]) -> tuple[Array, Array | None]:
        """Return the sum of the bends times the squares of some rows, and times these rows."""
        risk, X, rows = self.risk, self.risk.X, self._rows[slice(*share)]
        n, bends = X.shape[1], self._bends[rows]
        if sparse.issparse(X):
            out, border = np.zeros((n, n)), np.zeros(n) if risk.intercept else None
            sparse_gram(read_only(X.data), unsigned(X.indices), unsigned(X.indptr), rows, bends, out)
            if border is not None:
                risk.data.add_rows(rows, bends, border)
            return out + out.T, border
        roots = np.sqrt(bends)
        scaled = X[rows] * roots[:, np.newaxis]
        return scaled.T @ scaled, roots @ scaled if risk.intercept else None


def _zero(along: Callable[[float], tuple[float, float]], start: float, t: float, enough: float) -> float:
    """Return about the zero of a slope that rises from `start` < 0: one where it is at most `enough`.

    Newton steps from t, between points where the slope is known to be negative and positive.
    """
    low, high = 0.0, math.inf
    for _ in range(_SEARCHES):
        slope, curvature = along(t)
        if abs(slope) <= enough:
            return t
        low, high = (t, high) if slope < 0.0 else (low, t)
        newton = t - slope / curvature if curvature > 0.0 else math.inf
        t = newton if low < newton < min(high, 10.0 * t) else min(0.5 * (low + high), 4.0 * t)
    return low
