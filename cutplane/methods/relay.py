"""Several methods on one bundle: they share the time, and where one gets stuck the others go on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutplane.exceptions import InvalidInputError
from cutplane.methods.base import Follower, Leads, Method, Step, checked
from cutplane.methods.requirements import has_masters, suits
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_PATIENCE = 5
"""Iterations that change nothing, neither a bound nor the model, after which a method is stuck: half of what
ends a run."""


@dataclass(frozen=True, repr=False)
class Relay(Method):
    """Methods that take over from one another.

    The first method runs alone, for ever or for `alone` iterations. After these the others share the time
    with it in equal parts, so that a solve takes no longer than the best of k methods times k; every cut
    serves all of them. A method that gets stuck, or whose own stopping test holds although the gap is open,
    is left for good. Only where none is left the run is STALLED. `result.method` says which methods ran.

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

    methods: tuple[Method, ...]
    alone: int | None = None

    def __post_init__(self) -> None:
        methods = tuple(self.methods) if isinstance(self.methods, tuple | list) else (self.methods,)
        if not methods or not all(isinstance(method, Method) for method in methods):
            raise InvalidInputError(
                f"Relay.methods must be methods such as (Kelley(), ProximalBundle()), got {self.methods!r}."
            )
        object.__setattr__(self, "methods", methods)

    def __repr__(self) -> str:
        alone = "" if self.alone is None else f", alone={self.alone}"
        return f"Relay({self.methods!r}{alone})"

    @property
    def stabilizations(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those of the first method; those of the others are looked up when they have their turn."""
        return self.methods[0].stabilizations

    def needs_infima(self, problem: Declaration) -> bool:
        """Tell whether one of the methods does."""
        return any(method.needs_infima(problem) for method in self.methods)

    def check(self, problem: Declaration) -> None:
        """Raise unless the first method can do its steps."""
        self.methods[0].check(problem)

    def start(self, run: Run) -> Schedule:
        """Line the methods up."""
        return Schedule([_Track(method) for method in self.methods])

    def step(self, run: Run, state: Schedule) -> Step:
        """Do an iteration of the method whose turn it is."""
        track = state.next(self.alone, run.problem)
        began = clock()
        if track.iterations == 0:
            track.state = track.method.start(run)
        step = checked(track.method, track.method.step(run, track.state))
        track.state, track.iterations = step.state, track.iterations + 1
        track.seconds += clock() - began
        track.idle = 0 if run.moved else track.idle + 1
        if step.finished is None and track.idle < _PATIENCE:
            return Step(step.kind, state)
        reason = step.finished or f"{track.idle} iterations changed neither a bound nor the model"
        state.leave(track, reason, run.problem)
        return Step(step.kind, state, None if state.waiting else "; ".join(state.reasons))

    def follower(self, problem: Declaration, x0: Array | None = None) -> Follower | None:
        """Return the follower of the first method that has one."""
        found = (method.follower(problem, x0) for method in self.methods if isinstance(method, Leads))
        return next((follower for follower in found if follower is not None), None)

    def finish(self, run: Run, state: Schedule) -> None:
        """Take the bounds that the methods that ran know."""
        for track in state.tracks:
            if track.state is not None:
                track.method.finish(run, track.state)

    def describe(self, state: Schedule | None) -> str:
        """Return which methods ran, and how often if there were several."""
        ran = [track for track in state.tracks if track.iterations] if state is not None else []
        if len(ran) <= 1:
            only = ran[0] if ran else _Track(self.methods[0])
            return only.method.describe(only.state)
        return ", ".join(f"{track.iterations} x {track.method.describe(track.state)}" for track in ran)


@dataclass(eq=False)
class _Track:
    """A method, its state, and what it has done."""

    method: Method
    state: Any = None
    iterations: int = 0
    seconds: float = 0.0
    idle: int = 0


@dataclass(eq=False)
class Schedule:
    """Which methods take part, and why the others no longer do."""

    tracks: list[_Track]
    waiting: list[_Track] = field(init=False)
    reasons: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = list(self.tracks)

    def next(self, alone: int | None, problem: Declaration) -> _Track:
        """Return the method whose turn it is: the first alone, then the one with the least time so far."""
        first = self.waiting[0]
        if alone is None or (first is self.tracks[0] and first.iterations < alone):
            return first
        self._keep_able(problem)
        return min(self.waiting, key=lambda track: track.seconds)

    def leave(self, track: _Track, reason: str, problem: Declaration) -> None:
        """Leave a method for good."""
        self.waiting.remove(track)
        self.reasons.append(f"{track.method.name}: {reason}")
        self._keep_able(problem)

    def _keep_able(self, problem: Declaration) -> None:
        def able(method: Method) -> bool:
            return suits(method, problem) and has_masters(method, problem)

        self.waiting = [track for track in self.waiting if track.iterations or able(track.method)]
