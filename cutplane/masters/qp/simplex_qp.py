"""The master for diagonal quadratics: the dual of the reduced problem, a QP over simplices."""

from __future__ import annotations

import numpy as np

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
from cutplane.masters.qp.gram import capacity_for, grown
from cutplane.masters.qp.stack import Stack
from cutplane.masters.rows import survivors
from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import separable_form_of

_MANY = 200  # rows of a set: each is a row of the dense Gram matrix in every solve


class SimplexQP:
    """Solves the reduced problem through its dual when g + prox is a diagonal quadratic.

    With M = diag(weights of g + prox weight) and x_bar the minimiser of g + prox, x = x_bar - inv(M) A'a,
    where

        a maximises  sum_i a_i (<A_i, x_bar> + b_i) - 1/2 a'A inv(M) A'a,  a >= 0, each block's sum = 1.

    An active-set method keeps the Gram matrix A inv(M) A', the multipliers and a factor between calls: a
    solve costs one product of the rows with each new row, and microseconds. Everything else is built on
    it. A level constraint is a prox term whose weight is searched for; coordinates without weight (an
    unregularised bias) are given one around a centre that moves to the solution; bounds on x and an l1
    norm are handled by a Newton method whose steps are such solves, and the rows of a polyhedron are
    half-spaces. Answers are exact up to rounding, or up to the accuracy asked for; an answer that is
    neither is a failure.
    """

    name = "simplex_qp"
    exact = True

    def __init__(self, reduced: ReducedProblem):
        from cutplane.masters.qp.level_search import LevelSearch
        from cutplane.masters.qp.prox_problem import BoundedProblem, ProxProblem
        from cutplane.masters.qp.unweighted import UnweightedCoordinates

        separable = separable_form_of(reduced.regularizer, reduced.dim)
        assert separable is not None, "refused"
        quadratic, costs = separable.quadratic, separable.costs
        form = ask(reduced.simple_set, Capability.LINEAR_FORM, reduced.dim)
        self._own = StackedRows(form) if form.rows.shape[0] else None
        if self._own is None and not costs.any() and np.isinf([form.lower, form.upper]).all():
            self._problem = ProxProblem(reduced.n_blocks, quadratic)
        else:
            self._problem = BoundedProblem(reduced.n_blocks, quadratic, costs, form.lower, form.upper)
        self._unweighted = UnweightedCoordinates(self._problem, reduced.n_blocks)
        self._levels = LevelSearch(self._problem)

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> str | None:
        """Return None if the master accepts this kind of problem, else the reason why not, as a clause."""
        separable = separable_form_of(reduced.regularizer, reduced.dim)
        if separable is None:
            return "the regularizer is neither a diagonal quadratic nor one and an l1 norm"
        weights, costs = separable.quadratic.weights, separable.costs
        form = ask(reduced.simple_set, Capability.LINEAR_FORM, reduced.dim)
        if form is None or form.n_columns > reduced.dim or form.rows.shape[0] > _MANY:
            return f"the feasible set is not a polyhedron with at most {_MANY} rows"
        if stabilization is None and not weights.any():
            return "there is neither a quadratic regularizer nor a prox term"
        bounded = form.rows.shape[0] or np.isfinite(form.lower).any() or np.isfinite(form.upper).any()
        if stabilization is None and (bounded or costs.any()) and not weights.all():
            return "a coordinate without weight in a feasible set, or beside an l1 norm, needs a prox term"
        if stabilization is Level and np.ptp(weights) > 0.0:
            return "a level constraint needs a regularizer whose weights are all equal"
        return None

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `accuracy` is the absolute error of the optimal value that may remain.

        Half-spaces and a level are met up to rounding whatever the accuracy.
        """
        problem, dual = self._problem, self._problem.dual
        factor, own = 1.0, 0
        if self._own is not None:
            self._own.take(rows)
            rows, own = self._own, self._own.own
        with np.errstate(all="ignore"):
            if dual.sync(rows):
                problem.forget_values()
                self._unweighted.forget()
            if not dual.complete:
                return MasterSolution(None, None, MasterStatus.UNBOUNDED, "a block of the risk has no cut")
            if not dual.finite:
                return MasterSolution(None, None, MasterStatus.FAILED, "the square of a slope is not finite")
            if isinstance(stabilization, Level):
                answer, factor = self._levels.solve(rows, stabilization.centre, stabilization.level)
            elif stabilization is not None and stabilization.weight > 0.0:
                answer = problem.with_prox(rows, stabilization.centre, stabilization.weight, accuracy)
            elif problem.unweighted.size:
                answer = self._unweighted.solve(rows, accuracy)
            else:
                answer = problem.plain(rows, accuracy)
        if answer.x is None:
            return MasterSolution(None, None, answer.status, answer.message)
        held = None if self._own is None else self._own.multipliers(dual.multipliers[:own])
        return MasterSolution(answer.x, factor * dual.multipliers[own:], set_multipliers=held)


class StackedRows:
    """The half-spaces of a linear form without auxiliaries, then the rows of a pool.

    Parameters
    ----------
    form : LinearForm
        Each finite row bound becomes a half-space, a row with equal bounds becomes an equation.
    """

    def __init__(self, form: LinearForm):
        from cutplane.masters.qp.active_set import EQUATION

        rows = form.rows.toarray()
        equal = form.row_lower == form.row_upper
        above, below = np.isfinite(form.row_upper), np.isfinite(form.row_lower) & ~equal
        self._above, self._below = above, below
        self.own = int(above.sum() + below.sum())
        self._count = self.own
        self.slopes = Stack(np.vstack([rows[above], -rows[below]]), np.empty((0, rows.shape[1])))
        self._offsets = np.concatenate([-form.row_upper[above], form.row_lower[below]])
        self._blocks = np.full(self.own, HALF_SPACE)
        self._blocks[: equal[above].size][equal[above]] = EQUATION
        self._ids = np.arange(self.own) - self.own

    def multipliers(self, own: Array) -> Array:
        """Return those of the form's rows, given those of the half-spaces: positive for lower sides."""
        held, n_above = np.zeros(self._above.shape[0]), int(self._above.sum())
        held[self._above] = -own[:n_above]
        held[self._below] += own[n_above:]
        return held

    def take(self, rows: Rows) -> None:
        """Take the rows of the pool: of what is new there all but the slopes is copied."""
        ids, known = rows.ids, self._count - self.own
        if known and (ids.shape[0] < known or ids[known - 1] != self._ids[self._count - 1]):
            kept = np.flatnonzero(survivors(self._ids[self.own : self._count], ids))
            known = kept.shape[0]
            for array in (self._offsets, self._blocks, self._ids):
                array[self.own : self.own + known] = array[self.own + kept]
        self._count = self.own + ids.shape[0]
        if self._count > self._ids.shape[0]:
            for name in ("_offsets", "_blocks", "_ids"):
                setattr(self, name, grown(getattr(self, name), capacity_for(self._count)))
        new = slice(self.own + known, self._count)
        self.slopes = Stack(self.slopes.above, rows.slopes)
        self._offsets[new] = rows.offsets[known:]
        self._blocks[new] = rows.blocks[known:]
        self._ids[new] = ids[known:]

    @property
    def offsets(self) -> Array:
        """Shape (K,)."""
        return self._offsets[: self._count]

    @property
    def blocks(self) -> Array:
        """Shape (K,)."""
        return self._blocks[: self._count]

    @property
    def ids(self) -> Array:
        """Shape (K,); negative for the rows of the form."""
        return self._ids[: self._count]
