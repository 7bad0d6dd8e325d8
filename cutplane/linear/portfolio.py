"""A portfolio: cuts, and moves that are methods themselves, whichever closes the gap fastest."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from cutplane.exceptions import InvalidInputError
from cutplane.linear.coordinate_ascent import CoordinateAscent
from cutplane.linear.coordinate_descent import CoordinateDescent
from cutplane.linear.costs import cost_of_cut
from cutplane.linear.linear_system import LinearSystem
from cutplane.linear.newton import SemismoothNewton
from cutplane.linear.predictor import predictor_of, regularized
from cutplane.methods.base import Follower, Method, Step
from cutplane.methods.ocas import OCAS
from cutplane.methods.requirements import suits
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

MOVES = (LinearSystem(), CoordinateAscent(), SemismoothNewton(), CoordinateDescent())
"""The moves that are tried by default, where the problem has the form they need."""

_NEAR, _FAR = 0.1, 0.3
"""Where OCAS cuts: as published, and with more features than examples, where its models are poor for long."""
_TURN, _MEMORY = 10, 0.5
"""Iterations of cuts before their rate is measured, and what is kept of it: their gap falls in steps."""
_USUAL_FALL, _USUAL_CUTS, _USUAL_IF_WIDE = math.log(1e3), 30, 300
"""Iterations of cuts for a gap of 1e-3, before the first turn; with more features than examples."""
_LEAST_FALL = 1.0
"""Of the logarithm of the gap, that a move is charged for: it takes a step however little is left."""


class Move(Protocol):
    """What a method says beside its steps to take part in a portfolio; its state is a `MoveState`.

    Attributes
    ----------
    turn : int
        Iterations after which its rate is measured.
    memory : float
        What is kept of an earlier rate at least, in [0, 1]: more than 0 where the gap falls in leaps.
    """

    turn: int
    memory: float

    def usual_rate(self, problem: Declaration) -> float:
        """Return the fall of log(gap) per nanosecond before it had a turn; inf: first of all, 0: never."""
        ...


class MoveState(Protocol):
    """The state of a `Move`.

    Attributes
    ----------
    cost : float
        Nanoseconds so far: counted, so that runs can be repeated, or measured by the clock.
    """

    cost: float

    def gap(self, run: Run) -> float:
        """Return the gap that it has to close; ``run.upper - run.lower`` for most."""
        ...


@dataclass(frozen=True, repr=False)
class Portfolio(Method):
    """Cuts by `OCAS`, and moves for problems of special form, as their gap closed per second decides.

    Each move is a method: `LinearSystem`, `CoordinateAscent`, `SemismoothNewton`, `CoordinateDescent`, or one
    of your own that is a `Move`. A move without the form it needs takes no part; if none does, this is `OCAS`
    with a second cut just beside the best point, which costs a part of a pass where the risk is piecewise
    linear. A linear system is solved first of all. Then cuts and moves have turns: the next turn goes to the
    one that is expected to close the gap first at the rate of its last turn, or at a usual one before it had
    any. Rates are falls of log(gap) per nanosecond of work. What an iteration did is in the history, and
    ``result.method`` counts the moves.

    Parameters
    ----------
    cuts : Method, optional
        The method that adds cuts. By default `OCAS` with a second cut, and `theta` of 0.1, or 0.3 if a linear
        risk has more features than examples.
    moves : tuple of Method, optional
        By default ``(LinearSystem(), CoordinateAscent(), SemismoothNewton(), CoordinateDescent())``. A method
        that is a `Move` has its turns; any other, as `LinearSystem`, has one, in order, before all that
        follows. An empty tuple leaves cuts alone.

    Raises
    ------
    MissingCapabilityError
        If the problem lacks what `cuts` needs.
    InvalidInputError
        If `cuts` or a move is no method.

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
        """Raise unless cuts can be added."""
        self._cuts(problem).check(problem)

    def start(self, run: Run) -> Schedule:
        """Return what is known of the speed of the moves, and of cuts."""
        moves = MOVES if self.moves is None else self.moves
        return Schedule(self._cuts(run.problem), moves, run)

    def step(self, run: Run, state: Schedule) -> Step:
        """Do an iteration of the move whose turn it is."""
        return Step(state.step(run).kind, state)

    def follower(self, problem: Declaration, x0: Array | None = None) -> Follower | None:
        """Return what goes from weight to weight: coordinate descent, or the simplex method."""
        from cutplane.linear.follower import LinearFollower, can_follow
        from cutplane.linear.vertices import VertexFollower, can_walk

        if self.moves is not None:
            return None
        if can_follow(problem):
            return LinearFollower(problem, x0)
        return VertexFollower(problem) if can_walk(problem) else None

    def describe(self, state: Schedule | None) -> str:
        """Return which moves ran, and how often."""
        counts = {} if state is None else state.counts
        return f"{self!r}: {', '.join(f'{count} x {name}' for name, count in counts.items()) or 'none'}"

    def _cuts(self, problem: Declaration) -> Method:
        if self.cuts is not None:
            return self.cuts
        predictor = predictor_of(problem)
        wide = predictor is not None and predictor.X.shape[1] > predictor.X.shape[0]
        return OCAS(_FAR if wide else _NEAR, second_cut=True)


@dataclass(eq=False)
class _Track:
    """A move with its state, the rate of its last turn, and where this turn began."""

    method: Method
    rate: float
    turn: int
    memory: float = 0.0
    measured: bool = False
    state: Any = None
    began: tuple[float, float] = field(default=(0.0, math.inf))

    def __post_init__(self) -> None:
        self.usual = self.rate


