"""How a solve ended, and what to do about it."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a solve ended; the value is the remedy, in words. Only OPTIMAL certifies the tolerance."""

    OPTIMAL = "Nothing to do: the certified gap is within the tolerance."
    MAX_ITER = "Raise max_iter, or continue with solve(warm_start=result), or try another method."
    TIME_LIMIT = "Raise time_limit, or continue with solve(warm_start=result)."
    STALLED = (
        "The bounds no longer move: ask for a larger tol, use a more accurate backend, rescale the data, "
        "or bound the feasible set if the gap could not be certified."
    )
    INFEASIBLE = "No point satisfies the constraints: relax the feasible set."
    UNBOUNDED = "The objective has no lower bound: add a regularizer or a bounded feasible set such as Box."
    INVALID_ORACLE = (
        "An oracle gave a wrong answer: run the checks of cutplane.testing on the risk and the feasible set."
    )
    INTERRUPTED = "Continue with solve(warm_start=result)."

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self.value

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name
