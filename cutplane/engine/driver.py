"""The driver: it calls the steps of a process, records them, tests stopping rules, and calls callbacks."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from time import perf_counter
from typing import IO, Any, Generic, NamedTuple, Protocol, TypeVar

from cutplane.engine.history import History, Mark, Record, State
from cutplane.exceptions import BackendError, InfeasibleError, InvalidInputError, OracleError
from cutplane.pieces.validation import Array, as_count
from cutplane.runtime.clock import clock, compiled_seconds
from cutplane.runtime.deadline import OutOfTime, limited_to, patient_until
from cutplane.runtime.extras import require_extra
from cutplane.runtime.failures import out_of_memory, watched_interrupt
from cutplane.runtime.threads import one_blas_thread
from cutplane.status import Status
from cutplane.stopping import Ended, Stop, StoppingRule, time_is_up

Answer = TypeVar("Answer", covariant=True)
Callback = Callable[[State], Any]

HEADER = f"{'iter':>6} {'lower':>15} {'upper':>15} {'gap':>9} {'time':>8} {'cuts':>6}  step"


def format_line(state: State) -> str:
    """Return the line of the log for a state; see `HEADER`."""
    return (
        f"{state.iteration:>6} {state.lower_bound:>15.8g} {state.upper_bound:>15.8g} {state.gap:>9.2e} "
        f"{state.elapsed:>7.2f}s {state.n_cuts:>6}  {state.step}{'  ! ' + state.note if state.note else ''}"
    )


@dataclass
class Log:
    """Print a line per iteration.

    Parameters
    ----------
    every : int, default 1
        Print only each `every`-th iteration.
    stream : file, optional
        Default: standard output at the time of the call.
    """

    every: int = 1
    stream: IO[str] | None = None

    def __post_init__(self) -> None:
        as_count("every", self.every)

    def __call__(self, state: State) -> None:
        """Print the line of this state."""
        stream = self.stream or sys.stdout
        if state.iteration == 0:
            print(HEADER, file=stream)
        if state.iteration % self.every == 0:
            print(format_line(state), file=stream)


def progress_display(enabled: bool) -> AbstractContextManager[Callback | None]:
    """Return a context manager with the live display (needs the extra ``progress``), or with None."""
    if not enabled:
        return nullcontext()
    require_extra("rich.progress", "progress")
    from cutplane.report.progress import LiveProgress

    return LiveProgress()


class Turn(NamedTuple):
    """The kind of a step, and the reason why the process ends with it; None if it continues."""

    kind: str
    finished: Stop | None = None


class Standing(NamedTuple):
    """Bounds, best point and totals of a process; see `Record`.

    `iteration` replaces the number of steps, if the process counts iterations itself.
    """

    lower: float
    upper: float
    x: Array | None = None
    n_cuts: int = 0
    oracle_calls: int = 0
    separations: int = 0
    oracle_seconds: float = 0.0
    master_seconds: float = 0.0
    iteration: int | None = None
    note: str = ""
    scale: float = 1.0
    marks: tuple[Mark, ...] = ()


class Process(Protocol[Answer]):
    """A computation in steps.

    A step may raise `Ended`, `BackendError`, `OracleError` or `OutOfTime`. The driver turns each of them into
    a status, and then reads `standing`.
    """

    def step(self) -> Turn:
        """Do the next step."""
        ...

    @property
    def standing(self) -> Standing:
        """The bounds, best point and totals."""
        ...

    @property
    def started(self) -> bool:
        """Whether there is a result to return."""
        ...

    def confirm(self, stop: Stop) -> Stop | None:
        """Confirm the proof before the status becomes OPTIMAL; return None if the process must continue."""
        ...

    def result(self, stop: Stop, history: History) -> Answer:
        """Return the result so far."""
        ...


class Driver(Generic[Answer]):
    """Call the steps of a process until a stopping rule holds; yield the `State` after each step.

    The clock starts at `began`, by default now.
    """

    def __init__(self, process: Process[Answer], stopping: StoppingRule, began: float | None = None):
        self.process = process
        self.stopping = stopping
        self.stop: Stop | None = None
        self._records: list[Record] = []
        self._standing: Standing | None = None  # at the end of the last iteration
        self._began, self._compiled = clock() if began is None else began, compiled_seconds()
        self._limited = stopping.time_limit < math.inf
        self._patience = perf_counter() + stopping.time_limit

    def __iter__(self) -> Iterator[State]:
        while self.stop is None:
            yield self._step()

    @property
    def method_state(self) -> Any:
        """The state of the method after the last iteration; None if there is none."""
        return self.process.method_state  # pyright: ignore[reportAttributeAccessIssue]

    def result(self) -> Answer:
        """Return the result so far; INTERRUPTED if the process has not ended."""
        stop = self.stop or Stop(Status.INTERRUPTED, "the iteration was left before its end")
        return self.process.result(stop, History(self._records))

    def run(
        self,
        callback: Callback | None = None,
        progress: bool = False,
        log: bool = False,
        view: Callable[[State], State] = lambda state: state,
    ) -> Answer:
        """Call steps until a rule, a callback or Ctrl-C stops them; callbacks get `view` of each state."""
        if callback is not None and not callable(callback):
            raise InvalidInputError(f"callback must be a function of the State, got {callback!r}.")
        with progress_display(progress) as display, one_blas_thread(), watched_interrupt() as interrupt:
            callbacks = [one for one in (callback, Log() if log else None, display) if one is not None]
            try:
                for state in self:
                    if interrupt.pressed and self.stop is None:
                        raise KeyboardInterrupt
                    if any([one(view(state)) is True for one in callbacks]):
                        self.stop = Stop(Status.INTERRUPTED, "the callback asked to stop")
            except (KeyboardInterrupt, Exception) as error:
                if not (isinstance(error, KeyboardInterrupt) or interrupt.pressed):
                    raise
                if not self.process.started:
                    raise KeyboardInterrupt from error
                self.stop = Stop(Status.INTERRUPTED, "interrupted from the keyboard")
        return self.result()

    def _step(self) -> State:
        before, began = self._standing or self.process.standing, clock()
        turn = self._guarded(self._limited_step if self._limited else self.process.step) or Turn("stop")
        state = self._record(turn.kind, before, clock() - began)
        ended = self.stop or turn.finished
        if self.stop is None or self.stop.status is Status.STALLED:
            self.stop = self.stopping(state) or ended
        if self.stop is not None and self.stop.status is Status.OPTIMAL:
            state = self._confirmed(state, self.stop)
            self.stop = self.stop or ended
        return state

    def _limited_step(self) -> Turn:
        remaining = self._began + self.stopping.time_limit - clock()
        with limited_to(remaining) if self._records else nullcontext(), patient_until(self._patience):
            return self.process.step()

    def _guarded(self, action: Callable[[], Any]) -> Any:
        """Call a function; turn its errors into a status, or into an exception with the result so far."""
        try:
            with one_blas_thread():
                return action()
        except Ended as ended:
            self.stop = ended.stop
        except OutOfTime:
            if clock() < self._began + self.stopping.time_limit:
                raise  # this solve runs in an oracle of another one, whose time is over
            self.stop = time_is_up(self.stopping.time_limit)
        except InfeasibleError as error:
            self.stop = Stop(Status.INFEASIBLE, str(error))
        except MemoryError as error:
            if not self.process.started:
                raise out_of_memory(error, "the first iteration") from error
            named = out_of_memory(error, f"iteration {len(self._records)}")
            self.stop = Stop(Status.INTERRUPTED, str(named))
            with suppress(MemoryError):
                named.result = self.result()
            raise named from error
        except BackendError as error:
            self.stop = Stop(Status.STALLED, str(error))
        except OracleError as error:
            if not self.process.started:
                raise
            self.stop = Stop(Status.INVALID_ORACLE, str(error))
            if error.__cause__ is not None:
                error.result = self.result()
                raise
        return None

    def _confirmed(self, state: State, stop: Stop) -> State:
        """Let the process confirm its proof, which may change the stop or cancel it."""
        before = self.process.standing
        confirmed = self._guarded(lambda: self.process.confirm(stop))
        if self.stop is stop:
            self.stop = confirmed
        after = self.process.standing
        if after.oracle_calls == before.oracle_calls and self.stop is not None:
            return state
        self._records[-1] = state.record._replace(
            lower_bound=after.lower,
            upper_bound=after.upper,
            oracle_calls=after.oracle_calls,
            oracle_seconds=state.oracle_seconds + after.oracle_seconds - before.oracle_seconds,
            elapsed=clock() - self._began,
        )
        state = replace(state, record=self._records[-1])
        if self.stop is None:
            again = self.stopping(state)
            self.stop = None if again is None or again.status is Status.OPTIMAL else again
        return state

    def _record(self, kind: str, before: Standing, seconds: float) -> State:
        now = self._standing = self.process.standing
        oracle = now.oracle_seconds - before.oracle_seconds
        master = now.master_seconds - before.master_seconds
        record = Record(
            iteration=len(self._records) if now.iteration is None else now.iteration,
            lower_bound=now.lower,
            upper_bound=now.upper,
            n_cuts=now.n_cuts,
            step=kind,
            oracle_calls=now.oracle_calls,
            separations=now.separations,
            oracle_seconds=oracle,
            master_seconds=master,
            other_seconds=max(0.0, seconds - oracle - master),
            elapsed=clock() - self._began,
            note=now.note,
            scale=now.scale,
            compiled=compiled_seconds() - self._compiled,
        )
        self._records.append(record)
        return State(record, now.x, now.marks)
