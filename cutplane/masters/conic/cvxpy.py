"""Reduced problems of any kind, through cvxpy, by any backend it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
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
from cutplane.masters.conic.call import call, tolerances
from cutplane.masters.rows import capacity_for, is_finite, objective_scale, row_factors
from cutplane.masters.units import far_from_unit, piece_in_unit, unit_of
from cutplane.pieces.capabilities import Capability, require
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.sets.base import is_whole_space

_FEW_VARIABLES = 300  # up to which size * dim^2 is a few millions for a pool of some dozens
_FIRST = 16  # places of the first pool, and rows between two compilations of the dual form
_FEASIBLE = 1e-4  # what an inaccurate backend violates, relative to the terms, in a problem that is feasible


class CvxpyMaster:
    """Solves any reduced problem whose regularizer and simple set have cvxpy forms.

    The problem is compiled once for a pool of parametrised rows that doubles, and re-solved warm. For a
    diagonal quadratic on the whole space (L2, or any such g with a prox term) with fewer rows than variables,
    the dual over the multipliers is solved instead, because that is ten times faster at 1,000 variables.
    The options are passed to the backend, on top of defaults that make it accurate.
    """

    def __init__(self, reduced: ReducedProblem, backend: str, options: Mapping[str, Any] | None = None):
        installed = [name for name in cp.installed_solvers() if name.upper() == str(backend).upper()]
        if not installed:
            names = sorted(name.lower() for name in cp.installed_solvers())
            raise InvalidInputError(f"The backend {backend!r} is not installed; choose one of {names}.")
        for piece in (reduced.regularizer, reduced.simple_set):
            require(piece, Capability.CVXPY, "CvxpyMaster", "Give it a method cvxpy_form(x).")
        self.reduced = reduced
        self.name = installed[0].lower()
        self.problems: dict[Kind, StabilisedProblem] = {}
        self._backend, self._options = installed[0], dict(options or {})
        self._unit = 1.0
        self._pool: Pool | None = None
        self._dual = DualForm(reduced)

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve, with tighter tolerances if `accuracy` is 0, which is asked for when nothing else helps.

        The tolerances of the backend refer to numbers of the size of 1. Where the solution is far from that
        size, the problem is stated again in a unit of x that is close to it. Where the dual form fails, or
        a half-space is violated, the reduced problem may be infeasible: the primal form decides.
        """
        if np.unique(rows.blocks[rows.blocks != HALF_SPACE]).size < self.reduced.n_blocks:
            return MasterSolution(None, None, MasterStatus.UNBOUNDED, "a block of the risk has no cut")
        if not is_finite(rows):
            return MasterSolution(None, None, MasterStatus.FAILED, f"{self.name}: a row is not finite")
        tight = tolerances(self._backend) if accuracy == 0.0 else {}
        options = {**tight, **self._options}
        quadratic = self._quadratic(stabilization) if rows.ids.size < self.reduced.dim else None
        if quadratic is not None:
            solution = self._dual.solve(rows, quadratic, self._backend, options)
            if solution.x is not None and _respects_half_spaces(rows, solution.x):
                return solution
        solution = self._solve(rows, stabilization, options)
        size = 0.0 if solution.x is None else float(np.abs(solution.x).max())
        if not far_from_unit(size, self._unit):
            return solution
        self._unit, self._pool = unit_of(size), None
        again = self._solve(rows, stabilization, options)
        return solution if again.x is None else again

    def _quadratic(self, stabilization: Stabilization) -> DiagonalQuadratic | None:
        """Return g + prox as a definite diagonal quadratic on the whole space; None if it is not one."""
        reduced = self.reduced
        if isinstance(stabilization, Level) or not is_whole_space(reduced.simple_set, reduced.dim):
            return None
        form = reduced.quadratic
        if form is not None and stabilization is not None:
            weight = stabilization.weight
            form += DiagonalQuadratic(np.full(reduced.dim, weight), stabilization.centre)
        return form if form is not None and form.is_strict else None

    def _solve(self, rows: Rows, stabilization: Stabilization, options: Mapping[str, Any]) -> MasterSolution:
        pool = self._pool
        if pool is None or not pool.holds(rows.blocks):
            scale = objective_scale(rows.slopes, rows.offsets, rows.blocks) / self._unit
            pool = Pool(self.reduced, rows.blocks, scale, self._unit, pool)
            self.problems.clear()
            self._pool = pool if rows.slopes[rows.blocks != HALF_SPACE].any() else None
        places, factors = pool.fill(rows)
        kind = None if stabilization is None else type(stabilization)
        if kind not in self.problems:
            self.problems[kind] = StabilisedProblem(self.reduced, pool, kind)
        stated = self.problems[kind]
        stated.set(stabilization)
        status, message = call(stated.problem, self._backend, options, **stated.how)
        if status is not MasterStatus.SOLVED:
            return MasterSolution(None, None, status, message)
        x: Any = stated.u.value
        duals: Any = stated.rows.dual_value
        if x is None or duals is None or not (np.isfinite(x).all() and np.isfinite(duals).all()):
            return MasterSolution(None, None, MasterStatus.FAILED, message or "no finite multipliers")
        height = 1.0 if kind is Level else pool.scale
        return MasterSolution(pool.unit * x, duals[places] * factors / height, status, message)


