"""The statuses of a solve, each with a remedy, and the definition of the gap."""

from __future__ import annotations

import math
from enum import StrEnum

LEAST = 1e-12
"""Share of the largest objective of the solve that counts as zero in a relative gap, because a few thousand
rounding errors of its terms add up to as much."""


class Status(StrEnum):
    """How a solve ended. Only OPTIMAL certifies the tolerance."""

    remedy: str
    """Advice for the user."""

    OPTIMAL = "OPTIMAL", "Nothing to do: the certified gap is within the tolerance."
    TARGET = "TARGET", "Nothing to do if the target is all you want; else solve(warm_start=result) goes on."
    MAX_ITER = (
        "MAX_ITER",
        "Raise max_iter, or continue with solve(warm_start=result), or try another method.",
    )
    TIME_LIMIT = "TIME_LIMIT", "Raise time_limit, or continue with solve(warm_start=result)."
    STALLED = (
        "STALLED",
        "The bounds no longer move: ask for a larger tol, use a more accurate backend, rescale the data, "
        "or bound the feasible set if the gap could not be certified.",
    )
    INFEASIBLE = "INFEASIBLE", "No point satisfies the constraints: relax the feasible set."
    UNBOUNDED = (
        "UNBOUNDED",
        "The objective has no lower bound: add a regularizer or a bounded feasible set such as Box.",
    )
    INVALID_ORACLE = (
        "INVALID_ORACLE",
        "An oracle gave a wrong answer: run the checks of cutplane.testing on the risk and the feasible set.",
    )
    INTERRUPTED = "INTERRUPTED", "Continue with solve(warm_start=result)."

    def __new__(cls, name: str, remedy: str) -> Status:
        member = str.__new__(cls, name)
        member._value_ = name
        member.remedy = remedy
        return member

    def __repr__(self) -> str:
        return self.name


def relative_gap(lower: float, upper: float, scale: float = 1.0) -> float:
    """Return (upper - lower) / max(1e-12 min(1, scale), |upper|); inf if a bound is missing.

    `scale` is the largest size of the objective in the solve.
    """
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return math.inf
    gap = max(0.0, upper - lower)
    size = max(least_size(scale), abs(upper))
    return gap / size if size > 0.0 else (0.0 if gap == 0.0 else math.inf)


def least_size(scale: float) -> float:
    """Return the least denominator of a relative gap."""
    return LEAST * min(1.0, scale)
