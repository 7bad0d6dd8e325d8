"""Exact inference as ways of the loop: dynamic programming, elimination, branch and bound."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cutplane.exceptions import InvalidInputError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.inference import Job, Progress
from cutplane.graphical.shifting import bound_of_minimum, shifted
from cutplane.pieces.validation import Array

_FEW_ENTRIES = 2**16


def dynamic_programming(job: Job) -> Iterator[Progress]:
    """Solve a forest."""
    from cutplane.graphical.exact.forest import solve_forest

    model = shifted(job.work)
    labelling, _ = solve_forest(model)
    job.offer(labelling)
    yield Progress("dynamic programming", _bound(model, labelling))


def elimination(job: Job, max_entries: int = 2**24) -> Iterator[Progress]:
    """Eliminate all variables in tables of at most `max_entries` entries."""
    from cutplane.graphical.exact.elimination import eliminate

    model = shifted(job.work)
    try:
        labelling, _ = eliminate(model, max_entries=max_entries, deadline=job.deadline)
    except TimeoutError:
        job.reason = "the elimination did not end in time"
        yield Progress("elimination", -math.inf)
        return
    job.offer(labelling)
    yield Progress("elimination", _bound(model, labelling))


def _bound(model: FactorGraph, labelling: Array | None) -> float:
    return math.inf if labelling is None else bound_of_minimum(model, labelling)


def brief_elimination(job: Job) -> Iterator[Progress]:
    """Eliminate all variables if small tables do, else do nothing."""
    try:
        yield from elimination(job, _FEW_ENTRIES)
    except InvalidInputError:
        return


def branch_and_bound(job: Job, max_nodes: float = math.inf) -> Iterator[Progress]:
    """Search what the bounds so far leave open."""
    from cutplane.graphical.exact.search import search

    for result in search(
        job.work,
        labelling=job.labelling,
        deadline=job.deadline,
        max_nodes=max_nodes,
        reparametrization=job.reparametrization,
    ):
        job.offer(result.labelling)
        job.reason = f"the search was stopped after {result.nodes} nodes"
        yield Progress("search", result.bound)
