"""Points near the half-spaces that a separation oracle returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from cutplane.engine.bundle import Bundle
from cutplane.engine.tolerances import CANCELLED, NEAR
from cutplane.masters.base import HALF_SPACE
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.sets.restoration import restore_by_rows
from cutplane.status import Status

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_PULLS = 40
_CLOSE = 1e-3
"""A point found by bisection is this close to the boundary, relative to its distance from the inner end."""


def into_half_spaces(problem: Declaration, bundle: Bundle, x: Array) -> Array:
    """Return x moved onto the half-spaces of the bundle that it violates by a master's tolerance."""
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


def pull_back(run: Run, outside: Array, inside: Array) -> Array:
    """Return a feasible point near the boundary on the segment; keep the deepest half-spaces met."""
    low, high, deepest = 0.0, 1.0, None
    for _ in range(_PULLS):
        if high - low <= max(_CLOSE * (1.0 - low), 1e-12):
            break
        t = 0.5 * (low + high)
        x = inside + t * (outside - inside)
        found = run.evaluator.separate(x)
        if len(found):
            high, deepest = t, (x, found)
        else:
            low = t
    if deepest is not None:
        run.add_half_spaces(*deepest)
    return inside + low * (outside - inside)


def infeasible_end(run: Run, stabilized: bool) -> tuple[Status, str]:
    """Return how a run ends whose reduced problem a master calls infeasible: what multipliers prove."""
    from cutplane.masters.conic.certificates import certify_infeasible

    problem = run.problem
    if run.best is None and certify_infeasible(run.bundle, problem.simple_set, problem.dim):
        return (
            Status.INFEASIBLE,
            "the half-spaces found and the simple set have no common point (certified by multipliers)",
        )
    reason = "a backend calls the reduced problem infeasible, which could not be certified"
    if stabilized:
        reason += "; the level may be below the rounding error of the bounds"
    return Status.STALLED, reason
