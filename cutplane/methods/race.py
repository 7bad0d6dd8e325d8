"""The scheduler: several methods take turns on one run, and share its cuts, points and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from time import thread_time
from typing import TYPE_CHECKING, Any, ClassVar

from cutplane.exceptions import BackendError, InfeasibleError, InvalidInputError, MissingCapabilityError
from cutplane.methods.base import Counts, Estimate, Follower, HasFollower, Method, Step, checked
from cutplane.methods.estimates import answer, has_masters, sizes
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import OutOfTime, check_time, limited_to
from cutplane.status import Status
from cutplane.stopping import Ended

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.pieces.validation import Array

Contender = tuple[Estimate, Method]

_ALONE = 0.02
"""Seconds before a second method starts, because building its masters takes a millisecond or more."""
_ENTRY = 5e-3
"""Seconds for the first step of a method with estimated iterations, because this step builds masters."""
_PROMISE = 2.0
"""Multiple of its estimate for which the first method runs alone, because estimates are correct to a factor
of two."""
_WHOLE, _WHOLE_ALONE = 4.0, 0.1
"""Multiple of the estimate, and least seconds, for a call that cannot be divided, because its time is lost if
it is interrupted."""
_GROWTH = 1.5
"""Ratio of the lengths of successive rounds, because a long solve then has few rounds, and at most a third of
the time is wasted."""
_CHARGED = 5.0
"""Largest ratio of the charged time of an iteration to its counted cost; about two times two, because
estimates and loaded machines each vary by a factor of two."""
_LEAST_FALL = 1.0
"""Least decrease of log(gap) that a method is expected to need, because it needs a step even for a tiny
gap."""
_MEMORY = 0.5
"""Weight of the previous rate in a mean, because the gap of cuts decreases in jumps."""
_PATIENCE, _LAST = 5, 9
"""Iterations without a change of bounds or model after which a method, and the last method, is stuck; less
than for a run, because the run's reason would not name the methods."""


@dataclass(eq=False)
class Entrant:
    """A method in a race, its state, and its record.

    `estimate` is the expected time in seconds, `each` the time per iteration (0 if unknown). If it is
    `whole`, its first step is nearly all of its work and cannot be divided. The first step has a time `limit`
    unless the method runs alone; if it does not end in time, it is started again with twice the limit. A turn
    has at least `turn` iterations, `memory` is the weight of the previous rate, and with `reserve` the method
    has turns only after all others have ended.
    """

    method: Method
    estimate: float = math.inf
    whole: bool = False
    each: float = 0.0
    reserve: bool = False
    turn: int = 1
    memory: float = _MEMORY
    state: Any = None
    started: bool = False
    iterations: int = 0
    seconds: float = 0.0
    counted: float = 0.0
    credit: float = 0.0
    limit: float = 0.0
    idle: int = 0
    left: int = 0
    rate: float | None = None
    began: tuple[float, float] = (0.0, math.inf)

    def gap(self, run: Run) -> float:
        """Return the gap that the method has to close."""
        return run.upper - run.lower

    def spent(self, run: Run, began: float) -> float:
        """Return the seconds of the last step, which began at time `began` of the clock."""
        return clock() - began

    def charge(self, spent: float, cpu: float) -> float:
        """Return the time charged for a step while the first method runs alone: counted, within limits.

        The limits are computed from CPU time and not from the clock, so that a loaded machine changes no
        result.
        """
        if self.whole:
            return spent
        total = self.state.counted if isinstance(self.state, Counts) else self.each * self.iterations
        counted, self.counted = total - self.counted, total
        return max(counted, min(spent, cpu) / _CHARGED) if total > 0.0 else spent

    def advance(self, run: Run) -> Step:
        """Do a step."""
        if not self.started:
            self.state, self.started = self.method.start(run), True
        step = checked(self.method, self.method.step(run, self.state))
        self.state, self.iterations, self.left = step.state, self.iterations + 1, self.left - 1
        return step

    def to_go(self, run: Run, harder: float = 1.0) -> float:
        """Return the expected seconds until the method closes the gap, by its rate, or by its estimate.

        The estimate is multiplied by `harder`, unless the call cannot be divided.
        """
        if self.rate is None:
            return max(self.estimate * (1.0 if self.whole else harder), self.seconds)
        gap, tolerance = self.gap(run), run.tolerance(run.upper)
        if not 0.0 < tolerance < gap:
            return 0.0 if gap <= tolerance else math.inf
        return max(math.log(gap / tolerance), _LEAST_FALL) / self.rate if self.rate > 0.0 else math.inf


