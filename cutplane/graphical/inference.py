"""MAP inference as a process of the driver: one way after another, until energy and bound meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.driver import Standing, Turn
from cutplane.engine.history import History
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.integrality import energy_unit, has_penalties, rounded_up
from cutplane.graphical.result import MAPResult
from cutplane.graphical.shifting import without_penalties
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.status import Status
from cutplane.stopping import Ended, Stop

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
        The time, as `cutplane.runtime.clock.clock` tells it, at which to stop; inf if there is none.
    labelling : ndarray of shape (n_variables,) or None
        The best one.
    energy : float
    bound : float
    reason : str
        Why the last way has ended.
    tighten : bool
    """

    model: FactorGraph
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
    def work(self) -> FactorGraph:
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
            if clock() > self.deadline:
                raise TimeoutError("the first sweeps have not ended.")
        self.offer(decode(rep, self.deadline))
        return without_penalties(self.model, self.energy)

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


def cheapest_states(model: FactorGraph) -> Array:
    """Return the labelling in which each variable has the state of least unary cost."""
    starts = model.unary_starts
    return np.array([int(model.unaries[i:j].argmin()) for i, j in pairwise(starts)], dtype=np.int64)


Way = Callable[[Job], Iterator[Progress]]


class MapProcess:
    """Goes through the ways of a plan, one iteration of a way each step.

    Parameters
    ----------
    job : Job
    plan : iterable of (str, Way)
        The ways and their names, in order; may depend on what has become of the job.
    """

    started = True
    """There always is a labelling."""

    def __init__(self, job: Job, plan: Iterable[tuple[str, Way]]):
        self.job = job
        self._names: list[str] = []
        self._progress = self._all(plan)
        self._n_cuts = self._sweeps = self._searches = 0

    @property
    def standing(self) -> Standing:
        """Bound and energy; queries are sweeps, separations the searches for cuts or clusters."""
        return Standing(
            lower=self.job.bound,
            upper=self.job.energy,
            x=self.job.labelling,
            n_cuts=self._n_cuts,
            oracle_calls=self._sweeps,
            separations=self._searches,
        )

    def step(self) -> Turn:
        """Do an iteration of the way whose turn it is."""
        try:
            progress = next(self._progress, None)
        except TimeoutError as error:
            raise Ended(Status.TIME_LIMIT, f"time_limit has passed: {error}") from None
        if progress is None and clock() > self.job.deadline:
            raise Ended(Status.TIME_LIMIT, "time_limit has passed")
        if progress is None:
            raise Ended(Status.STALLED, self.job.reason)
        self.job.raise_bound(progress.bound)
        if self.job.bound == math.inf:
            raise Ended(Status.INFEASIBLE, "no labelling satisfies the hard constraints")
        return Turn(progress.step)

    def confirm(self, stop: Stop) -> Stop:
        """Return the stop: energies are exact, and bounds those of the costs themselves."""
        return stop

    def result(self, stop: Stop, history: History) -> MAPResult:
        """Return the best labelling; that of the least unary costs if there is none."""
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
            history=history,
            model=job.model,
            proof=job._rep,
        )

    def _all(self, plan: Iterable[tuple[str, Way]]) -> Iterator[Progress]:
        for name, way in plan:
            self._names.append(name)
            sweeps, searches = self._sweeps, self._searches
            for progress in way(self.job):
                self._n_cuts = progress.n_cuts
                self._sweeps, self._searches = sweeps + progress.sweeps, searches + progress.searches
                yield progress
