"""MAP inference as a process of the driver: the stages and their order."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.driver import Driver, Standing, Turn
from cutplane.engine.history import History
from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import BestLabelling, FactorGraph
from cutplane.graphical.factors import finite_sizes, has_penalties
from cutplane.graphical.result import MAPResult
from cutplane.graphical.shifting import bound_of_minimum, shifted, without_penalties
from cutplane.pieces.validation import Array, as_scalar
from cutplane.runtime.clock import clock
from cutplane.status import Status
from cutplane.stopping import AbsoluteGap, Ended, MaxIter, RelativeGap, Stop, StoppingRule, TimeLimit

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback
    from cutplane.engine.history import State
    from cutplane.graphical.sweeps.reparametrization import Reparametrization


Stage = Callable[["MapState"], Iterator["Progress"]]
Plan = Iterator[tuple[str, Stage]]

_SMALL = 5_000
"""Most variables for elimination and for local search, because each of their steps visits all variables."""
_FEW_ENTRIES = 2**16
"""Most table entries of an elimination that is tried first, because that takes a few milliseconds."""
_FIRST_TURN = 0.02
"""Seconds of a stage's first turn, because starting one takes some milliseconds."""
_GROWTH = 1.5
"""Growth of turns per round: geometric, because the best stage then takes a constant share of the time."""
_PER_ENTRY = 2e-6
"""Seconds to build a linear programme, per table entry; turns pay for them before, because it is one step."""
_CHANGES = 100_000
"""Changes compared per call of the local search, about a millisecond, because a turn is several calls."""
_FIRST_CALLS = 25
"""Most calls of the first local search, because they take about as long as a first turn."""


@dataclass(frozen=True)
class WithinRounding(StoppingRule):
    """Stop when bound and energy differ by no more than the rounding errors of their sums.

    Parameters
    ----------
    best : BestLabelling
    """

    best: BestLabelling

    def __call__(self, state: State) -> Stop | None:
        gap = state.upper_bound - state.lower_bound
        if gap <= self.best.rounding:
            return Stop(Status.OPTIMAL, f"energy and bound differ by {gap:.2g}, within rounding errors")
        return None


def solve_map(
    model: FactorGraph,
    method: str,
    tighten: bool,
    tol: float,
    tol_abs: float,
    max_iter: int,
    time_limit: float | None,
    labelling: Array | None,
    start: MAPResult | None,
    callback: Callback | None,
    progress: bool,
    log: bool,
) -> MAPResult:
    """Implement `GraphicalModel.map`."""
    if method not in METHODS:
        raise InvalidInputError(f"method must be one of {sorted(METHODS)}, got {method!r}.")
    stopping = RelativeGap(as_scalar("tol", tol, low=0.0)) | MaxIter(max_iter)
    if tol_abs > 0.0:
        stopping = stopping | AbsoluteGap(min(tol_abs, sys.float_info.max))  # a finite bound
    deadline = math.inf
    if time_limit is not None:
        stopping = stopping | TimeLimit(time_limit)
        deadline = clock() + time_limit
    given = None if labelling is None else np.asarray(labelling)
    state = MapState(model, bool(tighten), tol, deadline, given)
    if start is not None:
        check_start(start, model)
        state.offer(start.labelling)
        state.start = start.proof
    stopping = WithinRounding(state) | stopping
    return Driver(MapProcess(state, METHODS[method](state)), stopping).run(callback, progress, log)


def _auto(state: MapState) -> Plan:
    """Try quick exact methods, then sweeps, then cutting planes and searches in turns."""
    model = state.model
    if model.is_forest:
        yield "dynamic programming", _dynamic_programming
        return
    small = model.n_variables <= _SMALL
    sweeps = "sweeps", _first_sweeps if state.tighten else _sweep
    if state.start is not None:
        yield sweeps
    if small:
        yield "elimination", _brief_elimination
    if state.start is None:
        if small:
            yield "local search", _brief_local_search
        yield sweeps
    if not state.tighten:
        return
    stages: dict[str, Stage] = {}
    if small:  # the first stage has the first long turn
        stages["search"] = _branch_and_bound
    if small or (model.is_binary and model.is_pairwise):
        stages["primal cutting planes"] = _primal_cutting_planes
    stages["dual cutting planes"] = _dual_cutting_planes
    if small:
        stages["local search"] = _local_search
        yield " and ".join(stages) + " in turns", partial(_in_turns, stages=stages)
    else:
        yield from stages.items()
    yield "search", _branch_and_bound


