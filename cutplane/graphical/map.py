"""MAP inference: the stages, and which of them are tried in which order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.driver import Driver
from cutplane.exceptions import InvalidInputError
from cutplane.graphical.best import BestLabelling
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.inference import MapProcess, MapState, Progress, Stage
from cutplane.graphical.result import MAPResult
from cutplane.graphical.shifting import bound_of_minimum, shifted
from cutplane.pieces.validation import Array, as_scalar
from cutplane.runtime.clock import clock
from cutplane.status import Status
from cutplane.stopping import MaxIter, RelativeGap, Stop, StoppingRule, TimeLimit

if TYPE_CHECKING:
    from cutplane.engine.driver import Callback
    from cutplane.engine.history import State

_SMALL = 5_000
_FEW, _SOME = 30, 300
_FEW_ENTRIES = 2**16
Plan = Iterator[tuple[str, Stage]]


@dataclass(frozen=True)
class WithinRounding(StoppingRule):
    """Stop when bound and energy differ by no more than the rounding errors of their sums.

    Parameters
    ----------
    best : BestLabelling
    """

    best: BestLabelling

    def __call__(self, state: State) -> Stop | None:
        """Compare the difference with the rounding errors."""
        gap = state.upper_bound - state.lower_bound
        if gap <= self.best.rounding:
            return Stop(Status.OPTIMAL, f"energy and bound differ by {gap:.2g}, the rounding of their sums")
        return None


def solve_map(
    model: FactorGraph,
    method: str,
    tighten: bool,
    tol: float,
    max_iter: int,
    time_limit: float | None,
    labelling: Array | None,
    callback: Callback | None,
    progress: bool,
    log: bool,
) -> MAPResult:
    """Do what `GraphicalModel.map` says."""
    if method not in METHODS:
        raise InvalidInputError(f"method must be one of {sorted(METHODS)}, got {method!r}.")
    stopping = RelativeGap(as_scalar("tol", tol, low=0.0)) | MaxIter(max_iter)
    deadline = math.inf
    if time_limit is not None:
        stopping = stopping | TimeLimit(time_limit)
        deadline = clock() + time_limit
    start = None if labelling is None else np.asarray(labelling)
    state = MapState(model, bool(tighten), deadline, start)
    stopping = WithinRounding(state) | stopping
    return Driver(MapProcess(state, METHODS[method](state)), stopping).run(callback, progress, log)


def _auto(state: MapState) -> Plan:
    """Exact methods where they are quick, then bounds, then tighter ones, then a search for what is left."""
    model = state.model
    if model.is_forest:
        yield "dynamic programming", _dynamic_programming
        return
    small, compact = model.n_variables <= _SMALL, model.is_binary and model.is_pairwise
    if small:
        yield "elimination", _brief_elimination
    yield "sweeps", _sweep
    if not state.tighten:
        return
    if compact:
        yield "primal cutting planes", _primal_cutting_planes
    if small:
        yield "search", partial(_branch_and_bound, max_nodes=_FEW if compact else _SOME)
    yield "dual cutting planes", _dual_cutting_planes
    yield "search", _branch_and_bound


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
    from cutplane.graphical.exact.forest import solve_forest

    model = shifted(state.work)
    labelling, _ = solve_forest(model)
    state.offer(labelling)
    yield Progress("dynamic programming", _bound_of(model, labelling))


def _eliminate(state: MapState, max_entries: int = 2**24) -> Iterator[Progress]:
    """Eliminate all variables in tables of at most `max_entries` entries."""
    from cutplane.graphical.exact.elimination import eliminate

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
    """Eliminate all variables if small tables do, else do nothing."""
    try:
        yield from _eliminate(state, _FEW_ENTRIES)
    except InvalidInputError:
        return


def _branch_and_bound(state: MapState, max_nodes: float = math.inf) -> Iterator[Progress]:
    """Search what the bounds so far leave open."""
    from cutplane.graphical.exact.search import search

    start = state.work, state.labelling, state.reparametrization
    for result in search(*start, deadline=state.deadline, max_nodes=max_nodes):
        state.offer(result.labelling)
        state.reason = f"the search was stopped after {result.nodes} nodes"
        yield Progress("search", result.bound)


def _primal_cutting_planes(state: MapState) -> Iterator[Progress]:
    """Solve the linear programme over marginals, and add the inequalities that its solutions violate."""
    from cutplane.graphical.primal.programme import MarginalProgramme

    programme = MarginalProgramme(state.work, state.tighten, state.labelling, state.deadline)
    state.offer(programme.rounding.labelling)
    for step in programme.steps():
        state.offer(programme.rounding.labelling)
        state.reason = f"linear programme: {programme.reason}"
        if step is None:
            yield Progress("linear programme", programme.bound)
        else:
            yield Progress("cuts", programme.bound, step.n_cuts, 0, step.separations)


def _sweep(state: MapState) -> Iterator[Progress]:
    """Sweep until the bound no longer rises."""
    return _ascend(state, tighten=False)


def _dual_cutting_planes(state: MapState) -> Iterator[Progress]:
    """Sweep and add clusters until no cluster raises the bound."""
    return _ascend(state, tighten=True)


def _ascend(state: MapState, tighten: bool) -> Iterator[Progress]:
    from cutplane.graphical.dual.ascent import DualAscent

    ascent = DualAscent(state.reparametrization, tighten, state.labelling, state.deadline)
    for kind in ascent:
        state.offer(ascent.best.labelling)
        yield Progress(kind, ascent.bound, ascent.n_clusters, ascent.n_sweeps, ascent.n_searches)
    state.reason = ascent.reason


METHODS: dict[str, Callable[[MapState], Plan]] = {
    "auto": _auto,
    "primal": _primal,
    "dual": _dual,
    "elimination": _elimination,
    "search": _search,
}
