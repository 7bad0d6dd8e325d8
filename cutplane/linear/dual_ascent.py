"""Dual coordinate ascent for linear predictors: multipliers that give a cut, a bound and a point."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from cutplane.engine.costs import BATCH, GAP_CHECK, OVERHEAD, cost_of_pass, cost_of_visits
from cutplane.linear.moves import FIRST_EPOCHS
from cutplane.linear.predictor import as_rows
from cutplane.losses.base import pieces_of
from cutplane.losses.compiling import Compiled, compiled
from cutplane.losses.passes import dual_prox, is_settled
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, routine

if TYPE_CHECKING:
    from cutplane.engine.run import Run
    from cutplane.linear.predictor import LinearPredictor, Regularized

SEED = 0x9E3779B97F4A7C15
"""Seed of random orders, because xorshift needs a seed with many ones."""
_GROWTH = 1.5
"""Largest growth of the number of epochs until the next gap check, because the last rate may be wrong."""
_BEYOND = 1.2
"""Factor of the expected number of epochs to close the gap, because a second check costs a pass over the
data."""
_LATER = 2.0
"""Factor of the expected number of epochs after the first check, because the first epoch gains more than
later ones."""
_FEW = 0.1
"""Share of the examples below which the next epoch visits all, because an epoch over few examples is
cheap."""


class Batches:
    """The state of `CoordinateAscent`: multipliers, their gap, and the number of epochs of the next batch.

    Attributes
    ----------
    remaining : float
        The gap of the epochs, which may be larger than the gap of the run.
    cost : float
        Nanoseconds so far on a usual machine, computed from sizes.
    """

    def __init__(self, form: Regularized, run: Run):
        risk, slope = form.risk, None
        known, code = run.known_multipliers(), compiled(risk.loss, risk.y)
        self.remaining = math.inf if known is not None else run.upper - run.lower
        if known is None:
            known = risk.loss.derivative(np.asarray(run.anchor.image), risk.y)
            slope = run.slopes(run.anchor)[0]
        self.ascent = None if code is None else DualAscent(code, risk, form.quadratic, known, slope)
        self.cost, self._learned = 0.0, False
        self.free = not form.quadratic.is_strict
        self._epochs, self._needed = 0, math.inf
        self._epoch, self._pass = form.cost_of_epoch, cost_of_pass(form.size)
        self._alongside = (OVERHEAD if self.free else GAP_CHECK) / self._epoch
        self._planned = max(float(FIRST_EPOCHS), self._alongside)

    def gap(self, run: Run) -> float:
        """Return the gap that the epochs have to close."""
        return self.remaining

    def ascend(self, tolerance: Callable[[float], float]) -> int:
        """Do epochs, with gap checks, until a batch is full or the gap is closed; return their number.

        A batch ends early if another check is not expected to find the gap closed. If epochs take longer than
        a check, a check comes first, because the start is optimal for a strong regularizer.
        """
        assert self.ascent is not None
        done, began = 0, self.cost
        if not self.free and self.cost == 0.0 and self._alongside < 1.0:
            enough, self.remaining = self._check(self.ascent, tolerance)
            if self.remaining <= enough:
                return 0
        while True:
            self._epochs = int(self._planned)
            self.cost += self.ascent.run(self._epochs)
            done += self._epochs
            if self.free or self.cost - began + self._epoch > BATCH:
                return done
            enough, remaining = self._check(self.ascent, tolerance)
            self._learn(remaining, enough)
            if remaining <= enough or BATCH < self._needed * self._epoch < math.inf:
                self._epochs = 0
                return done

    def conclude(self, run: Run, remaining: float) -> None:
        """Record the gap after the cut of the multipliers was added, unless a check has computed it."""
        self.cost += 2.0 * self._pass if self.free else self._pass
        if self._epochs:
            self._learn(remaining, run.tolerance(run.upper))

    def _check(self, ascent: DualAscent, tolerance: Callable[[float], float]) -> tuple[float, float]:
        """Return the tolerance of the gap, and the gap of the epochs."""
        self.cost += self._pass - OVERHEAD + GAP_CHECK
        objective, remaining = ascent.objective_and_gap()
        return tolerance(objective), remaining

    def _learn(self, remaining: float, tolerance: float) -> None:
        """Plan the next epochs: the number needed at the last rate, but not many more than before.

        They take at least the time of a gap check.
        """
        before, self.remaining = self.remaining, remaining
        needed = math.inf
        if remaining < before < math.inf and remaining > 0.0:
            to_go = math.log(remaining / tolerance) if remaining > tolerance > 0.0 else 0.0
            needed = _BEYOND * self._epochs * to_go / math.log(before / remaining) + 1.0
            needed *= 1.0 if self._learned else _LATER
        self._learned, self._needed = True, needed
        self._planned = max(1.0, self._alongside, min(_GROWTH * self._planned, needed))


class DualAscent:
    """Coordinate ascent on the dual of min over x of f(x) + 1/2 sum_j weights_j (x_j - centre_j)^2.

    With multipliers u_i, which are slopes of the losses, ``x = centre - (sum_i c_i u_i x_i) / weights``. A
    step on one u_i is a proximal step of the loss, as in reference [1] of `CoordinateAscent`. The examples
    have a random order, the same in every run. An example whose multiplier is at a bound and whose prediction
    is far from a kink is omitted, until the other examples had as many visits as there are examples. A bias
    without a weight gets a weight around a centre that is updated to the bias, so that the sum of the c_i u_i
    tends to zero.

    The start is a multiple of the given multipliers, which are in the domain of the conjugates; `slope` is
    sum_i c_i u_i x_i.
    """

    def __init__(
        self,
        code: Compiled,
        risk: LinearPredictor,
        quadratic: DiagonalQuadratic,
        multipliers: Array,
        slope: Array | None = None,
    ):
        m, n = risk.X.shape
        self.risk, self._numbers, self._run = risk, code.numbers, code.loop(_epochs)
        self._rows = as_rows(risk.X)
        self._centre = quadratic.centre.copy()
        self._weights = np.full(risk.dim, quadratic.weights[0])
        norms = risk.data.squared_norms()
        self._rates, self._bias_rates = risk.weights / self._weights[0], np.empty(0)
        self._curvatures = self._rates * norms
        self._follows = risk.intercept and quadratic.weights[n] == 0.0
        if risk.intercept:
            self._weights[n] = quadratic.weights[n] or self._weights[0] / max(float(norms.mean()), 1e-300)
            self._bias_rates = risk.weights / self._weights[n]
            self._curvatures += self._bias_rates
        self._order, self._count, self._reach = np.arange(m), m, math.inf
        self._seed = np.uint64(SEED)
        if slope is None:
            slope = risk.data.transposed_times(risk.weights * multipliers)
            if risk.intercept:
                slope = np.append(slope, risk.weights @ multipliers)
        factor = self._best_factor(multipliers, slope)
        self._u, self.x = factor * multipliers, self._centre - factor * slope / self._weights
        fixed = np.flatnonzero(self._curvatures == 0.0)  # rows that are zero or have weight zero
        if fixed.size:
            self._u[fixed] = risk.loss.derivative(np.zeros(fixed.size), risk.y[fixed])

    @property
    def multipliers(self) -> Array:
        """The multipliers u, shape (m,)."""
        return self._u.copy()

    def objective_and_gap(self) -> tuple[float, float]:
        """Return the objective at x, and its excess over the bound of the multipliers, by one pass."""
        risk, x, step = self.risk, self.x, self.x - self._centre
        z, weighted = risk.data.times(x[: risk.X.shape[1]]), self._weights * step
        if risk.intercept:
            z += x[-1]
        with np.errstate(over="ignore", invalid="ignore"):
            losses, conjugates = risk.loss.value(z, risk.y), risk.loss.conjugate(self._u, risk.y)
            weightless = risk.weights == 0.0
            losses[weightless] = conjugates[weightless] = 0.0
        value = float(risk.weights @ losses)
        gap = value + float(risk.weights @ conjugates) + float(weighted @ x)
        return value + 0.5 * float(weighted @ step), gap

    def run(self, epochs: int) -> float:
        """Do epochs; return their cost, in nanoseconds on a usual machine."""
        if self._count < _FEW * self._order.size or self._reach == math.inf:
            self._count = self._order.size
        self._count, self._reach, entries, visits, seed = self._run(
            self._rows, self.risk.y, self._rates, self._bias_rates, self._curvatures, self._numbers,
            self._u, self.x, self._order, self._count, self._reach, epochs, self._seed,
        )  # fmt: skip
        self._seed = np.uint64(seed)
        if self._follows:
            self._centre[-1] = self.x[-1]
        dense = not sparse.issparse(self.risk.X)
        return cost_of_visits(visits, entries, dense, pieces_of(self.risk.loss) is None)

    def _best_factor(self, u: Array, slope: Array) -> float:
        """Return the factor in [0, 1] of the multipliers for the best bound, if conjugates are linearised.

        The multipliers may belong to another weight of the regularizer. The true bound is at least as good,
        because conjugates are convex.
        """
        risk, zeros = self.risk, np.zeros_like(u)
        counted = risk.weights > 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            rise = risk.loss.conjugate(u, risk.y) - risk.loss.conjugate(zeros, risk.y)
        steep = float(slope @ self._centre) - float(risk.weights[counted] @ rise[counted])
        bend = float(slope @ (slope / self._weights))
        if not math.isfinite(steep) or steep <= 0.0:
            return 0.0 if steep <= 0.0 else 1.0
        return min(steep / bend, 1.0) if bend > 0.0 else 1.0


@routine
def shuffle(order, count, seed):
    """Shuffle the first entries in place (Fisher and Yates, xorshift); return the next seed."""
    state = np.uint64(seed)
    for k in range(count - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        j = np.int64(state % np.uint64(k + 1))
        order[k], order[j] = order[j], order[k]
    return state


@routine(fastmath=SUMS)
def _epochs(rows, y, rates, bias_rates, q, loss, u, x, order, count, reach, epochs, seed):
    """Do some epochs over the first `count` examples of `order`; update u, x and order.

    Example i has the prediction t = <x_i, w> + b. With q_i the curvature of the quadratic along its row, the
    best u_i is `dual_prox` at t + q_i u_i; each loss without an outline gets a copy of this routine with its
    `dual_prox` and `is_settled`. When epochs over some examples have had as many visits as there are
    examples, an epoch over all follows.

    Parameters
    ----------
    rates, bias_rates : ndarray of shape (m,)
        The change of x along a row, and of the bias, per unit of u_i. The bias is the last entry of x;
        without a bias `bias_rates` is empty.
    reach : float
        An example whose u does not change is omitted if its t is farther than `reach` from every kink.

    Returns
    -------
    count, reach, entries, visits, seed
        The number of examples not omitted, the reach for the next epoch, the number of entries and of
        examples visited, and the seed for the next call.
    """
    X, data, indices, indptr = rows
    biased = bias_rates.shape[0] > 0
    dense, n, last = indptr.shape[0] == 0, X.shape[1], x.shape[0] - 1
    m = order.shape[0]
    entries = 0
    visits = 0
    whole = m
    for _ in range(epochs):
        if visits >= whole:
            count = m
        whole = visits + 2 * m if count == m else whole
        seed = shuffle(order, count, seed)
        largest = 0.0
        k = 0
        while k < count:
            i = order[k]
            t = x[last] if biased else 0.0
            if dense:
                for j in range(n):
                    t += X[i, j] * x[j]
                entries += n
            else:
                begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
                for p in range(begin, end):
                    t += data[p] * x[indices[p]]
                entries += end - begin
            visits += 1
            old = u[i]
            new = dual_prox(loss, t + q[i] * old, y[i], q[i], t)
            step = new - old
            if step == 0.0:
                if is_settled(loss, t, y[i], reach):
                    count -= 1
                    order[k], order[count] = order[count], i
                    continue
            else:
                largest = max(largest, abs(step) * q[i])
                u[i] = new
                if biased:
                    x[last] -= step * bias_rates[i]
                step *= rates[i]
                if dense:
                    for j in range(n):
                        x[j] -= step * X[i, j]
                else:
                    for p in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                        x[indices[p]] -= step * data[p]
            k += 1
        reach = largest if largest > 0.0 else math.inf
    return count, reach, entries, visits, seed
