"""Methods for the weights of kernels: the closed-form update in an lp ball, and equal weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cutplane.engine.evaluator import Point
from cutplane.exceptions import MissingCapabilityError
from cutplane.methods.base import Method, Step, require_linear_minimisation
from cutplane.pieces.capabilities import Capability, offers, require
from cutplane.pieces.validation import Array
from cutplane.sets.balls import lp_norm

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_MEMORY = 6
"""Number of updates used for the extrapolation, because older updates are not representative."""
_REVIVED = 0.1
"""Share of the weight of the best single kernel that replaces a weight of 0, because the closed form keeps it
at 0."""
_LOWEST = 1e-150
"""Weight below which weights count as 0, because the product of two such weights underflows."""
_FARTHEST = 10.0
"""Largest change of the logarithm of a weight by an extrapolation, because an extrapolation is unreliable."""
_HALVINGS = 30
"""Number of halvings of a step, because a shorter step changes only the last digits."""
_NOISE = 1e-13
"""Relative increase of the objective that counts as a rounding error, because it is a sum of rounded
terms."""
_FLAT = 1e-12
"""Positive slope, relative to the largest slope, that counts as a rounding error, because slopes are sums of
rounded terms."""


class Update(NamedTuple):
    """Weights before and after the closed form."""

    before: Array
    after: Array


class ClosedFormState(NamedTuple):
    """The evaluated weights and the last updates, the newest one last."""

    point: Point
    updates: tuple[Update, ...] = ()


@dataclass(frozen=True)
class ClosedFormWeights(Method):
    """Kernel weights by their closed form: the alternating method of lp-norm multiple kernel learning [1]_.

    For a risk ``f(x) = min over w of 1/2 sum_k ||w_k||^2 / x_k + ...``, such as `MKLRisk`, the slopes at x
    are ``-1/2 q_k`` with ``||w_k|| = x_k sqrt(q_k)``. The best weights for these norms are

        x_k <- (x_k^2 q_k)^(1 / (p + 1)),  scaled to ||x||_p = radius.

    Therefore every update decreases the risk. The method extrapolates the last few updates (Anderson
    acceleration [2]_ of the logarithms of the weights). It accepts the extrapolated point if the risk
    decreases there, otherwise the update. The cut at the iterate certifies the gap. For other differentiable
    risks that decrease with every weight, the update is a descent direction, and steps along it are halved
    until the risk decreases.

    The feasible set defines p: a `NonnegativeBall`, or a `Simplex` with p = 1. For p > 1 the method converges
    linearly, and faster for larger p. For p = 1 it is slow, and a weight that became 0, for example because
    ``q_k = 0``, stays 0; `LevelBundle` is better in this case. A run starts from positive weights.

    Raises
    ------
    MissingCapabilityError
        If the feasible set is another one, or the problem has a regularizer; in an iteration, if the risk
        increases with a weight.

    References
    ----------
    .. [1] M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien, "lp-norm multiple kernel learning", J. Mach. Learn.
       Res. 12, 2011, https://jmlr.org/papers/v12/kloft11a.html.
    .. [2] H. F. Walker, P. Ni, "Anderson acceleration for fixed-point iterations", SIAM Journal on
       Numerical Analysis 49(4), 2011, doi:10.1137/10078356X.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> from cutplane.mkl import ClosedFormWeights
    >>> from cutplane.sets import NonnegativeBall
    >>> @cut.risk(dim=2)
    ... def reciprocals(x):
    ...     return (np.array([1.0, 8.0]) / x).sum(), np.array([-1.0, -8.0]) / x**2
    >>> problem = cut.Problem(reciprocals, feasible_set=NonnegativeBall(2.0))
    >>> result = problem.solve(ClosedFormWeights(), tol=1e-9, x0=[0.5, 0.5])
    >>> print(result.status, result.x.round(6))
    OPTIMAL [0.447214 0.894427]
    """

    stabilizations = ()

    def check(self, problem: Declaration) -> None:
        require_linear_minimisation(problem, self.name)
        remedy = "Take a NonnegativeBall or a Simplex, or use LevelBundle()."
        require(problem.simple_set, Capability.NORM_BALL, self.name, remedy)

    def start(self, run: Run) -> ClosedFormState:
        point = run.anchor
        if point.x.min() > 0.0:
            return ClosedFormState(point)
        even = _scaled(np.ones_like(point.x), *_norm_of(run))
        return ClosedFormState(run.visit(even if not point.x.any() else 0.5 * (point.x + even)))

    def step(self, run: Run, state: ClosedFormState) -> Step:
        point = run.visit(state.point.x) if run.exact else state.point
        slopes, vertex, _ = run.minimise_cut(point)
        if run.closed:
            return Step("bound", ClosedFormState(point))
        rising = np.flatnonzero(slopes > _FLAT * np.abs(slopes).max(initial=0.0))
        if rising.size:
            raise MissingCapabilityError(
                "ClosedFormWeights needs a risk that decreases with every coordinate, such as MKLRisk, but "
                f"{run.problem.risk!r} has the slope {slopes[rising[0]]:g} in coordinate {rising[0]}. "
                "Use LevelBundle() or FrankWolfe()."
            )
        radius, p = _norm_of(run)
        forms = np.maximum(-2.0 * slopes, 0.0)
        after = _scaled(_closed_form(point.x, forms, p, vertex), radius, p)
        updates = (*state.updates, Update(point.x, after))[-_MEMORY:]
        extrapolated = _extrapolated(updates, p)
        if extrapolated is not None:
            trial = run.visit(_scaled(extrapolated, radius, p))
            if trial.objective < point.objective:
                return Step("extrapolated", ClosedFormState(trial, updates))
            updates = updates[-1:]
        return Step("update", ClosedFormState(_searched(run, point, after), updates))


def _searched(run: Run, point: Point, after: Array) -> Point:
    """Return the point after the update, or one on the segment to it if the objective would increase.

    A risk that is a minimum over w, as in the formula of `ClosedFormWeights`, always decreases.
    """
    found = run.visit(after)
    if offers(run.problem.risk, Capability.ON_DEMAND) and not run.exact:
        return found
    highest, share = point.objective + _NOISE * abs(point.objective), 1.0
    for _ in range(_HALVINGS):
        if found.objective <= highest:
            break
        share *= 0.5
        found = run.visit(_scaled(point.x + share * (after - point.x), *_norm_of(run)))
    return found


def _norm_of(run: Run) -> tuple[float, float]:
    ball: Any = run.problem.simple_set
    return ball.norm_ball()


def _closed_form(x: Array, forms: Array, p: float, vertex: Array) -> Array:
    """Return the update up to a factor; for p > 1, a share of the vertex's weight replaces weights of 0."""
    if math.isinf(p):
        return np.ones_like(x)
    if p > 1.0:
        x = np.where(x > 0.0, x, _REVIVED * vertex)
    return (x * x * (forms / max(forms.max(), _LOWEST))) ** (1.0 / (p + 1.0))


