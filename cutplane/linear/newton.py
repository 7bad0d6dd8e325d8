"""Semismooth Newton steps of the method of multipliers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from cutplane.engine.costs import BATCH, NEWTON, OVERHEAD, USUAL_FALL, cost_of_newton
from cutplane.exceptions import MissingCapabilityError
from cutplane.linear.predictor import Regularized, predictions, require_regularized
from cutplane.methods.base import Method, Step
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run
    from cutplane.linear.multiplier_method import MultiplierMethod
    from cutplane.linear.predictor import LinearPredictor

_MOST_FEATURES = 2000
"""A Hessian of 32 MB, whose factor takes about half a second."""
_FAR = 10.0
"""A step so much longer than the Newton step loses a digit of the image, which is then computed anew."""
_USUAL_SHARE, _USUAL_STEPS = 0.1, 12
"""Before the first turn: a tenth of the examples near a kink, and 12 steps for a gap of 1e-3."""
_USUAL_IF_SMOOTH = 4
"""Steps without kinks, where the model is that of the risk itself and all examples bend it."""


@dataclass(frozen=True)
class SemismoothNewton(Method):
    """Newton steps on a problem whose losses are smoothed by their Moreau envelopes, shifted by multipliers.

    The slopes of the envelopes are multipliers of the examples, which give a cut and a lower bound; close to
    the minimiser of the smoothed problem they become the next shifts: the method of multipliers [1]_. A step
    costs a pass over the data, the Gram matrix of the examples near a kink, and a Cholesky factor. At its
    best with few features, small weights and small tolerances.

    It takes a risk of linear predictions (`LinearRisk` with up to 2000 features, one block, a loss with a
    conjugate and a second derivative) and a diagonal quadratic such as `L2`, without a feasible set.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form; `Portfolio` does without it then.

    References
    ----------
    .. [1] X. Li, D. Sun, K.-C. Toh, "A highly efficient semismooth Newton augmented Lagrangian method for
       solving Lasso problems", SIAM J. Optim. 28, 2018, doi:10.1137/16M1097572.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0, 0.0], [-2.0, 0.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
    >>> print(round(problem.solve(cut.linear.SemismoothNewton(), tol=1e-9).objective, 6))
    0.125
    """

    turn = 12
    memory = 0.5

    def check(self, problem: Declaration) -> None:
        """Raise unless the problem has the form, and not too many features."""
        found = require_regularized(problem, self.name)
        if not suits(found.risk):
            raise MissingCapabilityError(
                f"{self.name} needs one block, at most 2000 features, rows that can be read one by one and a "
                f"loss with a second derivative, got {found.risk!r}. Use Portfolio() or OCAS()."
            )

    def usual_rate(self, problem: Declaration) -> float:
        """Return by how much the logarithm of the gap usually falls per nanosecond."""
        return USUAL_FALL / usual_cost_of_newton(require_regularized(problem, self.name))

    def start(self, run: Run) -> NewtonSteps:
        """Return the steps to come, from known multipliers and the best point."""
        from cutplane.linear.multiplier_method import MultiplierMethod

        assert run.best is not None
        form = require_regularized(run.problem, self.name)
        kinked = math.isinf(form.risk.loss.smoothness)
        if run.best is run.first and kinked and cost_of_newton(form.size, 0.0) > 2.0 * NEWTON:
            run.line_search(
                run.best, run.evaluate(_downhill(run.best, run.slopes(run.best)[0], form.quadratic))
            )
        point, gap = run.best, run.best.objective - run.lower
        size = gap if math.isfinite(gap) else abs(point.objective)
        method = MultiplierMethod(
            form.risk, form.quadratic, run.known_multipliers(), np.asarray(point.image), size
        )
        return NewtonSteps(method, point)

    def step(self, run: Run, state: NewtonSteps) -> Step:
        """Do a Newton step."""
        done = state.step(run)
        return Step("Newton", state, None if done else "rounding errors leave no Newton step")


def usual_cost_of_newton(form: Regularized) -> float:
    """Return what Newton steps usually cost until the gap is 1e-3."""
    smooth = math.isfinite(form.risk.loss.smoothness)
    steps, share = (_USUAL_IF_SMOOTH, 1.0) if smooth else (_USUAL_STEPS, _USUAL_SHARE)
    cost = steps * cost_of_newton(form.size, share * form.size[0])
    return cost + OVERHEAD * min(max(cost / BATCH, 1.0), steps)


def _downhill(point: Point, slope: Array, quadratic: DiagonalQuadratic) -> Array:
    """Return the minimiser of the cut at a point and the quadratic, but for coordinates without a weight."""
    weights, centre = quadratic.weights, quadratic.centre
    strict = weights > 0.0
    return np.where(strict, centre - slope / np.where(strict, weights, 1.0), point.x)


class NewtonSteps:
    """A sequence of points of its own, which starts from the best one of the run.

    While the data are so few that steps take less than a batch, several are done in one iteration.
    The best point of each iteration is offered to the run, and the multipliers whose cut proves most are
    added to it, if that raises the lower bound.

    Attributes
    ----------
    cost : float
        Nanoseconds so far, on a usual machine: counted, not measured, so that a run can be repeated.
    """

    def __init__(self, method: MultiplierMethod, point: Point):
        self.method = method
        self.point = point
        self.cost = 0.0

    def gap(self, run: Run) -> float:
        """Return the gap that the steps have to close."""
        return run.upper - run.lower

    def step(self, run: Run) -> bool:
        """Do one iteration; return False if rounding errors leave no step."""
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
    """Go on until the gap is closed, or that has cost so much; return the cost."""
    cost = 0.0
    while True:
        steps.look(method)
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
    """Steps in a row: where they are, the best point, and the cut that proves most."""

    def __init__(self, x: Array, z: Array, upper: float = math.inf, lower: float = -math.inf):
        self.x, self.z = x, z
        self.best, self.upper, self.lower = self.x, upper, lower
        self.cut: tuple[Array, tuple[Array, Array]] | None = None
        self.count = 0

    def look(self, method: MultiplierMethod) -> None:
        """Look at the present point; a free bias moves to its best value."""
        self.x, self.z = method.look(self.x, self.z)
        self.count += 1
        if method.value <= self.upper or self.count == 1:
            self.best, self.upper = self.x, method.value
        if method.bound > self.lower:
            self.lower = method.bound
            self.cut = method.multipliers, (method.slopes[np.newaxis], np.array([method.offset]))


def suits(risk: LinearPredictor) -> bool:
    """Tell whether Newton steps suit a risk: bends of its loss, one block, few features, rows to be read."""
    rows = risk.X.format == "csr" if sparse.issparse(risk.X) else risk.data.cheap_rows
    return bool(
        offers(risk.loss, Capability.SECOND_DERIVATIVE)
        and risk.n_blocks == 1
        and risk.X.shape[1] <= _MOST_FEATURES
        and rows
    )
