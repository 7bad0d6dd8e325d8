"""The proximal bundle method."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import norm

from cutplane.engine.evaluator import Point
from cutplane.masters.base import Prox
from cutplane.methods.base import Estimate, Method, Refusal, Step, is_certifiable
from cutplane.methods.estimates import of_cuts, stable_rounds
from cutplane.pieces.validation import Array, as_scalar

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_ACCURACY = 0.5
"""Error of an on-demand risk relative to the predicted decrease, because half of it suffices to decide the
kind of a step."""
_FAR = 1e8
"""Ratio of a cut's linearisation error to the predicted decrease above which the cut is not added, because so
steep a slope would lose digits."""
_PATIENCE = 3
"""Number of steps of one kind in a row before the weight may change, because Kiwiel's rule requires them."""
_SHRINKS = 1e-2, 1e-4, 1e-6, 1e-8
"""Factors of the prox weight with which the model is minimised for the lower bound, before it is minimised
without a prox term, because the master of the steps is faster."""
_LIGHTEST = 1e-100
"""Least weight after halvings, because squares of steps are multiplied and divided by it."""
_WIDEST = 1000
"""Largest dimension in which a centre is enclosed, because this takes two calls and two cuts per
coordinate."""
_FARTHER, _BELOW = 8.0, 0.25
"""Growth of the radii while no bound is finite; and the depth of the cuts below the centre as a share of the
tolerance, less than 1 because there are other errors."""
_SHARPER, _SHARPEST, _HOPELESS = 0.1, 1e-8, 1e-6
"""Factor of the allowed predicted decrease after each enclosure, and two least values of this decrease
relative to the tolerance. Below the first value, differences of two objectives are rounding errors. The
second value is for runs without a finite bound, because after six enclosures, with radii of 3e4 times the
first ones, there is probably no minimiser."""


class Enclosure(NamedTuple):
    """The cuts around the last centre that was enclosed.

    The next enclosure is computed when the model predicts a decrease below `share` times the tolerance. The
    pairs of cuts were evaluated at the distances `radii`, and are lower by `errors` than the objective at the
    centre.
    """

    share: float
    centre: Array
    radii: Array
    errors: Array


@dataclass(frozen=True, eq=False)
class ProximityState:
    """Centre and weight of the prox term, and the numbers of Kiwiel's rule."""

    centre: Point
    weight: float
    run_length: int = 0  # serious (positive) or null (negative) steps since the weight last changed
    variation: float = float("inf")  # estimated curvature of the objective near the centre
    enclosure: Enclosure | None = None


@dataclass(frozen=True)
class ProximalBundle(Method):
    """The proximal bundle method with Kiwiel's proximity control.

    ``x_t = argmin f_t(x) + g(x) + u_t/2 ||x - c||^2`` over X. If F(x_t) is below F(c) by at least `decrease`
    times the decrease that the model predicted, x_t becomes the centre (serious step), otherwise only the cut
    is added (null step). The weight u_t is computed by quadratic interpolation of F between c and x_t. If the
    model predicts a decrease below the tolerance, it is minimised with smaller weights for the lower bound,
    and u_t is halved.

    The method solves any problem. The gap is certified if X is bounded or g has a finite conjugate. Otherwise
    a bound needs cuts that increase in all directions. If the predicted decrease is below the tolerance, the
    centre is enclosed: f is evaluated at a distance r on both sides along each coordinate [2]_. For a smooth
    f, these cuts are lower than F(c) by a multiple of r^2, so that a few enclosures suffice for a bound
    within the tolerance. If no minimiser exists, or in more than 1,000 dimensions, the run ends with status
    STALLED and the reason.

    Parameters
    ----------
    weight : float or None, default None
        First weight u_1 > 0; None stands for the norm of the first subgradient divided by the size of the
        first point.
    decrease : float, default 0.1
        Share of the predicted decrease that makes a step serious; in (0, 0.5).

    References
    ----------
    .. [1] K. C. Kiwiel, "Proximity control in bundle methods for convex nondifferentiable minimization",
       Math. Program. 46, 1990, doi:10.1007/BF01585731.
    .. [2] T. G. Kolda, R. M. Lewis, V. Torczon, "Optimization by direct search: new perspectives on some
       classical and modern methods", SIAM Review 45, 2003, doi:10.1137/S003614450242889: the directions.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> @cut.risk(dim=2)
    ... def distance(x):
    ...     return np.abs(x - 1).sum(), np.sign(x - 1)
    >>> result = cut.Problem(distance, feasible_set=cut.Box(-5, 0.5)).solve(cut.ProximalBundle())
    >>> print(result.status, round(result.objective, 4))
    OPTIMAL 1.0
    """

    weight: float | None = None
    decrease: float = 0.1
    stabilizations = (Prox, None)

    def __post_init__(self) -> None:
        if self.weight is not None:
            as_scalar("ProximalBundle.weight", self.weight, low=0.0, low_open=True)
        as_scalar("ProximalBundle.decrease", self.decrease, low=0.0, high=0.5, low_open=True, high_open=True)

    def estimate(self, problem: Declaration) -> Refusal | Estimate:
        return of_cuts(problem, (Prox,), stable_rounds(problem))

    def start(self, run: Run) -> ProximityState:
        first = run.anchor
        return ProximityState(first, self.weight if self.weight is not None else run.natural_weight(first))

    def step(self, run: Run, state: ProximityState) -> Step:
        if run.best is not None and not state.centre.feasible:
            state = replace(state, centre=run.best)
        centre, finished = state.centre, None
        reduced = run.reduced(Prox(centre.x, state.weight))
        predicted = centre.objective - reduced.objective
        steepness = state.weight * float(norm(reduced.x - centre.x))
        share = 1.0 if state.enclosure is None else state.enclosure.share
        if predicted <= share * run.tolerance(centre.objective) and not run.closed:
            if is_certifiable(run.problem):
                _certify(run, centre, state.weight)
            else:
                state = replace(state, enclosure=_enclosed(run, centre, state.enclosure))
                sharpest = _SHARPEST if run.lower > -math.inf else _HOPELESS
                if not _has_room(run) or share < sharpest:
                    finished = (
                        f"the model predicts a decrease of at most {max(predicted, 0.0):.2g} (aggregate "
                        f"subgradient of norm {steepness:.2g}), but this gap is not certified because the "
                        "problem has no regularizer and its feasible set is unbounded"
                    )
            state = replace(state, weight=max(0.5 * state.weight, _LIGHTEST))
        if run.closed:
            return Step("null", state)
        point = run.evaluate(reduced.x, _ACCURACY * max(predicted, 0.0))
        useful = predicted > 0.0 and point.feasible
        if useful and point.objective <= centre.objective - self.decrease * predicted:
            run.add_cut(point)
            return Step("serious", _after_serious_step(state, point, predicted), finished)
        slope = run.slopes(point).sum(axis=0)
        error = float((centre.values - point.values).sum() - slope @ (centre.x - point.x))
        if error > _FAR * predicted > 0.0:
            return Step("null", replace(state, weight=10.0 * state.weight), finished)
        run.add_cut(point)
        if useful:
            state = _after_null_step(state, point, predicted, error, steepness)
        return Step("null" if point.feasible else "separation", state, finished)


