"""MAP inference: which ways are tried, in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.driver import Driver
from cutplane.exceptions import InvalidInputError
from cutplane.graphical.dual.ways import dual_cutting_planes, sweeps
from cutplane.graphical.exact import ways as exact
from cutplane.graphical.exact.forest import is_forest
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.inference import Job, MapProcess, Way
from cutplane.graphical.integrality import typical_cost
from cutplane.graphical.primal.ways import primal_cutting_planes
from cutplane.graphical.result import MAPResult
from cutplane.pieces.validation import Array, as_scalar
from cutplane.runtime.clock import clock
from cutplane.stopping import AbsoluteGap, MaxIter, RelativeGap, TimeLimit

if TYPE_CHECKING:
    from cutplane.engine.callbacks import Callback

_NEGLIGIBLE = 1e-9
_SMALL = 5_000
_FEW, _SOME = 30, 300
Plan = Iterator[tuple[str, Way]]


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
    stopping = (
        RelativeGap(as_scalar("tol", tol, low=0.0)) | AbsoluteGap(_negligible(model)) | MaxIter(max_iter)
    )
    job = Job(model, tighten=bool(tighten))
    if time_limit is not None:
        stopping = stopping | TimeLimit(time_limit)
        job.deadline = clock() + time_limit
    if labelling is not None:
        job.offer(np.asarray(labelling))
    return Driver(MapProcess(job, METHODS[method](job)), stopping).run(callback, progress, log)


def _negligible(model: FactorGraph) -> float:
    """Return a difference of energies that is rounding."""
    return _NEGLIGIBLE * typical_cost(model)


def _auto(job: Job) -> Plan:
    """Exact methods where they are quick, then bounds, then tighter ones, then a search for what is left."""
    model = job.model
    if is_forest(model):
        yield "dynamic programming", exact.dynamic_programming
        return
    small, compact = model.n_variables <= _SMALL, model.is_binary and model.is_pairwise
    if small:
        yield "elimination", exact.brief_elimination
    yield "sweeps", sweeps
    if not job.tighten:
        return
    if compact:
        yield "primal cutting planes", primal_cutting_planes
    if small:
        yield "search", partial(exact.branch_and_bound, max_nodes=_FEW if compact else _SOME)
    yield "dual cutting planes", dual_cutting_planes
    yield "search", exact.branch_and_bound


def _primal(job: Job) -> Plan:
    yield "primal cutting planes" if job.tighten else "local polytope", primal_cutting_planes


def _dual(job: Job) -> Plan:
    yield "sweeps", sweeps
    if job.tighten:
        yield "dual cutting planes", dual_cutting_planes


def _elimination(job: Job) -> Plan:
    if is_forest(job.model):
        yield "dynamic programming", exact.dynamic_programming
    else:
        yield "elimination", exact.elimination


def _search(job: Job) -> Plan:
    yield "sweeps", sweeps
    yield "search", exact.branch_and_bound


METHODS: dict[str, Callable[[Job], Plan]] = {
    "auto": _auto,
    "primal": _primal,
    "dual": _dual,
    "elimination": _elimination,
    "search": _search,
}
