"""Solves reduced problems: keeps a living master per kind, falls back to another when one fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.engine.bundle import Bundle
from cutplane.engine.units import StatedRows, Unit
from cutplane.exceptions import BackendError
from cutplane.masters.base import (
    Level,
    Master,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
    Whole,
)
from cutplane.masters.programme import solve_programme
from cutplane.masters.select import Backend, Candidate, candidates, first_candidate
from cutplane.masters.units import unit_of
from cutplane.pieces.capabilities import SparseReader
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import check_time
from cutplane.sets.base import is_whole_space, scale_of, size_of

Kind = type[Prox] | type[Level] | None


@dataclass
class Standing:
    """What has become of a candidate.

    Attributes
    ----------
    failures : int
        How often it has failed of late.
    next_turn : int
        The reduced problem of its kind for which it is asked again.
    successes : int
        How often it has succeeded since; enough of them wipe the failures out.
    """

    failures: int = 0
    next_turn: int = 0
    successes: int = 0


class ReducedSolver:
    """The masters of one run.

    A master that fails is asked again for the next reduced problem; if it goes on failing, after 2, 4, 8, ...
    of them. One that raised an exception is built anew for that.

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
        self.idle = False
        """Whether the last iterations moved nothing: an inexact master is passed over then."""
        self._unit, self._stated = Unit(), reduced
        self._rows = StatedRows(self._unit)
        self._refused: set[Unit] = set()
        self._first = {kind: first_candidate(reduced, kind, backend) for kind in kinds}
        self._candidates: dict[Kind, list[Candidate]] = {}
        self._masters: dict[Hashable, Master] = {}
        self._standings: dict[tuple[Kind, str], Standing] = {}
        self._turns: dict[Kind, int] = {}
        self._whole: Whole | None = None
        self._gap = math.inf
        self._used: dict[str, None] = {}

    def measure(self, size: float, steepest: float) -> None:
        """Build the masters anew if solutions of this size, or cuts as steep, are far from their units."""
        if self._has_no_unit:
            return
        size = min(max(size, min(1.0, self.scale or 1.0)), self.largest or 1.0)
        height = size * steepest
        if self._unit.fits(size, height):
            return
        unit = Unit(unit_of(size), unit_of(height) if 0.0 < height < math.inf else 1.0)
        if unit not in self._refused and not self._restate(unit):
            self._refused.add(unit)

    def _restate(self, unit: Unit) -> bool:
        """State the reduced problem in another unit, unless a number overflows or other masters would fit."""
        try:
            with np.errstate(over="raise", invalid="raise"):
                stated = unit.of_problem(self.reduced)
                found = {kind: candidates(stated, kind, self.backend) for kind in self._first}
        except Exception as error:
            self.notes.append(f"the reduced problem could not be stated in another unit: {error}")
            return False
        vanished = self.reduced.regularizer.lam > 0.0 and not 0.0 < stated.regularizer.lam < math.inf
        if vanished or any(_names(found[kind]) != _names(self._found(kind)) for kind in self._first):
            return False
        self._unit, self._stated, self._candidates = unit, stated, found
        self._rows = StatedRows(unit)
        self._masters.clear()
        return True

    @cached_property
    def widest(self) -> float:
        """The largest bound, if the simple set is a box; else inf."""
        bounds = self.reduced.simple_set.bounds(self.reduced.dim)
        return math.inf if bounds is None else float(np.abs(bounds).max())

    @cached_property
    def largest(self) -> float:
        """The size of the simple set; inf if it is not known."""
        return size_of(self.reduced.simple_set, self.reduced.dim)

    @cached_property
    def _has_no_unit(self) -> bool:
        """Whether the first masters compare slopes with slopes alone: quadratic programmes without a set."""
        whole = is_whole_space(self.reduced.simple_set, self.reduced.dim)
        return whole and all(first.name == "simplex_qp" for first in self._first.values())

    @cached_property
    def scale(self) -> float:
        """The size of the numbers of the simple set; 0 if they are not known."""
        return scale_of(self.reduced.simple_set, self.reduced.dim, 0.0)

    @property
    def names(self) -> str:
        """The backends that answered, or would be asked first; "none" if there is nothing to solve."""
        first = [candidate.name for candidate in self._first.values()]
        return "+".join(self._used or dict.fromkeys(first)) or "none"

    def solve(
        self,
        bundle: Bundle,
        stabilization: Stabilization,
        accuracy: float,
        complaint: Callable[[MasterSolution], str | None],
    ) -> MasterSolution:
        """Solve, with the next backend if one fails or if `complaint` finds the answer to be garbage.

        If a level is below the least value of the model because an inexact master gave the bound that it was
        set by, the model is minimised again, by another one.
        """
        kind = None if stabilization is None else type(stabilization)
        turn = self._turns[kind] = self._turns.get(kind, 0) + 1
        if self.idle:
            self._distrust(kind, turn, "its answers moved neither bound")
        queue = self._queue(kind, turn)
        failures: list[str] = []
        infeasible = None
        for candidate, following in zip_longest(queue, queue[1:]):
            solution = self._try(candidate, kind, bundle, stabilization, accuracy)
            reason = self._fault(candidate, solution, bundle, kind)
            if reason is None and solution.status is MasterStatus.SOLVED:
                reason = _asked(complaint, solution)
            if solution.status is MasterStatus.INFEASIBLE:
                infeasible = solution
            if reason is None:
                self._succeeded(candidate, kind)
                break
            failures.append(f"{candidate.name}: {reason}")
            self._failed(candidate, following, kind, turn + 1, reason)
        else:
            if infeasible is None:
                raise BackendError("No backend could solve the reduced problem. " + "; ".join(failures))
            solution = infeasible
        if solution is infeasible and kind is Level:
            if self._distrust(None, self._turns.get(None, 0) + 1, "its bound set an empty level"):
                return self.solve(bundle, None, accuracy, complaint)
        return solution

    def whole(self, risk: Any, gap: float) -> Whole:
        """Solve the whole problem as one quadratic programme, or as a conic one for this relative gap."""
        if self._whole is not None and self._gap <= gap:
            return self._whole
        backend = (self.backend.solver or "clarabel").upper()
        start = clock()
        try:
            whole = solve_programme(risk, self.reduced) if backend == "CLARABEL" else None
            self._gap = 0.0 if whole is not None else gap
            if whole is None:
                from cutplane.masters.conic.whole import solve_whole

                whole = solve_whole(risk, self.reduced, backend, gap)
            self._whole = whole
        finally:
            self.seconds += clock() - start
        if whole.message:
            self.notes.append(f"the whole problem: {whole.message}")
        if whole.x is not None:
            self._used.setdefault(backend.lower())
        return whole

    def _distrust(self, kind: Kind, turn: int, reason: str) -> bool:
        """Pass over the first candidate from this turn on, if it is inexact and there is another one."""
        first, *others = self._queue(kind, turn)
        if first is not self._found(kind)[0] or first.exact or not others:
            return False
        self._failed(first, others[0], kind, turn, reason)
        return True

    def _found(self, kind: Kind) -> list[Candidate]:
        if kind not in self._candidates:
            self._candidates[kind] = found = candidates(self._stated, kind, self.backend)
            self._first.setdefault(kind, found[0])
        return self._candidates[kind]

    def _queue(self, kind: Kind, turn: int) -> list[Candidate]:
        """Return the candidates, those at the end that failed and whose turn has not come."""
        queue = self._found(kind)
        waiting = {name for (of, name), it in self._standings.items() if of is kind and it.next_turn > turn}
        return sorted(queue, key=lambda candidate: candidate.name in waiting) if waiting else queue

    def _succeeded(self, candidate: Candidate, kind: Kind) -> None:
        self._used.setdefault(candidate.name)
        standing = self._standings.get((kind, candidate.name))
        if standing is None:
            return
        if standing.successes == 0:
            self.notes.append(f"{candidate.name} answers again")
        standing.successes += 1
        if standing.successes > 2 ** (standing.failures + 1):
            del self._standings[kind, candidate.name]

    def _failed(
        self, candidate: Candidate, following: Candidate | None, kind: Kind, turn: int, reason: str
    ) -> None:
        """Note the failure; from `turn` on the candidate is passed over, as long as others answer."""
        standing = self._standings.setdefault((kind, candidate.name), Standing())
        wait = 2**standing.failures
        standing.failures += 1
        standing.next_turn = turn + wait - 1
        standing.successes = 0
        remedy = "none is left" if following is None else f"fell back to {following.name}"
        again = "asked again next time" if wait == 1 else f"asked again after {wait} reduced problems"
        self.notes.append(f"{candidate.name}: {reason}; {remedy}; {candidate.name} is {again}")

    def _try(
        self,
        candidate: Candidate,
        kind: Kind,
        bundle: Bundle,
        stabilization: Stabilization,
        accuracy: float,
    ) -> MasterSolution:
        key = (kind, candidate.name) if candidate.shared is None else candidate.shared
        start = clock()
        check_time()
        try:
            if key not in self._masters:
                self._masters[key] = candidate.build()
            master = self._masters[key]
            rows = self._rows.of(_readable(bundle, master))
            accuracy /= self._unit.height
            solution = master.solve(rows, self._unit.of_stabilization(stabilization), accuracy)
            if isinstance(solution, MasterSolution) and isinstance(solution.status, MasterStatus):
                return self._unit.back(solution, bundle)
            return _failure(
                f"it returned {type(solution).__name__}, not a MasterSolution with a MasterStatus"
            )
        except Exception as error:
            self._masters.pop(key, None)
            return _failure(f"{type(error).__name__}: {error}")
        finally:
            self.seconds += clock() - start

    def _fault(
        self, candidate: Candidate, solution: MasterSolution, bundle: Bundle, kind: Kind
    ) -> str | None:
        """Return what is wrong with an answer, as far as can be told without the objective."""
        if solution.status is MasterStatus.FAILED:
            return solution.message or "it failed"
        if solution.status is MasterStatus.UNBOUNDED and (kind or self.reduced.simple_set.bounded):
            return "it calls a reduced problem unbounded that is not"
        if solution.status is MasterStatus.INFEASIBLE and not candidate.exact:
            from cutplane.masters.conic.certificates import certify_infeasible

            rows = self._rows.of(bundle)
            proven = certify_infeasible(rows, self._stated.simple_set, self.reduced.dim)
            return None if proven else "it calls the reduced problem infeasible, which could not be certified"
        if solution.status is MasterStatus.SOLVED:
            return _wrong("minimiser", solution.x, self.reduced.dim) or _wrong(
                "vector of multipliers", solution.multipliers, len(bundle)
            )
        return None


