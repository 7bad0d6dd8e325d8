"""Coordinates that are at a bound to which their slope holds them: steps can leave them out for a while."""

from __future__ import annotations

import numpy as np

from cutplane.pieces.validation import Array

_OVERHEAD = 400_000.0
_COPY = 2.0
_LARGEST_PART = 0.7


def active_coordinates(g: Array, rise: Array, fall: Array, intercept: bool) -> Array:
    """Return the places of the coordinates that can take part in a step, such as all off their bounds.

    With an intercept a step takes one coordinate up and another down, and helps if the first gains more than
    the second costs. The other coordinates can do neither with any partner, as long as no coordinate violates
    the optimality conditions by more than now; of this there is no guarantee.

    References
    ----------
    C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines", ACM TIST 2 (2011), 27:1-27:27,
    section 5.1, https://doi.org/10.1145/1961189.1961199.
    """
    up, down = g - rise, g - fall
    most, least = float(up.max()), float(down.min())
    if not intercept:
        most, least = max(most, 0.0), min(least, 0.0)
    return np.flatnonzero((up >= least) | (down <= most))


def worth_leaving_out(active: int, m: int, spent: float) -> bool:
    """Tell whether steps on the active coordinates alone would by now have saved what they cost beforehand.

    That is a copy of their part of the matrix, and the slopes of the others afterwards.

    Parameters
    ----------
    active, m : int
        How many coordinates are active, and how many there are.
    spent : float
        The cost of the steps on all of them since they were last all there, in floating-point operations.
    """
    saved = spent * (1.0 - active / m)
    return 2 <= active <= _LARGEST_PART * m and saved >= _OVERHEAD + _COPY * active * m


def may_be_worth_it(spent: float) -> bool:
    """Tell whether `worth_leaving_out` could hold, before the active coordinates are known."""
    return spent >= _OVERHEAD
