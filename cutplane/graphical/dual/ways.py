"""Sweeps and dual cutting planes as ways of the loop."""

from __future__ import annotations

from collections.abc import Iterator

from cutplane.graphical.inference import Job, Progress


def sweeps(job: Job) -> Iterator[Progress]:
    """Sweep until the bound no longer rises."""
    yield from _ascend(job, tighten=False)


def dual_cutting_planes(job: Job) -> Iterator[Progress]:
    """Sweep and add clusters until no cluster raises the bound."""
    yield from _ascend(job, tighten=True)


def _ascend(job: Job, tighten: bool) -> Iterator[Progress]:
    from cutplane.graphical.dual.ascent import DualAscent

    rep = job.reparametrization
    ascent = DualAscent(
        job.work, tighten=tighten, reparametrization=rep, labelling=job.labelling, deadline=job.deadline
    )
    for kind in ascent:
        job.offer(ascent.labelling)
        yield Progress(kind, ascent.bound, ascent.n_clusters, ascent.n_sweeps, ascent.n_searches)
    job.reason = ascent.reason
