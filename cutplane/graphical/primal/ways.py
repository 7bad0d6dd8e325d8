"""Primal cutting planes as a way of the loop."""

from __future__ import annotations

from collections.abc import Iterator

from cutplane.graphical.inference import Job, Progress


def primal_cutting_planes(job: Job) -> Iterator[Progress]:
    """Solve the linear programme over marginals, and add the inequalities that its solutions violate."""
    from cutplane.graphical.primal.programme import Primal

    primal = Primal(job.work, job.tighten, labelling=job.labelling, deadline=job.deadline)
    job.offer(primal.rounding.labelling)
    for state in primal.steps():
        job.offer(primal.rounding.labelling)
        job.reason = f"linear programme: {primal.reason}"
        if state is None:
            yield Progress("linear programme", primal.bound)
        else:
            yield Progress("cuts", primal.bound, state.n_cuts, 0, state.separations)
