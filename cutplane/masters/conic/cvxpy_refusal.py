"""Whether cvxpy can take a reduced problem, told without importing it."""

from __future__ import annotations

from cutplane.masters.base import Level, Prox, ReducedProblem
from cutplane.pieces.capabilities import Capability, offers


def refusal(reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> str | None:
    """Return None if both pieces describe themselves to cvxpy, else why not."""
    for piece in (reduced.regularizer, reduced.simple_set):
        if not offers(piece, Capability.CVXPY):
            return f"{piece!r} has no cvxpy form"
    return None
