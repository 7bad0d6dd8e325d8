"""MAP inference as a process of the driver: one stage after another, until energy and bound meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.driver import Standing, Turn
from cutplane.engine.history import History
from cutplane.graphical.best import BestLabelling
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.integrality import finite_sizes, has_penalties, rounded_up
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
    """What an iteration of a stage has come to; sweeps and searches are those of the stage so far."""

    step: str
    bound: float
    n_cuts: int = 0
    sweeps: int = 0
    searches: int = 0


class MapState(BestLabelling):
    """What is known of a model so far, shared by all stages.

    Attributes
    ----------
    bound : float
    reason : str
        Why the last stage has ended.
    tighten : bool
    deadline : float
        The time, as `cutplane.runtime.clock.clock` tells it, at which to stop; inf if there is none.
    proof : Reparametrization or None
        The messages of the sweeps, if there were any.
    """

    def __init__(
        self, model: FactorGraph, tighten: bool, deadline: float = math.inf, labelling: Array | None = None
    ):
        super().__init__(model, labelling)
        self.tighten, self.deadline = tighten, deadline
        self.bound = -math.inf
        self.reason = _DONE
        self.proof: Reparametrization | None = None

    @property
    def reparametrization(self) -> Reparametrization:
        """The costs as the sweeps have left them."""
        from cutplane.graphical.sweeps.reparametrization import Reparametrization

        if self.proof is None:
            self.proof = Reparametrization(self.work)
        return self.proof

    @cached_property
    def work(self) -> FactorGraph:
        """The model without penalties that are larger than can matter: what bounds are computed from.

        None of its energies is above that of `model`, and the least is the same.
        """
        if not has_penalties(finite_sizes(self.model.unaries, self.model.tables)):
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

    def raise_bound(self, bound: float) -> None:
        """Keep the bound if it is the best so far, rounded up where energies have a unit."""
        unit, rounding = self.model.energy_unit, _ROUNDING * abs(bound)
        if rounding < 1e-3 * unit:
            bound = max(bound, rounded_up(bound - max(rounding, _ROUNDING * unit), unit))
        self.bound = max(self.bound, min(bound, self.energy))


def cheapest_states(model: FactorGraph) -> Array:
    """Return the labelling in which each variable has the state of least unary cost."""
    starts = model.unary_starts
    return np.array([int(model.unaries[i:j].argmin()) for i, j in pairwise(starts)], dtype=np.int64)


Stage = Callable[[MapState], Iterator[Progress]]


class MapProcess:
    """Goes through the stages of a plan, which may depend on what they find, an iteration a step."""

    started = True
    """There always is a labelling."""

    def __init__(self, state: MapState, plan: Iterable[tuple[str, Stage]]):
        self.state = state
        self._names: list[str] = []
        self._progress = self._all(plan)
        self._n_cuts = self._sweeps = self._searches = 0

    @property
    def standing(self) -> Standing:
        """Bound and energy; queries are sweeps, separations the searches for cuts or clusters."""
        return Standing(
            lower=self.state.bound,
            upper=self.state.energy,
            x=self.state.labelling,
            n_cuts=self._n_cuts,
            oracle_calls=self._sweeps,
            separations=self._searches,
        )

    def step(self) -> Turn:
        """Do an iteration of the stage whose turn it is."""
        try:
            progress = next(self._progress, None)
        except TimeoutError as error:
            raise Ended(Status.TIME_LIMIT, f"time_limit has passed: {error}") from None
        if progress is None and clock() > self.state.deadline:
            raise Ended(Status.TIME_LIMIT, "time_limit has passed")
        if progress is None:
            raise Ended(Status.STALLED, self.state.reason)
        self.state.raise_bound(progress.bound)
        if self.state.bound == math.inf:
            raise Ended(Status.INFEASIBLE, "no labelling satisfies the hard constraints")
        return Turn(progress.step)

    def confirm(self, stop: Stop) -> Stop:
        """Return the stop: energies are exact, and bounds those of the costs themselves."""
        return stop

    def result(self, stop: Stop, history: History) -> MAPResult:
        """Return the best labelling; that of the least unary costs if there is none."""
        state = self.state
        if state.labelling is None and state.bound < math.inf:
            state.offer(cheapest_states(state.model))
        return MAPResult(
            labelling=state.labelling,
            energy=state.energy,
            bound=state.bound,
            status=stop.status,
            reason=stop.reason,
            method=", ".join(self._names),
            history=history,
            model=state.model,
            proof=state.proof,
        )

    def _all(self, plan: Iterable[tuple[str, Stage]]) -> Iterator[Progress]:
        for name, stage in plan:
            self._names.append(name)
            sweeps, searches = self._sweeps, self._searches
            for progress in stage(self.state):
                self._n_cuts = progress.n_cuts
                self._sweeps, self._searches = sweeps + progress.sweeps, searches + progress.searches
                yield progress
