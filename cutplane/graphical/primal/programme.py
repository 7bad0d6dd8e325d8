"""MAP inference by linear programmes over marginals, tightened by cuts, with bounds rounded down."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.graphical.factor_graph import BestLabelling, FactorGraph
from cutplane.graphical.primal.conflicts import Conflicts, forbidden_pairs, without_exclusions
from cutplane.graphical.primal.disagreement import Disagreements
from cutplane.graphical.primal.local_polytope import LocalPolytope
from cutplane.graphical.shifting import sum_rounded_down
from cutplane.masters.base import MasterStatus
from cutplane.masters.highs import DUAL_SIMPLEX, living_model, rerun
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import OutOfTime, limited_to
from cutplane.sets.base import HalfSpaces
from cutplane.status import Status

_EXACT = 1e-9
"""Gap or rise, relative to the costs, that counts as zero, because HiGHS is hardly more accurate."""
_ROUNDING = 1e-13
"""Gap relative to the sum of all costs that counts as closed, because rounding errors may be as large."""
_MAX_AGE = 20
"""Iterations after which an idle cut is dropped, because small linear programmes are fast."""
_PATIENCE = 30
"""Rounds of cuts without a rise before the end, because degenerate programmes may need some of them."""
_SLICE = 0.005
"""Seconds of the first part of a linear programme, because turns of a stage begin with as much. Each further
part takes twice as long, because it begins with a factorisation."""


class MarginalProgramme:
    """MAP inference by a linear programme over marginals.

    With tightening, binary pairwise models are solved over their `Disagreements`, because these have fewer
    variables. All others are solved over the `LocalPolytope`. Tightening adds violated cycle inequalities and
    local cuts. The first labelling has all variables in state 0, if that is allowed.

    Attributes
    ----------
    relaxation : Disagreements or LocalPolytope
    best : BestLabelling
    bound : float
    status : Status
        OPTIMAL if the bound is the least energy or the least value of the relaxation with all its cuts.
    reason : str
    n_cuts, separations : int
        The number of cuts in the programme, and of searches for cuts.
    """

    def __init__(
        self, model: FactorGraph, tighten: bool, labelling: Array | None = None, deadline: float = math.inf
    ):
        self.deadline = deadline
        compact = model.is_binary and model.is_pairwise and tighten
        self.relaxation = Disagreements(model) if compact else _marginals(model, tighten)
        self.best = BestLabelling(model, labelling)
        self.tighten = tighten
        self.bound = -math.inf
        self.status, self.reason = Status.INTERRUPTED, "the linear programme was not solved"
        self.n_cuts = self.separations = 0
        self._rounded: Array | None = None
        self._offer(np.zeros(model.n_variables, dtype=np.int64))

    def steps(self) -> Iterator[None]:
        """Solve the programme and add cuts; yield after each part; raise `TimeoutError` if late."""
        if self.relaxation.constant == math.inf:
            self._infeasible("propagation of the hard constraints excludes all labellings")
        elif self.relaxation.dim:
            yield from self._rounds()
        else:
            self._offer(self.relaxation.read(np.empty(0)))
            self._raise(0.0)
            self._end(Status.OPTIMAL, "no variables interact")
        yield

    def _rounds(self) -> Iterator[None]:
        relaxation, best = self.relaxation, self.best
        polyhedron: Any = relaxation.parts[0]
        programme = CutProgramme(polyhedron.linear_form(relaxation.dim), relaxation.cost)
        size = float(np.abs(relaxation.cost).sum())
        bounds = [-math.inf]
        while (x := (yield from self._minimiser(programme))) is not None:
            self._offer(relaxation.read(x))
            self._raise(programme.bound())
            bounds.append(self.bound)
            if best.energy - self.bound <= max(_EXACT * abs(self.bound), _ROUNDING * size):
                return self._end(Status.OPTIMAL, "the best labelling is optimal")
            if len(bounds) > _PATIENCE and not bounds[-1] - bounds[-1 - _PATIENCE] > _EXACT * size:
                return self._end(Status.STALLED, f"{_PATIENCE} rounds of cuts did not raise the bound")
            yield
            found = yield from self._separated(x)
            if found is None:
                return self._end(Status.OPTIMAL, "the linear programme is solved")
            if bounds[-1] - bounds[-2] > _EXACT * size:
                programme.drop_idle(_MAX_AGE)
            programme.add(found)
            self.n_cuts = len(programme)
        return None

    def _minimiser(self, programme: CutProgramme) -> Generator[None, None, Array | None]:
        """Solve the programme in parts; return None if there is no solution."""
        seconds = _SLICE
        while True:
            try:
                with limited_to(min(seconds, self.deadline - clock())):
                    status = programme.solve()
            except OutOfTime as error:
                self._check_time(str(error))
                seconds *= 2.0
                yield
                continue
            if status is MasterStatus.SOLVED:
                return programme.x
            if status is MasterStatus.INFEASIBLE and programme.is_empty():
                self._infeasible("the linear programme is infeasible")
            else:
                self._end(Status.STALLED, "HiGHS could not solve the linear programme")
            return None

    def _separated(self, x: Array) -> Generator[None, None, HalfSpaces | None]:
        """Return violated inequalities, None if there are none."""
        if not self.tighten:
            return None
        from cutplane.graphical.primal.marginal_cuts import CycleInequalities

        self.separations += 1
        for half_spaces in CycleInequalities(self.relaxation, local_cuts=True).kinds(x):
            self._check_time("the separation has not ended.")
            if half_spaces:
                return half_spaces
            yield
        return None

    def _check_time(self, message: str) -> None:
        if clock() > self.deadline:
            raise TimeoutError(message)

    def _offer(self, labelling: Array) -> None:
        """Improve a labelling by local search, and keep the best."""
        from cutplane.graphical.sweeps.decoding import local_search

        if self._rounded is None or not np.array_equal(labelling, self._rounded):
            self._rounded = labelling
            self.best.offer(local_search(self.best.model, labelling, self.deadline))

    def _raise(self, value: float) -> None:
        """Raise the bound, given a lower bound of the value of the linear programme."""
        bound = sum_rounded_down([self.relaxation.constant, value, -self.relaxation.rounding])
        self.bound = max(self.bound, min(bound, self.best.energy))

    def _infeasible(self, reason: str) -> None:
        self.bound = math.inf
        self._end(Status.INFEASIBLE, reason)

    def _end(self, status: Status, reason: str) -> None:
        self.status, self.reason = status, reason


def _marginals(model: FactorGraph, tighten: bool) -> LocalPolytope:
    """Return the local polytope; if it is tightened, without factors that cliques describe."""
    if not tighten:
        return LocalPolytope(model)
    conflicts = Conflicts(model.unaries.size, forbidden_pairs(model))
    return LocalPolytope(without_exclusions(model), conflicts=conflicts)


class CutProgramme:
    """min <cost, x> over a polyhedron and half-spaces, in one HiGHS model that continues from its basis."""

    def __init__(self, form: LinearForm, cost: Array):
        self._form, self._cost = form, cost
        self._scale = math.ldexp(1.0, -math.frexp(float(np.abs(cost).max(initial=0.0)))[1])
        self._model: Any = living_model(replace(form, cost=self._scale * cost), DUAL_SIMPLEX)
        self._normals = sparse.csr_array((0, cost.size))
        self._offsets = np.empty(0)
        self._ages = np.empty(0, dtype=np.int64)
        self.x = np.empty(cost.size)

    def __len__(self) -> int:
        return self._offsets.size

    def add(self, cuts: HalfSpaces) -> None:
        """Add half-spaces."""
        rows: Any = sparse.csr_array(cuts.normals)
        starts, columns = rows.indptr[:-1].astype(np.int32), rows.indices.astype(np.int32)
        lower = np.full(len(cuts), -np.inf)
        self._model.addRows(len(cuts), lower, cuts.offsets, rows.nnz, starts, columns, rows.data)
        self._normals = sparse.csr_array(sparse.vstack([self._normals, rows]))
        self._offsets = np.concatenate([self._offsets, cuts.offsets])
        self._ages = np.concatenate([self._ages, np.zeros(len(cuts), dtype=np.int64)])

    def drop_idle(self, age: int) -> None:
        """Drop the half-spaces whose multipliers were zero in more than the last `age` solutions."""
        old = np.flatnonzero(self._ages > age)
        if old.size:
            self._model.deleteRows(old.size, (self._form.row_lower.size + old).astype(np.int32))
            kept = np.flatnonzero(self._ages <= age)
            self._normals, self._offsets = self._normals[kept], self._offsets[kept]
            self._ages = self._ages[kept]

    def solve(self) -> MasterStatus:
        """Solve from the last basis, also if `OutOfTime` was raised before."""
        status, _ = rerun(self._model)
        if status is MasterStatus.SOLVED:
            solution = self._model.getSolution()
            self.x, self._duals = np.array(solution.col_value), np.array(solution.row_dual) / self._scale
            self._ages = np.where(self._duals[self._form.row_lower.size :] < 0.0, 0, self._ages + 1)
        return status

    def bound(self) -> float:
        """Return the bound that the multipliers of the last solution prove, valid for costs of any size."""
        return self._proven(self._cost, self._duals)

    def is_empty(self) -> bool:
        """Return whether the dual ray of HiGHS proves that there is no point."""
        _, exists, ray = self._model.getDualRay()
        return bool(exists) and self._proven(np.zeros_like(self._cost), np.array(ray)) > 0.0

    def _proven(self, cost: Array, duals: Array) -> float:
        n = self._form.row_lower.size
        return certified_minimum(self._form, cost, self._normals, self._offsets, -duals[n:], duals[:n])


_EPS = float(np.finfo(np.float64).eps)


def certified_minimum(
    form: LinearForm, cost: Array, normals: Any, offsets: Array, multipliers: Array, y: Array
) -> float:
    r"""Return a lower bound of <cost, x> over the intersection of a polyhedron and half-spaces.

    .. math:: -\langle \mu, b \rangle + \langle y, r \rangle
              + \sum_j \min_{l_j \le x_j \le u_j} (c + G^\top \mu - R^\top y)_j x_j

    for the half-spaces ``G x <= b``, the equations ``R x = r``, finite bounds, the positive ones of the
    multipliers mu, and any y. The error of each reduced cost is at most the number of its terms times the
    rounding unit times the sum of their sizes.
    """
    used = np.flatnonzero(multipliers > 0.0)
    normals, offsets, multipliers = normals[used], offsets[used], multipliers[used]
    y = np.where(np.isfinite(y), y, 0.0)
    rest, size, terms = cost.copy(), np.abs(cost), np.ones(cost.size)
    rows: Any = form.rows
    for matrix, weights in ((normals, multipliers), (rows, -y)):
        if weights.size:
            rest = rest + matrix.T @ weights
            size = size + abs(matrix).T @ np.abs(weights)
            terms = terms + (matrix != 0).T @ np.ones(weights.size)
    error = _EPS * (terms + 4.0) * size
    sides = np.minimum(form.lower * rest, form.upper * rest)
    lost = (error + 2.0 * _EPS * np.abs(rest)) * np.maximum(np.abs(form.lower), np.abs(form.upper))
    products = np.concatenate([-multipliers * offsets, y * form.row_lower, sides])
    lost = np.concatenate([lost, _EPS * np.abs(products[: -sides.size or None])])
    value = sum_rounded_down([*products.tolist(), *(-lost).tolist()])
    return value if not math.isnan(value) else -math.inf
