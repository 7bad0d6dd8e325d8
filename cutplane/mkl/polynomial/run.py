"""The process of `PolynomialMKL.solve`: stochastic steps, and exact evaluations in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from cutplane.engine.driver import Standing, Turn
from cutplane.engine.history import History
from cutplane.mkl.polynomial.bound import FormNorm, dual_value
from cutplane.mkl.polynomial.descent import Descent, Sampling
from cutplane.mkl.polynomial.result import PolynomialMKLResult
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import seconds_left
from cutplane.status import Status
from cutplane.stopping import Stop

if TYPE_CHECKING:
    from cutplane.mkl.polynomial.problem import PolynomialMKL

_GROWTH = 2.0
_FLOOR = 1e-14


class Evaluation(NamedTuple):
    """Weights, their dual coefficients, the objective and a lower bound on the optimum."""

    indices: list[tuple[int, ...]]
    weights: Array
    coefficients: Array
    objective: float
    lower_bound: float
    dual: Array


def evaluate(
    problem: PolynomialMKL, indices: list[tuple[int, ...]], weights: Array, norm: FormNorm
) -> Evaluation:
    """Solve the ridge regression of these weights afresh; bound the optimum by its dual coefficients.

    The objective is that of the predictor as computed, so that it is an upper bound whatever the rounding;
    the lower bound, ``max over t of <t a, y> - ||t a||^2 / (2 C) - 1/2 ||q(t a)||_2``, holds for any a.
    """
    y, C = problem.y, problem.C
    kernel = problem.bases.weighted_sum(
        indices, weights / problem.rho[[len(index) for index in indices]] ** 2
    )
    system = kernel + np.eye(y.size) * (1.0 / C + _FLOOR * kernel.diagonal().max(initial=0.0))
    a = cho_solve(cho_factor(system, lower=True, overwrite_a=True), y)
    predictions = kernel @ a
    objective = 0.5 * C * float(((predictions - y) ** 2).sum()) + 0.5 * float(a @ predictions)
    return Evaluation(indices, weights, a, objective, dual_value(problem, a, norm), a)


class Steps:
    """As many steps as were done before, then an evaluation of the average."""

    def __init__(
        self, problem: PolynomialMKL, sampling: Sampling, seed: int, bound_work: float, max_iter: int
    ):
        self.problem = problem
        self.bound_work = bound_work
        self.max_iter = max_iter
        self._norm = FormNorm(problem.bases, problem.rho, bound_work)
        self._descent = Descent(problem.bases, problem.y, problem.C, problem.rho, sampling, seed)
        self._best: Evaluation | None = None
        self._checkpoint = 1
        self._evaluations = 0
        self._stepping = self._evaluating = 0.0

    @property
    def started(self) -> bool:
        """Whether some weights were evaluated."""
        return self._best is not None

    @property
    def standing(self) -> Standing:
        """The bounds of the best average; iterations are steps."""
        best, count = self._best, self._descent.count
        return Standing(
            lower=-np.inf if best is None else best.lower_bound,
            upper=np.inf if best is None else best.objective,
            n_cuts=len(self._descent.weights.indices),
            oracle_calls=count + self._evaluations,
            oracle_seconds=self._evaluating,
            master_seconds=self._stepping,
            iteration=count,
        )

    def step(self) -> Turn:
        """Double the number of steps, and evaluate the average."""
        began = clock()
        if self._best is None:
            self._keep(evaluate(self.problem, [], np.empty(0), self._norm), began)
            return Turn("start")
        moves, descent = True, self._descent
        while moves and descent.count < min(self._checkpoint, self.max_iter) and seconds_left() > 0.0:
            moves = descent.step()
        self._checkpoint = int(np.ceil(_GROWTH * self._checkpoint))
        now = clock()
        self._stepping += now - began
        self._keep(
            evaluate(self.problem, list(descent.weights.indices), descent.weights.average(), self._norm), now
        )
        return Turn("average", None if moves else Stop(Status.STALLED, "the gradient is zero"))

    def confirm(self, stop: Stop) -> Stop:
        """Return the stop: both bounds were computed from scratch."""
        return stop

    def result(self, stop: Stop, history: History) -> PolynomialMKLResult:
        """Return the best averaged weights."""
        problem, best = self.problem, self._best
        assert best is not None
        return PolynomialMKLResult(
            weights={best.indices[k]: float(best.weights[k]) for k in np.flatnonzero(best.weights).tolist()},
            coefficients=best.coefficients,
            objective=best.objective,
            lower_bound=min(best.lower_bound, best.objective),
            exact_bound=self._norm.exact,
            status=stop.status,
            reason=stop.reason,
            history=history,
            method=f"stochastic mirror descent, {self._descent.sampling} sampling",
            bases=problem.bases,
            rho=problem.rho,
            dual=best.dual,
            bound_work=self.bound_work,
            problem=problem,
        )

    def _keep(self, found: Evaluation, began: float) -> None:
        """Keep the better objective and the better bound."""
        best = found if self._best is None else self._best
        proof = max(best, found, key=lambda one: one.lower_bound)
        self._best = (found if found.objective < best.objective else best)._replace(
            lower_bound=proof.lower_bound, dual=proof.dual
        )
        self._evaluations += 1
        self._evaluating += clock() - began