@dataclass(eq=False)
class Schedule:
    """The order of turns.

    The first entrant runs alone for `promise` seconds, or for `alone` iterations. Then the function `others`
    returns the other entrants, and rounds begin. The first round is as long as all previous steps together,
    and at least `least`; each round is 1.5 times as long as the previous one. The entrant that is expected to
    end first gets half of a round, and all entrants share the other half equally.
    """

    first: Entrant
    others: Callable[[], list[Entrant]]
    promise: float
    least: float
    alone: int | None = None
    entrants: list[Entrant] = field(init=False)
    waiting: list[Entrant] = field(init=False)
    complete: bool = False
    reasons: list[str] = field(default_factory=list)
    current: Entrant | None = None
    length: float = 0.0
    lower_by: Entrant | None = None
    upper_by: Entrant | None = None

    def __post_init__(self) -> None:
        self.entrants, self.waiting = [self.first], [self.first]
        self.first.credit, self.first.limit = self.promise, self.promise

    def step(self, run: Run) -> Step:
        """Do an iteration of the entrant whose turn it is."""
        entrant = self._next(run)
        began, cpu, lower, upper = clock(), thread_time(), run.lower, run.upper
        try:
            if (entrant.whole or entrant is not self.first) and entrant.iterations == 0:
                self._call_others()
                with limited_to(entrant.limit if len(self.waiting) > 1 else math.inf):
                    step = entrant.advance(run)
            else:
                step = entrant.advance(run)
        except OutOfTime:
            check_time()  # raises if the deadline of the run has passed
            entrant.limit *= 2.0
            step = Step("time")
            run.proceed()
        except Ended as ended:
            if ended.stop.status is not Status.STALLED:
                raise
            step = Step("failed", finished=ended.stop.reason)
        except InfeasibleError:
            raise
        except BackendError as error:
            step = Step("failed", finished=str(error))
        finally:
            spent = entrant.spent(run, began)
            entrant.seconds += spent
            entrant.credit -= spent if self.complete else entrant.charge(spent, thread_time() - cpu)
        if step.kind == "time":
            entrant.credit = min(entrant.credit, 0.0)
        if run.lower > lower:
            self.lower_by = entrant
        if run.upper < upper:
            self.upper_by = entrant
        entrant.idle = 0 if run.moved else entrant.idle + 1
        patience = _PATIENCE if len(self.waiting) > 1 or not self.complete else _LAST
        if step.finished is None and entrant.idle < patience:
            return Step(step.kind, self)
        reason = step.finished or f"{entrant.idle} iterations changed neither a bound nor the model"
        self.waiting.remove(entrant)
        self.reasons.append(f"{entrant.method.name}: {reason}")
        self._call_others()
        self.current = None
        run.proceed()  # one stuck method does not end the run
        return Step(step.kind, self, None if self.waiting else "; ".join(self.reasons))

    def _next(self, run: Run) -> Entrant:
        current = self.current
        if current is not None:
            if self.length == 0.0 and current.iterations == self.alone:
                current.credit = 0.0
            if current.credit > 0.0 or current.left > 0:
                return current
            self._measure(run, current)
        while True:
            for entrant in self.waiting:
                if entrant.credit > 0.0 and (entrant.iterations or entrant.credit >= entrant.limit):
                    self.current, entrant.left = entrant, entrant.turn
                    entrant.began = entrant.seconds, entrant.gap(run)
                    return entrant
            self._share(run)

    def _share(self, run: Run) -> None:
        """Begin a round: half of it for the entrant that is expected to end first, half for all entrants."""
        self._call_others()
        if self.promise == math.inf and self.alone is None:  # one after the other
            self.waiting[0].credit = math.inf
            return
        racing = [entrant for entrant in self.waiting if not entrant.reserve] or self.waiting.copy()
        spent = sum(entrant.seconds for entrant in self.entrants)
        self.length = _GROWTH * self.length if self.length else max(spent, self.least)
        measured = [entrant for entrant in racing if entrant.rate is not None]
        slower = [(each.seconds + each.to_go(run)) / max(each.estimate, 1e-9) for each in measured]
        harder = max(1.0, min(slower, default=1.0))
        racing.sort(key=lambda entrant: entrant.to_go(run, harder))
        for entrant in racing:
            entrant.credit += 0.5 * self.length / len(racing)
        racing[0].credit += 0.5 * self.length if len(self.waiting) > 1 else math.inf
        self.waiting.sort(key=lambda entrant: entrant is not racing[0])

    def _measure(self, run: Run, entrant: Entrant) -> None:
        """Compute the rate of the last turn, unless there was no finite gap before."""
        seconds, before = entrant.began
        gap = entrant.gap(run)
        if before < math.inf and entrant.seconds > seconds:
            fall = math.log(before / gap) if before > 0.0 < gap < math.inf else 0.0
            entrant.rate = max(fall / (entrant.seconds - seconds), entrant.memory * (entrant.rate or 0.0))

    def _call_others(self) -> None:
        if self.complete:
            return
        self.complete, others = True, self.others()
        for other in others:
            first = other.estimate if other.whole else other.each or math.inf
            least = _ALONE if other.whole else _ENTRY
            other.limit = max(_WHOLE * first, least) if first < math.inf else _ALONE
        self.entrants += others
        self.waiting += others