class Pool:
    """The parameters of the rows, slope u + offset <= used * xi[block]; a free place holds 0 - 1 <= 0.

    Rows and model are multiplied by `scale`, and x is `unit` times u. The places of a block are consecutive,
    and all blocks have equally many; the last places are those of the half-spaces. So the block of a place
    never changes.
    """

    def __init__(
        self, reduced: ReducedProblem, blocks: Array, scale: float, unit: float, smaller: Pool | None
    ):
        self.scale, self.unit, self.n_blocks = scale, unit, reduced.n_blocks
        per_block, half_spaces = self._needed(blocks)
        least = max(_FIRST // self.n_blocks, 1), 0
        before = least if smaller is None else (smaller.per_block, smaller.half_spaces)
        self.per_block = max(before[0], 1 << (per_block - 1).bit_length())
        self.half_spaces = max(before[1], capacity_for(half_spaces) if half_spaces else 0)
        self.blocks = np.repeat(np.arange(self.n_blocks), self.per_block)
        self.blocks = np.append(self.blocks, np.full(self.half_spaces, HALF_SPACE))
        size = self.blocks.size
        self._values = np.zeros((size, reduced.dim)), np.zeros(size), np.zeros(size)
        self.slopes, self.offsets, self.used = (cp.Parameter(values.shape) for values in self._values)

    def _needed(self, blocks: Array) -> tuple[int, int]:
        counts = np.bincount(
            np.where(blocks == HALF_SPACE, self.n_blocks, blocks), minlength=self.n_blocks + 1
        )
        return int(counts[:-1].max()), int(counts[-1])

    def holds(self, blocks: Array) -> bool:
        """Tell whether there are places for rows of these blocks."""
        per_block, half_spaces = self._needed(blocks)
        return per_block <= self.per_block and half_spaces <= self.half_spaces

    def fill(self, rows: Rows) -> tuple[Array, Array]:
        """Put the rows, and no others, into places; return these, and the factors of the rows."""
        groups = np.where(rows.blocks == HALF_SPACE, self.n_blocks, rows.blocks)
        order = np.argsort(groups, kind="stable")
        first = np.searchsorted(groups[order], np.arange(self.n_blocks + 1))
        places = np.empty(groups.size, dtype=np.int64)
        places[order] = np.arange(groups.size) - first[groups[order]] + self.per_block * groups[order]
        factors = row_factors(rows.slopes, rows.blocks, self.scale)
        factors[groups == self.n_blocks] /= self.unit
        new = rows.slopes * (self.unit * factors[:, None]), rows.offsets * factors, rows.blocks != HALF_SPACE
        parameters = self.slopes, self.offsets, self.used
        for values, nothing, part, parameter in zip(
            self._values, (0.0, -1.0, 0.0), new, parameters, strict=True
        ):
            values[:] = nothing
            values[places] = part
            parameter.save_value(values)
        return places, factors


class StabilisedProblem:
    """The reduced problem with one kind of stabilisation, over a pool of a fixed size.

    It is compiled once, unless that costs more than it saves: to map parameters into cones other than the
    nonnegative one, cvxpy needs time and memory in proportion to size * dim^2.
    """

    def __init__(self, reduced: ReducedProblem, pool: Pool, kind: Kind):
        self._unit, self._scale = pool.unit, pool.scale
        self.u = cp.Variable(reduced.dim)
        self._weight = cp.Parameter(nonneg=True)
        self._linear = cp.Parameter(reduced.dim)
        self._level = cp.Parameter()
        model = cp.Variable(reduced.n_blocks)
        cuts = np.flatnonzero(pool.blocks >= 0)
        shape = pool.blocks.size, reduced.n_blocks
        selector = sparse.csr_array((np.ones(cuts.size), (cuts, pool.blocks[cuts])), shape=shape)
        self.rows = pool.slopes @ self.u + pool.offsets <= cp.multiply(pool.used, selector @ model)
        regularizer, simple_set = (
            piece_in_unit(piece, pool.unit).cvxpy_form(self.u)
            for piece in (reduced.regularizer, reduced.simple_set)
        )
        objective = cp.sum(model) + pool.scale * regularizer
        constraints = [self.rows, *simple_set]
        if kind is Prox:
            objective += 0.5 * self._weight * cp.sum_squares(self.u) - self._linear @ self.u
        elif kind is Level:
            constraints.append(objective <= self._level)
            objective = 0.5 * cp.sum_squares(self.u) - self._linear @ self.u
        self.problem = cp.Problem(cp.Minimize(objective), constraints)
        compiled_once = reduced.dim <= _FEW_VARIABLES or self.problem.is_qp()
        self.how = {"warm_start": compiled_once, "ignore_dpp": not compiled_once}

    def set(self, stabilization: Stabilization) -> None:
        """Set the parameters of the prox term or of the level constraint."""
        if isinstance(stabilization, Prox):
            weight = self._scale * stabilization.weight * self._unit
            self._weight.value = weight * self._unit
            self._linear.value = weight * stabilization.centre
        elif isinstance(stabilization, Level):
            self._level.value = self._scale * stabilization.level
            self._linear.value = stabilization.centre / self._unit


class DualForm:
    """max <r, m> - 1/2 m'Hm over multipliers m >= 0 of the rows, which sum to 1 over each block of cuts.

    With g(x) + prox = 1/2 sum_j w_j (x_j - c_j)^2 + constant, w > 0, and rows A x + b: H = A diag(1/w) A', r
    = b + A c, and the minimiser is x = c - A'm / w. The problem is compiled for the next multiple of 16 rows;
    multipliers without a row cost 1 and so stay 0. H itself is the parameter, because a parametrised factor
    of it costs much more to compile.
    """

    def __init__(self, reduced: ReducedProblem):
        self.n_blocks = reduced.n_blocks
        self._size = 0

    def solve(
        self, rows: Rows, quadratic: DiagonalQuadratic, backend: str, options: Mapping[str, Any]
    ) -> MasterSolution:
        """Solve with the present rows, one per block at least; the status is SOLVED or FAILED."""
        slopes, blocks, count = rows.slopes, rows.blocks, rows.ids.size
        cuts = np.flatnonzero(blocks != HALF_SPACE)
        factors = row_factors(slopes, blocks, 1.0)
        r = (rows.offsets + slopes @ quadratic.centre) * factors
        r[cuts] -= r[cuts].max()
        A = slopes * (factors[:, np.newaxis] / np.sqrt(quadratic.weights))
        H = A @ A.T
        scale = float(np.abs(r).max(initial=0.0)) or float(H.diagonal().max(initial=0.0)) or 1.0
        if not count <= self._size < count + 2 * _FIRST:
            self._compile(_FIRST * (1 + (count - 1) // _FIRST))
        values = [np.zeros(parameter.shape) for parameter in self._parameters]
        values[0][:count, :count] = H / scale
        values[1][:count], values[1][count:] = r / scale, -1.0
        values[2][blocks[cuts], cuts] = 1.0
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.save_value(value)
        status, message = call(self._problem, backend, options, warm_start=False)
        found: Any = self._m.value
        if status is not MasterStatus.SOLVED or found is None or not np.isfinite(found).all():
            return MasterSolution(None, None, MasterStatus.FAILED, message or "no finite multipliers")
        multipliers = found[:count] * factors
        x = quadratic.centre - (multipliers @ slopes) / quadratic.weights
        return MasterSolution(x, multipliers, status, message)

    def _compile(self, size: int) -> None:
        self._size, self._m = size, cp.Variable(size)
        self._parameters = H, r, members = [
            cp.Parameter(s) for s in ((size, size), size, (self.n_blocks, size))
        ]
        objective = 0.5 * cp.quad_form(self._m, cp.psd_wrap(H)) - r @ self._m
        self._problem = cp.Problem(cp.Minimize(objective), [self._m >= 0, members @ self._m == 1])


def _respects_half_spaces(rows: Rows, x: Array) -> bool:
    mine = rows.blocks == HALF_SPACE
    slopes, offsets = rows.slopes[mine], rows.offsets[mine]
    size = np.abs(slopes) @ np.abs(x) + np.abs(offsets)
    return bool((slopes @ x + offsets <= _FEASIBLE * size).all())
