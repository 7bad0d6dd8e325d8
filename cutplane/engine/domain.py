"""A first point at which the risk is finite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutplane.engine.half_spaces import infeasible_end
from cutplane.exceptions import BackendError, InvalidInputError, OracleError
from cutplane.pieces.validation import Array
from cutplane.sets.base import HalfSpaces
from cutplane.sets.polyhedron import Polyhedron
from cutplane.stopping import Ended

if TYPE_CHECKING:
    from cutplane.engine.run import Run

_ROUNDS = 1000
"""A domain that takes more half-spaces than this to be found is not given by a few of them."""


def into_domain(run: Run, x: Array) -> Array:
    """Return x, or the projections of it on the half-spaces found so far until none cuts off the last."""
    problem = run.problem
    domain = problem.risk.domain
    separators = () if domain is None else domain.parts[1]
    if not separators:
        return x
    from cutplane.masters.conic.certificates import ConicProjection

    found, point = HalfSpaces.stack([], problem.dim), x
    for _ in range(_ROUNDS):
        new = run.evaluator.separate(point, separators)
        if not len(new):
            break
        run.add_half_spaces(point, new)
        found = HalfSpaces.stack([found, new], problem.dim)
        region = problem.simple_set & Polyhedron(found.normals, found.offsets)
        try:
            point = ConicProjection(region, problem.dim)(x)
        except (BackendError, InvalidInputError) as error:
            raise Ended(*infeasible_end(run, stabilized=False)) from error
    else:
        raise OracleError(f"No point where {problem.risk!r} is finite was found; give one as x0.")
    return point
