"""The loop of MAP inference: one way after another, until energy and bound meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from cutplane.graphical.integrality import energy_unit, has_penalties, rounded_up
from cutplane.graphical.model import GraphicalModel
from cutplane.graphical.result import MAPResult
from cutplane.graphical.shifting import without_penalties
from cutplane.history import History, Record
from cutplane.state import State
from cutplane.status import Status
from cutplane.stopping import Stop, StoppingRule
from cutplane.validation import Array

if TYPE_CHECKING:
    from cutplane.graphical.sweeps.reparametrization import Reparametrization

_DONE = "nothing is left to try"
_ROUNDING = 1e-9
_SWEEPS = 5


@dataclass(frozen=True)
class Progress:
    """What an iteration of a way has come to; numbers of sweeps and searches are those of the way so far."""

    step: str
    bound: float
    n_cuts: int = 0
    sweeps: int = 0
    searches: int = 0


@dataclass(eq=False)
class Job:
    """What is known of a model so far, shared by all ways.

    Attributes
    ----------
    model : GraphicalModel
    deadline : float
        The time, as `time.perf_counter` tells it, at which to stop; inf if there is none.
    labelling : ndarray of shape (n_variables,) or None
        The best one.
    energy : float
    bound : float
    reason : str
        Why the last way has ended.
    tighten : bool
    """

    model: GraphicalModel
    tighten: bool = True
    deadline: float = math.inf
    labelling: Array | None = None
    energy: float = math.inf
    bound: float = -math.inf
    reason: str = _DONE
    _rep: Reparametrization | None = field(default=None, repr=False)

    @property
    def reparametrization(self) -> Reparametrization:
        """The costs as the sweeps have left them."""
        from cutplane.graphical.sweeps.reparametrization import Reparametrization

        if self._rep is None:
            self._rep = Reparametrization(self.work)
        return self._rep

    @cached_property
    def work(self) -> GraphicalModel:
        """The model without penalties that are larger than can matter: what bounds are computed from.

        None of its energies is above that of `model`, and the least is the same.
        """
        if not has_penalties(self.model):
            return self.model
        from cutplane.graphical.sweeps.decoding import decode
        from cutplane.graphical.sweeps.reparametrization import Reparametrization

        rep = Reparametrization(self.model)
        for _ in range(_SWEEPS):
            rep.sweep()
            if perf_counter() > self.deadline:
                raise TimeoutError("the first sweeps have not ended.")
        self.offer(decode(rep, self.deadline))
        return without_penalties(self.model, self.energy)

    @property
    def finite_deadline(self) -> float | None:
        """The deadline; None if there is none."""
        return self.deadline if math.isfinite(self.deadline) else None

    @cached_property
    def unit(self) -> float:
        """A number of which all energies are multiples; 0 if none is known."""
        return energy_unit(self.model) if math.isfinite(self.model.constant) else 0.0

    def offer(self, labelling: Array | None) -> None:
        """Keep the labelling if it is the best so far."""
        if labelling is None:
            return
        energy = self.model.energy(labelling)
        if energy < self.energy:
            self.labelling, self.energy = np.array(labelling, dtype=np.int64), energy

    def raise_bound(self, bound: float) -> None:
        """Keep the bound if it is the best so far, rounded up where energies have a unit."""
        rounding = _ROUNDING * abs(bound)
        if rounding < 1e-3 * self.unit:
            bound = max(bound, rounded_up(bound - max(rounding, _ROUNDING * self.unit), self.unit))
        self.bound = max(self.bound, min(bound, self.energy))


def cheapest_states(model: GraphicalModel) -> Array:
    """Return the labelling in which each variable has the state of least unary cost."""
    starts = model.unary_starts
    return np.array([int(model.unaries[i:j].argmin()) for i, j in pairwise(starts)], dtype=np.int64)


Way = Callable[[Job], Iterator[Progress]]


class MapLoop:
    """Goes through the ways of a plan until a stopping rule holds; yields the `State` after each iteration.

    Parameters
    ----------
    job : Job
    plan : iterable of (str, Way)
        The ways and their names, in order; may depend on what has become of the job.
    stopping : StoppingRule
    """

    def __init__(self, job: Job, plan: Iterable[tuple[str, Way]], stopping: StoppingRule):
        self.job = job
        self.plan = plan
        self.stopping = stopping
        self.stop: Stop | None = None
        self._names: list[str] = []
        self._records: list[Record] = []
        self._began = perf_counter()

    def __iter__(self) -> Iterator[State]:
        sweeps = searches = 0
        for name, way in self.plan:
            self._names.append(name)
            before, progress = (sweeps, searches), Progress(name, -math.inf)
            for progress in self._steps(way):
                self.job.raise_bound(progress.bound)
                sweeps, searches = before[0] + progress.sweeps, before[1] + progress.searches
                state = self._record(progress, sweeps, searches)
                self.stop = self.stop or self._infeasible() or self.stopping(state)
                yield state
                if self.stop is not None:
                    return
        if perf_counter() > self.job.deadline:
            self.stop = Stop(Status.TIME_LIMIT, "time_limit has passed")
        else:
            self.stop = Stop(Status.STALLED, self.job.reason)

    def _steps(self, way: Way) -> Iterator[Progress]:
        try:
            yield from way(self.job)
        except TimeoutError as error:
            if self.stop is None:
                self.stop = Stop(Status.TIME_LIMIT, f"time_limit has passed: {error}")
            yield Progress("time limit", -math.inf)

    @property
    def started(self) -> bool:
        """Whether there is something to return: there always is a labelling."""
        return True

    def result(self) -> MAPResult:
        """Return the result so far; INTERRUPTED if the loop has not ended."""
        stop = self.stop or Stop(Status.INTERRUPTED, "the iteration was left before its end")
        job = self.job
        if job.labelling is None and job.bound < math.inf:
            job.offer(cheapest_states(job.model))
        return MAPResult(
            labelling=job.labelling,
            energy=job.energy,
            bound=job.bound,
            status=stop.status,
            reason=stop.reason,
            method=", ".join(self._names),
            history=History(self._records),
            model=job.model,
            proof=job._rep,
        )

    def _infeasible(self) -> Stop | None:
        if self.job.bound == math.inf:
            return Stop(Status.INFEASIBLE, "no labelling satisfies the hard constraints")
        return None

    def _record(self, progress: Progress, sweeps: int, searches: int) -> State:
        elapsed = perf_counter() - self._began
        record = Record(
            iteration=len(self._records),
            lower_bound=self.job.bound,
            upper_bound=self.job.energy,
            n_cuts=progress.n_cuts,
            step=progress.step,
            oracle_calls=sweeps,
            separations=searches,
            oracle_seconds=0.0,
            master_seconds=0.0,
            other_seconds=elapsed - (self._records[-1].elapsed if self._records else 0.0),
            elapsed=elapsed,
        )
        self._records.append(record)
        return State(record, self.job.labelling)
