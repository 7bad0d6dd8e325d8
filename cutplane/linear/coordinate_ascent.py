"""Dual coordinate ascent for linear predictors: multipliers that give a cut, a bound and a centre."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from cutplane.engine.costs import (
    BATCH,
    LOOK,
    OVERHEAD,
    USUAL_FALL,
    cost_of_epoch,
    cost_of_pass,
    cost_of_visits,
)
from cutplane.exceptions import MissingCapabilityError
from cutplane.linear.newton import suits as newton_suits
from cutplane.linear.predictor import Regularized, require_regularized
from cutplane.losses.base import pieces_of
from cutplane.methods.base import Method, Step
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import unsigned

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.linear.predictor import LinearPredictor
    from cutplane.losses.compiling import Compiled

_SEED = 0x9E3779B97F4A7C15
_SAMPLE = 2048
"""Examples that tell the factor of given multipliers, to the percent or so that it is worth."""
_FIRST, _GROWTH = 4, 1.5
"""Epochs before the first look at the gap, unless more of them take no longer than that look; and by what
factor more they may be the next time."""
_USUAL_EPOCHS = 20
"""Epochs with sparse or few examples, which share few features, because the theory is far too pessimistic
there: two batches of random data."""
_BEYOND = 1.2
"""Epochs expected to close the gap are made so many more: another look costs a pass over the data."""
_LATER = 2.0
"""How much slower the gap falls after the first look, as the first epoch does more than any later."""


@dataclass(frozen=True)
class CoordinateAscent(Method):
    """Epochs of dual coordinate ascent, each batch with a cut and a lower bound.

    With multipliers u_i of the examples, ``x = centre - (sum_i c_i u_i x_i) / weights``; a step on one u_i
    is a proximal step of its loss [1]_. After a batch of epochs the multipliers give a cut and a lower bound;
    while the gap is open, the line from the best point through x is searched. The fastest method where there
    are more features than examples. Next to a bias without a weight such a cut proves nothing alone: the cut
    of the best point is added, and `Portfolio` with more cuts proves the last digits.

    It takes a risk of linear predictions (`LinearRisk` with CSR or C-ordered data, one block, a loss with a
    conjugate and a second derivative) and `L2` with equal weights, but for a bias, without a feasible set.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form; `Portfolio` does without it then.

    References
    ----------
    .. [1] C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual coordinate descent
       method for large-scale linear SVM", ICML 2008, doi:10.1145/1390156.1390208.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
    >>> print(round(problem.solve(cut.linear.CoordinateAscent(), tol=1e-9).objective, 6))
    0.125
    """

    turn = 1
    memory = 0.0

    def check(self, problem: Declaration) -> None:
        """Raise unless the problem has the form, and its examples can be read one by one."""
        found = require_regularized(problem, self.name)
        if np.ptp(found.quadratic.weights[: found.n_features]) > 0.0 or not can_ascend(found.risk):
            raise MissingCapabilityError(
                f"{self.name} needs equal weights in {problem.regularizer!r}, one block, rows that can be "
                "read one by one (CSR or C-ordered) and a loss with a second derivative, got "
                f"{found.risk!r}. Use Portfolio()."
            )

    def usual_rate(self, problem: Declaration) -> float:
        """Return by how much the logarithm of the gap usually falls per nanosecond.

        Where Newton steps have few coordinates it is the rate of the theory: an epoch takes the share
        s / (1 + s) of the gap, with s the weight of the regularizer over the mean of c_i ||x_i||^2, and over
        the smoothness of the loss. Next to a free bias that theory says nothing, and its cuts prove nothing
        alone: 0 where Newton steps do.
        """
        form = require_regularized(problem, self.name)
        (m, n, _), risk = form.size, form.risk
        epoch = _cost_of_epoch(form)
        if sparse.issparse(risk.X) or m < n:
            return USUAL_FALL / (_USUAL_EPOCHS * epoch + cost_of_pass(form.size))
        if not form.quadratic.is_strict and newton_suits(risk):
            return 0.0
        rows = slice(None, None, max(1, m // _SAMPLE))
        norms = np.square(risk.X[rows], dtype=np.float64).sum(axis=1)
        steep = float(risk.weights[rows] @ norms) / norms.size
        bend = risk.loss.smoothness
        share = float(form.quadratic.weights[0]) / max(steep * (bend if math.isfinite(bend) else 1.0), 1e-300)
        first = max(_FIRST, BATCH / epoch)
        epochs = max(USUAL_FALL / max(math.log1p(share), 1e-300), _FIRST)
        iterations = max(epochs / first, 1.0)
        return USUAL_FALL / (epochs * epoch + iterations * cost_of_pass(form.size))

    def start(self, run: Run) -> Batches:
        """Return the epochs to come, from known multipliers."""
        return Batches(require_regularized(run.problem, self.name), run)

    def step(self, run: Run, state: Batches) -> Step:
        """Do a batch of epochs, add its cut, and, while the gap is open, search the line through x."""
        if state.ascent is None:
            return Step("none", state, "the loss cannot be compiled; use OCAS()")
        start, epochs = run.best, run.timed(state.ascend, run.tolerance)
        bound = run.add_dual_cut(state.ascent.multipliers)
        point = best = run.evaluate(state.ascent.x.copy())
        if start is not None and point.feasible and not run.closed:
            best = run.line_search(start, point)
        if state.free and not run.closed:
            run.add_cut(best)
        state.conclude(run, (run.upper if state.free else point.objective) - bound)
        useless = math.isinf(state.remaining)
        return Step(
            f"ascent {epochs}", state, "the multipliers give no bound; use OCAS()" if useless else None
        )


class Batches:
    """The state of `CoordinateAscent`: multipliers, their own gap, and how many epochs come next.

    Attributes
    ----------
    remaining : float
        The gap of the epochs alone, which may lag behind what cuts have proved.
    cost : float
        Nanoseconds so far, on a usual machine: counted, not measured, so that a run can be repeated.
    """

    def __init__(self, form: Regularized, run: Run):
        from cutplane.losses.compiling import compiled

        known, slope = run.known_multipliers(), None
        code = compiled(form.risk.loss, form.risk.y)
        self.remaining = math.inf if known is not None else run.upper - run.lower
        if known is None:
            known = form.risk.loss.derivative(np.asarray(run.anchor.image), form.risk.y)
            slope = run.slopes(run.anchor)[0]
        self.ascent = None if code is None else DualAscent(code, form.risk, form.quadratic, known, slope)
        self.cost, self.learned = 0.0, False
        self.free = not form.quadratic.is_strict
        self._epochs, self._needed = 0, math.inf
        self._epoch, self._pass = _cost_of_epoch(form), cost_of_pass(form.size)
        self._alongside = (OVERHEAD if self.free else LOOK) / self._epoch
        self.planned = max(float(_FIRST), self._alongside)

    def gap(self, run: Run) -> float:
        """Return the gap that the epochs have to close."""
        return self.remaining

    def ascend(self, tolerance: Callable[[float], float]) -> int:
        """Do epochs, with looks at their own gap, until a batch is full or closes it; return how many.

        A batch ends early if the gap is not expected to close within another one. With a strong regularizer
        the start closes it: where epochs take longer than a look, the first look comes before them.
        """
        assert self.ascent is not None
        done, began = 0, self.cost
        may_do_without = not self.free and self.cost == 0.0
        if may_do_without and self._alongside < 1.0:
            enough, self.remaining = self._look(self.ascent, tolerance)
            if self.remaining <= enough:
                return 0
        while True:
            self._epochs = int(self.planned)
            self.cost += self.ascent.run(self._epochs)
            done += self._epochs
            if self.free or self.cost - began + self._epoch > BATCH:
                return done
            enough, remaining = self._look(self.ascent, tolerance)
            self.learn(remaining, enough)
            if remaining <= enough or BATCH < self._needed * self._epoch < math.inf:
                self._epochs = 0
                return done

    def _look(self, ascent: DualAscent, tolerance: Callable[[float], float]) -> tuple[float, float]:
        """Return the gap that is small enough, and the one of the epochs."""
        self.cost += self._pass - OVERHEAD + LOOK
        objective, remaining = ascent.look()
        return tolerance(objective), remaining

    def learn(self, remaining: float, tolerance: float) -> None:
        """Plan the next epochs: those needed at the rate of the last ones, or some more than these.

        Epochs that take no longer than a look at the gap are done in any case.
        """
        before, self.remaining = self.remaining, remaining
        needed = math.inf
        if self.remaining < before < math.inf and self.remaining > 0.0:
            to_go = math.log(self.remaining / tolerance) if self.remaining > tolerance > 0.0 else 0.0
            needed = _BEYOND * self._epochs * to_go / math.log(before / self.remaining) + 1.0
            needed *= 1.0 if self.learned else _LATER
        self.learned, self._needed = True, needed
        self.planned = max(1.0, self._alongside, min(_GROWTH * self.planned, needed))

    def conclude(self, run: Run, remaining: float) -> None:
        """Take the gap that the cut of the multipliers left, if no look has told it."""
        self.cost += 2.0 * self._pass if self.free else self._pass
        if self._epochs:
            self.learn(remaining, run.tolerance(run.upper))


class DualAscent:
    """Coordinate ascent on the dual of min over x of f(x) + 1/2 sum_j weights_j (x_j - centre_j)^2.

    With the multipliers u_i, slopes of the losses, ``x = centre - (c_i u_i x_i summed) / weights``; a step on
    one u_i is a proximal step of the loss [1]_. The examples come in random order, the same in every run;
    those whose multiplier is at a bound and whose prediction is far from a kink are left out until as many
    were visited again. A bias without a weight is given one, around a centre that follows it, so that the sum
    of the c_i u_i tends to zero.

    Parameters
    ----------
    code : Compiled
        The loss of the risk.
    risk : LinearPredictor
        One that `can_ascend` accepts.
    quadratic : DiagonalQuadratic
        Equal positive weights, but for that of a bias.
    multipliers : ndarray of shape (m,)
        Where to start, up to a factor, within the domain of the conjugates.
    slope : ndarray of shape (n,), optional
        The c_i u_i x_i summed, if they are known.

    References
    ----------
    .. [1] C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual coordinate descent
       method for large-scale linear SVM", ICML 2008, doi:10.1145/1390156.1390208.
    """

    def __init__(
        self,
        code: Compiled,
        risk: LinearPredictor,
        quadratic: DiagonalQuadratic,
        multipliers: Array,
        slope: Array | None = None,
    ):
        from cutplane.linear.epochs import csr_epochs, dense_epochs

        self.risk = risk
        self._numbers = code.numbers
        self._epochs = code.loop(csr_epochs if sparse.issparse(risk.X) else dense_epochs)
        m, n = risk.X.shape
        self._weight = float(quadratic.weights[0])
        self._centre = quadratic.centre.copy()
        norms = risk.data.squared_norms()
        self._rates = risk.weights / self._weight
        self._bias_rates = np.empty(0)
        if risk.intercept:
            own = float(quadratic.weights[n])
            self._follows = own == 0.0
            self._bias_weight = own or self._weight / max(float(norms.mean()), 1e-300)
            self._bias_rates = risk.weights / self._bias_weight
        self._curvatures = self._rates * norms
        if risk.intercept:
            self._curvatures += self._bias_rates
        self._order = np.arange(m)
        self._count = m
        self._reach = math.inf
        self._seed = np.uint64(_SEED)
        if slope is None:
            slope = risk.data.transposed_times(risk.weights * multipliers)
            if risk.intercept:
                slope = np.append(slope, risk.weights @ multipliers)
        weights = np.full(slope.size, self._weight)
        if risk.intercept:
            weights[-1] = self._bias_weight
        factor = self._best_factor(multipliers, slope, weights)
        self._u, self.x = factor * multipliers, self._centre - factor * slope / weights
        fixed = np.flatnonzero(self._curvatures == 0.0)  # rows of zeros, or without weight
        if fixed.size:
            self._u[fixed] = risk.loss.derivative(np.zeros(fixed.size), risk.y[fixed])

    @property
    def multipliers(self) -> Array:
        """The multipliers u, shape (m,)."""
        return self._u.copy()

    def look(self) -> tuple[float, float]:
        """Return the objective at x, and what it is above the bound of the multipliers: a pass."""
        risk, x, step = self.risk, self.x, self.x - self._centre
        z, weighted = risk.data.times(x[: risk.X.shape[1]]), self._weight * step
        if risk.intercept:
            z += x[-1]
            weighted[-1] = self._bias_weight * step[-1]
        with np.errstate(over="ignore", invalid="ignore"):
            losses, conjugates = risk.loss.value(z, risk.y), risk.loss.conjugate(self._u, risk.y)
            weightless = risk.weights == 0.0
            losses[weightless] = conjugates[weightless] = 0.0
        value = float(risk.weights @ losses)
        gap = value + float(risk.weights @ conjugates) + float(weighted @ x)
        return value + 0.5 * float(weighted @ step), gap

    def run(self, epochs: int) -> float:
        """Do some epochs; return what they cost, in nanoseconds on a usual machine."""
        if self._count < 0.1 * self._order.size or self._reach == math.inf:
            self._count = self._order.size
        X = self.risk.X
        rest = (
            self.risk.y, self._rates, self._bias_rates, self._curvatures, self._numbers,
            self._u, self.x, self._order, self._count, self._reach, epochs, self._seed,
        )  # fmt: skip
        if sparse.issparse(X):
            answer = self._epochs(read_only(X.data), unsigned(X.indices), unsigned(X.indptr), *rest)
        else:
            answer = self._epochs(read_only(X), *rest)
        self._count, self._reach, entries, visits, seed = answer
        self._seed = np.uint64(seed)
        if self.risk.intercept and self._follows:
            self._centre[-1] = self.x[-1]
        return cost_of_visits(visits, entries, not sparse.issparse(X), pieces_of(self.risk.loss) is None)

    def _best_factor(self, u: Array, slope: Array, weights: Array) -> float:
        """Return the factor t in [0, 1] of multipliers with the best bound, if their conjugates were linear.

        They may be those of another weight of g. Conjugates are convex, so that they are lower in between.
        """
        risk, zeros = self.risk, np.zeros_like(u)
        counted = risk.weights > 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            rise = risk.loss.conjugate(u, risk.y) - risk.loss.conjugate(zeros, risk.y)
        steep = float(slope @ self._centre) - float(risk.weights[counted] @ rise[counted])
        bend = float(slope @ (slope / weights))
        if not math.isfinite(steep) or steep <= 0.0:
            return 0.0 if steep <= 0.0 else 1.0
        return min(steep / bend, 1.0) if bend > 0.0 else 1.0


def _cost_of_epoch(form: Regularized) -> float:
    return cost_of_epoch(form.size, pieces_of(form.risk.loss) is None)


def can_ascend(risk: LinearPredictor) -> bool:
    """Tell whether dual coordinate ascent suits a risk: an outline or smooth, one block, rows to be read."""
    rows = risk.X.format == "csr" if sparse.issparse(risk.X) else risk.X.flags.c_contiguous
    return bool(rows) and risk.n_blocks == 1 and offers(risk.loss, Capability.SECOND_DERIVATIVE)
