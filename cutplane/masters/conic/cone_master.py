"""Reduced problems of any cones by Clarabel: cuts are added to a cone programme that is compiled once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import clarabel
import cvxpy as cp
import numpy as np
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.masters.base import (
    HALF_SPACE,
    Level,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.conic.call import timed, tolerances
from cutplane.masters.conic.cone_programme import ConeProgramme
from cutplane.masters.rows import is_finite, objective_scale, row_factors
from cutplane.masters.units import far_from_unit, piece_in_unit, unit_of
from cutplane.pieces.capabilities import Capability, require
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

_SLOPES = 64.0
"""Size to which slopes of cuts are scaled, because tolerances are relative to 1 and gaps are smaller."""

_STATUSES = {
    "Solved": (MasterStatus.SOLVED, ""),
    "AlmostSolved": (MasterStatus.SOLVED, "clarabel: optimal_inaccurate"),
    "PrimalInfeasible": (MasterStatus.INFEASIBLE, "clarabel: infeasible"),
    "AlmostPrimalInfeasible": (MasterStatus.INFEASIBLE, "clarabel: infeasible_inaccurate"),
    "DualInfeasible": (MasterStatus.UNBOUNDED, "clarabel: unbounded"),
    "AlmostDualInfeasible": (MasterStatus.UNBOUNDED, "clarabel: unbounded_inaccurate"),
}

_solver: Any = clarabel


class ConeMaster:
    """Solves any reduced problem whose regularizer and simple set have cvxpy forms, by Clarabel itself.

    cvxpy states g over X0 once, as the cone programme min 1/2 v'Pv + c'v subject to A v + s = b, s in K, with
    x among the columns v. A solve adds a column for the model of each block, a row for each cut and
    half-space, and the prox term to P and c. With a level constraint g is below a column of its own. The
    programme is stated in x / unit, and again where a solution is far from the unit.

    Parameters
    ----------
    reduced : ReducedProblem
    options : mapping, optional
        Settings of Clarabel, on top of tolerances that make it accurate.

    Raises
    ------
    MissingCapabilityError
        If a piece has no method ``cvxpy_form``.
    InvalidInputError
        If Clarabel has no setting of a name.
    """

    name = "clarabel"

    def __init__(self, reduced: ReducedProblem, options: Mapping[str, Any] | None = None):
        for piece in (reduced.regularizer, reduced.simple_set):
            require(piece, Capability.CVXPY, "ConeMaster", "Give it a method cvxpy_form(x).")
        self.reduced = reduced
        self._options = dict(options or {})
        for name in self._options:
            if not hasattr(_solver.DefaultSettings(), name):
                raise InvalidInputError(f"Clarabel has no setting {name!r}; see clarabel.DefaultSettings.")
        self._x = cp.Variable(reduced.dim)
        self._restate(1.0)

    def _restate(self, unit: float) -> None:
        self._unit = unit
        self._programmes: dict[bool, ConeProgramme] = {}

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve, with tighter tolerances if `accuracy` is 0, which is asked for when nothing else helps."""
        if np.unique(rows.blocks[rows.blocks != HALF_SPACE]).size < self.reduced.n_blocks:
            return MasterSolution(None, None, MasterStatus.UNBOUNDED, "a block of the risk has no cut")
        if not is_finite(rows):
            return MasterSolution(None, None, MasterStatus.FAILED, "clarabel: a row is not finite")
        settings = {**(tolerances("CLARABEL") if accuracy == 0.0 else {}), **self._options}
        solution = self._attempt(rows, stabilization, settings)
        size = 0.0 if solution.x is None else float(np.abs(solution.x).max(initial=0.0))
        if not far_from_unit(size, self._unit):
            return solution
        self._restate(unit_of(size))
        again = self._attempt(rows, stabilization, settings)
        return solution if again.x is None else again

    def _attempt(
        self, rows: Rows, stabilization: Stabilization, settings: Mapping[str, Any]
    ) -> MasterSolution:
        """Solve in the present unit, without an exception except `OutOfTime`."""
        try:
            return self._solve(rows, stabilization, settings)
        except Exception as error:
            check_time()
            return MasterSolution(None, None, MasterStatus.FAILED, f"{type(error).__name__}: {error}")

    def _solve(self, rows: Rows, stabilization: Stabilization, settings: Mapping[str, Any]) -> MasterSolution:
        unit, with_level = self._unit, isinstance(stabilization, Level)
        programme = self._programme(with_level)
        scale = _SLOPES * objective_scale(rows.slopes, rows.offsets, rows.blocks) / unit
        factors = row_factors(rows.slopes, rows.blocks, scale)
        factors[rows.blocks == HALF_SPACE] /= unit
        P, c, A, b = self._with_rows(programme, rows, stabilization, scale, factors)
        before = programme.data["b"].size
        cones = [*dims_to_solver_cones(programme.data["dims"]), _solver.NonnegativeConeT(b.size - before)]
        check_time()
        chosen = _solver.DefaultSettings()
        chosen.verbose = False
        for name, value in timed("CLARABEL", settings).items():
            setattr(chosen, name, value)
        answer = _solver.DefaultSolver(P, c, A, b, cones, chosen).solve()
        failed = MasterStatus.FAILED, f"clarabel: {answer.status}"
        status, message = _STATUSES.get(str(answer.status), failed)
        if status is not MasterStatus.SOLVED:
            check_time()
            return MasterSolution(None, None, status, message)
        x, z = np.array(answer.x)[programme.columns[self._x.id] :], np.array(answer.z)[before:]
        x, z = x[: self._x.size], z[: factors.size]
        if not (np.isfinite(x).all() and np.isfinite(z).all()):
            return MasterSolution(None, None, MasterStatus.FAILED, message or "no finite multipliers")
        return MasterSolution(unit * x, z * factors / (1.0 if with_level else scale), status, message)

    def _with_rows(
        self, programme: ConeProgramme, rows: Rows, stabilization: Stabilization, scale: float, factors: Array
    ) -> tuple[Any, Array, Any, Array]:
        """Return the numbers of the programme with models, rows and stabilisation; of P a triangle."""
        data, dim, first = programme.data, self._x.size, programme.columns[self._x.id]
        c = np.append(scale * data["c"], np.ones(self.reduced.n_blocks))
        added = [_cuts(rows, self._unit * factors, first, data["c"].size)]
        sides = [-factors * rows.offsets]
        curvature = data.get("P")
        triangle = sparse.coo_array((1, 1) if curvature is None else scale * sparse.triu(curvature))
        if isinstance(stabilization, Level):
            added.append((np.zeros(c.size, dtype=int), np.arange(c.size), c))
            sides.append(np.array([scale * (stabilization.level - programme.constant)]))
            c = np.zeros(c.size)
        curved = [triangle.row], [triangle.col], [triangle.data]
        if stabilization is not None:
            weight = 1.0
            if isinstance(stabilization, Prox):
                weight = scale * stabilization.weight * self._unit**2
            at = np.arange(first, first + dim)
            for part, more in zip(curved, (at, at, np.full(dim, weight)), strict=True):
                part.append(more)
            c[at] -= weight * (stabilization.centre / self._unit)
        P = _matrix(curved, c.size, c.size)
        A = _matrix(_below(data["A"], added, sides), data["b"].size + sum(map(len, sides)), c.size)
        return P, c, A, np.concatenate([data["b"], *sides])

    def _programme(self, with_level: bool) -> ConeProgramme:
        """Return g over X0, or a column above g over X0, as a cone programme."""
        if with_level not in self._programmes:
            g, inside = (
                piece_in_unit(piece, self._unit).cvxpy_form(self._x)
                for piece in (self.reduced.regularizer, self.reduced.simple_set)
            )
            here = np.zeros(self.reduced.dim) @ self._x  # so that all of x has columns
            if with_level:
                above = cp.Variable()
                problem = cp.Problem(cp.Minimize(above + here), [g <= above, *inside])
            else:
                problem = cp.Problem(cp.Minimize(g + here), inside)
            self._programmes[with_level] = ConeProgramme(problem, "CLARABEL")
        return self._programmes[with_level]