def promised(first: Entrant, others: Callable[[], list[Entrant]], least: float) -> Schedule:
    """Return a schedule with the first method alone for twice its estimate, at least for `least` seconds."""
    if first.whole:
        return Schedule(first, others, max(_WHOLE * first.estimate, _WHOLE_ALONE), least)
    return Schedule(first, others, max(_PROMISE * first.estimate, least), least)


def contenders(methods: tuple[Method, ...], problem: Declaration) -> list[Contender]:
    """Return the methods that suit a problem and have masters, by increasing estimate."""
    answers = ((answer(method, problem), method) for method in methods)
    found = [(each, method) for each, method in answers if isinstance(each, Estimate)]
    able = [(each, method) for each, method in found if has_masters(method, problem)]
    call = sizes(problem).call
    return sorted(able, key=lambda pair: pair[0].total(call))


@dataclass(frozen=True, repr=False)
class Race(Method):
    """Methods that race on one run, and share their cuts, points and bounds.

    The method with the least estimate runs alone for twice its estimate, at least for 20 ms. If the gap is
    still open, rounds follow, each 1.5 times as long as the previous one. Half of a round is given to the
    method that is expected to close the gap first, by the rate at which log(gap) decreased in its last turn,
    or by its estimate before its first turn. All methods share the other half equally. Therefore a solve
    takes at most 2 k times as long as the best of k methods, plus the first promise and one round, even if
    all estimates are wrong. The first step of each later method has a time limit, because it may be the whole
    solve, as for `Direct`; if it does not end in time, it is started again with twice the limit. A method
    ends if it is stuck, if its masters fail, or if its own stopping test holds although the gap is open. If
    all have ended, the run is STALLED with their reasons. ``result.method`` lists the methods that ran, their
    time, and which of them gave the bounds.

    Parameters
    ----------
    methods : tuple of Method
        The methods that the problem has all capabilities for take part.

    Raises
    ------
    MissingCapabilityError
        If no method can solve the problem.
    InvalidInputError
        If `methods` is empty or an element is not a method.

    Examples
    --------
    >>> import cutplane as cut
    >>> problem = cut.Problem(cut.LinearObjective([1.0, -2.0]), feasible_set=cut.Box(0, 1))
    >>> problem.solve(cut.methods.Race((cut.ProximalBundle(), cut.Kelley()))).method
    'Kelley()'
    """

    methods: tuple[Method, ...]
    one_of_a_kind: ClassVar[bool] = False
    """Whether methods wait until the one with the least estimate of their kind has ended."""

    def __post_init__(self) -> None:
        methods = tuple(self.methods) if isinstance(self.methods, tuple | list) else (self.methods,)
        if not methods or not all(isinstance(method, Method) for method in methods):
            raise InvalidInputError(
                f"{self.name}.methods must be methods such as (Kelley(), ProximalBundle()), "
                f"got {self.methods!r}."
            )
        object.__setattr__(self, "methods", methods)

    def __repr__(self) -> str:
        return f"{self.name}({self.methods!r})"

    @property
    def stabilizations(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """The kinds of the first method; the masters of the others are chosen in their first turn."""
        return self.methods[0].stabilizations

    def needs_infima(self, problem: Declaration) -> bool:
        return any(method.needs_infima(problem) for method in self.methods)

    def check(self, problem: Declaration) -> None:
        if not any(isinstance(answer(method, problem), Estimate) for method in self.methods):
            self.methods[0].check(problem)
            raise MissingCapabilityError(answer(self.methods[0], problem).reason)  # pyright: ignore

    def estimate(self, problem: Declaration) -> Estimate:
        return self.first(problem)[0]

    def first(self, problem: Declaration) -> Contender:
        """Return the method that runs first, with its estimate."""
        return self.contenders(problem)[0]

    def contenders(self, problem: Declaration) -> list[Contender]:
        """Return the methods that take part, with their estimates."""
        return contenders(self.methods, problem)

    def start(self, run: Run) -> Schedule:
        """Order the methods by their estimates.

        The measured time of an oracle call, if it is long, changes the promises but not the order, because
        first calls include preparations and a run should be reproducible.
        """
        call = max(sizes(run.problem).call, run.evaluator.seconds / max(run.evaluator.calls, 1))
        first = self.first(run.problem)

        def entrant(found: Contender) -> Entrant:
            estimate, method = found
            seconds = estimate.total(call)
            each = seconds / estimate.rounds if estimate.rounds else 0.0
            return Entrant(method, seconds, estimate.whole, each)

        def others() -> list[Entrant]:
            found, kinds = [], {first[1].kind}
            for each in self.contenders(run.problem):
                if each[1] is not first[1]:
                    found.append(entrant(each))
                    found[-1].reserve = self.one_of_a_kind and each[1].kind in kinds
                    kinds.add(each[1].kind)
            return found

        return promised(entrant(first), others, _ALONE)

    def step(self, run: Run, state: Schedule) -> Step:
        return state.step(run)

    def follower(self, problem: Declaration, x0: Array | None = None) -> Follower | None:
        """Return the follower of the first method that has one for the path of the problem."""
        able = (method.follower(problem, x0) for method in self.methods if isinstance(method, HasFollower))
        return next((found for found in able if found is not None), None)

    def finish(self, run: Run, state: Schedule) -> None:
        for entrant in state.entrants:
            if entrant.started:
                entrant.method.finish(run, entrant.state)

    def describe(self, state: Schedule | None) -> str:
        ran = [] if state is None else [entrant for entrant in state.entrants if entrant.started]
        if state is None or len(ran) <= 1:
            only = ran[0] if ran else Entrant(self.methods[0])
            return only.method.describe(only.state)
        words = []
        for entrant in ran:
            told = [f"{entrant.seconds:.2g} s"]
            told += ["lower bound"] if state.lower_by is entrant else []
            told += ["upper bound"] if state.upper_by is entrant else []
            name = entrant.method.describe(entrant.state)
            words.append(f"{entrant.iterations} x {name} ({', '.join(told)})")
        return ", ".join(words)


@dataclass(frozen=True, repr=False)
class Relay(Race):
    """Methods in a fixed order; the next one starts when the last one is stuck.

    With `alone`, the first method runs alone for this number of iterations; then the others share the time
    with it. Methods end, and the run stalls, as in a `Race`.

    Parameters
    ----------
    methods : tuple of Method
        The methods that the problem has all capabilities for take part, at least the first.
    alone : int, optional
        Number of iterations of the first method before the others have turns; by default they wait until it
        is stuck.

    Raises
    ------
    InvalidInputError
        If `methods` is empty or an element is not a method.

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
        self.methods[0].check(problem)

    def contenders(self, problem: Declaration) -> list[Contender]:
        return sorted(contenders(self.methods, problem), key=lambda pair: self.methods.index(pair[1]))

    def start(self, run: Run) -> Schedule:
        schedule = super().start(run)
        schedule.promise = schedule.first.credit = schedule.first.limit = math.inf  # no time limit
        schedule.alone = self.alone
        return schedule