def _in_turns(state: MapState, stages: dict[str, Stage]) -> Iterator[Progress]:
    """Run stages in turns of growing length, until all except the local search have ended.

    Half of a round is for the stage that is expected to end first (`_Turns`), and all stages share the other
    half equally. A stage that is expected to end within half a round has another turn. All stages except the
    first start with a debt, because the first often ends before their start pays. The stages share bounds and
    labellings. When the dual halves the gap with which branch and bound began, branch and bound begins again
    from the new costs, if it is expected to take longer than all turns so far.
    """
    running = {name: _Turns(stage(state), state) for name, stage in stages.items()}
    if "primal cutting planes" in running:
        running["primal cutting planes"].credit -= _PER_ENTRY * state.work.tables.size
    length, leader, root, began = _FIRST_TURN, next(iter(running)), state.bound, clock()
    for later in list(running.values())[1:]:
        later.credit -= _FIRST_TURN
    dual = running["dual cutting planes"]
    while running.keys() - {"local search"}:
        for name in list(running):
            turns = running[name]
            yield from turns.take(length * (1.0 / len(running) + (name == leader)), state)
            if 0.0 < turns.remaining < length:
                yield from turns.take(length, state)
            if turns.has_ended:
                del running[name]
        search, is_halved = running.get("search"), state.energy - root > 2.0 * (state.energy - dual.bound)
        is_best = dual.bound >= state.bound
        if is_halved and is_best and search is not None and search.remaining > clock() - began:
            running["search"], root = _Turns(_branch_and_bound(state), state), dual.bound
        leader = min(running, key=lambda name: running[name].remaining, default="")
        length *= _GROWTH


class _Turns:
    """A stage that runs in turns, and an estimate of the seconds until it ends.

    If the gap between the bound of the stage and the best energy shrinks by a factor, it is assumed to shrink
    by this factor again in as many seconds. As long as it does not shrink, it is assumed to halve in as long
    again, and before the first turn that it halves per first turn. A search that knows the share of its tree
    that it has visited takes the square root of this share as the share of its time, because dives visit
    small subtrees first. A stage without a bound is never expected to end.
    """

    def __init__(self, stage: Iterator[Progress], state: MapState) -> None:
        self.stage = stage
        self.bound, self.has_ended = -math.inf, False
        self.remaining = _FIRST_TURN * _halvings(state, state.bound)
        self.spent = self.credit = self._since = 0.0
        self._gap = math.inf

    def take(self, seconds: float, state: MapState) -> Iterator[Progress]:
        """Run the stage for some seconds, minus the seconds by which earlier turns were too long."""
        self.credit += seconds
        began, progress = clock(), None
        while clock() - began < self.credit:
            progress = next(self.stage, None)
            if progress is None:
                self.has_ended = True
                return
            self.bound = max(self.bound, progress.bound)
            yield progress
        if progress is not None:
            took = clock() - began
            self.credit -= took
            self.spent += took
            self._since += took
            self._estimate(state, progress)

    def _estimate(self, state: MapState, progress: Progress) -> None:
        left = state.energy - self.bound
        shrunk = (self._gap - left) / left if 0.0 < left < self._gap < math.inf else 1.0
        self.remaining = self._since * _halvings(state, self.bound) * math.log(2.0) / math.log1p(shrunk)
        if left < self._gap:
            self._gap, self._since = left, 0.0
        if progress.open_share < 1.0:
            self.remaining = min(self.remaining, self.spent * ((1.0 - progress.open_share) ** -0.5 - 1.0))


def _halvings(state: MapState, bound: float) -> float:
    """Return how often the gap of a bound must halve until it is closed; inf if the gap is infinite."""
    left = state.energy - bound
    target = max(state.tol * abs(state.energy), state.model.energy_lattice.unit, sys.float_info.min)
    return max(math.log2(left / target), 0.0) if 0.0 < left < math.inf else math.inf


def _primal(state: MapState) -> Plan:
    yield "primal cutting planes" if state.tighten else "local polytope", _primal_cutting_planes


