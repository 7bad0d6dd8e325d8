"""What the closed forms of min g(x) + <v, x> share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import OracleError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Minimum
from cutplane.sets.box import box_corner

if TYPE_CHECKING:
    from cutplane.sets.base import FeasibleSet

UNBOUNDED = Minimum(-math.inf, None)


def minimum(value: Any, x: Array) -> Minimum:
    """Return a minimum, or `UNBOUNDED` if it overflowed."""
    return Minimum(float(value), x) if np.isfinite(value) and np.isfinite(x).all() else UNBOUNDED


def minimise_linear(v: Array, feasible_set: FeasibleSet) -> Minimum | None:
    """Return the minimum of <v, x> over a box (-inf where it is open), or by the set's own oracle."""
    bounds = feasible_set.bounds(v.shape[0])
    if bounds is not None:
        x = box_corner(v, *bounds)
    elif offers(feasible_set, Capability.LINEAR_MINIMISATION):
        x = getattr(feasible_set, "minimise_linear")(v)  # noqa: B009
        if np.shape(x) != v.shape:
            raise OracleError(
                f"minimise_linear of {feasible_set!r} must return a point of shape {v.shape}, "
                f"got shape {np.shape(x)}."
            )
    else:
        return None
    return minimum(v @ x, x) if np.isfinite(x).all() else UNBOUNDED


def minimise_quadratic(form: DiagonalQuadratic, v: Array, feasible_set: FeasibleSet) -> Minimum | None:
    """Return the minimum of a quadratic plus <v, x>: over a box, or, with equal weights, by a projection."""
    if not form.weights.any():
        return minimise_linear(v, feasible_set)
    bounds = feasible_set.bounds(v.shape[0])
    with np.errstate(all="ignore"):
        free = form.centre - v / form.weights
        if bounds is not None:
            x = np.clip(free, *bounds)
            if not form.weights.all():
                linear = box_corner(v, *bounds, rest=form.centre)
                x = np.where(form.weights > 0.0, x, linear)
        elif np.ptp(form.weights) > 0.0 or not offers(feasible_set, Capability.PROJECTION):
            return None
        elif not np.isfinite(free).all():
            return UNBOUNDED
        else:
            x = getattr(feasible_set, "project")(free)  # noqa: B009
        offset = x - form.centre
        return minimum((0.5 * form.weights * offset) @ offset + v @ x, x)


def is_whole_space(feasible_set: FeasibleSet, dim: int) -> bool:
    """Tell whether a set has no bounds at all."""
    bounds = feasible_set.bounds(dim)
    return bounds is not None and bool(np.isinf(bounds[0]).all() and np.isinf(bounds[1]).all())
