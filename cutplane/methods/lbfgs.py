"""The limited-memory quasi-Newton method of Broyden, Fletcher, Goldfarb and Shanno."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.costs import ITERATION
from cutplane.engine.evaluator import Point
from cutplane.methods.base import Estimate, Method, Refusal, Step, require_square
from cutplane.methods.estimates import sizes, stable_rounds
from cutplane.pieces.validation import Array, as_count

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.pieces.forms import DiagonalQuadratic

_DECREASE, _CURVATURE = 1e-4, 0.9
"""Conditions of Wolfe: least decrease relative to the predicted one, and largest slope relative to the first
one, at these values because they are usual."""
_TRIALS = 40
"""Largest number of points of a line search, because bisection alone finds twelve digits with them."""
_FALL = 0.5
"""Largest gap of a point whose cut is added, relative to the present gap, because adding a cut costs as much
as a step."""
_NOISE = 1e-15
"""Relative increase of the objective that a step may have, because it may be a rounding error."""


@dataclass(eq=False)
class LBFGSState:
    """The current point, the last steps, and the point `proof` with the best bound; see `keep`."""

    point: Point
    gradient: Array  # of risk and regularizer together
    quadratic: DiagonalQuadratic  # the regularizer
    pairs: list[tuple[Array, Array]] = field(default_factory=list)  # steps, and changes of the gradient
    bound: float = -math.inf
    proof: Point = field(init=False)
    share: float = 1.0  # weight of the cut at `proof` in the bound

    @classmethod
    def begin(cls, run: Run, point: Point, quadratic: DiagonalQuadratic) -> LBFGSState:
        """Return the state at a point, without steps."""
        state = cls(point, _gradient(run, point), quadratic)
        state.keep(run)
        return state

    @property
    def gap(self) -> float:
        """The gap between the objective and the bound of the cut at the point, without rounding errors."""
        return 0.5 * float(self.gradient @ (self.gradient / self.quadratic.weights))

    def keep(self, run: Run) -> None:
        """Keep the point if it gives the best bound so far, alone or combined with the infimum m of the risk.

        With g = 1/2 sum_j weights_j (x_j - centre_j)^2, let the cut have the height a at the centre and the
        slope s. The cut with weight t, and m with weight 1 - t, prove the bound t a + (1 - t) m - t^2 q with
        q = 1/2 sum_j s_j^2 / weights_j.
        """
        g, m = self.quadratic, float(run.problem.risk.infima.sum())
        away = self.point.x - g.centre
        slope = self.gradient - g.weights * away
        height, q = float(self.point.values.sum() - slope @ away), 0.5 * float(slope @ (slope / g.weights))
        share = min(max((height - m) / (2.0 * q), 0.0), 1.0) if math.isfinite(m) and q > 0.0 else 1.0
        bound = g.constant + share * height - share**2 * q + ((1.0 - share) * m if share < 1.0 else 0.0)
        if bound > self.bound:
            self.bound, self.proof, self.share = bound, self.point, share

    def direction(self) -> Array:
        """Return the quasi-Newton direction, by the two-loop recursion."""
        q = -self.gradient
        shares = []
        for s, y in reversed(self.pairs):
            shares.append(float(s @ q) / float(s @ y))
            q -= shares[-1] * y
        if self.pairs:
            s, y = self.pairs[-1]
            q *= float(s @ y) / float(y @ y)
        else:
            q /= max(1.0, float(np.linalg.norm(self.gradient)))
        for (s, y), share in zip(self.pairs, reversed(shares), strict=True):
            q += (share - float(y @ q) / float(s @ y)) * s
        return q


@dataclass(frozen=True)
class LBFGS(Method):
    """L-BFGS for a smooth risk and a squared norm: a quasi-Newton method with limited memory [1]_.

    A line search ends where objective and slope have decreased enough (the conditions of Wolfe). With
    ``g(x) = 1/2 sum_j weights_j (x_j - centre_j)^2``, all weights positive, the cut at one point proves that

        F* >= F(x) - 1/2 sum_j (grad F(x))_j^2 / weights_j,

    so that every point gives both bounds, with a gap proportional to the squared norm of the gradient.

    The risk must be differentiable, because its subgradients are used as gradients. The method also needs
    `L2`, or another diagonal quadratic, with positive weights, and no feasible set.

    Parameters
    ----------
    memory : int, default 10
        Number of steps in the approximation of the Hessian.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form; use `ProximalBundle` then.
    InvalidInputError
        If `memory` is no positive integer.

    References
    ----------
    .. [1] D. C. Liu, J. Nocedal, "On the limited memory BFGS method for large scale optimization", Math.
       Program. 45, 1989, doi:10.1007/BF01589116.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Logistic()), cut.L2(1.0))
    >>> print(round(problem.solve(cut.LBFGS(), tol=1e-9).objective, 6))
    0.437859
    """

    memory: int = 10

    kind = "first order"
    stabilizations = ()

    def __post_init__(self) -> None:
        as_count("LBFGS.memory", self.memory)

    def check(self, problem: Declaration) -> None:
        require_square(problem, self.name, "in all coordinates")

    def estimate(self, problem: Declaration) -> Refusal | Estimate:
        if not sizes(problem).smooth:
            return Refusal("the risk does not say that it is smooth, and at a kink no step may be found")
        steps = stable_rounds(problem)
        return Estimate(0.5e-9 * steps * ITERATION, steps, rounds=steps)

    def start(self, run: Run) -> LBFGSState:
        return LBFGSState.begin(run, run.anchor, require_square(run.problem, self.name, "in all coordinates"))

    def finish(self, run: Run, state: LBFGSState) -> None:
        if state.bound > run.lower:
            run.minimise_cut(state.proof, state.share)

    def step(self, run: Run, state: LBFGSState) -> Step:
        """Search the quasi-Newton direction, and add the cut if it reduces the gap enough.

        If no step is found, restart at the minimiser of the last cut, without stored steps.
        """
        direction = state.direction()
        slope = float(direction @ state.gradient)
        if not slope < 0.0:
            state.pairs = []
            direction, slope = -state.gradient, -float(state.gradient @ state.gradient)
        found = _search(run, state.point, direction, slope)
        if found is not None:
            point, gradient = found
            step, change = point.x - state.point.x, gradient - state.gradient
            if float(step @ change) > 0.0:
                state.pairs = [*state.pairs, (step, change)][-self.memory :]
            state.point, state.gradient = point, gradient
            state.keep(run)
            if state.gap <= max(_FALL * (run.upper - run.lower), run.tolerance(run.upper)):
                run.minimise_cut(point)
            return Step("quasi-Newton", state)
        _, minimiser, _ = run.minimise_cut(state.point)
        if run.closed:
            return Step("model", state)
        point = run.visit(minimiser)
        if not point.objective < state.point.objective:
            return Step("search", state, "no step along the gradient decreases the objective")
        return Step("model", LBFGSState.begin(run, point, state.quadratic))


def _gradient(run: Run, point: Point) -> Array:
    regularizer: Any = run.problem.regularizer
    return run.slopes(point).sum(axis=0) + regularizer.subgradient(point.x)


def _search(run: Run, start: Point, direction: Array, slope: float) -> tuple[Point, Array] | None:
    """Return a point on a ray where the conditions of Wolfe hold, and its gradient; None if none is found."""
    low, high, t = 0.0, math.inf, 1.0
    noise, found = _NOISE * abs(start.objective), None
    for _ in range(_TRIALS):
        point = run.visit(start.x + t * direction)
        if not point.objective <= start.objective + _DECREASE * t * slope + noise:
            high = t
        else:
            gradient = _gradient(run, point)
            found = point, gradient
            if float(direction @ gradient) >= _CURVATURE * slope:
                return found
            low = t
        t = 2.0 * t if high == math.inf else 0.5 * (low + high)
    return found
