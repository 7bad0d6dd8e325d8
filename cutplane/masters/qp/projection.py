"""Projection on a polyhedron by the master of quadratic programmes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from cutplane.masters.base import MasterStatus, Prox, ReducedProblem, Rows
from cutplane.masters.qp.simplex_qp import SimplexQP
from cutplane.masters.units import piece_in_unit, unit_of
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array
from cutplane.regularizers.none import NoRegularizer


def project_on_polyhedron(simple_set: Any, x: Array) -> Array | None:
    """Return the projection of x, up to rounding; None if the set is none of few rows, or no answer is found.

    It is the reduced problem whose only cut is zero, with the prox term around x.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.masters.qp.projection import project_on_polyhedron
    >>> from cutplane.sets import Polyhedron
    >>> project_on_polyhedron(Polyhedron([[1.0, 1.0]], [1.0]), np.array([2.0, 1.0])).round(6).tolist()
    [1.0, 0.0]
    """
    if not offers(simple_set, Capability.LINEAR_FORM):
        return None
    unit = unit_of(max(float(np.abs(x).max()), min(simple_set.violation(x), 1e300)))
    reduced = ReducedProblem(x.size, 1, NoRegularizer(), piece_in_unit(simple_set, unit))
    if SimplexQP.refusal(reduced, Prox) is not None:
        return None
    zero = SimpleNamespace(
        slopes=np.zeros((1, x.size)), offsets=np.zeros(1), blocks=np.zeros(1, int), ids=np.zeros(1, int)
    )
    solution = SimplexQP(reduced).solve(cast(Rows, zero), Prox(x / unit, 1.0))
    if solution.status is not MasterStatus.SOLVED or solution.x is None:
        return None
    return unit * solution.x
