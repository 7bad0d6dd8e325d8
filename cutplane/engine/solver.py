"""Solves reduced problems: keeps a living master per kind, falls back to another when one fails."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import SimpleNamespace

import numpy as np
from scipy import sparse

from cutplane.engine.bundle import Bundle
from cutplane.exceptions import BackendError, InvalidInputError
from cutplane.masters.base import (
    Level,
    Master,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.select import Backend, Candidate, candidates

Kind = type[Prox] | type[Level] | None


class ReducedSolver:
    """The masters of one run.

    Parameters
    ----------
    reduced : ReducedProblem
    backend : Backend
    kinds : tuple
        The kinds of stabilisation the method will ask for; a missing master is an error now, not later.
    """

    def __init__(self, reduced: ReducedProblem, backend: Backend, kinds: tuple[Kind, ...]):
        self.reduced = reduced
        self.backend = backend
        self.seconds = 0.0
        self.notes: list[str] = []
        self._candidates = {kind: candidates(reduced, kind, backend) for kind in kinds}
        self._masters: dict[str, Master] = {}

    @property
    def names(self) -> str:
        """The backends in use, the first kind's first; "none" if there is nothing to solve."""
        first = [found[0].name for found in self._candidates.values() if found]
        return "+".join(dict.fromkeys(first)) or "none"

    def solve(
        self,
        bundle: Bundle,
        stabilization: Stabilization,
        accuracy: float,
        complaint: Callable[[MasterSolution], str | None],
    ) -> MasterSolution:
        """Solve, with the next backend if one fails or if `complaint` finds the answer to be garbage."""
        kind = None if stabilization is None else type(stabilization)
        if kind not in self._candidates:
            self._candidates[kind] = candidates(self.reduced, kind, self.backend)
        queue = self._candidates[kind]
        failures: list[str] = []
        while queue:
            solution = self._try(queue[0], bundle, stabilization, accuracy)
            reason = solution.message if solution.status is MasterStatus.FAILED else None
            if solution.status is MasterStatus.SOLVED:
                reason = "the answer is not finite" if not _finite(solution) else complaint(solution)
            if reason is None:
                return solution
            failures.append(f"{queue[0].name}: {reason}")
            queue.pop(0)
            self.notes.append(
                f"{failures[-1]}; " + (f"fell back to {queue[0].name}" if queue else "none left")
            )
        raise BackendError("No backend could solve the reduced problem. " + "; ".join(failures))

    def _try(
        self, candidate: Candidate, bundle: Bundle, stabilization: Stabilization, accuracy: float
    ) -> MasterSolution:
        start = perf_counter()
        try:
            if candidate.name not in self._masters:
                self._masters[candidate.name] = candidate.build()
            master = self._masters[candidate.name]
            return master.solve(_readable(bundle, master), stabilization, accuracy)
        except InvalidInputError as error:
            return MasterSolution(None, None, MasterStatus.FAILED, str(error))
        finally:
            self.seconds += perf_counter() - start


def _readable(bundle: Bundle, master: Master) -> Rows:
    """Return the rows of the bundle, with dense slopes for a master that cannot read sparse ones."""
    if not sparse.issparse(bundle.slopes) or getattr(master, "sparse", False):
        return bundle
    return SimpleNamespace(  # pyright: ignore[reportReturnType]
        slopes=bundle.slopes.toarray(), offsets=bundle.offsets, blocks=bundle.blocks, ids=bundle.ids
    )


def _finite(solution: MasterSolution) -> bool:
    x, multipliers = solution.x, solution.multipliers
    return (
        x is not None
        and multipliers is not None
        and bool(np.isfinite(x).all() and np.isfinite(multipliers).all())
    )
