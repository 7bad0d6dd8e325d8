"""Nesterov's accelerated gradient method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cutplane.engine.evaluator import Point
from cutplane.methods.base import Method, Step, require_linear_minimisation
from cutplane.pieces.capabilities import Capability, require
from cutplane.pieces.validation import Array, as_positive

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run, Tangent

_DOUBLINGS = 60
"""Largest number of doublings of L in a step, because a risk that needs more is not differentiable there."""
_SHRINK, _FIRST_SHRINK = 0.9, 0.1
"""Factors of L after a step, because L may be smaller at the next point; the second factor is used until L is
doubled for the first time."""
_NOISE = 2e-14
"""Relative error of the difference of two objectives, because both are rounded."""
_FLATTEST = 1e-12
"""First L if the gradient is zero, because L must be positive."""
_SPACING = 20
"""Number of cuts per new cut at which the bound of the mean is computed, because its cost grows with the
number of cuts."""


class CutMean:
    """sum_i a_i (the cut at x_i) + 1/2 ||x - centre||^2; the first sum is at most sum_i a_i f(x)."""

    def __init__(self, centre: Array):
        self.centre = centre
        self.slope = np.zeros_like(centre)  # slope of the first sum
        self.total = 0.0  # sum of the a_i
        self._ids: list[int] = []
        self._weights: list[float] = []
        self._count, self._next = 0, 1

    def next_weight(self, lipschitz: float) -> float:
        """Return the a > 0 with ``lipschitz a^2 = total + a``."""
        return (1.0 + math.sqrt(1.0 + 4.0 * lipschitz * self.total)) / (2.0 * lipschitz)

    def add(self, run: Run, cut: Tangent, weight: float) -> None:
        """Add a cut of the bundle; compute the bound of the mean after some cuts."""
        self._ids += cut.ids.tolist()
        self._weights += [weight] * cut.ids.size
        self.slope, self.total = self.slope + weight * cut.slope, self.total + weight
        self._count += 1
        if self._count < self._next:
            return
        self._next = self._count + max(1, self._count // _SPACING)
        where = np.searchsorted(run.bundle.ids, self._ids)
        if where[-1] < len(run.bundle) and np.array_equal(run.bundle.ids[where], self._ids):
            multipliers = np.bincount(where, self._weights, minlength=len(run.bundle))
            run.timed(run.certify, multipliers / self.total)


class AcceleratedState(NamedTuple):
    """The end of the last gradient step, and the data of the next one."""

    y: Point
    estimate: CutMean
    lipschitz: float
    shrink: float = _FIRST_SHRINK  # factor of `lipschitz` after a step


@dataclass(frozen=True)
class AcceleratedGradient(Method):
    """Nesterov's method of 2005 for a smooth risk over a bounded set with a projection P.

    Three sequences of points of X: with s_k the gradient at x_k and L the Lipschitz constant of the gradient
    along the step,

        x_k = (A_{k-1} y_{k-1} + a_k z_{k-1}) / A_k,   A_k = A_{k-1} + a_k = L a_k^2,
        y_k = P(x_k - s_k / L),
        z_k = argmin of sum_{i <= k} a_i <s_i, x> + 1/2 ||x - x_0||^2 over X = P(x_0 - sum_{i <= k} a_i s_i).

    After N steps ``f(y_N) - min f <= 2 L ||x_0 - x*||^2 / ((N + 1) (N + 2))``. The mean of the cuts at x_k
    with the weights a_k gives a lower bound with the same error, except that the radius of X replaces the
    distance [1]_. Therefore the certified gap is O(1 / N^2). The cut at x_k alone gives another bound.

    L is doubled until the inequality of a Lipschitz gradient holds along the step, and reduced a little after
    every step. When the step ascends, the method restarts from y_k, because that gives linear convergence if
    f is strongly convex [2]_.

    f must be differentiable, because its subgradients are used as gradients.

    Parameters
    ----------
    lipschitz : float, optional
        L, positive and finite; by default it is estimated.
    restart : bool, default True
        Whether to restart.

    Raises
    ------
    MissingCapabilityError
        If the problem has a regularizer or a separation oracle, or the set lacks ``project`` or
        ``minimise_linear``.

    Notes
    -----
    With a risk that has images, a step takes three passes over the data, for y_k, z_k and a gradient;
    otherwise two calls of the oracle. A doubling of L repeats a gradient and y_k.

    Every step adds a cut. ``max_cuts`` saves memory, but bounds then use only the last cuts.

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
        require_linear_minimisation(problem, self.name)
        remedy = 'Use FrankWolfe("exact") or LevelBundle(), or give your set a method project(x).'
        require(problem.simple_set, Capability.PROJECTION, self.name, remedy)

    def start(self, run: Run) -> AcceleratedState:
        y = run.anchor
        steepness = float(np.abs(run.slopes(y).sum(axis=0)).max())
        return AcceleratedState(y, CutMean(y.x), self.lipschitz or max(steepness, _FLATTEST))

    def step(self, run: Run, state: AcceleratedState) -> Step:
        last, estimate, L, shrink = state
        simple_set: Any = run.problem.simple_set
        begun = estimate.total > 0.0
        z = simple_set.project(estimate.centre - estimate.slope) if begun else last.x
        end = run.visit(z) if begun and run.evaluator.imaged else None
        for _ in range(_DOUBLINGS):
            weight = estimate.next_weight(L)
            t, x = weight / (estimate.total + weight), last
            if begun:
                x = run.between(last, end, t) if end else run.visit(last.x + t * (z - last.x))
            if math.isfinite(x.objective):
                cut = run.minimise_cut(x)
                if run.closed:
                    return Step("bound", state)
                y = run.visit(simple_set.project(x.x - cut.slope / L))
                change = y.x - x.x
                rise = y.objective - x.objective - float(cut.slope @ change)
                allowed, noise = 0.5 * L * float(change @ change), _NOISE * abs(x.objective)
                if self.lipschitz is not None or rise <= allowed + noise:
                    break
            L, shrink = 2.0 * L, _SHRINK
        else:
            return Step("search", state, "no constant of the gradient was found that holds along a step")
        if self.lipschitz is None and max(rise, allowed) > noise:
            L *= shrink
        estimate.add(run, cut, weight)
        if self.restart and float(cut.slope @ (y.x - last.x)) > 0.0:
            return Step("restart", AcceleratedState(y, CutMean(y.x), L, shrink))
        return Step("accelerated", AcceleratedState(y, estimate, L, shrink))
