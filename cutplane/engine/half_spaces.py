"""Points near the half-spaces of a separation oracle, and a first point in all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from cutplane.engine.bundle import Bundle
from cutplane.exceptions import BackendError, InvalidInputError, OracleError
from cutplane.masters.base import HALF_SPACE
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import CANCELLED, NEAR
from cutplane.sets.base import HalfSpaces
from cutplane.sets.intersection import restore_by_rows
from cutplane.sets.polyhedron import Polyhedron
from cutplane.status import Status
from cutplane.stopping import Ended

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

_ROUNDS = 1000
"""Largest number of half-spaces computed for a domain, because most domains need a few."""
_TRIES = 3
"""Most oracle calls for a point on a segment, because the search converges as fast as Newton's method."""
_BACK = 1e-3
"""Share of the segment by which a boundary point is moved inside, because the half-spaces contain points
outside of a round set."""
CutOff = Callable[..., HalfSpaces]
"""A function that calls the given separation oracles at a point, by default all, and returns their
half-spaces."""


def into_half_spaces(problem: Declaration, bundle: Bundle, x: Array) -> Array:
    """Return x, projected onto the half-spaces that it violates by at most a master's tolerance."""
    rows = np.flatnonzero(bundle.blocks == HALF_SPACE)
    if not rows.size:
        return x
    slopes, offsets = bundle.slopes[rows], bundle.offsets[rows]
    excess, sizes = slopes @ x + offsets, abs(slopes) @ np.abs(x) + np.abs(offsets)
    near = (excess > CANCELLED * sizes) & (excess <= NEAR * sizes)
    if not near.any():
        return x
    bounds, free = problem.simple_set.bounds(x.size), np.full(x.size, np.inf)
    lower, upper = (-free, free) if bounds is None else bounds
    below = np.full(int(near.sum()), -np.inf)
    form = LinearForm(np.zeros(x.size), lower, upper, csr_array(slopes[near]), below, -offsets[near])
    return problem.into_simple_set(restore_by_rows(form, x))


def pull_back(cut_off: CutOff, outside: Array, inside: Array, found: HalfSpaces) -> Array:
    """Return a point of X on the segment, near the boundary of the half-spaces, or else `inside`."""
    x = outside
    for _ in range(_TRIES):
        x = inside + (1.0 - _BACK) * _share_inside(found, inside, x) * (x - inside)
        found = cut_off(x)
        if not found:
            return x
    return inside


def point_towards(
    end: Array, inside: Array, height: float, found: HalfSpaces, losses: tuple[float, float]
) -> Array | None:
    """Return the point on the segment from `inside` to a model's minimiser for an oracle call, or None.

    Each of `losses` gives the point whose value exceeds the value of the minimiser by at most this loss,
    because the objective falls by `height` and lies below its chord. The first such point in the half-spaces
    is returned.
    """
    if not height > 0.0:
        return None
    least = _share_inside(found, inside, end)
    for loss in losses:
        if 0.0 <= (share := 1.0 - loss / height) <= least:
            return inside + share * (end - inside)
    return None


def _share_inside(found: HalfSpaces, inside: Array, outside: Array) -> float:
    """Return the largest share of a segment, from `inside`, that lies in the half-spaces."""
    slack, excess = np.maximum(-found.violations(inside), 0.0), found.violations(outside)
    shares = np.divide(slack, slack + excess, out=np.ones_like(slack), where=excess > 0.0)
    return float(shares.min(initial=1.0))


def infeasible_end(problem: Declaration, rows: Bundle | None, stabilized: bool) -> tuple[Status, str]:
    """Return status and reason if a master calls a reduced problem infeasible.

    `rows` is None if a feasible point exists.
    """
    from cutplane.masters.certificates import certify_infeasible

    if rows is not None and certify_infeasible(rows, problem.simple_set, problem.dim):
        return (
            Status.INFEASIBLE,
            "the half-spaces found and the simple set have no common point (certified by multipliers)",
        )
    reason = "a backend calls the reduced problem infeasible, which could not be certified"
    if stabilized:
        reason += "; the level may be below the rounding error of the bounds"
    return Status.STALLED, reason


def into_domain(problem: Declaration, bundle: Bundle, cut_off: CutOff, x: Array) -> Array:
    """Return x, or its projection on half-spaces of the domain, of which as many are added as needed."""
    domain = problem.risk.domain
    separators = () if domain is None else domain.parts[1]
    if not separators:
        return x
    from cutplane.masters.certificates import ConicProjection

    found, point = HalfSpaces.stack([], problem.dim), x
    for _ in range(_ROUNDS):
        new = cut_off(point, separators)
        if not len(new):
            break
        found = HalfSpaces.stack([found, new], problem.dim)
        region = problem.simple_set & Polyhedron(found.normals, found.offsets)
        try:
            point = ConicProjection(region, problem.dim)(x)
        except (BackendError, InvalidInputError) as error:
            raise Ended(*infeasible_end(problem, bundle, False)) from error
    else:
        raise OracleError(f"No point where {problem.risk!r} is finite was found; give one as x0.")
    return point
