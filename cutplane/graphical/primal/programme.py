"""MAP inference by linear programmes over marginals, tightened by cuts, with bounds rounded down."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.bundle import Bundle
from cutplane.engine.history import State
from cutplane.exceptions import BackendError
from cutplane.graphical.factor_graph import FactorGraph
from cutplane.graphical.primal.conflicts import Conflicts, forbidden_pairs, without_exclusions
from cutplane.graphical.primal.disagreement import Disagreements
from cutplane.graphical.primal.local_polytope import LocalPolytope
from cutplane.graphical.primal.marginal_cuts import Rounding
from cutplane.graphical.shifting import sum_rounded_down
from cutplane.masters.base import HALF_SPACE, MasterStatus, ReducedProblem
from cutplane.masters.highs import PRIMAL_SIMPLEX, living_model, rerun
from cutplane.methods.kelley import Kelley
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.problem import Problem
from cutplane.regularizers.separable import NoRegularizer
from cutplane.risks.sums import LinearObjective
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import OutOfTime, limited_to
from cutplane.status import Status
from cutplane.stopping import Stop, StoppingRule

if TYPE_CHECKING:
    from cutplane.engine.driver import Driver
    from cutplane.result import Result


_EXACT = 1e-9
"""Gap or rise, relative to the costs, that counts as zero, because the backend is hardly more accurate."""
_ROUNDING = 1e-13
"""Gap relative to the sum of all costs that counts as closed, because rounding errors may be as large."""
_MAX_AGE = 20
"""Iterations after which an idle cut is dropped, because small linear programmes are fast."""
_PATIENCE = 30
"""Rounds of cuts without a rise before the end, because degenerate programmes may need some of them."""
_END: Any = object()


class MarginalProgramme:
    """MAP inference by a linear programme over marginals.

    With tightening, binary pairwise models are solved over their `Disagreements`, because these have fewer
    variables. All others are solved over the `LocalPolytope`. Tightening adds violated cycle inequalities and
    local cuts.
    """

    def __init__(
        self, model: FactorGraph, tighten: bool, labelling: Array | None = None, deadline: float = math.inf
    ):
        self.deadline = deadline
        compact = model.is_binary and model.is_pairwise and tighten
        self.relaxation = Disagreements(model) if compact else _marginals(model, tighten)
        self.rounding = Rounding(model, self.relaxation)
        self.rounding.offer(labelling)
        self.tighten = tighten
        self.bound = -math.inf
        self.status, self.reason = Status.INTERRUPTED, "the linear programme was not solved"
        self.driver: Driver[Result] | None = None

    def steps(self) -> Iterator[State | None]:
        """Yield the engine's state after each iteration, None without one; raise `TimeoutError` if late."""
        steps = self._steps()
        while True:
            try:
                with limited_to(self.deadline - clock()):
                    state = next(steps, _END)
            except OutOfTime as error:
                raise TimeoutError(str(error)) from error
            if state is _END:
                return
            yield state

    def _steps(self) -> Iterator[Any]:
        relaxation, rounding = self.relaxation, self.rounding
        x0 = self._start()
        if x0 is None:
            yield None
            return
        polyhedron: Any = relaxation.parts[0]
        feasible_set = polyhedron
        if self.tighten:
            from cutplane.graphical.primal.marginal_cuts import CycleInequalities

            feasible_set &= CycleInequalities(relaxation, rounding, local_cuts=True, deadline=self.deadline)
        problem = Problem(LinearObjective(relaxation.cost), feasible_set=feasible_set)
        size = float(np.abs(relaxation.cost).sum())
        form: LinearForm = polyhedron.linear_form(relaxation.dim)
        best_bound = -math.inf
        self.driver = problem.iterate(
            Kelley(max_age=_MAX_AGE),
            "highs",
            tol=_EXACT,
            tol_abs=_ROUNDING * size,
            x0=x0,
            stop=_EnergyGap(rounding, relaxation.constant) | _NoRise(_EXACT * size),
        )
        for state in self.driver:
            stop = self.driver.stop
            if stop is not None:
                self.status, self.reason = stop.status, stop.reason
                if state.x is not None:
                    rounding(state.x)
            if self.status is Status.INFEASIBLE:
                self.bound = math.inf
            elif state.lower_bound > best_bound:
                best_bound = state.lower_bound
                self.bound = max(self.bound, min(self._certified(form), rounding.energy))
            yield state

    def _certified(self, form: LinearForm) -> float:
        """Return the bound that the present multipliers prove, valid for costs of any size."""
        assert self.driver is not None
        process: Any = self.driver.process
        run, relaxation = process.run, self.relaxation
        (slopes, offsets, blocks, _, multipliers), *_ = run.bundle.evidence(run.proof)
        half = blocks == HALF_SPACE
        value = certified_minimum(
            form, relaxation.cost, slopes[half], offsets[half], multipliers[half], run.set_multipliers
        )
        return sum_rounded_down([relaxation.constant, value, -relaxation.rounding])

    def _start(self) -> Array | None:
        """Return a point of the relaxation, or None if nothing remains to be solved."""
        relaxation, rounding = self.relaxation, self.rounding
        if relaxation.constant == math.inf:
            self._infeasible("propagation of the hard constraints excludes all labellings")
            return None
        if not relaxation.dim:
            rounding.offer(relaxation.read(np.empty(0)))
            lowest = sum_rounded_down([relaxation.constant, -relaxation.rounding])
            self.bound, self.status = min(lowest, rounding.energy), Status.OPTIMAL
            self.reason = "no variables interact"
            return None
        if math.isfinite(rounding.energy):
            return relaxation.embed(rounding.labelling)
        vertex = _vertex(relaxation)
        if vertex is None:
            self._infeasible("the local polytope is empty")
        return vertex

    def _infeasible(self, reason: str) -> None:
        self.bound, self.status, self.reason = math.inf, Status.INFEASIBLE, reason


