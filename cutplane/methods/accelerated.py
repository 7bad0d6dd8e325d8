"""Nesterov's accelerated gradient method."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cutplane.engine.evaluator import Point
from cutplane.engine.tangent import WeightedCuts, minimise_cut
from cutplane.methods.base import Method, Step
from cutplane.methods.requirements import require_linear_minimisation
from cutplane.pieces.capabilities import Capability, require
from cutplane.pieces.validation import Array, as_positive

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_DOUBLINGS = 60
_SHRINK = 0.9
_FIRST_SHRINK = 0.1
_NOISE = 1e-14
_FLATTEST = 1e-12


class Estimate:
    """sum_i a_i (the cut at x_i) + 1/2 ||x - centre||^2: over X, nowhere above sum_i a_i f(y).

    Parameters
    ----------
    centre : ndarray of shape (dim,)

    Attributes
    ----------
    cuts : WeightedCuts
    """

    def __init__(self, centre: Array):
        self.centre = centre
        self.cuts = WeightedCuts(np.zeros_like(centre))

    def next_weight(self, lipschitz: float) -> float:
        """Return the a > 0 with ``lipschitz a^2 = total + a``."""
        return (1.0 + math.sqrt(1.0 + 4.0 * lipschitz * self.cuts.total)) / (2.0 * lipschitz)


class AcceleratedState(NamedTuple):
    """Where the method stands.

    Attributes
    ----------
    y : Point
        The end of the last gradient step, evaluated.
    estimate : Estimate
    lipschitz : float
        The constant of the next step.
    shrink : float
        Its factor from one step to the next.
    """

    y: Point
    estimate: Estimate
    lipschitz: float
    shrink: float = _FIRST_SHRINK


@dataclass(frozen=True)
class AcceleratedGradient(Method):
    """Nesterov's method of 2005 for a smooth risk over a bounded set that knows its projection P.

    Three sequences of points of X: with s_k the gradient at x_k and L that Lipschitz constant of the gradient
    which the risk has along the step,

        x_k = (A_{k-1} y_{k-1} + a_k z_{k-1}) / A_k,   A_k = A_{k-1} + a_k = L a_k^2,
        y_k = P(x_k - s_k / L),
        z_k = argmin of sum_{i <= k} a_i <s_i, x> + 1/2 ||x - x_0||^2 over X = P(x_0 - sum_{i <= k} a_i s_i).

    After N steps ``f(y_N) - min f <= 2 L ||x_0 - x*||^2 / ((N + 1) (N + 2))``, and the mean of the cuts at
    x_k with the weights a_k gives a lower bound that is as close with the radius of X in place of the
    distance [1]_: a certified gap in O(1 / N^2). The cut at x_k alone gives another.

    L is found by doubling it until the step bears it out, and lowered a little after every step. When the
    step goes against the gradient, the method starts afresh from where it stands, which makes it converge
    linearly if f is strongly convex [2]_.

    f must be convex and differentiable: the subgradients that the risk returns are taken for its gradients.

    Parameters
    ----------
    lipschitz : float, optional
        L, positive and finite, if it is known; it is found by default.
    restart : bool, default True
        Whether to start afresh.

    Raises
    ------
    MissingCapabilityError
        If the problem has a regularizer or a separation oracle, or the set lacks ``project`` or
        ``minimise_linear``.

    Notes
    -----
    A step takes three passes over the data of a risk with images (y_k, z_k and a gradient), else two calls of
    the oracle; a doubling of L repeats a gradient and y_k.

    Every step adds a cut. ``max_cuts`` saves memory, but then only the last cuts give bounds.

    References
    ----------
    .. [1] Yu. Nesterov, "Smooth minimization of non-smooth functions", Math. Program. 103, 2005,
       doi:10.1007/s10107-004-0552-5.
    .. [2] B. O'Donoghue, E. Candès, "Adaptive restart for accelerated gradient schemes", Found. Comput.
       Math. 15, 2015, doi:10.1007/s10208-013-9150-3.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> from cutplane.methods import AcceleratedGradient
    >>> X, y = np.eye(3), np.array([1.0, 0.5, -2.0])
    >>> risk = cut.LinearRisk(X, y, cut.losses.Squared(), normalize=False)
    >>> result = cut.Problem(risk, feasible_set=cut.L2Ball(1.5)).solve(AcceleratedGradient(), tol=1e-9)
    >>> print(result.status, result.x.round(4))
    OPTIMAL [ 0.6547  0.3273 -1.3093]
    """

    lipschitz: float | None = None
    restart: bool = True

    stabilizations = ()

    def __post_init__(self) -> None:
        if self.lipschitz is not None:
            as_positive("AcceleratedGradient.lipschitz", self.lipschitz)

    def check(self, problem: Declaration) -> None:
        """Raise unless the problem is a risk alone over a bounded set with a projection."""
        require_linear_minimisation(problem, self.name)
        remedy = 'Use FrankWolfe("exact") or LevelBundle(), or give your set a method project(x).'
        require(problem.simple_set, Capability.PROJECTION, self.name, remedy)

    def start(self, run: Run) -> AcceleratedState:
        """Start from the best evaluated point."""
        y = run.anchor
        steepness = float(np.abs(run.slopes(y).sum(axis=0)).max())
        return AcceleratedState(y, Estimate(y.x), self.lipschitz or max(steepness, _FLATTEST))

    def step(self, run: Run, state: AcceleratedState) -> Step:
        """Take the bound from the cut at x_k; step to y_k with an L that holds; move z_k, or start afresh."""
        estimate, L, shrink = state.estimate, state.lipschitz, state.shrink
        z = _least(run, state)
        for _ in range(_DOUBLINGS):
            weight = estimate.next_weight(L)
            x = _between(run, state.y, z, weight / (estimate.cuts.total + weight))
            if not math.isfinite(x.objective):
                L, shrink = 2.0 * L, _SHRINK
                continue
            x = replace(x, slopes=run.slopes(x))
            gradient, _ = minimise_cut(run, x)
            if run.closed:
                return Step("bound", state)
            y = run.visit(_project(run, x.x - gradient / L))
            bend, allowed, noise = _bend(x, y, gradient, L)
            if self.lipschitz is not None or max(bend, allowed) <= noise:
                factor = 1.0
                break
            if bend <= allowed + noise:
                factor = shrink
                break
            L, shrink = 2.0 * L, _SHRINK
        else:
            return Step("search", state, "no constant of the gradient was found that holds along a step")
        estimate.cuts.add(run, x, weight)
        estimate.cuts.certify(run)
        if self.restart and float(gradient @ (y.x - state.y.x)) > 0.0:
            return Step("restart", AcceleratedState(y, Estimate(y.x), factor * L, shrink))
        return Step("accelerated", AcceleratedState(y, estimate, factor * L, shrink))


def _least(run: Run, state: AcceleratedState) -> Any:
    """Return z: a point with an image if the risk has images, else an array."""
    estimate = state.estimate
    if estimate.cuts.total == 0.0:
        return state.y
    z = _project(run, estimate.centre - estimate.cuts.slope)
    return run.visit(z) if run.imaged else z


def _between(run: Run, y: Point, z: Any, t: float) -> Point:
    if isinstance(z, Point):
        return y if z is y else run.between(y, z, t)
    return run.visit(y.x + t * (z - y.x))


def _project(run: Run, x: Array) -> Array:
    simple_set: Any = run.problem.simple_set
    return simple_set.project(x)


def _bend(x: Point, y: Point, gradient: Array, lipschitz: float) -> tuple[float, float, float]:
    """Return f(y) minus the cut at x there, what the constant allows it to be, and the rounding errors."""
    change = y.x - x.x
    bend = y.objective - x.objective - float(gradient @ change)
    return bend, 0.5 * lipschitz * float(change @ change), 2.0 * _NOISE * abs(x.objective)
