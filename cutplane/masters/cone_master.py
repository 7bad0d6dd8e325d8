"""Reduced problems of any kind, solved by Clarabel directly or by other solvers through cvxpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import clarabel
import cvxpy as cp
import numpy as np
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.masters.backends import by_clarabel, tolerances
from cutplane.masters.base import (
    HALF_SPACE,
    Kind,
    Level,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.cone_programme import ConeProgramme, call
from cutplane.masters.rows import capacity_for, is_finite, objective_scale, row_factors
from cutplane.masters.units import far_from_unit, piece_in_unit, unit_of
from cutplane.pieces.capabilities import Capability, require
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time
from cutplane.sets.base import is_whole_space

_SLOPES = 64.0
"""Size to which slopes of cuts are scaled for Clarabel, because its tolerances are relative to 1 and gaps
should be smaller."""

_FEW_VARIABLES = 300
"""Largest dimension in which a programme that is not quadratic is compiled once, because compiling it with
parameters takes rows times dim^2 time and memory."""

_FEASIBLE = 1e-4
"""Violation of a half-space, relative to its terms, above which the dual form counts as unbounded, because
inaccurate solutions of feasible problems have smaller violations."""

_STEP = 16
"""Rows between two compilations of a dual form, because its matrix has one number per pair of rows."""

_solver: Any = clarabel


class CvxpyMaster:
    """Solves any reduced problem whose regularizer and simple set have cvxpy forms, by any backend of cvxpy.

    cvxpy compiles the problem again only when the number of rows has doubled, in a unit of x close to the
    size of solutions. If g and the prox term are a diagonal quadratic on the whole space, and there are fewer
    rows than coordinates, the dual problem is solved instead.

    Parameters
    ----------
    reduced : ReducedProblem
    backend : str
        A name of ``cvxpy.installed_solvers()``, in any case.
    options : mapping, optional
        Options of the backend, which override the options that make it accurate.

    Raises
    ------
    InvalidInputError
        If the backend is not installed.
    MissingCapabilityError
        If a piece has no method ``cvxpy_form``.
    """

    def __init__(self, reduced: ReducedProblem, backend: str, options: Mapping[str, Any] | None = None):
        installed = [name for name in cp.installed_solvers() if name.upper() == str(backend).upper()]
        if not installed:
            names = sorted(name.lower() for name in cp.installed_solvers())
            raise InvalidInputError(f"The backend {backend!r} is not installed; choose one of {names}.")
        for piece in (reduced.regularizer, reduced.simple_set):
            require(piece, Capability.CVXPY, type(self).__name__, "Give it a method cvxpy_form(x).")
        self.reduced = reduced
        self.name = installed[0].lower()
        self._backend, self._options = installed[0], dict(options or {})
        self._u = cp.Variable(reduced.dim)
        self._dual: MultiplierQP | None = None
        self._restate(1.0)

    def _restate(self, unit: float) -> None:
        """State g and X0 in the variable u = x / unit."""
        self._unit = unit
        self._stated: dict[Kind, ParametricProblem] = {}
        self._g, self._inside = (
            piece_in_unit(piece, unit).cvxpy_form(self._u)
            for piece in (self.reduced.regularizer, self.reduced.simple_set)
        )

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve, with the tightest tolerances if `accuracy` is 0.

        If the solution is far from the unit, the problem is solved again in another unit, because the
        tolerances of backends are relative to 1.
        """
        if np.unique(rows.blocks[rows.blocks != HALF_SPACE]).size < self.reduced.n_blocks:
            return MasterSolution(None, None, MasterStatus.UNBOUNDED, "a block of the risk has no cut")
        if not is_finite(rows):
            return MasterSolution(None, None, MasterStatus.FAILED, f"{self.name}: a row is not finite")
        settings = {**(tolerances(self._backend) if accuracy == 0.0 else {}), **self._options}
        quadratic = self._quadratic(stabilization) if rows.ids.size < self.reduced.dim else None
        if quadratic is not None and (found := self._by_multipliers(rows, quadratic, settings)) is not None:
            return found
        solution = self._solve(rows, stabilization, settings)
        size = 0.0 if solution.x is None else float(np.abs(solution.x).max(initial=0.0))
        if not far_from_unit(size, self._unit):
            return solution
        self._restate(unit_of(size))
        again = self._solve(rows, stabilization, settings)
        return solution if again.x is None else again

    def _quadratic(self, stabilization: Stabilization) -> DiagonalQuadratic | None:
        """Return g + prox as a diagonal quadratic on the whole space, with positive weights, or None."""
        reduced, form = self.reduced, self.reduced.quadratic
        if form is None or isinstance(stabilization, Level):
            return None
        if stabilization is not None:
            form += DiagonalQuadratic(np.full(reduced.dim, stabilization.weight), stabilization.centre)
        return form if form.is_strict and is_whole_space(reduced.simple_set, reduced.dim) else None

    def _by_multipliers(
        self, rows: Rows, quadratic: DiagonalQuadratic, settings: Mapping[str, Any]
    ) -> MasterSolution | None:
        """Solve max <r, m> - 1/2 m'Hm over multipliers m >= 0 of the rows with sum 1 over each block of cuts.

        With g(x) + prox = 1/2 sum_j w_j (x_j - c_j)^2 + constant, w > 0, and rows A x + b: H = A diag(1/w) A'
        and r = b + A c; the minimiser is x = c - A'm / w. Return None if the solve fails or x violates a
        half-space, because the reduced problem may then be infeasible.
        """
        slopes = rows.slopes
        factors = row_factors(slopes, rows.blocks, 1.0)
        r = (rows.offsets + slopes @ quadratic.centre) * factors
        cuts = rows.blocks != HALF_SPACE
        r[cuts] -= r[cuts].max()
        A = slopes * (factors[:, np.newaxis] / np.sqrt(quadratic.weights))
        H = A @ A.T
        scale = float(np.abs(r).max(initial=0.0)) or float(H.diagonal().max(initial=0.0)) or 1.0
        members = np.arange(self.reduced.n_blocks)[:, np.newaxis] == rows.blocks
        status, message, m = self._maximise(H / scale, r / scale, members, settings)
        if status is not MasterStatus.SOLVED or m is None or not np.isfinite(m).all():
            return None
        multipliers = m * factors
        x = quadratic.centre - (multipliers @ slopes) / quadratic.weights
        terms = np.abs(slopes) @ np.abs(x) + np.abs(rows.offsets)
        violated = (slopes @ x + rows.offsets > _FEASIBLE * terms) & ~cuts
        return None if violated.any() else MasterSolution(x, multipliers, status, message)

    def _maximise(
        self, H: Array, r: Array, members: Array, settings: Mapping[str, Any]
    ) -> tuple[MasterStatus, str, Array | None]:
        """Maximise <r, m> - 1/2 m'Hm over m >= 0 with sum 1 over each row of `members`."""
        if self._dual is None or not 0 <= self._dual.size - r.size < 2 * _STEP:
            self._dual = MultiplierQP(-(-r.size // _STEP) * _STEP, len(members))
        self._dual.fill(H, r, members)
        status, message = call(self._dual.problem, self._backend, settings, warm_start=False)
        m: Any = self._dual.m.value
        return status, message, None if m is None else m[: r.size]

    def _solve(self, rows: Rows, stabilization: Stabilization, settings: Mapping[str, Any]) -> MasterSolution:
        """Solve in the current unit of x."""
        kind = None if stabilization is None else type(stabilization)
        stated = self._stated.get(kind)
        if stated is None or rows.ids.size > stated.offsets.size:
            scale = objective_scale(rows.slopes, rows.offsets, rows.blocks) / self._unit
            stated = ParametricProblem(
                self._u, self._g, self._inside, self.reduced.n_blocks, kind, scale, rows
            )
            if rows.slopes[rows.blocks != HALF_SPACE].any():  # the scale of flat cuts is not typical
                self._stated[kind] = stated
        factors = self._factors(rows, stated.scale)
        stated.fill(rows, factors, self._unit, stabilization)
        status, message = call(stated.problem, self._backend, settings, ignore_dpp=stated.is_large)
        if status is not MasterStatus.SOLVED:
            return MasterSolution(None, None, status, message)
        duals: Any = stated.heights.dual_value
        duals = None if duals is None else duals[: factors.size]
        return self._answer(self._u.value, duals, factors / (1.0 if kind is Level else stated.scale), message)

    def _factors(self, rows: Rows, scale: float) -> Array:
        """Return the factors of the rows that belong to the factor `scale` of the objective."""
        factors = row_factors(rows.slopes, rows.blocks, scale)
        factors[rows.blocks == HALF_SPACE] /= self._unit
        return factors

    def _answer(self, u: Any, duals: Any, factors: Array, message: str) -> MasterSolution:
        if u is None or duals is None or not (np.isfinite(u).all() and np.isfinite(duals).all()):
            return MasterSolution(None, None, MasterStatus.FAILED, message or "no finite multipliers")
        return MasterSolution(self._unit * u, duals * factors, MasterStatus.SOLVED, message)


class ParametricProblem:
    """The reduced problem in u, with a fixed number of rows as parameters, which cvxpy compiles once.

    An unused row is 0 <= 1. Objective and rows are multiplied by `scale`.
    """

    def __init__(self, u: Any, g: Any, inside: Any, n_blocks: int, kind: Kind, scale: float, rows: Rows):
        size, self.scale = capacity_for(rows.ids.size), scale
        model = cp.Variable(n_blocks)
        self.slopes, self.offsets = cp.Parameter((size, u.size)), cp.Parameter(size)
        self.blocks = cp.Parameter((size, n_blocks))
        self.weight, self.linear, self.level = cp.Parameter(nonneg=True), cp.Parameter(u.size), cp.Parameter()
        self.heights = self.slopes @ u + self.offsets <= self.blocks @ model
        constraints, objective = [self.heights, *inside], cp.sum(model) + scale * g
        if kind is Prox:
            objective += 0.5 * self.weight * cp.sum_squares(u) - self.linear @ u
        elif kind is Level:
            constraints.append(objective <= self.level)
            objective = 0.5 * cp.sum_squares(u) - self.linear @ u
        self.problem = cp.Problem(cp.Minimize(objective), constraints)
        self.is_large = u.size > _FEW_VARIABLES and not self.problem.is_qp()

    def fill(self, rows: Rows, factors: Array, unit: float, stabilization: Stabilization) -> None:
        """Set the values of the parameters."""
        n_blocks, size = self.blocks.shape[1], self.offsets.size
        blocks = np.vstack([np.eye(n_blocks), np.zeros(n_blocks)])[rows.blocks]
        slopes, offsets = rows.slopes * (unit * factors[:, None]), rows.offsets * factors
        more = size - factors.size
        self.slopes.value = np.pad(slopes, ((0, more), (0, 0)))
        self.offsets.value = np.pad(offsets, (0, more), constant_values=-1.0)
        self.blocks.value = np.pad(blocks, ((0, more), (0, 0)))
        if isinstance(stabilization, Prox):
            weight = self.scale * stabilization.weight * unit
            self.weight.value, self.linear.value = weight * unit, weight * stabilization.centre
        elif isinstance(stabilization, Level):
            self.level.value, self.linear.value = (
                self.scale * stabilization.level,
                stabilization.centre / unit,
            )


class MultiplierQP:
    """min 1/2 m'Hm - <r, m> over m >= 0 with sum 1 over each block, which cvxpy compiles once per size.

    Unused entries of m have the cost 1, so that they are 0. The parameter is H and not a factor of it,
    because cvxpy takes much longer to compile the latter.
    """

    def __init__(self, size: int, n_blocks: int):
        self.size, self.m = size, cp.Variable(size)
        shapes: list[Any] = [(size, size), size, (n_blocks, size)]
        self._parameters = H, r, members = [cp.Parameter(shape) for shape in shapes]
        objective = 0.5 * cp.quad_form(self.m, cp.psd_wrap(H)) - r @ self.m
        self.problem = cp.Problem(cp.Minimize(objective), [self.m >= 0, members @ self.m == 1])

    def fill(self, H: Array, r: Array, members: Array) -> None:
        """Set the values of the parameters."""
        more = self.size - r.size
        wide = np.pad(members.astype(np.float64), ((0, 0), (0, more)))
        values = np.pad(H, (0, more)), np.pad(r, (0, more), constant_values=-1.0), wide
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.save_value(value)


class ConeMaster(CvxpyMaster):
    """Solves any reduced problem whose regularizer and simple set have cvxpy forms, by Clarabel itself.

    cvxpy compiles g over X0 once into a cone programme min 1/2 v'Pv + c'v subject to A v + s = b, s in K,
    where v contains x. A solve adds a column for the model of each block, a row for each cut and half-space,
    and the prox term to P and c. With a level constraint, one more column bounds g from above.

    Parameters
    ----------
    reduced : ReducedProblem
    options : mapping, optional
        Settings of Clarabel.

    Raises
    ------
    MissingCapabilityError
        If a piece has no method ``cvxpy_form``.
    InvalidInputError
        If an option is not a setting of Clarabel.
    """

    name = "clarabel"

    def __init__(self, reduced: ReducedProblem, options: Mapping[str, Any] | None = None):
        super().__init__(reduced, "CLARABEL", options)
        for name in self._options:
            if not hasattr(_solver.DefaultSettings(), name):
                raise InvalidInputError(f"Clarabel has no setting {name!r}; see clarabel.DefaultSettings.")

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        try:
            return super().solve(rows, stabilization, accuracy)
        except Exception as error:
            check_time()
            return MasterSolution(None, None, MasterStatus.FAILED, f"{type(error).__name__}: {error}")

    def _restate(self, unit: float) -> None:
        super()._restate(unit)
        self._programmes: dict[bool, ConeProgramme] = {}

    def _maximise(
        self, H: Array, r: Array, members: Array, settings: Mapping[str, Any]
    ) -> tuple[MasterStatus, str, Array | None]:
        sides = sparse.csc_array(sparse.vstack([sparse.csr_array(members), -sparse.eye_array(r.size)]))
        b = np.append(np.ones(len(members)), np.zeros(r.size))
        cones = [_solver.ZeroConeT(len(members)), _solver.NonnegativeConeT(r.size)]
        return by_clarabel(sparse.csc_array(np.triu(H)), -r, sides, b, cones, settings)[:3]

    def _solve(self, rows: Rows, stabilization: Stabilization, settings: Mapping[str, Any]) -> MasterSolution:
        """Solve the programme of g over X0 after adding models, rows and stabilisation."""
        with_level = isinstance(stabilization, Level)
        scale = _SLOPES * objective_scale(rows.slopes, rows.offsets, rows.blocks) / self._unit
        factors = self._factors(rows, scale)
        programme = self._programme(with_level)
        data, dim, first = programme.data, self._u.size, programme.columns[self._u.id]
        at = np.arange(first, first + dim)
        n_columns, own = data["c"].size, sparse.coo_array(data["A"])
        c = np.append(scale * data["c"], np.ones(self.reduced.n_blocks))
        where, columns = np.nonzero(rows.slopes)
        cuts = np.flatnonzero(rows.blocks != HALF_SPACE)
        start = data["b"].size
        entries = [
            (own.row, own.col, own.data),
            (start + where, at[columns], self._unit * rows.slopes[where, columns] * factors[where]),
            (start + cuts, n_columns + rows.blocks[cuts], np.full(cuts.size, -1.0)),
        ]
        b = np.append(data["b"], -factors * rows.offsets)
        if isinstance(stabilization, Level):
            entries.append((np.full(c.size, b.size), np.arange(c.size), c))
            b = np.append(b, scale * (stabilization.level - programme.constant))
            c = np.zeros(c.size)
        P = sparse.coo_array((1, 1)) if data.get("P") is None else sparse.coo_array(sparse.triu(data["P"]))
        curved = [(P.row, P.col, scale * P.data)]
        if stabilization is not None:
            weight = scale * stabilization.weight * self._unit**2 if isinstance(stabilization, Prox) else 1.0
            curved.append((at, at, np.full(dim, weight)))
            c[at] -= weight * (stabilization.centre / self._unit)
        cones = [*dims_to_solver_cones(data["dims"]), _solver.NonnegativeConeT(b.size - start)]
        P, A = _matrix(curved, c.size, c.size), _matrix(entries, b.size, c.size)
        status, message, v, z = by_clarabel(P, c, A, b, cones, settings)
        if status is not MasterStatus.SOLVED:
            return MasterSolution(None, None, status, message)
        factors = factors if with_level else factors / scale
        return self._answer(v[at], z[start:][: factors.size], factors, message)

    def _programme(self, with_level: bool) -> ConeProgramme:
        """Return g over X0, or an upper bound of g over X0, as a cone programme."""
        if with_level not in self._programmes:
            g, inside = self._g, self._inside
            if with_level:
                above = cp.Variable()
                g, inside = above, [g <= above, *inside]
            here = np.zeros(self.reduced.dim) @ self._u  # so that every coordinate of x has a column
            self._programmes[with_level] = ConeProgramme(
                cp.Problem(cp.Minimize(g + here), inside), "CLARABEL"
            )
        return self._programmes[with_level]


def _matrix(parts: list[tuple[Array, Array, Array]], n_rows: int, n_columns: int) -> Any:
    """Return a sparse matrix from parts (rows, columns, values)."""
    rows, columns, values = map(np.concatenate, zip(*parts, strict=True))
    return sparse.csc_array((values, (rows, columns)), shape=(n_rows, n_columns))
