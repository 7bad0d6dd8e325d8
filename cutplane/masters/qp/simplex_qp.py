"""The master for diagonal quadratics: the dual of the reduced problem, a QP over simplices."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.masters.base import (
    Level,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.pieces.capabilities import Capability, offers

_MANY = 200


class SimplexQP:
    """Solves the reduced problem through its dual when g + prox is a diagonal quadratic.

    With M = diag(weights of g + prox weight) and x_bar the minimiser of g + prox, x = x_bar - inv(M) A'a,
    where

        a maximises  sum_i a_i (<A_i, x_bar> + b_i) - 1/2 a'A inv(M) A'a,  a >= 0, each block's sum = 1.

    An active-set method keeps the Gram matrix A inv(M) A', the multipliers and a factor between calls: a
    solve costs one product of the rows with each new row, and microseconds. Everything else is built on it. A
    level constraint is a prox term whose weight is searched for; coordinates without weight (an unregularised
    bias) are given one around a centre that moves to the solution; bounds on x are handled by a Newton method
    whose steps are such solves, and the rows of a polyhedron are half-spaces. Answers are exact up to
    rounding, or up to the accuracy asked for; an answer that is neither is a failure.

    Parameters
    ----------
    reduced : ReducedProblem
    """

    name = "simplex_qp"
    exact = True

    def __init__(self, reduced: ReducedProblem):
        from cutplane.masters.qp.bounded_problem import BoundedProblem
        from cutplane.masters.qp.free_coordinates import LooseCoordinates
        from cutplane.masters.qp.level_search import LevelSearch
        from cutplane.masters.qp.prox_problem import ProxProblem
        from cutplane.masters.qp.set_rows import StackedRows

        quadratic = reduced.regularizer.quadratic(reduced.dim)  # type: ignore[attr-defined]
        form = reduced.simple_set.linear_form(reduced.dim)  # type: ignore[attr-defined]
        self._own = StackedRows(form) if form.rows.shape[0] else None
        if self._own is None and np.isinf(form.lower).all() and np.isinf(form.upper).all():
            self._problem = ProxProblem(reduced.n_blocks, quadratic)
        else:
            self._problem = BoundedProblem(reduced.n_blocks, quadratic, form.lower, form.upper)
        self._loose = LooseCoordinates(self._problem, reduced.n_blocks)
        self._levels = LevelSearch(self._problem)

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> str | None:
        """Return None if the master accepts this kind of problem, else the reason why not, as a clause."""
        weights = _part(reduced.regularizer, Capability.QUADRATIC, reduced.dim)
        if weights is None:
            return "the regularizer is not a diagonal quadratic"
        weights = weights.weights
        form = _part(reduced.simple_set, Capability.LINEAR_FORM, reduced.dim)
        if form is None or form.n_columns > reduced.dim or form.rows.shape[0] > _MANY:
            return f"the feasible set is not a polyhedron with at most {_MANY} rows"
        if stabilization is None and not weights.any():
            return "there is neither a quadratic regularizer nor a prox term"
        bounded = form.rows.shape[0] or np.isfinite(form.lower).any() or np.isfinite(form.upper).any()
        if stabilization is None and bounded and not weights.all():
            return "a coordinate without weight in a feasible set needs a prox term"
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
                self._loose.forget()
            if not dual.complete:
                return MasterSolution(None, None, MasterStatus.UNBOUNDED, "a block of the risk has no cut")
            if not dual.finite:
                return MasterSolution(None, None, MasterStatus.FAILED, "the square of a slope is not finite")
            if isinstance(stabilization, Level):
                answer, factor = self._levels.solve(rows, stabilization.centre, stabilization.level)
            elif stabilization is not None and stabilization.weight > 0.0:
                answer = problem.with_prox(rows, stabilization.centre, stabilization.weight, accuracy)
            elif problem.loose.size:
                answer = self._loose.solve(rows, accuracy)
            else:
                answer = problem.plain(rows, accuracy)
        if answer.x is None:
            return MasterSolution(None, None, answer.status, answer.message)
        return MasterSolution(answer.x, factor * dual.multipliers[own:])


def _part(piece: Any, capability: Capability, dim: int) -> Any:
    return getattr(piece, capability.value)(dim) if offers(piece, capability) else None