@dataclass(frozen=True)
class _EnergyGap(StoppingRule):
    """Stops when the best labelling is proven optimal."""

    rounding: Rounding
    constant: float

    def __call__(self, state: State) -> Stop | None:
        gap = self.rounding.energy - (state.lower_bound + self.constant)
        return Stop(Status.OPTIMAL, "the best labelling is optimal") if gap <= 0.0 else None


@dataclass(frozen=True)
class _NoRise(StoppingRule):
    """Stops when many rounds of cuts have not raised the bound."""

    least: float
    bounds: list[float] = field(default_factory=list)

    def __call__(self, state: State) -> Stop | None:
        self.bounds.append(state.lower_bound)
        if len(self.bounds) <= _PATIENCE or self.bounds[-1] - self.bounds[-1 - _PATIENCE] > self.least:
            return None
        return Stop(Status.STALLED, f"{_PATIENCE} rounds of cuts did not raise the bound")


def _marginals(model: FactorGraph, tighten: bool) -> LocalPolytope:
    """Return the local polytope; if it is tightened, without factors that cliques describe."""
    if not tighten:
        return LocalPolytope(model)
    conflicts = Conflicts(model.unaries.size, forbidden_pairs(model))
    return LocalPolytope(without_exclusions(model), conflicts=conflicts)


def _vertex(relaxation: Disagreements | LocalPolytope) -> Array | None:
    """Return a point of least cost in the relaxation; None if the relaxation is proven to be empty."""
    from cutplane.masters.certificates import certify_infeasible
    from cutplane.masters.highs import HighsMaster

    dim, polyhedron = relaxation.cost.size, relaxation.parts[0]
    objective = Bundle(dim, 1)
    objective.add(0, None, relaxation.cost[None], np.zeros(1), [0])
    solution = HighsMaster(ReducedProblem(dim, 1, NoRegularizer(), polyhedron)).solve(objective)
    if solution.status is MasterStatus.INFEASIBLE and certify_infeasible(objective, polyhedron, dim):
        return None
    if solution.x is None:
        raise BackendError(
            f"No backend could solve the linear programme over {relaxation!r}: {solution.message}."
        )
    return solution.x


_EPS = float(np.finfo(np.float64).eps)


def certified_minimum(
    form: LinearForm, cost: Array, normals: Any, offsets: Array, multipliers: Array, y: Array | None
) -> float:
    r"""Return a lower bound of <cost, x> over the intersection of a polyhedron and half-spaces.

    .. math:: \langle \mu, b \rangle + \langle y, r \rangle
              + \sum_j \min_{l_j \le x_j \le u_j} (c + G^\top \mu - R^\top y)_j x_j

    for the half-spaces ``G x + b <= 0``, the equations ``R x = r``, finite bounds, nonnegative multipliers mu
    and any y. If y is None, a linear programme computes it. The error of each reduced cost is at most the
    number of its terms times the rounding unit times the sum of their sizes.
    """
    used = np.flatnonzero(multipliers > 0.0)
    normals, offsets, multipliers = normals[used], offsets[used], multipliers[used]
    if y is None:
        y = _row_multipliers(form, cost + normals.T @ multipliers)
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
    products = np.concatenate([multipliers * offsets, y * form.row_lower, sides])
    lost = np.concatenate([lost, _EPS * np.abs(products[: -sides.size or None])])
    value = sum_rounded_down([*products.tolist(), *(-lost).tolist()])
    return value if not math.isnan(value) else -math.inf


def _row_multipliers(form: LinearForm, cost: Array) -> Array:
    """Return the multipliers of the equations at a minimum of <cost, x>; 0 if none is found."""
    if not form.row_lower.size:
        return np.empty(0)
    scale = math.ldexp(1.0, -math.frexp(float(np.abs(cost).max(initial=0.0)))[1])
    model = living_model(replace(form, cost=scale * cost), PRIMAL_SIMPLEX)
    if rerun(model)[0] is not MasterStatus.SOLVED:
        return np.zeros(form.row_lower.size)
    return np.array(model.getSolution().row_dual) / scale
