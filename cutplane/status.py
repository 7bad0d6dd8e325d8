"""How a solve ended, and what to do about it."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How a solve ended; `remedy` says what to do about it. Only OPTIMAL certifies the tolerance."""

    remedy: str
    """What to do about it, in words."""

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
        """Return the member that equals its name and carries a remedy."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.remedy = remedy
        return member

    def __repr__(self) -> str:
        return self.name
