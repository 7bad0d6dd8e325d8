"""A portfolio of cuts and moves, in which the one that closes the gap fastest gets most of the time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from cutplane.engine.costs import BATCH, OVERHEAD, USUAL_FALL, cost_of_cut
from cutplane.exceptions import InvalidInputError
from cutplane.linear.moves import CoordinateAscent, CoordinateDescent, LinearSystem, SemismoothNewton
from cutplane.linear.predictor import predictor_of, regularized
from cutplane.methods.base import Estimate, Follower, Method, Refusal, Step
from cutplane.methods.estimates import answer, sizes, suits
from cutplane.methods.ocas import OCAS
from cutplane.methods.race import Entrant, Schedule, promised
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

MOVES = (LinearSystem(), CoordinateAscent(), SemismoothNewton(), CoordinateDescent())
"""The default moves, each used if the problem has the form that it needs."""

_NEAR, _FAR = 0.1, 0.3
"""Position of the cut in OCAS: the published one, and a larger one for few examples, because models are then
poor."""
_TURN = 10
"""Number of cut iterations before their rate is measured, because their gap decreases in jumps."""
_USUAL_CUTS, _USUAL_IF_WIDE = 30, 300
"""Number of cut iterations for a gap of 1e-3, more if there are more features than examples, because cuts are
then poor."""


class Move(Protocol):
    """The members that a portfolio needs of a method, in addition to its steps; its state is a `MoveState`.

    Attributes
    ----------
    turn : int
        Least number of iterations of a turn, after which its rate is measured.
    memory : float
        Least weight of the previous rate, in [0, 1]; more than 0 if the gap decreases in jumps.
    """

    turn: int
    memory: float

    def usual_rate(self, problem: Declaration) -> float:
        """Return the decrease of log(gap) per nanosecond before the first turn; inf to run first, 0 never."""
        ...


class MoveState(Protocol):
    """The state of a `Move`.

    Attributes
    ----------
    cost : float
        Nanoseconds so far, computed from sizes so that runs are reproducible, or measured by the clock.
    """

    cost: float

    def gap(self, run: Run) -> float:
        """Return the gap that the move has to close; usually ``run.upper - run.lower``."""
        ...


@dataclass(frozen=True, repr=False)
class Portfolio(Method):
    """Cuts by `OCAS`, and moves for problems of special form; the fastest of them gets most of the time.

    Each move is a method: `LinearSystem`, `CoordinateAscent`, `SemismoothNewton`, `CoordinateDescent`, or
    your own class, if it is a `Move`. A move is omitted if the problem does not have the form that it needs.
    Without moves, the method is `OCAS` with a second cut close to the best point, which costs only a part of
    a pass if the risk is piecewise linear. A linear system is solved before anything else. Then cuts and
    moves race like the methods in `methods.Race`, by costs that are computed from sizes, so that runs are
    reproducible. The history names the move of each iteration, and ``result.method`` counts the moves.

    Parameters
    ----------
    cuts : Method, optional
        The method that adds cuts. By default `OCAS` with a second cut, and `theta` of 0.1, or 0.3 if a linear
        risk has more features than examples.
    moves : tuple of Method, optional
        By default ``(LinearSystem(), CoordinateAscent(), SemismoothNewton(), CoordinateDescent())``. A method
        that is a `Move` has turns. Other methods, for example `LinearSystem`, run once, before these. With an
        empty tuple, there are only cuts.

    Raises
    ------
    MissingCapabilityError
        If the problem lacks a capability that `cuts` needs.
    InvalidInputError
        If `cuts` or a move is not a method.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
    >>> print(round(problem.solve(cut.Portfolio(), tol=1e-9).objective, 6))
    0.125
    """

    cuts: Method | None = None
    moves: tuple[Method, ...] | None = None
    kind = "moves"

    def __post_init__(self) -> None:
        if self.cuts is not None and not isinstance(self.cuts, Method):
            raise InvalidInputError(f"Portfolio.cuts must be a method such as OCAS(), got {self.cuts!r}.")
        if self.moves is None:
            return
        moves = tuple(self.moves) if isinstance(self.moves, tuple | list) else (self.moves,)
        object.__setattr__(self, "moves", moves)
        for move in moves:
            if not isinstance(move, Method):
                raise InvalidInputError(
                    f"Portfolio.moves must be methods such as (CoordinateAscent(),), got {move!r}."
                )

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name, value in vars(self).items() if value is not None]
        return f"Portfolio({', '.join(given)})"

    def check(self, problem: Declaration) -> None:
        self._cuts(problem).check(problem)

    def estimate(self, problem: Declaration) -> Refusal | Estimate:
        """Return the estimate of the move with the least estimate, or of cuts if no move suits."""
        openings, moves = self._suitable(problem)
        if openings:
            return Estimate(1e-9 * OVERHEAD)
        if moves:
            return Estimate(min(_seconds(move.usual_rate(problem)) for move in moves))
        return self._cuts(problem).estimate(problem)

    def start(self, run: Run) -> Moves:
        problem, cuts = run.problem, self._cuts(run.problem)
        openings, moves = self._suitable(problem)
        entrants: list[Entrant] = [
            _Counted(move, _seconds(move.usual_rate(problem)), turn=move.turn, memory=move.memory)
            for move in moves
        ]
        if (form := regularized(problem)) is not None:
            usual = _USUAL_CUTS if form.size[0] >= form.size[1] else _USUAL_IF_WIDE
            entrants.append(_Counted(cuts, 1e-9 * usual * cost_of_cut(form.size, 1), form.size, turn=_TURN))
        else:  # reduced problems are not small QPs: cuts wait until moves are stuck
            waits = bool(moves) and predictor_of(problem) is not None
            found = None if waits else answer(cuts, problem)
            estimate = found.total(sizes(problem).call) if isinstance(found, Estimate) else math.inf
            entrants.append(Entrant(cuts, estimate, turn=_TURN, reserve=waits))
        first, *others = sorted(entrants, key=lambda entrant: entrant.estimate)
        return Moves(promised(first, lambda: others, 1e-9 * BATCH), openings)

    def step(self, run: Run, state: Moves) -> Step:
        while state.openings:
            opening = state.openings.pop(0)
            step = opening.step(run, opening.start(run))
            if step.finished is None:
                state.counts[opening.name] = 1
                return Step(step.kind, state)
        step = state.schedule.step(run)
        return Step(step.kind, state, step.finished)

    def follower(self, problem: Declaration, x0: Array | None = None) -> Follower | None:
        """Return a follower from weight to weight: coordinate descent, Newton steps or the simplex method."""
        from cutplane.linear.follower import LinearFollower, NewtonFollower, can_follow, can_step
        from cutplane.linear.vertices import VertexFollower, can_walk

        if self.moves is not None:
            return None
        if can_follow(problem):
            return LinearFollower(problem, x0)
        if can_step(problem):
            return NewtonFollower(problem, x0)
        return VertexFollower(problem) if can_walk(problem) else None

    def describe(self, state: Moves | None) -> str:
        if state is None:
            return f"{self!r}: none"
        ran = {each.method.name: each.iterations for each in state.schedule.entrants if each.iterations}
        counts = ", ".join(f"{count} x {name}" for name, count in {**state.counts, **ran}.items())
        return f"{self!r}: {counts or 'none'}"

    def _suitable(self, problem: Declaration) -> tuple[list[Method], list[Any]]:
        """Return the moves that suit a problem: those that run once, and those with turns."""
        known = predictor_of(problem) is not None or offers(problem.risk, Capability.MINIMISER)
        if self.moves is None and not known:
            return [], []
        found = [move for move in (MOVES if self.moves is None else self.moves) if suits(move, problem)]
        return [move for move in found if not _has_turns(move)], [move for move in found if _has_turns(move)]

    def _cuts(self, problem: Declaration) -> Method:
        if self.cuts is not None:
            return self.cuts
        predictor = predictor_of(problem)
        wide = predictor is not None and predictor.X.shape[1] > predictor.X.shape[0]
        return OCAS(_FAR if wide else _NEAR, second_cut=True)


@dataclass(eq=False)
class Moves:
    """The state of a portfolio: the schedule, and the moves that run before it."""

    schedule: Schedule
    openings: list[Method]
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def counted(self) -> float:
        """Seconds of the steps, computed from sizes."""
        return sum(entrant.seconds for entrant in self.schedule.entrants)


class _Counted(Entrant):
    """A move, whose state has its cost and its gap, or the cuts, whose cost is computed from `size`."""

    def __init__(self, method: Method, estimate: float, size: Any = None, **options: Any):
        super().__init__(method, estimate, **options)
        self._size = size

    def gap(self, run: Run) -> float:
        return super().gap(run) if self._size or not self.started else self.state.gap(run)

    def spent(self, run: Run, began: float) -> float:
        if self._size:
            return 1e-9 * cost_of_cut(self._size, run.n_cuts)
        return 1e-9 * self.state.cost - self.seconds if self.started else 0.0

    def charge(self, spent: float, cpu: float) -> float:
        return spent


def _seconds(rate: float) -> float:
    """Return the seconds of a usual solve, given the decrease of log(gap) per nanosecond."""
    return 1e-9 * USUAL_FALL / rate if rate > 0.0 else math.inf


def _has_turns(method: Method) -> bool:
    """Tell whether a method is a `Move`, without the slow `isinstance`."""
    return all(hasattr(method, name) for name in ("turn", "memory", "usual_rate"))