class Schedule:
    """Chooses what the next iteration does, by the cost and the gap of the last ones."""

    def __init__(self, cuts: Method, moves: tuple[Method, ...], run: Run):
        self.counts: dict[str, int] = {}
        self._openings = [move for move in moves if not _has_turns(move) and suits(move, run.problem)]
        self._moves: tuple[Any, ...] = tuple(move for move in moves if _has_turns(move))
        self._tracks: list[_Track] = []
        self._cuts = _Track(cuts, math.inf, _TURN, _MEMORY)
        self._current: _Track | None = None
        self._left = 0

    def step(self, run: Run) -> Step:
        """Do an iteration; a move that finds that it cannot go on is left out from then on."""
        while self._openings:
            opening = self._openings.pop(0)
            step = opening.step(run, opening.start(run))
            if step.finished is None:
                return self._count(opening, step)
        while True:
            track = self._choose(run)
            self._left -= 1
            if track is self._cuts:
                step = self._cut(run)
            else:
                step = track.method.step(run, track.state)
                track.state = step.state
            if step.finished is not None and track is not self._cuts:
                self._tracks.remove(track)
                self._left = 0
                continue
            if self._left == 0:
                self._measure(run, track)
            return self._count(track.method, step)

    def _cut(self, run: Run) -> Step:
        cuts, began = self._cuts.state, clock()
        step = self._cuts.method.step(run, cuts.own)
        cuts.own = step.state
        cuts.cost += cost_of_cut(cuts.size, run.n_cuts) if cuts.size else 1e9 * (clock() - began)
        return step

    def _choose(self, run: Run) -> _Track:
        if self._current is None:
            return self._first(run)
        return self._next(run) if self._left == 0 else self._current

    def _begin(self, run: Run, track: _Track, turn: int) -> _Track:
        if track.state is None:
            track.state = track.method.start(run)
        self._current, self._left = track, turn
        track.began = track.state.cost, track.state.gap(run)
        return track

    def _first(self, run: Run) -> _Track:
        """Begin with what is usually fastest.

        Where the cost of a cut is not known, it is measured, and a turn of cuts precedes all moves; but with
        linear predictions, whose reduced problems are no simplex QPs then, cuts wait until a move is stuck.
        """
        problem = run.problem
        self._tracks = [
            _Track(move, move.usual_rate(problem), move.turn, move.memory)
            for move in self._moves
            if suits(move, problem)
        ]
        form = regularized(problem)
        size = None if form is None else form.size
        self._cuts.state = _Cuts(self._cuts.method, run, size)
        if size is not None:
            usual = _USUAL_CUTS if size[0] >= size[1] else _USUAL_IF_WIDE
            self._cuts.rate = self._cuts.usual = _USUAL_FALL / (usual * cost_of_cut(size, run.n_cuts))
        elif predictor_of(problem) is not None and self._tracks:
            self._cuts.rate = 0.0
        if self._cuts.rate == math.inf:
            return self._begin(run, self._cuts, _TURN)
        return self._next(run)

    def _next(self, run: Run) -> _Track:
        """Begin with the move that is expected to end first.

        One that had no turn gets one when as much was spent as it usually takes: so a problem that is hard
        for others costs at most twice what the best move takes.
        """
        tracks = self._cuts, *self._tracks
        spent = sum(track.state.cost for track in tracks if track.state is not None)
        track = min(tracks, key=lambda track: self._to_go(run, track, track.rate))
        most = min(spent, self._to_go(run, track, track.rate))
        waiting = [
            track
            for track in self._tracks
            if track.state is None and self._to_go(run, track, track.usual) < most
        ]
        track = min(waiting or [track], key=lambda track: self._to_go(run, track, track.usual))
        return self._begin(run, track, track.turn)

    def _measure(self, run: Run, track: _Track) -> None:
        """Take the rate of the turn, unless there was no gap before.

        What is slower than usual shows that the problem is harder than usual, for all that had no turn yet.
        """
        cost, before = track.began
        fall = _fall(before, track.state.gap(run))
        if fall < math.inf and track.state.cost > cost:
            known = track.memory * track.rate if track.rate < math.inf else 0.0
            track.rate = max(fall / (track.state.cost - cost), known)
            track.measured = True
            if 0.0 < track.usual < math.inf:
                for other in (self._cuts, *self._tracks):
                    if not other.measured:
                        other.rate = other.usual * min(1.0, track.rate / track.usual)

    def _to_go(self, run: Run, track: _Track, rate: float) -> float:
        """Return what it costs at this rate until the gap is closed by one of the moves."""
        if rate in (0.0, math.inf):
            return math.inf if rate == 0.0 else 0.0
        gap = run.upper - run.lower if track.state is None else track.state.gap(run)
        tolerance = run.tolerance(run.upper)
        return max(math.log(gap / tolerance), _LEAST_FALL) / rate if gap > tolerance > 0.0 else 0.0

    def _count(self, method: Method, step: Step) -> Step:
        self.counts[method.name] = self.counts.get(method.name, 0) + 1
        return step


def _has_turns(method: Method) -> bool:
    """Tell whether a method is a `Move`; `isinstance` would take as long as a pass over few data."""
    return all(hasattr(method, name) for name in ("turn", "memory", "usual_rate"))


class _Cuts:
    """The state of cuts in a portfolio: their cost, and the state of the method."""

    def __init__(self, method: Method, run: Run, size: tuple[int, int, float] | None):
        self.own = method.start(run)
        self.size = size
        self.cost = 0.0

    def gap(self, run: Run) -> float:
        """Return the gap of the run."""
        return run.upper - run.lower


def _fall(before: float, after: float) -> float:
    """Return by how much the logarithm of a gap fell; inf if there was none before."""
    if before == math.inf:
        return math.inf
    return math.log(before / after) if after > 0.0 else 0.0
