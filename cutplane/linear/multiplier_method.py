"""Semismooth Newton steps of the proximal method of multipliers for linear predictors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dposv  # pyright: ignore[reportAttributeAccessIssue]

from cutplane.engine.costs import BATCH, OVERHEAD, cost_of_newton
from cutplane.linear.predictor import predictions
from cutplane.linear.smoothing import Examples
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
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run
    from cutplane.linear.predictor import LinearPredictor

_INEXACT = 0.3
"""Distance to the minimiser for the current shifts, relative to the smoothing error, at which the shifts
change, because a smaller distance does not improve the bound."""
_SHRINK = 0.5
"""Factor of mu with new shifts, squared if one step sufficed, because fast progress allows less smoothing."""
_FLAT = 0.1
"""Share of the first slope at which a line search ends, because the next step has another direction
anyway."""
_ROUNDING = 4e-16
"""Slope relative to the risk that counts as zero, because two units in the last place are rounding errors."""
_SEARCHES = 30
"""Largest number of steps of a line search, because bisection alone finds nine digits with them."""
_FAR = 10.0
"""Step length above which the image is computed again, because extrapolation loses a digit."""


class MultiplierMethod:
    """Newton steps on f(x) + 1/2 sum_j weights_j (x_j - centre_j)^2, with the losses smoothed.

    The slopes of the smoothed losses (see `Examples`) are multipliers, which give a cut. Close to the
    minimiser, they are the next shifts, and mu is halved; see reference [1] of `SemismoothNewton`. A Newton
    step costs a pass over the data, the weighted Gram matrix of the examples near a kink of their loss, and a
    Cholesky factor.

    The steps start from multipliers in the domain of the conjugates, or zero, and from the predictions at a
    point. The first `mu` is chosen such that smoothing changes the risk by about the gap of this point.
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
        self._examples = Examples(risk, multipliers)
        self._add = RunningSum(risk.data) if risk.data.cheap_rows else risk.data.transposed_times
        self._edges = np.array([0, risk.X.shape[0]])
        self._free = not quadratic.is_strict
        self._begin(self._examples.shifts, predictions, gap)

    def set_quadratic(self, quadratic: DiagonalQuadratic, x: Array, z: Array) -> None:
        """Change the quadratic; the first shifts are the multipliers at x, whose predictions are z."""
        self.quadratic = quadratic
        _, z = self.evaluate(x, z)
        self._begin(self.multipliers, z, self.value - self.bound)

    def _begin(self, shifts: Array, z: Array, gap: float) -> None:
        self._steps = 0
        self._examples.set_smoothing(self._examples.first_mu(z, gap), shifts)

    @property
    def cost(self) -> float:
        """Nanoseconds of the last step on a usual machine."""
        m, n = self.risk.X.shape
        return cost_of_newton((m, n, m * self.risk.data.row_entries), self._rows.size)

    def evaluate(self, x: Array, z: Array) -> tuple[Array, Array]:
        """Return x and predictions z with the best free bias.

        Set `multipliers`, the `slopes` and `offset` of their cut, its lower `bound` (-inf if a free bias has
        a slope), and the `value` of the objective.
        """
        if self._free:
            shift = self._best_shift(z)
            x, z = x.copy(), z + shift
            x[-1] += shift
        self._evaluate(z)
        risk = self._examples.risk_at(z)
        self.value = risk + self.quadratic(x)
        self._size = abs(self.value)
        distance = self._distance(x)
        along = float(self.slopes @ x)
        self.offset = -self._examples.conjugate(self.multipliers) if self._examples.mu else risk - along
        error = risk - self.offset - along
        self.bound = self._bound()
        self._steps += 1
        self._stale = self._examples.mu > 0.0 and distance <= _INEXACT * error
        return x, z

    def direction(self, x: Array, z: Array) -> Array | None:
        """Return the Newton step at the last point of `evaluate`; None if rounding errors are too large.

        If the point was close to the minimiser for the current shifts, its multipliers become the shifts.
        """
        if self._stale:
            self._examples.set_smoothing(
                (_SHRINK**2 if self._steps == 1 else _SHRINK) * self._examples.mu, self.multipliers
            )
            self._steps = 0
            self._evaluate(z)
        _, step, failed = dposv(self._hessian(), -self._gradient(x), lower=1)
        return None if failed or not np.isfinite(step).all() else step

    def step_length(self, x: Array, step: Array, z0: Array, z1: Array) -> float:
        """Return a nearly best t along x + t step, with predictions z0 + t (z1 - z0); 0 if none is better."""
        weighted = self.quadratic.weights * step
        rise, bend = float(weighted @ (x - self.quadratic.centre)), float(weighted @ step)
        losses = self._examples.along(z0, z1)

        def along(t: float) -> tuple[float, float]:
            slope, curvature = losses(t)
            return rise + t * bend + slope, bend + curvature

        start, _ = along(0.0)
        return _zero(along, start, 1.0, -_FLAT * start) if start < -_ROUNDING * self._size else 0.0

    def _best_shift(self, z: Array) -> float:
        """Return the shift of all predictions z at which the slopes of the envelopes sum to zero."""
        along = self._examples.along(z, z + 1.0)
        start, bend = along(0.0)
        if start == 0.0:
            return 0.0
        sign = -math.copysign(1.0, start)
        first = abs(start) / bend if bend > 0.0 else 1.0

        def ahead(t: float) -> tuple[float, float]:
            slope, curvature = along(sign * t)
            return sign * slope, curvature

        return sign * _zero(ahead, -abs(start), first, _ROUNDING * float(self.risk.weights.sum()))

    def _evaluate(self, z: Array) -> None:
        risk = self.risk
        self.multipliers, self._bends = self._examples.derivatives(z)
        u = risk.weights * self.multipliers
        slopes = self._add(u)
        self.slopes = np.concatenate([slopes, bias_slopes(u, self._edges)]) if risk.intercept else slopes
        self._rows = self._bends.nonzero()[0]

    def _bound(self) -> float:
        """Return the minimum of the cut plus the quadratic; -inf if the cut has a slope in a free bias."""
        slopes, weights, centre = self.slopes, self.quadratic.weights, self.quadratic.centre
        if self._free:
            if slopes[-1] != 0.0:
                return -math.inf
            slopes, weights, centre = slopes[:-1], weights[:-1], centre[:-1]
        return self.offset + float(slopes @ centre) - 0.5 * float(slopes @ (slopes / weights))

    def _gradient(self, x: Array) -> Array:
        return self.quadratic.weights * (x - self.quadratic.centre) + self.slopes

    def _distance(self, x: Array) -> float:
        """Return an estimate of the excess of x over the minimum for the current shifts."""
        gradient, weights = self._gradient(x), self.quadratic.weights
        if not self.risk.intercept:
            return 0.5 * float(gradient @ (gradient / weights))
        slope, weight = float(gradient[-1]), float(weights[-1] + self._bends.sum())
        along_bias = slope**2 / weight if weight > 0.0 else math.inf if slope else 0.0
        return 0.5 * (along_bias + float(gradient[:-1] @ (gradient[:-1] / weights[:-1])))

    def _hessian(self) -> Array:
        risk = self.risk
        n, hessian = risk.X.shape[1], np.zeros((risk.dim, risk.dim))
        work = 0.5 * self._rows.size * risk.data.row_entries**2
        shares = equal_ranges(self._rows.size, work - 2.0 * risk.dim**2, 2)  # two if this is faster
        for gram, border in run_chunks(self._gram, shares):
            hessian[:n, :n] += gram
            if border is not None:
                hessian[n, :n] += border
        if risk.intercept:
            hessian[n, n] = self._bends.sum()
        diagonal = hessian.ravel()[:: risk.dim + 1]
        diagonal += self.quadratic.weights
        if not diagonal.all():  # 0 for a bias if no example is near a kink
            diagonal[diagonal == 0.0] = risk.weights.sum() / (self._examples.mu or 1.0)
        return hessian

    def _gram(self, share: tuple[int, int]) -> tuple[Array, Array | None]:
        """Return the sum of the bends times the squares of some rows, and the sum times these rows."""
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
    """Return a t > 0 where an increasing function, negative at 0, is at most `enough` in absolute value.

    Newton steps start from t inside a bracket.
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


class NewtonSteps:
    """A sequence of Newton steps that starts at the best point of the run.

    If a step takes less time than a batch, an iteration has several. The best point of each iteration is
    evaluated, and the multipliers with the highest bound are added if the bound is new.

    Attributes
    ----------
    cost : float
        Nanoseconds so far on a usual machine, computed from sizes.
    """

    def __init__(self, method: MultiplierMethod, point: Point):
        self.method = method
        self.point = point
        self.cost = 0.0

    def gap(self, run: Run) -> float:
        """Return the gap that the steps have to close."""
        return run.upper - run.lower

    def step(self, run: Run) -> bool:
        """Do one iteration; return False if rounding errors are too large for a step."""
        method, point = self.method, self.point
        steps = Steps(point.x, np.asarray(point.image), run.upper, run.lower)
        self.cost += OVERHEAD + run.timed(walk, method, steps, run.tolerance, BATCH, queries=1)
        x, z = steps.x, steps.z
        if steps.count > 1:
            self.point = run.evaluate(x)
            if steps.best is not x:
                run.evaluate(steps.best)
        if steps.cut is not None:
            run.add_dual_cut(*steps.cut)
        if run.closed:
            return True
        step = run.timed(method.direction, x, z)
        if step is None:
            return False
        target = run.evaluate(x + step)
        t = run.timed(method.step_length, x, step, z, np.asarray(target.image))
        if t == 0.0:
            return False
        if t > _FAR:
            self.point = run.evaluate(x + t * step)
        else:
            self.point = run.between(self.point, target, t) if t != 1.0 else target
        run.proceed()
        return True


def walk(method: MultiplierMethod, steps: Steps, tolerance: Callable[[float], float], most: float) -> float:
    """Take steps until the gap is closed, or the cost reaches a limit; return the cost."""
    cost = 0.0
    while True:
        steps.evaluate(method)
        cost += method.cost
        if cost >= most or steps.upper - steps.lower <= tolerance(steps.upper):
            return cost
        step = method.direction(steps.x, steps.z)
        if step is None:
            return cost
        ahead = steps.z + predictions(method.risk, step)
        t = method.step_length(steps.x, step, steps.z, ahead)
        if t == 0.0:
            return cost
        steps.x, steps.z = steps.x + t * step, steps.z + t * (ahead - steps.z)


class Steps:
    """The current point, the best point, and the cut with the highest bound of a sequence of steps."""

    def __init__(self, x: Array, z: Array, upper: float = math.inf, lower: float = -math.inf):
        self.x, self.z = x, z
        self.best, self.upper, self.lower = self.x, upper, lower
        self.cut: tuple[Array, tuple[Array, Array]] | None = None
        self.count = 0

    def evaluate(self, method: MultiplierMethod) -> None:
        """Compute the multipliers at the current point, with the best free bias."""
        self.x, self.z = method.evaluate(self.x, self.z)
        self.count += 1
        if method.value <= self.upper or self.count == 1:
            self.best, self.upper = self.x, method.value
        if method.bound > self.lower:
            self.lower = method.bound
            self.cut = method.multipliers, (method.slopes[np.newaxis], np.array([method.offset]))
