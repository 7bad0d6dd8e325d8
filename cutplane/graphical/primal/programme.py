"""MAP inference by linear programmes over marginals, tightened by cuts, with bounds rounded down."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any, NamedTuple

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
_SHARE = 0.1
"""Share of the gap of a part that a round of cuts must close for another round, because branching closes it
faster."""
_FRACTIONAL = 1e-6
"""Distance of a fractional entry from 0 and 1, because solvers of linear programmes err by less."""
_SLICE = 0.005
"""Seconds of the first part of a linear programme, because turns of a stage begin with as much. Each further
part takes twice as long, because it begins with a factorisation."""


class MarginalProgramme:
    """MAP inference by a linear programme over marginals.

    With tightening, binary pairwise models are solved over their `Disagreements`, because these have fewer
    variables. All others are solved over the `LocalPolytope`. Tightening adds violated inequalities of
    cycles, cliques and odd sets; if a gap remains, fractional entries are fixed to 0 and to 1. The first
    labelling has all variables in state 0, if that is allowed.

    Attributes
    ----------
    relaxation : Disagreements or LocalPolytope
    best : BestLabelling
    bound : float
    status : Status
        OPTIMAL if the bound is the least energy or, without tightening, the least value of the relaxation.
    reason : str
    n_cuts, separations, nodes : int
        The number of cuts in the programme, of searches for cuts, and of parts of the relaxation so far.
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
        self.n_cuts = self.separations = self.nodes = 0
        self._size = float(np.abs(self.relaxation.cost).sum())
        self._rounded: Array | None = None
        self._offer(np.zeros(model.n_variables, dtype=np.int64))

    def steps(self) -> Iterator[None]:
        """Solve the programme, add cuts, and branch; yield after each part; raise `TimeoutError` if late."""
        relaxation = self.relaxation
        if relaxation.constant == math.inf:
            bound = math.inf
        elif relaxation.dim:
            polyhedron: Any = relaxation.parts[0]
            programme = CutProgramme(polyhedron.linear_form(relaxation.dim), relaxation.cost)
            bound = yield from self._rounds(programme, _PATIENCE)
            if self.tighten:
                bound = yield from self._branches(programme, bound)
        else:
            self._offer(relaxation.read(np.empty(0)))
            bound = self._lifted(0.0)
        self.bound = max(self.bound, min(bound, self.best.energy))
        if bound == math.inf and self.best.energy == math.inf:
            self.bound, self.status, self.reason = math.inf, Status.INFEASIBLE, "no labelling is allowed"
        elif self._closes(bound):
            self.status, self.reason = Status.OPTIMAL, "the best labelling is optimal"
        elif not self.tighten and bound > -math.inf:
            self.status, self.reason = Status.OPTIMAL, "the linear programme is solved"
        else:
            self.status, self.reason = Status.STALLED, "HiGHS could not solve a linear programme"
        yield

    def _branches(self, programme: CutProgramme, bound: float) -> Generator[None, None, float]:
        """Fix fractional entries to 0 and to 1, first in the part with the least bound; return the bound."""
        rates = RiseRates(self.relaxation.n_decisive)
        nodes, settled = [RelaxationPart(bound, 0, -1, 0.0, {})], math.inf
        x = programme.x
        while nodes and not self._closes(nodes[0].bound):
            node = heappop(nodes)
            others = min(settled, nodes[0].bound) if nodes else settled
            if self.nodes:
                programme.fix(node.fixed)
                bound = yield from self._rounds(programme, 1, node.bound, others)
                rates.add(node, bound - node.bound)
                x = programme.x
            self.nodes += 1
            entries = self._fractional(x)
            if self._closes(bound) or not entries.size:
                settled = min(settled, bound)
                continue
            column = rates.choose(x, entries)
            for value in (0.0, 1.0):
                fixed = node.fixed | {column: value}
                distance = abs(value - float(x[column]))
                heappush(nodes, RelaxationPart(bound, 2 * self.nodes + int(value), column, distance, fixed))
        return min(settled, nodes[0].bound) if nodes else settled

    def _rounds(
        self,
        programme: CutProgramme,
        patience: int,
        bound: float = -math.inf,
        others: float = math.inf,
    ) -> Generator[None, None, float]:
        """Solve the programme and add cuts; return its bound, which is at least the given one.

        End if the given number of rounds has not closed a share of the gap. The other parts of the relaxation
        have the bound `others`.
        """
        bounds = [bound]
        while (solved := (yield from self._solved(programme))) is MasterStatus.SOLVED:
            n_fractional = self._fractional(programme.x).size
            # rounding a point takes longer than solving a part
            if self.nodes == 0 or n_fractional == 0:
                self._offer(self.relaxation.read(programme.x))
            bounds.append(max(bounds[-1], self._lifted(programme.bound())))
            self.bound = max(self.bound, min(bounds[-1], others, self.best.energy))
            if self._closes(bounds[-1]):
                break
            yield
            least = max(_SHARE * (self.best.energy - bounds[-1]), _EXACT * self._size)
            is_slow = len(bounds) > patience and not bounds[-1] - bounds[-1 - patience] > least
            if is_slow and n_fractional:
                break
            found = yield from self._separated(programme.x)
            if found is None:
                break
            if bounds[-1] - bounds[-2] > _EXACT * self._size:
                programme.drop_idle(_MAX_AGE)
            programme.add(found)
            self.n_cuts = len(programme)
        if solved is MasterStatus.INFEASIBLE and programme.is_empty():
            return math.inf
        return bounds[-1]

    def _fractional(self, x: Array) -> Array:
        x = x[: self.relaxation.n_decisive]
        return np.flatnonzero((x > _FRACTIONAL) & (x < 1.0 - _FRACTIONAL))

    def _solved(self, programme: CutProgramme) -> Generator[None, None, MasterStatus]:
        """Solve the programme in parts."""
        seconds = _SLICE
        while True:
            try:
                with limited_to(min(seconds, self.deadline - clock())):
                    return programme.solve()
            except OutOfTime as error:
                self._check_time(str(error))
            seconds *= 2.0
            yield

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

    def _lifted(self, value: float) -> float:
        """Return the bound of energies that a lower bound of the linear programme proves."""
        bound = sum_rounded_down([self.relaxation.constant, value, -self.relaxation.rounding])
        return self.best.model.energy_lattice.lifted(bound)

    def _closes(self, bound: float) -> bool:
        """Return whether labellings of this bound cannot be better than the best one."""
        gap = 0.0 if bound == math.inf else self.best.energy - bound
        return gap <= max(_EXACT * abs(bound), _ROUNDING * self._size)


