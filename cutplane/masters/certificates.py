"""Small convex problems with proofs from their dual points: inner minima, projections, infeasibility."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from cutplane.exceptions import BackendError, InfeasibleError
from cutplane.masters.base import HALF_SPACE, MasterStatus, Rows
from cutplane.masters.cone_programme import (
    BACKENDS,
    FAR,
    ConeProgramme,
    Outcome,
    attempted,
    call,
    solve_conic,
)
from cutplane.masters.rows import scaled
from cutplane.masters.units import far_from_unit, piece_in_unit, unit_of
from cutplane.pieces.capabilities import Capability, ask, require
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import row_sizes
from cutplane.regularizers.base import Minimum, Regularizer
from cutplane.regularizers.separable import NoRegularizer
from cutplane.sets.base import FeasibleSet, scale_of, size_of

_ENOUGH = 1e-6
"""Relative gap up to which no second backend is tried, because a smaller gap is not worth another solve."""
_TOO_FAR = 1e3
"""Size of a solution, in units, above which the unit changes, because auxiliary variables may be squares, and
a proof would need a bound of them."""
_ROUNDING = 1e-12
"""Violation relative to its terms from which infeasibility is proven, because a smaller one may be a rounding
error."""


class InnerMinimum:
    """v -> min over x in X0 of g(x) + <v, x>, for pairs of g and X0 without a closed form.

    The problem is compiled once; each call is one small solve by Clarabel, then by SCS if a gap remains. The
    value is the lower bound that `cutplane.masters.cone_programme.solve_conic` computes from the dual point.
    """

    def __init__(self, regularizer: Regularizer, simple_set: FeasibleSet, dim: int):
        for piece in (regularizer, simple_set):
            require(piece, Capability.CVXPY, "The certificate", "Give it a method cvxpy_form(x).")
        self._pieces = regularizer, simple_set
        self._largest, self._extent = size_of(simple_set, dim), 0.0
        self._x = cp.Variable(dim)
        self._budget = cp.Parameter()
        self._needs_budget = False
        self.solver_gap = 0.0
        """The gap between the value at the last minimiser and the returned bound."""
        self._compile(unit_of(scale_of(simple_set, dim)))

    def _compile(self, unit: float) -> None:
        """State the problem in a unit of x, because the tolerances of solvers are relative to 1."""
        self._unit = unit
        regularizer, simple_set = self._pieces
        height = abs(regularizer.value(np.full(self._x.size, unit)))
        self._height = height if math.isfinite(height) else 0.0
        g = piece_in_unit(regularizer, unit).cvxpy_form(self._x)
        objective = cp.Minimize(g + np.zeros(self._x.size) @ self._x)
        constraints = piece_in_unit(simple_set, unit).cvxpy_form(self._x)
        self._problems = (
            cp.Problem(objective, constraints),
            cp.Problem(objective, [*constraints, g <= self._budget]),
        )
        self._programmes: dict[tuple[str, bool], ConeProgramme] = {}

    def __call__(self, v: Array, budget: float = math.inf, extent: float = 0.0) -> Minimum:
        """Return the minimum; (-inf, None) if it is -inf or no backend could solve the problem.

        `budget` is an upper bound of g at the solution of the whole problem: if the minimum over X0 is -inf,
        this call and later ones minimise over {g <= budget}. `extent` is the size of this solution, or 0.
        """
        if far_from_unit(extent, self._unit) or extent > _TOO_FAR * self._unit:
            self._compile(unit_of(extent))
        self._extent = max(self._largest if self._largest < math.inf else 0.0, extent)
        least = self._evaluate(v, budget)
        size = 0.0 if least.x is None else float(np.abs(least.x).max())
        if not far_from_unit(size, self._unit) or size < extent:
            return least
        solver_gap = self.solver_gap
        self._compile(unit_of(size))
        again = self._evaluate(v, budget)
        if again.value >= least.value:
            return again
        self.solver_gap = solver_gap
        return least

    def _evaluate(self, v: Array, budget: float) -> Minimum:
        """Solve with the objective in the unit of v; if a gap remains, then in the unit of g."""
        size = self._unit * float(np.abs(v).max(initial=0.0))
        best, solver_gap = self._scaled(v, budget, size or self._height), self.solver_gap
        enough = math.isfinite(best.value) and solver_gap <= _ENOUGH * max(abs(best.value), size)
        if self._height > size > 0.0 and not enough:
            again = self._scaled(v, budget, self._height)
            if again.value > best.value:
                return again
        self.solver_gap = solver_gap
        return best

    def _scaled(self, v: Array, budget: float, size: float) -> Minimum:
        scale = math.ldexp(1.0, -math.frexp(size)[1])
        linear, within = scale * self._unit * v, math.isfinite(budget)
        best = None
        if not (within and self._needs_budget):
            best = self._minimum(scale, linear, None)
            self._needs_budget = best.value == -math.inf
        if within and self._needs_budget:
            best = self._minimum(scale, linear, budget)
        assert best is not None
        self.solver_gap /= scale
        return Minimum(best.value / scale, None if best.x is None else self._unit * best.x)

    def _minimum(self, scale: float, v: Array, budget: float | None) -> Minimum:
        """Return the minimum of scale * g(u) + <v, u>, over {g(u) <= budget} if `budget` is given."""
        best = Minimum(-math.inf, None)
        self.solver_gap = 0.0
        for backend in BACKENDS:
            outcome = attempted(lambda backend=backend: self._solved(backend, scale, v, budget))
            if outcome.status in (cp.UNBOUNDED, cp.UNBOUNDED_INACCURATE):
                break
            if outcome.status != cp.OPTIMAL and self._extent == 0.0:
                continue  # the bound holds only near a minimum, which was not found
            if outcome.x is not None and outcome.bound > best.value:
                best = Minimum(outcome.bound, outcome.x)
                self.solver_gap = max(0.0, outcome.value - outcome.bound)
            gap = abs(outcome.value - outcome.bound)  # an inaccurate point may be far from the minimiser
            if outcome.status == cp.OPTIMAL and gap <= _ENOUGH * (1.0 + abs(outcome.value)):
                break
        return best

    def _solved(self, backend: str, scale: float, v: Array, budget: float | None) -> Outcome:
        within = budget is not None
        programme = self._programmes.get((backend, within))
        if programme is None:
            side = self._budget if within else None
            programme = ConeProgramme(self._problems[within], backend, side)
            self._programmes[backend, within] = programme
        solved = programme.solve_with(scale, self._x, v, budget or 0.0)
        return solved.outcome(self._x, max(1.0, self._extent / self._unit))


class ConicProjection:
    """x -> the Euclidean projection of x onto a set that has only a cvxpy form; compiled once."""

    def __init__(self, simple_set: FeasibleSet, dim: int):
        require(
            simple_set, Capability.CVXPY, "The projection", "Give it a method project(x) or cvxpy_form(x)."
        )
        self.simple_set = simple_set
        self._x = cp.Variable(dim)
        self._unit = 0.0
        self._programmes: dict[str, ConeProgramme] = {}

    def __call__(self, x: Array) -> Array:
        """Return the projection of x, up to about 1e-9 of its size; x itself if it is inside."""
        violation = self.simple_set.violation(x)
        if violation <= 0.0:
            return x.copy()
        size = max(float(np.abs(x).max()), violation if math.isfinite(violation) else 0.0)
        if not self._unit or far_from_unit(size, self._unit):
            self._unit = unit_of(size)
            inside = piece_in_unit(self.simple_set, self._unit).cvxpy_form(self._x)
            self._problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(self._x)), inside)
            self._programmes = {}
        for backend in BACKENDS:
            outcome = attempted(lambda backend=backend: self._solved(backend, -x / self._unit))
            if outcome.x is not None:
                return self._unit * outcome.x
            if outcome.bound == math.inf:
                raise InfeasibleError(f"{self.simple_set!r} is empty; relax its constraints.")
        raise BackendError(
            f"No point could be projected on {self.simple_set!r}; check that the set is not empty, "
            "and that its constraints are well scaled."
        )

    def _solved(self, backend: str, v: Array) -> Outcome:
        if backend not in self._programmes:
            self._programmes[backend] = ConeProgramme(self._problem, backend)
        return self._programmes[backend].solve_with(1.0, self._x, v).outcome(self._x)


def is_nowhere_finite(terms: Sequence[Any], simple_set: Any, dim: int) -> bool:
    """Tell whether it is proven that a sum of terms is inf on a whole set; all have cvxpy forms."""
    x = cp.Variable(dim)
    whole = cp.Problem(cp.Minimize(sum(term.cvxpy_form(x) for term in terms)), simple_set.cvxpy_form(x))
    return any(solve_conic(whole, x, backend).bound == math.inf for backend in BACKENDS)


def certify_infeasible(rows: Rows, simple_set: FeasibleSet, dim: int) -> bool:
    """Tell whether it is proven that the half-spaces among `rows` and the simple set have no common point.

    The largest violation of a half-space is minimised over X0; its multipliers mu (clipped at 0) are a proof
    if

        <offsets, mu> + min over x in X0 of <slopes' mu, x>  >  0.

    If this minimum is -inf because X0 is unbounded, it is replaced by ``-R ||slopes' mu||_1``, which proves
    that no common point has ``||x||_inf <= R``. Here R is 1e6 times the largest distance of a half-space's
    boundary from zero, at least 1e6. The same is proven if X0 is empty.

    False if there is a common point or no proof, for example because the set has no cvxpy form.
    """
    x, worst = cp.Variable(dim), cp.Variable()
    inside = ask(simple_set, Capability.CVXPY, x)
    if inside is None:
        return False
    mine = rows.blocks == HALF_SPACE
    sizes = row_sizes(rows.slopes[mine])
    sizes[sizes == 0.0] = 1.0
    slopes, offsets = scaled(rows.slopes[mine], 1.0 / sizes), rows.offsets[mine] / sizes
    violation = slopes @ x + offsets <= worst
    constraints = [worst >= -1.0, *inside]
    problem = cp.Problem(cp.Minimize(worst), [violation, *constraints] if offsets.size else constraints)
    status, _ = call(problem, "CLARABEL", {})
    if status is MasterStatus.INFEASIBLE:
        return solve_conic(problem, x, "CLARABEL").bound == math.inf
    if status is not MasterStatus.SOLVED or not offsets.size:
        return False
    mu = np.maximum(violation.dual_value, 0.0)
    v, nothing = mu @ slopes, NoRegularizer()
    least = (nothing.conjugate_minimiser(v, simple_set) or InnerMinimum(nothing, simple_set, dim)(v)).value
    if not math.isfinite(least):
        least = -FAR * max(1.0, float(np.abs(offsets).max())) * float(np.abs(v).sum())
    return bool(offsets @ mu + least > _ROUNDING * (np.abs(offsets) @ mu))
