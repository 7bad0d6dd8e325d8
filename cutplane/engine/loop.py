"""The one loop: step, record, test, stop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

from cutplane.deadline import OutOfTime, limited_to
from cutplane.engine.probes import probe
from cutplane.engine.run import Ended, Run
from cutplane.engine.warm_start import confirm_origin, resume
from cutplane.exceptions import BackendError, OracleError
from cutplane.history import History, Record
from cutplane.result import Result
from cutplane.state import State
from cutplane.status import Status
from cutplane.stopping import Stop, StoppingRule, time_is_up
from cutplane.validation import Array

_PATIENCE = 10


class Loop:
    """Iterates a method until a stopping rule holds; yields the `State` after each iteration.

    Parameters
    ----------
    run : Run
    stopping : StoppingRule
    x0 : ndarray of shape (dim,)
        Where the first query is.
    warm_start : Result or None
        Its cuts are reused as far as they are valid.
    probes : bool, default True
        Whether a black box is asked a few questions more before the word OPTIMAL is given.
    """

    def __init__(
        self,
        run: Run,
        stopping: StoppingRule,
        x0: Array,
        warm_start: Result | None = None,
        probes: bool = True,
    ):
        self.run = run
        self.stopping = stopping
        self.x0 = x0
        self.warm_start = warm_start
        self.probes = probes
        self.stop: Stop | None = None
        self._records: list[Record] = []
        self._method_state: Any = None
        self._idle = 0
        self._time_limit = stopping.time_limit
        self._began = perf_counter()

    def __iter__(self) -> Iterator[State]:
        while self.stop is None:
            start, oracle, master = perf_counter(), self.run.evaluator.seconds, self.run.solver.seconds
            kind = self._guarded(self._begin if not self._records else self._advance)
            seconds = perf_counter() - start
            oracle, master = self.run.evaluator.seconds - oracle, self.run.solver.seconds - master
            state = self._record(kind, oracle, master, max(0.0, seconds - oracle - master))
            if self.stop is None or self.stop.status is Status.STALLED:
                self.stop = self.stopping(state) or self.stop or self._stalled()
            if self.stop is not None and self.stop.status is Status.OPTIMAL:
                state = self._confirmed(state)
            yield state

    @property
    def started(self) -> bool:
        """Whether a first point was evaluated, so that there is something to return."""
        return hasattr(self.run, "first")

    @property
    def method_state(self) -> Any:
        """The method's own state after the last iteration; None before the first."""
        return self._method_state

    def result(self) -> Result:
        """Return the result so far; INTERRUPTED if the loop has not ended."""
        run = self.run
        stop = self.stop or Stop(Status.INTERRUPTED, "the iteration was left before its end")
        return Result(
            certificate=run.certificate(),
            status=stop.status,
            reason=stop.reason,
            history=History(self._records),
            method=repr(run.method),
            backend=run.solver.names,
            max_cuts=run.bundle.max_cuts,
        )

    def _guarded(self, advance: Any) -> str:
        """Do one iteration; turn what goes wrong in it into a status, or an error that carries the result."""
        try:
            return advance()
        except Ended as ended:
            self.stop = Stop(ended.status, ended.reason)
        except OutOfTime:
            if perf_counter() < self._began + self._time_limit:
                raise  # a deadline from outside: this loop is part of an oracle of another one
            self.stop = time_is_up(self._time_limit)
        except BackendError as error:
            self.stop = Stop(Status.STALLED, str(error))
        except OracleError as error:
            if not self.started:
                raise
            self.stop = Stop(Status.INVALID_ORACLE, str(error))
            if error.__cause__ is not None:
                error.result = self.result()
                raise
        return "stop"

    def _confirmed(self, state: State) -> State:
        """Confirm the proof by questions to the oracle; the stop says so, or what contradicts it."""
        run = self.run
        calls, seconds = run.evaluator.calls, run.evaluator.seconds
        self._guarded(self._confirm)
        asked = run.evaluator.calls - calls
        if not asked:
            return state
        self._records[-1] = replace(
            state.record,
            oracle_calls=run.evaluator.calls,
            oracle_seconds=state.oracle_seconds + run.evaluator.seconds - seconds,
            elapsed=perf_counter() - self._began,
        )
        return State(self._records[-1], state.x)

    def _confirm(self) -> str:
        run, stop = self.run, self.stop
        assert stop is not None
        confirm_origin(run)
        count = probe(run) if self.probes else 0
        if count:
            self.stop = Stop(stop.status, f"{stop.reason}; {count} probes of the oracle found no mistake")
        return "confirmed"

    def _begin(self) -> str:
        run = self.run
        if self.warm_start is not None:
            resume(run, self.warm_start)
        else:
            run.begin_at(run.query(self.x0))
        self._method_state = run.method.start(run)
        return "start"

    def _advance(self) -> str:
        run = self.run
        run.exact, run.solver.idle = self._idle > 0, self._idle > 1
        run.moved = False
        with limited_to(self._began + self._time_limit - perf_counter()):
            step = run.method.step(run, self._method_state)
        self._method_state = step.state
        self._idle = 0 if run.moved else self._idle + 1
        if step.finished is not None:
            self.stop = Stop(Status.STALLED, step.finished)
        return step.kind

    def _stalled(self) -> Stop | None:
        if self._idle < _PATIENCE:
            return None
        reason = (
            f"for {_PATIENCE} iterations neither bound moved and no cut changed the model beyond rounding"
        )
        notes = [record.note for record in self._records if record.note]
        if notes:
            reason += "; " + notes[-1]
        return Stop(Status.STALLED, reason)

    def _record(self, kind: str, oracle: float, master: float, other: float) -> State:
        run = self.run
        notes, run.solver.notes = "; ".join(run.solver.notes), []
        record = Record(
            iteration=len(self._records),
            lower_bound=run.lower,
            upper_bound=run.upper,
            n_cuts=len(run.bundle),
            step=kind,
            oracle_calls=run.evaluator.calls,
            separations=run.evaluator.separations,
            oracle_seconds=oracle,
            master_seconds=master,
            other_seconds=other,
            elapsed=perf_counter() - self._began,
            note=notes,
            scale=run.bounds.scale,
        )
        self._records.append(record)
        return State(record, run.best.x if run.best is not None else None)