class RelaxationPart(NamedTuple):
    """A part of the relaxation: a bound, its number, the last column that was fixed, by how much, and all."""

    bound: float
    number: int
    column: int
    distance: float
    fixed: dict[int, float]


class RiseRates:
    """The mean rise of the bound per distance if an entry is fixed to 0 or to 1."""

    def __init__(self, n_columns: int):
        self._sums, self._counts = np.zeros((2, n_columns)), np.zeros((2, n_columns))

    def add(self, node: RelaxationPart, rise: float) -> None:
        """Add the rise of a node, unless it is infinite."""
        if rise < math.inf:
            side = int(node.fixed[node.column])
            self._sums[side, node.column] += rise / node.distance
            self._counts[side, node.column] += 1.0

    def choose(self, x: Array, entries: Array) -> int:
        """Return the entry with the largest product of expected rises.

        Entries that have not been fixed have the mean rate of the others (Achterberg 2007, section 5.3,
        doi:10.14279/depositonce-1634).
        """
        sums, counts = self._sums[:, entries], self._counts[:, entries]
        mean = (1e-9 + self._sums.sum(axis=1)) / (1e-9 + self._counts.sum(axis=1))
        rates = np.where(counts > 0.0, sums / np.maximum(counts, 1.0), mean[:, None])
        down, up = rates * np.stack([x[entries], 1.0 - x[entries]]) + 1e-6 * mean[:, None]
        return int(entries[np.argmax(down * up)])


def _marginals(model: FactorGraph, tighten: bool) -> LocalPolytope:
    """Return the local polytope; if it is tightened, without factors that cliques describe."""
    if not tighten:
        return LocalPolytope(model)
    conflicts = Conflicts(model.unaries.size, forbidden_pairs(model))
    return LocalPolytope(without_exclusions(model), conflicts=conflicts)


class CutProgramme:
    """min <cost, x> over a polyhedron and half-spaces, in one HiGHS model that continues from its basis."""

    def __init__(self, form: LinearForm, cost: Array):
        self._free = self._form = form
        self._cost = cost
        exponent = math.frexp(float(np.abs(cost).max(initial=0.0)))[1]
        self._scale = math.ldexp(1.0, min(-exponent, 1023))
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

    def fix(self, columns: dict[int, float]) -> None:
        """Fix these entries of x, and no others."""
        numbers, values = np.array(list(columns), dtype=np.int32), np.array(list(columns.values()))
        lower, upper = self._free.lower.copy(), self._free.upper.copy()
        lower[numbers] = upper[numbers] = values
        changed = np.flatnonzero((lower != self._form.lower) | (upper != self._form.upper)).astype(np.int32)
        self._model.changeColsBounds(changed.size, changed, lower[changed], upper[changed])
        self._form = replace(self._free, lower=lower, upper=upper)

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
    multipliers, y = np.where(multipliers > 0.0, multipliers, 0.0), np.where(np.isfinite(y), y, 0.0)
    rest, size, terms = cost.copy(), np.abs(cost), np.ones(cost.size)
    for matrix, weights in ((normals, multipliers), (form.rows, -y)):
        matrix = sparse.csr_array(matrix)
        entries = matrix.data * np.repeat(weights, np.diff(matrix.indptr))
        rest += np.bincount(matrix.indices, entries, cost.size)
        size += np.bincount(matrix.indices, np.abs(entries), cost.size)
        terms += np.bincount(matrix.indices, entries != 0.0, cost.size)
    error = _EPS * (terms + 4.0) * size
    sides = np.minimum(form.lower * rest, form.upper * rest)
    lost = (error + 2.0 * _EPS * np.abs(rest)) * np.maximum(np.abs(form.lower), np.abs(form.upper))
    products = np.concatenate([-multipliers * offsets, y * form.row_lower, sides])
    lost = np.concatenate([lost, _EPS * np.abs(products[: -sides.size or None])])
    value = sum_rounded_down([*products.tolist(), *(-lost).tolist()])
    return value if not math.isnan(value) else -math.inf
