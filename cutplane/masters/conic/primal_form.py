"""The reduced problem itself in cvxpy, over a pool of parametrised rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from scipy import sparse

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
from cutplane.masters.rows import objective_scale, row_factors
from cutplane.masters.units import far_from_unit, piece_in_unit, unit_of
from cutplane.pieces.validation import Array

_FEW_VARIABLES = 300  # up to which size * dim^2 is a few millions for a pool of some dozens
_FREE = -1  # the id of no row
_FIRST = 16  # places of the first pool


class Pool:
    """The parameters of the rows, slope u + offset <= used * xi[block]; a free place holds 0 - 1 <= 0.

    Rows and model are multiplied by `scale`, and x is `unit` times u.
    """

    def __init__(self, size: int, dim: int, scale: float, unit: float):
        self.scale = scale
        self.unit = unit
        self._values = np.zeros((size, dim)), np.full(size, -1.0), np.zeros(size)
        self.slopes, self.offsets, self.used = (cp.Parameter(values.shape) for values in self._values)
        for parameter, values in zip((self.slopes, self.offsets, self.used), self._values, strict=True):
            parameter.save_value(values)

    def free(self, places: Array) -> None:
        """Empty places."""
        for values, nothing in zip(self._values, (0.0, -1.0, 0.0), strict=True):
            values[places] = nothing

    def fill(self, places: Array, slopes: Array, offsets: Array, are_cuts: Array) -> None:
        """Put rows into places."""
        for values, rows in zip(self._values, (slopes, offsets, are_cuts), strict=True):
            values[places] = rows


class PrimalForm:
    """Keeps one cvxpy problem per kind of stabilisation; each is compiled once for a size of the pool.

    ``call(problem)`` solves a cvxpy problem and returns its status and a message; `size` is the one to which
    the slopes are scaled.
    """

    def __init__(self, reduced: ReducedProblem, call: Callable[..., tuple[MasterStatus, str]], size: float):
        self.reduced = reduced
        self.size = size
        self.problems: dict[type[Prox] | type[Level] | None, StabilisedProblem] = {}
        self._call = call
        self._slots = Slots(reduced.n_blocks)
        self._settled = False
        self._unit = 1.0

    def solve(self, rows: Rows, stabilization: Stabilization) -> MasterSolution:
        """Solve with the present rows.

        The tolerances of the backend refer to numbers of the size of 1. Where the solution is far from that
        size, the problem is stated again in a unit of x that is close to it.
        """
        solution = self._solve(rows, stabilization)
        size = 0.0 if solution.x is None else float(np.abs(solution.x).max())
        if not far_from_unit(size, self._unit):
            return solution
        self._unit = unit_of(size)
        self._slots, self._settled = Slots(self.reduced.n_blocks), False
        again = self._solve(rows, stabilization)
        return solution if again.x is None else again

    def _solve(self, rows: Rows, stabilization: Stabilization) -> MasterSolution:
        places, factors = self._place(rows)
        kind = None if stabilization is None else type(stabilization)
        if kind not in self.problems:
            self.problems[kind] = StabilisedProblem(self.reduced, self._pool, self._slots.blocks, kind)
        stabilised = self.problems[kind]
        stabilised.set(stabilization)
        status, message = self._call(stabilised.problem, **stabilised.how)
        if status is not MasterStatus.SOLVED:
            return MasterSolution(None, None, status, message)
        x: Any = stabilised.value
        duals: Any = stabilised.rows.dual_value
        if x is None or duals is None or not (np.isfinite(x).all() and np.isfinite(duals).all()):
            return MasterSolution(None, None, MasterStatus.FAILED, message or "no finite multipliers")
        unit = 1.0 if kind is Level else self._pool.scale
        return MasterSolution(x, duals[places] * factors / unit, status, message)

    def _place(self, rows: Rows) -> tuple[Array, Array]:
        slopes, offsets, blocks = rows.slopes, rows.offsets, rows.blocks
        if not self._settled:
            self._slots = Slots(self.reduced.n_blocks)
            self._settled = bool(slopes[blocks >= 0].any())
        places, new, vacated, grown = self._slots.place(rows.ids, blocks)
        if grown:
            self.problems.clear()
            scale = self.size * objective_scale(slopes, offsets, blocks)
            self._pool = Pool(self._slots.size, self.reduced.dim, scale / self._unit, self._unit)
        self._pool.free(vacated)
        factors = row_factors(slopes, blocks, self._pool.scale)
        factors[blocks < 0] /= self._unit
        scaled = slopes[new] * (self._unit * factors[new, None]), offsets[new] * factors[new]
        self._pool.fill(places[new], *scaled, blocks[new] >= 0)
        return places, factors


class StabilisedProblem:
    """The reduced problem with one kind of stabilisation, over a pool of a fixed size.

    It is compiled once, unless that costs more than it saves: to map parameters into cones other than the
    nonnegative one, cvxpy needs time and memory in proportion to size * dim^2.
    """

    def __init__(
        self, reduced: ReducedProblem, pool: Pool, blocks: Array, kind: type[Prox] | type[Level] | None
    ):
        self._unit = pool.unit
        self._u = cp.Variable(reduced.dim)
        self._scale = pool.scale
        self._weight = cp.Parameter(nonneg=True)
        self._linear = cp.Parameter(reduced.dim)
        self._level = cp.Parameter()
        model = cp.Variable(reduced.n_blocks)
        cuts = np.flatnonzero(blocks >= 0)
        selector = sparse.csr_array(
            (np.ones(cuts.size), (cuts, blocks[cuts])), shape=(blocks.size, reduced.n_blocks)
        )
        self.rows = pool.slopes @ self._u + pool.offsets <= cp.multiply(pool.used, selector @ model)
        regularizer, simple_set = (
            piece_in_unit(piece, pool.unit).cvxpy_form(self._u)
            for piece in (reduced.regularizer, reduced.simple_set)
        )
        objective = cp.sum(model) + pool.scale * regularizer
        constraints = [self.rows, *simple_set]
        if kind is Prox:
            objective += 0.5 * self._weight * cp.sum_squares(self._u) - self._linear @ self._u
        elif kind is Level:
            constraints.append(objective <= self._level)
            objective = 0.5 * cp.sum_squares(self._u) - self._linear @ self._u
        self.problem = cp.Problem(cp.Minimize(objective), constraints)
        compiled_once = reduced.dim <= _FEW_VARIABLES or self.problem.is_qp()
        self.how = {"warm_start": compiled_once, "ignore_dpp": not compiled_once}

    @property
    def value(self) -> Array | None:
        """The minimiser that the last solve found."""
        return None if self._u.value is None else self._unit * self._u.value

    def set(self, stabilization: Stabilization) -> None:
        """Set the parameters of the prox term or of the level constraint."""
        if isinstance(stabilization, Prox):
            weight = self._scale * stabilization.weight * self._unit
            self._weight.value = weight * self._unit
            self._linear.value = weight * stabilization.centre
        elif isinstance(stabilization, Level):
            self._level.value = self._scale * stabilization.level
            self._linear.value = stabilization.centre / self._unit


class Placement(NamedTuple):
    """Where the rows are."""

    places: Array
    """The place of each row."""
    new: Array
    """The rows that have just got their place; all of them if the pool has grown."""
    vacated: Array
    """The places that have lost their row, some of which may be taken again."""
    grown: bool
    """Whether the pool is larger than before, and every place anew."""


class Slots:
    """Gives each row a place that it keeps until it is removed, or until the pool grows.

    The places of a block are consecutive, and all blocks have equally many; the last places are those of the
    half-spaces. So the block of a place never changes.
    """

    def __init__(self, n_blocks: int):
        self.n_blocks = n_blocks
        self.per_block = 0
        self.half_spaces = 0
        self._ids = np.empty(0, dtype=np.int64)

    @property
    def size(self) -> int:
        """Number of places."""
        return self._ids.shape[0]

    @property
    def blocks(self) -> Array:
        """The block of each place."""
        blocks = np.repeat(np.arange(self.n_blocks), self.per_block)
        return np.concatenate([blocks, np.full(self.half_spaces, HALF_SPACE)])

    def place(self, ids: Array, blocks: Array) -> Placement:
        """Free the places of the rows that are gone and give the new rows theirs; grow if it is full."""
        groups = np.where(blocks == HALF_SPACE, self.n_blocks, blocks)
        counts = np.bincount(groups, minlength=self.n_blocks + 1)
        grown = self._grow(int(counts[:-1].max(initial=1)), int(counts[-1]))
        vacated = np.flatnonzero((self._ids != _FREE) & ~np.isin(self._ids, ids))
        self._ids[vacated] = _FREE
        new = np.flatnonzero(~np.isin(ids, self._ids))
        for group in np.unique(groups[new]):
            members = new[groups[new] == group]
            start = group * self.per_block
            stop = start + self.per_block if group < self.n_blocks else self.size
            free = start + np.flatnonzero(self._ids[start:stop] == _FREE)
            self._ids[free[: members.size]] = ids[members]
        order = np.argsort(self._ids)
        places = order[np.searchsorted(self._ids, ids, sorter=order)]
        return Placement(places, new, vacated, grown)

    def _grow(self, per_block: int, half_spaces: int) -> bool:
        if per_block <= self.per_block and half_spaces <= self.half_spaces:
            return False
        self.per_block = _doubled(max(self.per_block, _FIRST // self.n_blocks, 1), per_block)
        if half_spaces:
            self.half_spaces = _doubled(max(self.half_spaces, _FIRST), half_spaces)
        self._ids = np.full(self.n_blocks * self.per_block + self.half_spaces, _FREE, dtype=np.int64)
        return True


def _doubled(size: int, needed: int) -> int:
    while size < needed:
        size *= 2
    return size