def _dual(state: MapState) -> Plan:
    yield "sweeps", _sweep
    if state.tighten:
        yield "dual cutting planes", _dual_cutting_planes


def _elimination(state: MapState) -> Plan:
    if state.model.is_forest:
        yield "dynamic programming", _dynamic_programming
    else:
        yield "elimination", _eliminate


def _search(state: MapState) -> Plan:
    yield "sweeps", _sweep
    yield "search", _branch_and_bound


def _dynamic_programming(state: MapState) -> Iterator[Progress]:
    """Solve a forest."""
    from cutplane.graphical.trees import solve_forest

    model = shifted(state.work)
    labelling, _ = solve_forest(model)
    state.offer(labelling)
    yield Progress("dynamic programming", _bound_of(model, labelling))


def _eliminate(state: MapState, max_entries: int = 2**24) -> Iterator[Progress]:
    """Eliminate all variables in tables of at most `max_entries` entries."""
    from cutplane.graphical.exact.clique_tree import eliminate

    model = shifted(state.work)
    try:
        labelling, _ = eliminate(model, max_entries=max_entries, deadline=state.deadline)
    except TimeoutError:
        state.reason = "the elimination did not end in time"
        yield Progress("elimination", -math.inf)
        return
    state.offer(labelling)
    yield Progress("elimination", _bound_of(model, labelling))


def _bound_of(model: FactorGraph, labelling: Array | None) -> float:
    return math.inf if labelling is None else bound_of_minimum(model, labelling)


def _brief_elimination(state: MapState) -> Iterator[Progress]:
    """Eliminate all variables if small tables suffice, else do nothing."""
    try:
        yield from _eliminate(state, _FEW_ENTRIES)
    except InvalidInputError:
        return


def _branch_and_bound(state: MapState) -> Iterator[Progress]:
    """Run branch and bound, from the bounds and the labelling so far."""
    from cutplane.graphical.exact.search import search

    start = state.work, state.labelling, state.reparametrization
    for result in search(*start, deadline=state.deadline, others=state):
        state.offer(result.labelling)
        state.reason = f"the search was stopped after {result.nodes} nodes"
        yield Progress("search", result.bound, open_share=result.open_share)


