"""Methods that take over from one another: a race in a given order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutplane.methods.race import Contender, Race, Schedule, contenders

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run


@dataclass(frozen=True, repr=False)
class Relay(Race):
    """Methods that take over from one another.

    Each method runs until it is stuck, and the next one goes on; or the first runs alone for `alone`
    iterations, after which the others share the time with it, as in a `Race`. A method that gets stuck, or
    whose own stopping test holds although the gap is open, leaves. Only when all have left the run is
    STALLED. ``result.method`` says which methods ran.

    Parameters
    ----------
    methods : tuple of Method
        Those that the problem has the capabilities for take part, at least the first.
    alone : int, optional
        Iterations of the first method before the others have turns; by default they wait until it is stuck.

    Raises
    ------
    InvalidInputError
        If `methods` is empty or holds something else.

    Examples
    --------
    >>> import cutplane as cut
    >>> problem = cut.Problem(cut.LinearObjective([1.0, -2.0]), feasible_set=cut.Box(0, 1))
    >>> problem.solve(cut.Relay((cut.Kelley(), cut.ProximalBundle()), alone=20)).method
    'Kelley()'
    """

    alone: int | None = None

    def __repr__(self) -> str:
        alone = "" if self.alone is None else f", alone={self.alone}"
        return f"Relay({self.methods!r}{alone})"

    def check(self, problem: Declaration) -> None:
        """Raise unless the first method can do its steps."""
        self.methods[0].check(problem)

    def contenders(self, problem: Declaration) -> list[Contender]:
        """Return the methods in their order."""
        found = contenders(self.methods, problem)
        return sorted(found, key=lambda pair: self.methods.index(pair[1]))

    def start(self, run: Run) -> Schedule:
        """Line the methods up; the first promises nothing."""
        schedule = super().start(run)
        schedule.promise = schedule.first.credit = schedule.first.limit = math.inf
        schedule.alone = self.alone
        return schedule