def _certify(run: Run, centre: Point, weight: float) -> None:
    """Minimise the model with smaller weights, until the gap is closed or the prediction is too large."""
    for stabilization in (*(Prox(centre.x, shrink * weight) for shrink in _SHRINKS), None):
        reduced = run.reduced(stabilization)
        if run.closed or centre.objective - reduced.objective > run.tolerance(centre.objective):
            return


def _has_room(run: Run) -> bool:
    """Tell whether the bundle has room for the cuts around a point, two per coordinate."""
    most = run.bundle.max_cuts
    return run.problem.dim <= _WIDEST and (most is None or 4 * run.problem.dim <= most)


def _enclosed(run: Run, centre: Point, before: Enclosure | None) -> Enclosure:
    """Add cuts around the centre if there are none or they are too low, then minimise the model."""
    tolerance, x = run.tolerance(centre.objective), centre.x
    if before is None:
        run.reduced()  # its bound is finite if some combination of the cuts is flat
        size = max(abs(centre.objective), tolerance)
        radii = np.full(x.size, math.sqrt(tolerance / size) * max(1.0, centre.extent))
        before = Enclosure(1.0, x, radii, np.full(x.size, math.inf))
    elif run.lower == -math.inf:
        before = before._replace(radii=_FARTHER * before.radii, errors=np.full(x.size, math.inf))
    elif before.errors.min() > 2.0 * _BELOW * tolerance:
        shrunk = np.sqrt(_BELOW * tolerance / before.errors) * before.radii
        before = before._replace(radii=shrunk, errors=np.full(x.size, math.inf))
    elif (np.abs(x - before.centre) > before.radii).any():
        before = before._replace(errors=np.full(x.size, math.inf))
    after = before._replace(share=_SHARPER * before.share)
    if run.closed or not _has_room(run) or math.isfinite(before.errors.max()):
        run.reduced()
        return after
    after = after._replace(centre=x)
    for j, sign in product(range(x.size), (1.0, -1.0)):
        near = x.copy()
        near[j] += sign * before.radii[j]
        near = run.problem.into_simple_set(near)
        if (near == x).all():
            continue
        point = run.query(near)
        below = centre.values - point.values - run.slopes(point) @ (x - point.x)
        after.errors[j] = max(float(below.sum()), 0.0 if after.errors[j] == math.inf else after.errors[j])
    run.reduced()
    return after


def _interpolated(state: ProximityState, point: Point, predicted: float) -> float:
    """Return the prox weight whose step to the minimiser of a quadratic, fitted to F, ends at x_t."""
    return 2.0 * state.weight * (1.0 - (state.centre.objective - point.objective) / predicted)


def _after_serious_step(state: ProximityState, point: Point, predicted: float) -> ProximityState:
    weight = state.weight
    if state.centre.objective - point.objective >= 0.5 * predicted and state.run_length > 0:
        weight = _interpolated(state, point, predicted)
    elif state.run_length > _PATIENCE:
        weight = state.weight / 2.0
    weight = max(weight, state.weight / 10.0)
    count = max(state.run_length + 1, 1) if weight == state.weight else 1
    variation = max(state.variation, 2.0 * predicted)
    return ProximityState(point, weight, count, variation, state.enclosure)


def _after_null_step(
    state: ProximityState, point: Point, predicted: float, error: float, steepness: float
) -> ProximityState:
    weight = state.weight
    variation = min(state.variation, steepness + max(predicted - steepness**2 / weight, 0.0))
    if error > max(variation, 10.0 * predicted) and state.run_length < -_PATIENCE:
        weight = min(max(_interpolated(state, point, predicted), weight), 10.0 * weight)
    count = min(state.run_length - 1, -1) if weight == state.weight else -1
    return ProximityState(state.centre, weight, count, variation, state.enclosure)
