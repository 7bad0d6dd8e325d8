"""The master for diagonal quadratics: the dual of the reduced problem, a QP over simplices."""

from __future__ import annotations

import numpy as np

from cutplane.capabilities import Capability, offers
from cutplane.masters.base import (
    Level,
    MasterSolution,
    MasterStatus,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.level_search import LevelSearch
from cutplane.masters.loose import LooseCoordinates
from cutplane.masters.prox_problem import ProxProblem


class SimplexQP:
    """Solves the reduced problem through its dual when g + prox is a diagonal quadratic on the whole space.

    With M = diag(weights of g + prox weight) and x_bar the minimiser of g + prox, x = x_bar - inv(M) A'a, where a solves

        maximise  sum_i a_i (<a_i, x_bar> + b_i) - 1/2 a' A inv(M) A' a   over  a >= 0, sum over each block = 1

    by an active-set method that keeps the Gram matrix A inv(M) A', the multipliers and a factor between calls: a solve costs one
    product of the rows with each new row, and microseconds. A level constraint is a prox term whose weight is searched for.
    Coordinates without weight (an unregularised bias) are given one around a centre that moves to the solution.

    Parameters
    ----------
    reduced : ReducedProblem
    """

    name = "simplex_qp"

    def __init__(self, reduced: ReducedProblem):
        quadratic = reduced.regularizer.quadratic(reduced.dim)  # type: ignore[attr-defined]
        self._problem = ProxProblem(reduced.n_blocks, quadratic)
        self._loose = LooseCoordinates(self._problem, reduced.n_blocks)
        self._levels = LevelSearch(self._problem)

    @staticmethod
    def refusal(reduced: ReducedProblem, stabilization: type[Prox] | type[Level] | None) -> str | None:
        """Return None if the master accepts this kind of problem, else the reason why not, as a clause."""
        bounds = reduced.simple_set.bounds(reduced.dim)
        if bounds is None or np.isfinite(bounds[0]).any() or np.isfinite(bounds[1]).any():
            return "the feasible set is not the whole space"
        regularizer = reduced.regularizer
        form = regularizer.quadratic(reduced.dim) if offers(regularizer, Capability.QUADRATIC) else None  # type: ignore[attr-defined]
        if form is None:
            return "the regularizer is not a diagonal quadratic"
        if stabilization is None and not form.weights.any():
            return "there is neither a quadratic regularizer nor a prox term"
        if stabilization is Level and np.ptp(form.weights) > 0.0:
            return "a level constraint needs a regularizer whose weights are all equal"
        return None

    def solve(self, rows: Rows, stabilization: Stabilization = None, accuracy: float = 0.0) -> MasterSolution:
        """Solve; `accuracy` is the absolute error of the optimal value that may remain.

        Half-spaces and a level are met up to rounding whatever the accuracy.
        """
        problem, dual = self._problem, self._problem.dual
        factor = 1.0
        with np.errstate(all="ignore"):
            if dual.sync(rows):
                problem.forget_values()
                self._loose.forget()
            if not dual.complete:
                return MasterSolution(None, None, MasterStatus.UNBOUNDED, "a block of the risk has no cut")
            if not dual.finite:
                return MasterSolution(
                    None, None, MasterStatus.FAILED, "a row is not finite, or too large to be squared"
                )
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
        return MasterSolution(answer.x, factor * dual.multipliers)
