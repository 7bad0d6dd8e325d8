"""Minima of a diagonal quadratic and absolute costs, coordinate by coordinate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cutplane.pieces.forms import SeparableForm
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import (
    UNBOUNDED,
    Minimum,
    joined,
    minimise_linear,
    minimise_quadratic,
    minimum,
)
from cutplane.sets.box import Box

if TYPE_CHECKING:
    from cutplane.sets.base import FeasibleSet


def minimise_separable(
    form: SeparableForm, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
) -> Minimum | None:
    """Return the minimum of the form plus <v, x>: over a box by soft thresholding, clipped.

    `budget` is as in `Regularizer.conjugate_minimiser`: every term of the form is nonnegative.
    """
    quadratic, costs = form.quadratic, form.costs
    weights, centre = quadratic.weights, quadratic.centre
    if not costs.any():
        return minimise_quadratic(quadratic, v, feasible_set)
    if not weights.any():
        return minimise_absolute(costs, v, feasible_set, budget)
    bounds = feasible_set.bounds(v.shape[0])
    if bounds is None:
        return minimise_quadratic(quadratic, v + costs, feasible_set) if feasible_set.nonnegative else None
    curved = weights > 0.0
    if not curved.all():
        flat = ~curved
        bent, box = SeparableForm(quadratic.on(curved), costs[curved]), Box(bounds[0][flat], bounds[1][flat])
        below = minimise_separable(bent, v[curved], Box(bounds[0][curved], bounds[1][curved]))
        beside = minimise_absolute(costs[flat], v[flat], box, budget)
        return joined([(curved, below), (flat, beside)], v.shape[0])
    with np.errstate(all="ignore"):
        slope = v - weights * centre
        x = np.clip(-np.sign(slope) * np.maximum(np.abs(slope) - costs, 0.0) / weights, *bounds)
        offset = x - centre
        value = v @ x + costs @ np.abs(x) + (0.5 * weights * offset) @ offset + quadratic.constant
        return minimum(value, x)


def minimise_absolute(
    costs: Array, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
) -> Minimum | None:
    """Return the minimum of sum_j costs_j |x_j| + <v, x> over a box or a nonnegative set, or a bound of it.

    Where the box is open on the side to which x_j escapes, the minimum is -inf, unless `budget` is
    finite: a sum <= budget then keeps those coordinates in a ball of the l1 norm.
    """
    if not costs.any():
        return minimise_linear(v, feasible_set)
    bounds = feasible_set.bounds(v.shape[0])
    if bounds is None:
        return minimise_linear(v + costs, feasible_set) if feasible_set.nonnegative else None
    x = np.where(v > costs, bounds[0], np.where(v < -costs, bounds[1], np.clip(0.0, *bounds)))
    escaping = np.isinf(x)
    vertex = _ball_vertex(v, costs, escaping, budget)
    closed = np.where(escaping, 0.0, x)
    value = _terms(v, costs, closed) + vertex.value
    whole_ball = _ball_vertex(v, costs, np.ones_like(escaping), budget).value
    if value < whole_ball:
        return Minimum(whole_ball, None)
    if vertex.x is None:
        return UNBOUNDED
    x = closed + vertex.x
    inside = (x >= bounds[0]).all() and (x <= bounds[1]).all()
    return Minimum(value, x if inside else None)


def _terms(v: Array, costs: Array, x: Array) -> float:
    return float(costs @ np.abs(x) + v @ x)


def _ball_vertex(v: Array, costs: Array, among: Array, budget: float) -> Minimum:
    """Return the minimum of sum_j costs_j |x_j| + v_j x_j, j in `among`, where the first sum is <= budget."""
    x = np.zeros_like(v, dtype=np.float64)
    steep = np.flatnonzero(among & (np.abs(v) > costs))
    if not steep.size:
        return Minimum(0.0, x)
    if not costs[steep].all() or not math.isfinite(budget):
        return UNBOUNDED
    with np.errstate(all="ignore"):
        ratios = np.abs(v[steep]) / costs[steep]
        j = steep[np.argmax(ratios)]
        x[j] = -np.sign(v[j]) * budget / costs[j]
        return minimum(budget * (1.0 - ratios.max()), x)