def _cuts(rows: Rows, factors: Array, first: int, n_columns: int) -> tuple[Array, Array, Array]:
    """Return the entries of the rows: slopes at the columns of x, -1 at the model of the block of a cut."""
    where, columns = np.nonzero(rows.slopes)
    cuts = np.flatnonzero(rows.blocks != HALF_SPACE)
    return (
        np.append(where, cuts),
        np.append(first + columns, n_columns + rows.blocks[cuts]),
        np.append(rows.slopes[where, columns] * factors[where], np.full(cuts.size, -1.0)),
    )


def _below(
    A: Any, added: list[tuple[Array, Array, Array]], sides: list[Array]
) -> tuple[list[Array], list[Array], list[Array]]:
    """Return rows, columns and values of A and of the parts below it."""
    own, start = sparse.coo_array(A), A.shape[0]
    found = [own.row], [own.col], [own.data]
    for (rows, columns, values), side in zip(added, sides, strict=True):
        for part, more in zip(found, (start + rows, columns, values), strict=True):
            part.append(more)
        start += side.size
    return found


def _matrix(parts: tuple[list[Array], list[Array], list[Array]], n_rows: int, n_columns: int) -> Any:
    """Return a matrix of rows, columns and values, each in parts."""
    rows, columns, values = map(np.concatenate, parts)
    return sparse.csc_array((values, (rows, columns)), shape=(n_rows, n_columns))
