"""Solve reduced problems by several masters, each of which is tried if the previous one fails."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from scipy import sparse

from cutplane.engine.bundle import Bundle
from cutplane.exceptions import BackendError
from cutplane.masters.base import (
    Kind,
    Level,
    Master,
    MasterSolution,
    MasterStatus,
    ReducedProblem,
    Rows,
    Stabilization,
    Whole,
)
from cutplane.masters.programme import solve_programme
from cutplane.masters.select import Backend, Candidate, candidates, first_candidate
from cutplane.masters.units import StatedRows, Unit, unit_of
from cutplane.pieces.capabilities import SparseReader
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import check_time

Complaint = Callable[[MasterSolution], str | None]

_CHANCES = 3
"""Number of failures in a row after which a master is tried last, because one or two may be caused by
rounding errors."""


class ReducedSolver:
    """The masters of one run; if one fails, the next one solves.

    An error is raised at once if there is no master for one of the `kinds` of stabilisation. If `idle` is
    set, because the last iterations changed nothing, an inexact master is tried last.
    """

    def __init__(self, reduced: ReducedProblem, backend: Backend, kinds: tuple[Kind, ...]):
        self.reduced = reduced
        self.backend = backend
        self.seconds = 0.0
        self.notes: list[str] = []
        self.idle = False
        self._unit, self._stated = Unit(), reduced
        self._rows = StatedRows(self._unit)
        self._refused: set[Unit] = set()
        self._queues = {kind: [first_candidate(reduced, kind, backend)] for kind in kinds}
        self._complete: set[Kind] = set()
        self._masters: dict[str, Master] = {}
        self._failures: Counter[tuple[Kind, str]] = Counter()
        self._passed_over: set[tuple[Kind, str]] = set()
        self._whole: Whole | None = None
        self._gap = math.inf
        self._used: dict[str, None] = {}

    def measure(self, size: float, steepest: float) -> None:
        """Change the units of the reduced problem if the size of solutions or the steepest cut requires it.

        Quadratic programmes without a set need no units, because they compare only slopes with slopes.
        """
        if self._has_no_unit:
            return
        reduced = self.reduced
        size = min(max(size, min(1.0, reduced.scale or 1.0)), reduced.largest or 1.0)
        height = size * steepest
        if self._unit.fits(size, height):
            return
        unit = Unit(unit_of(size), unit_of(height) if 0.0 < height < math.inf else 1.0)
        if unit not in self._refused and not self._restate(unit):
            self._refused.add(unit)

    def _restate(self, unit: Unit) -> bool:
        """State the reduced problem in other units, unless a number overflows or the masters would change."""
        before = {kind: [each.name for each in self._queue(kind)] for kind in self._queues}
        found: dict[Kind, dict[str, Candidate]] = {}
        try:
            with np.errstate(over="raise", invalid="raise"):
                stated = unit.of_problem(self.reduced)
                for kind in before:
                    found[kind] = {each.name: each for each in candidates(stated, kind, self.backend)}
        except Exception as error:
            self.notes.append(f"the reduced problem could not be stated in another unit: {error}")
            return False
        vanished = self.reduced.regularizer.lam > 0.0 and not 0.0 < stated.regularizer.lam < math.inf
        if vanished or any(set(names) != set(found[kind]) for kind, names in before.items()):
            return False
        self._unit, self._stated, self._rows = unit, stated, StatedRows(unit)
        self._queues = {kind: [found[kind][name] for name in names] for kind, names in before.items()}
        self._masters.clear()
        return True

    @cached_property
    def _has_no_unit(self) -> bool:
        first = [queue[0].name for queue in self._queues.values()]
        return self.reduced.unconstrained and all(name == "simplex_qp" for name in first)

    @property
    def names(self) -> str:
        """The backends that answered, otherwise the first ones; "none" if there is nothing to solve."""
        first = [queue[0].name for queue in self._queues.values()]
        return "+".join(self._used or dict.fromkeys(first)) or "none"

    def solve(
        self, bundle: Bundle, stabilization: Stabilization, accuracy: float, complaint: Complaint
    ) -> MasterSolution:
        """Solve by the first backend that does not fail, and whose answer `complaint` does not reject.

        A level set may be empty because the level was computed from the bound of an inexact master. Then
        another master minimises the model again.
        """
        kind = None if stabilization is None else type(stabilization)
        if self.idle:
            self._distrust(kind, "its answers moved neither bound")
        failed: list[tuple[Candidate, str]] = []
        infeasible = found = None
        queue = self._queues.get(kind) or self._queue(kind)
        while found is None and len(failed) < len(queue):
            candidate = queue[len(failed)]
            solution = self._try(candidate, bundle, stabilization, accuracy)
            reason = self._fault(candidate, solution, bundle, kind, complaint)
            if solution.status is MasterStatus.INFEASIBLE:
                infeasible = solution
            if reason is None:
                found = solution
                self._used.setdefault(candidate.name)
                self._failures.pop((kind, candidate.name), None)
            else:
                failed.append((candidate, reason))
                queue = self._queue(kind)
                following = [f"fell back to {each.name}" for each in queue[len(failed) :]] or ["none is left"]
                self.notes.append(f"{candidate.name}: {reason}; {following[0]}")
        for candidate, _ in failed:
            self._failures[kind, candidate.name] += 1
            if self._failures[kind, candidate.name] >= _CHANCES:
                self._pass_over(kind, candidate)
        found = found or infeasible
        if found is None:
            reasons = "; ".join(f"{candidate.name}: {reason}" for candidate, reason in failed)
            raise BackendError(f"No backend could solve the reduced problem. {reasons}")
        if found is infeasible and kind is Level and self._distrust(None, "its bound set an empty level"):
            return self.solve(bundle, None, accuracy, complaint)
        return found

    def _queue(self, kind: Kind) -> list[Candidate]:
        """Return all candidates, the next one to try first."""
        if kind not in self._complete:
            self._complete.add(kind)
            self._queues[kind] = list(candidates(self._stated, kind, self.backend))
        return self._queues[kind]

    def _pass_over(self, kind: Kind, candidate: Candidate) -> None:
        """Move a candidate to the end of the queue."""
        self._passed_over.add((kind, candidate.name))
        self._queues[kind].remove(candidate)
        self._queues[kind].append(candidate)

    def _distrust(self, kind: Kind, reason: str) -> bool:
        """Move the first candidate to the end if it is inexact, was never moved, and is not the only one."""
        first, *others = self._queue(kind)
        if first.exact or not others or (kind, first.name) in self._passed_over:
            return False
        self._pass_over(kind, first)
        self.notes.append(f"{first.name}: {reason}; fell back to {others[0].name}")
        return True

    def _try(
        self, candidate: Candidate, bundle: Bundle, stabilization: Stabilization, accuracy: float
    ) -> MasterSolution:
        """Call a master; after an exception, the next call builds a new one."""
        start = clock()
        check_time()
        try:
            master = self._masters.get(candidate.name)
            if master is None:
                master = self._masters[candidate.name] = candidate.build(self._stated)
            rows: Rows = bundle
            if sparse.issparse(bundle.slopes) and not (isinstance(master, SparseReader) and master.sparse):
                dense: Any = bundle.slopes.toarray()
                parts = {"offsets": bundle.offsets, "blocks": bundle.blocks, "ids": bundle.ids}
                rows = cast(Rows, SimpleNamespace(slopes=dense, **parts))
            unit = self._unit
            if unit.is_one:
                solution = master.solve(rows, stabilization, accuracy)
            else:
                stated = unit.of_stabilization(stabilization)
                solution = master.solve(self._rows.of(rows), stated, accuracy / unit.height)
            if isinstance(solution, MasterSolution) and isinstance(solution.status, MasterStatus):
                return unit.back(solution, bundle)
            message = f"it returned {type(solution).__name__}, not a MasterSolution with a MasterStatus"
        except Exception as error:
            self._masters.pop(candidate.name, None)
            message = f"{type(error).__name__}: {error}"
        finally:
            self.seconds += clock() - start
        return MasterSolution(None, None, MasterStatus.FAILED, message)

    def _fault(
        self, candidate: Candidate, solution: MasterSolution, bundle: Bundle, kind: Kind, complaint: Complaint
    ) -> str | None:
        """Return the fault of an answer; None if there is none."""
        status = solution.status
        if status is MasterStatus.SOLVED:
            reason = _wrong("minimiser", solution.x, self.reduced.dim)
            reason = reason or _wrong("vector of multipliers", solution.multipliers, len(bundle))
            try:
                return reason or complaint(solution)
            except BackendError as error:
                return str(error)
        if status is MasterStatus.FAILED:
            return solution.message or "it failed"
        if status is MasterStatus.UNBOUNDED and (kind or self.reduced.simple_set.bounded):
            return "it calls a reduced problem unbounded that is not"
        if status is MasterStatus.INFEASIBLE and not candidate.exact:
            from cutplane.masters.certificates import certify_infeasible

            rows = self._rows.of(bundle)
            if not certify_infeasible(rows, self._stated.simple_set, self.reduced.dim):
                return "it calls the reduced problem infeasible, which could not be certified"
        return None

    def whole(self, risk: Any, gap: float) -> Whole:
        """Solve the whole problem as one quadratic programme, or as a conic one with relative gap `gap`."""
        if self._whole is not None and self._gap <= gap:
            return self._whole
        backend = (self.backend.solver or "clarabel").upper()
        start = clock()
        try:
            whole = solve_programme(risk, self.reduced) if backend == "CLARABEL" else None
            self._gap = 0.0 if whole is not None else gap
            if whole is None:
                from cutplane.masters.whole import solve_whole

                whole = solve_whole(risk, self.reduced, backend, gap)
            self._whole = whole
        finally:
            self.seconds += clock() - start
        if whole.message:
            self.notes.append(f"the whole problem: {whole.message}")
        if whole.x is not None:
            self._used.setdefault(backend.lower())
        return whole


def _wrong(name: str, vector: Any, size: int) -> str | None:
    """Return the reason why a value is not a finite vector of this size; None if it is."""
    if not isinstance(vector, np.ndarray) or vector.dtype.kind != "f":
        return f"its {name} is not an array of floats"
    if vector.shape != (size,):
        return f"its {name} has shape {vector.shape}, not {(size,)}"
    return None if np.isfinite(vector).all() else "the answer is not finite"