def _scaled(x: Array, radius: float, p: float) -> Array:
    norm = lp_norm(x, p)
    return x * (radius / norm) if norm > 0.0 else x


def _extrapolated(updates: tuple[Update, ...], p: float) -> Array | None:
    """Return the point predicted by Anderson acceleration, up to a factor; None if there is none.

    The prediction minimises a combination of the last residuals, in which each coordinate is weighted by the
    p-th power of its weight.
    """
    if len(updates) < 2:
        return None
    positive = np.all([(u.before > _LOWEST) & (u.after > _LOWEST) for u in updates], axis=0)
    if not positive.any():
        return None
    before = np.log([u.before[positive] for u in updates])
    residuals = np.log([u.after[positive] for u in updates]) - before
    newest = updates[-1]
    importance = newest.after[positive] ** (0.5 * p)
    differences = np.diff(residuals, axis=0)
    shares, *_ = np.linalg.lstsq((differences * importance).T, residuals[-1] * importance, rcond=1e-10)
    change = residuals[-1] - shares @ (np.diff(before, axis=0) + differences)
    if not np.isfinite(change).all():
        return None
    x = newest.after.copy()
    x[positive] = np.exp(before[-1] + np.clip(change, -_FARTHEST, _FARTHEST))
    return x


@dataclass(frozen=True)
class UniformWeights(Method):
    """The certified gap of the starting point, which has equal weights in multiple kernel learning.

    The weights are not optimised. The cut at the starting point gives a lower bound, and the run ends with
    status STALLED unless the gap is within the tolerance.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> y = np.array([1.0, 1.0, -1.0, -1.0])
    >>> problem = cut.mkl.MKL([np.outer(y, y), np.eye(4)], y)
    >>> result = problem.solve(cut.mkl.UniformWeights(), tol=1e-9)
    >>> print(result.status, round(result.objective, 4), round(result.lower_bound, 4))
    STALLED 0.8 0.32
    """

    stabilizations = ()

    def step(self, run: Run, state: Any) -> Step:
        point = run.visit(run.anchor.x, 0.1 * run.tolerance(run.upper))
        run.minimise_cut(point)
        return Step("uniform", finished="UniformWeights only certifies the gap of equal weights")