def _local_search(state: MapState, most: float = math.inf, restarts: float = math.inf) -> Iterator[Progress]:
    """Improve the best labelling by tabu search, for at most `most` calls and this number of restarts."""
    from cutplane.graphical.sweeps.tabu import TabuSearch

    start = cheapest_states(state.work) if state.labelling is None else state.labelling
    search, moves, calls = TabuSearch(state.work, start), 1, 0
    state.offer(start)
    while calls < most and search.restarts <= restarts and clock() < state.deadline:
        if search.run(moves):
            state.offer(search.labelling)
        moves, calls = min(2 * moves, 1 + _CHANGES // (1 + state.work.unaries.size)), calls + 1
        yield Progress("local search", -math.inf)


def _brief_local_search(state: MapState) -> Iterator[Progress]:
    """Find a first labelling: search until the first restart."""
    return _local_search(state, _FIRST_CALLS, 0)


def _primal_cutting_planes(state: MapState) -> Iterator[Progress]:
    """Solve the linear programme over marginals, and add the inequalities that its solutions violate."""
    from cutplane.graphical.primal.programme import MarginalProgramme

    programme = MarginalProgramme(state.work, state.tighten, state.labelling, state.deadline)
    state.offer(programme.best.labelling)
    for _ in programme.steps():
        if programme.nodes > 1 and state.model.n_variables > _SMALL:
            return  # later stages have no turns
        state.offer(programme.best.labelling)
        if state.energy < programme.best.energy:
            programme.best.offer(state.labelling)
        state.reason = f"linear programme: {programme.reason}"
        yield Progress("linear programme", programme.bound, programme.n_cuts, 0, programme.separations)


def _sweep(state: MapState) -> Iterator[Progress]:
    """Sweep until the bound no longer rises."""
    return _ascend(state, tighten=False)


def _first_sweeps(state: MapState) -> Iterator[Progress]:
    """Sweep until clusters would raise the bound faster."""
    return _ascend(state, tighten=False, is_first=True)


def _dual_cutting_planes(state: MapState) -> Iterator[Progress]:
    """Sweep and add clusters until no cluster raises the bound."""
    return _ascend(state, tighten=True)


def _ascend(state: MapState, tighten: bool, is_first: bool = False) -> Iterator[Progress]:
    from cutplane.graphical.dual.ascent import ClusterAscent

    ascent = ClusterAscent(state.reparametrization, tighten, state.labelling, state.deadline)
    for kind in ascent:
        state.offer(ascent.best.labelling)
        ascent.best.offer(state.labelling)
        yield Progress(kind, ascent.bound, ascent.n_clusters, ascent.n_sweeps, ascent.n_searches)
        if is_first and ascent.is_slow():
            break
    state.reason = ascent.reason


METHODS: dict[str, Callable[[MapState], Plan]] = {
    "auto": _auto,
    "primal": _primal,
    "dual": _dual,
    "elimination": _elimination,
    "search": _search,
}


_DONE = "all stages have ended"
_SWEEPS = 5
"""Sweeps before the first labelling, because this labelling only has to show which costs are penalties."""


@dataclass(frozen=True)
class Progress:
    """The bound and the counts after an iteration; sweeps and searches since the start of the stage.

    `open_share` is the estimated share of the stage's work that is to be done; 1 if it is unknown.
    """

    step: str
    bound: float
    n_cuts: int = 0
    sweeps: int = 0
    searches: int = 0
    open_share: float = 1.0


class MapState(BestLabelling):
    """The best labelling, the bound and the messages so far, shared by all stages.

    Attributes
    ----------
    bound : float
    reason : str
        Why the last stage has ended.
    tighten : bool
    tol : float
        Gap relative to the energy that counts as closed.
    deadline : float
        The time on `cutplane.runtime.clock.clock` at which to stop; inf for no limit.
    proof : Reparametrization or None
        The messages of the sweeps, if there were any.
    start : Reparametrization or None
        The messages from which the sweeps start.
    """

    def __init__(
        self,
        model: FactorGraph,
        tighten: bool,
        tol: float = 0.0,
        deadline: float = math.inf,
        labelling: Array | None = None,
    ):
        super().__init__(model, labelling)
        self.tighten, self.tol, self.deadline = tighten, tol, deadline
        self.bound = -math.inf
        self.reason = _DONE
        self.proof: Reparametrization | None = None
        self.start: Reparametrization | None = None

    @property
    def reparametrization(self) -> Reparametrization:
        """The costs after the sweeps so far."""
        from cutplane.graphical.sweeps.reparametrization import Reparametrization

        if self.proof is None:
            start = self.start
            self.proof = Reparametrization(self.work) if start is None else start.restated(self.work)
        return self.proof

    @cached_property
    def work(self) -> FactorGraph:
        """The model with penalties reduced to the size that matters, from which bounds are computed.

        Its energies are at most the energies of `model`, and its least energy is the same.
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
        """Keep the bound if it is the best so far, rounded up if energies have a unit."""
        self.bound = max(self.bound, min(self.model.energy_lattice.lifted(bound), self.energy))


def check_start(start: Any, model: FactorGraph) -> None:
    """Raise `InvalidInputError` unless `start` is a result for a model of the same scopes."""
    if not isinstance(start, MAPResult):
        raise InvalidInputError(f"start must be a MAPResult, got {start!r}.")
    for name in ("cardinalities", "scope_starts", "scopes"):
        of_start, of_model = getattr(start.model, name), getattr(model, name)
        if of_start is not of_model and not np.array_equal(of_start, of_model):
            raise InvalidInputError(
                f"start is a result for {start.model!r}, whose variables or factors are not the ones of "
                f"{model!r}; models with the same ones are returned by with_costs."
            )


def cheapest_states(model: FactorGraph) -> Array:
    """Return the labelling in which each variable has the state of least unary cost."""
    starts = model.unary_starts
    return np.array([int(model.unaries[i:j].argmin()) for i, j in pairwise(starts)], dtype=np.int64)


class MapProcess:
    """Runs the stages of a plan, one iteration per step; later stages may depend on earlier results."""

    started = True
    """True, because a labelling always exists."""

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
        """Return the stop unchanged, because energies are exact, and bounds allow for rounding errors."""
        return stop

    def result(self, stop: Stop, history: History) -> MAPResult:
        """Return the best labelling; if there is none, try the labelling of least unary costs."""
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
