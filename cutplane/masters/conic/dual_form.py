"""The dual of the reduced problem in cvxpy, for diagonal quadratics on the whole space: a small QP."""

from __future__ import annotations

from collections.abc import Callable

import cvxpy as cp
import numpy as np

from cutplane.masters.base import HALF_SPACE, MasterSolution, MasterStatus, ReducedProblem, Rows
from cutplane.masters.qp.dual_qp import Gram
from cutplane.masters.rows import row_factors, survivors
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array

_STEP = 16  # rows between two compilations: few of them, and few multipliers without a row


class DualForm:
    """max <r, m> - 1/2 m'Hm over multipliers m >= 0 of the rows, which sum to 1 over each block of cuts.

    With g(x) + prox = 1/2 sum_j w_j (x_j - c_j)^2 + constant, w > 0, and rows A x + b: H = A diag(1/w) A', r
    = b + A c, and the minimiser is x = c - A'm / w. H grows with the rows; the problem is built anew every 16
    rows. H itself is the parameter, which costs much less to compile than a parametrised factor of it.
    ``call(problem)`` solves a cvxpy problem and returns its status and a message.
    """

    def __init__(self, reduced: ReducedProblem, call: Callable[..., tuple[MasterStatus, str]]):
        self.reduced = reduced
        self._call = call
        self._gram = Gram(None)
        self._known = np.empty(0, dtype=np.int64)
        self._programme: MultiplierProgramme | None = None

    def solve(self, rows: Rows, quadratic: DiagonalQuadratic) -> MasterSolution:
        """Solve with the present rows, one per block at least; the status is SOLVED or FAILED."""
        slopes, blocks = rows.slopes, rows.blocks
        cuts = blocks != HALF_SPACE
        factors = row_factors(slopes, blocks, 1.0)
        H = self._metric_gram(rows, 1.0 / quadratic.weights) * np.outer(factors, factors)
        r = (rows.offsets + slopes @ quadratic.centre) * factors
        r[cuts] -= r[cuts].max()
        programme = self._programme_for(blocks.size)
        programme.set(H, r, blocks)
        status, message = self._call(programme.problem, warm_start=False)
        if status is not MasterStatus.SOLVED:
            return MasterSolution(None, None, MasterStatus.FAILED, message)
        multipliers = programme.multipliers.value
        if multipliers is None or not np.isfinite(multipliers).all():
            return MasterSolution(None, None, MasterStatus.FAILED, message or "no finite multipliers")
        multipliers = multipliers[: blocks.size] * factors
        x = quadratic.centre - (multipliers @ slopes) / quadratic.weights
        return MasterSolution(x, multipliers, status, message)

    def _metric_gram(self, rows: Rows, metric: Array) -> Array:
        factor, shape = (metric[0], None) if (metric == metric[0]).all() else (1.0, metric)
        if not _same(shape, self._gram.metric):
            self._gram = Gram(shape)
            self._known = self._known[:0]
        kept = survivors(self._known, rows.ids)
        if not kept.all():
            self._gram.keep(np.flatnonzero(kept))
        known, count = int(kept.sum()), rows.ids.size
        if known < count:
            self._gram.extend(rows.slopes, known)
        self._known = np.array(rows.ids)
        return factor * self._gram.matrix[:count, :count]

    def _programme_for(self, count: int) -> MultiplierProgramme:
        programme = self._programme
        if programme is None or not count <= programme.size < count + 2 * _STEP:
            size = _STEP * (1 + (count - 1) // _STEP)
            programme = self._programme = MultiplierProgramme(size, self.reduced.n_blocks)
        return programme


class MultiplierProgramme:
    """The QP over `size` multipliers, of which the last ones may be unused: those cost 1 and so stay 0."""

    def __init__(self, size: int, n_blocks: int):
        self.size = size
        self.multipliers = cp.Variable(size)
        self._H = cp.Parameter((size, size))
        self._r = cp.Parameter(size)
        self._members = cp.Parameter((n_blocks, size))
        m = self.multipliers
        objective = 0.5 * cp.quad_form(m, cp.psd_wrap(self._H)) - self._r @ m
        self.problem = cp.Problem(cp.Minimize(objective), [m >= 0, self._members @ m == 1])

    def set(self, H: Array, r: Array, blocks: Array) -> None:
        """Set H and r, scaled so that their largest entries are 1."""
        count = blocks.size
        scale = float(np.abs(r).max(initial=0.0)) or float(H.diagonal().max(initial=0.0)) or 1.0
        full_H, full_r = np.zeros(self._H.shape), np.full(self.size, -1.0)
        full_H[:count, :count] = H / scale
        full_r[:count] = r / scale
        members = np.zeros(self._members.shape)
        cuts = np.flatnonzero(blocks != HALF_SPACE)
        members[blocks[cuts], cuts] = 1.0
        for parameter, value in ((self._H, full_H), (self._r, full_r), (self._members, members)):
            parameter.save_value(value)


def _same(a: Array | None, b: Array | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))