def _names(found: list[Candidate]) -> list[str]:
    return [candidate.name for candidate in found]


def _readable(bundle: Bundle, master: Master) -> Rows:
    """Return the rows of the bundle, with dense slopes for a master that cannot read sparse ones."""
    if not sparse.issparse(bundle.slopes) or _reads_sparse(master):
        return bundle
    return SimpleNamespace(  # pyright: ignore[reportReturnType]
        slopes=bundle.slopes.toarray(), offsets=bundle.offsets, blocks=bundle.blocks, ids=bundle.ids
    )


def _reads_sparse(master: Master) -> bool:
    return isinstance(master, SparseReader) and master.sparse


def _failure(message: str) -> MasterSolution:
    return MasterSolution(None, None, MasterStatus.FAILED, message)


def _asked(complaint: Callable[[MasterSolution], str | None], solution: MasterSolution) -> str | None:
    try:
        return complaint(solution)
    except BackendError as error:
        return str(error)


def _wrong(what: str, vector: Any, size: int) -> str | None:
    """Return why something is not a finite vector of this size; None if it is."""
    if not isinstance(vector, np.ndarray) or vector.dtype.kind != "f":
        return f"its {what} is not an array of floats"
    if vector.shape != (size,):
        return f"its {what} has shape {vector.shape}, not {(size,)}"
    return None if np.isfinite(vector).all() else "the answer is not finite"
