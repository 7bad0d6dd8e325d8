"""The optimized cutting plane algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutplane.exceptions import InvalidInputError
from cutplane.methods.base import Estimate, Method, Refusal, Step, require_bounded_model, require_line
from cutplane.methods.estimates import of_cuts, sizes, stable_rounds, vertex_rounds
from cutplane.pieces.validation import as_scalar

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_CALLS = 4.5
"""Number of oracle calls in an iteration, because a line search takes all but one, or computing images takes
as long."""
_CURVED, _KINKED = 1.5, 0.7
"""Iterations relative to the proximal bundle method, for smooth and for kinked risks, because random problems
took so many."""
_BESIDE = 1e-6
"""Position of the cut near the best point, as a share of the segment; not zero, because an exact search ends
at a kink, where rounding errors would determine the subgradient."""


@dataclass(frozen=True)
class OCAS(Method):
    """BMRM with a line search from the best point to the model's minimiser, and cuts near the best point.

    ``w_b <- argmin F on the ray from w_b through w_t``; the next cut is at ``(1 - theta) w_b + theta w_t``
    [1]_. The search is exact if the risk is piecewise linear or quadratic, otherwise iterative. With a risk
    that has images (`LinearRisk`) an iteration takes two passes over the data, for any number of points on
    the line; otherwise the search calls the oracle a few times and keeps every cut. `Portfolio` combines it
    with faster methods for problems of special forms.

    Parameters
    ----------
    theta : float, default 0.1
        Position of the next cut on the segment from the best point (0) to the minimiser of the model (1); in
        (0, 1].
    second_cut : bool, default False
        Whether to add a cut very close to w_b, too, for risks with images; this is not in the paper. It costs
        a part of a pass if the risk is piecewise linear, because few examples have another derivative at the
        second point.

    Raises
    ------
    MissingCapabilityError
        If the problem has neither a regularizer nor a bounded set, or the regularizer has no subgradient.

    References
    ----------
    .. [1] V. Franc, S. Sonnenburg, "Optimized cutting plane algorithm for large-scale risk minimization",
       JMLR 10, 2009, https://jmlr.org/papers/v10/franc09a.html.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
    >>> print(round(problem.solve(cut.OCAS(), tol=1e-9).objective, 6))
    0.125
    """

    theta: float = 0.1
    second_cut: bool = False

    def __post_init__(self) -> None:
        as_scalar("OCAS.theta", self.theta, low=0.0, high=1.0, low_open=True)
        if not isinstance(self.second_cut, bool):
            raise InvalidInputError(f"OCAS.second_cut must be True or False, got {self.second_cut!r}.")

    def check(self, problem: Declaration) -> None:
        require_bounded_model(problem, self.name)
        require_line(problem, self.name)

    def estimate(self, problem: Declaration) -> Refusal | Estimate:
        rounds = stable_rounds(problem) * (_CURVED if sizes(problem).smooth else _KINKED)
        if problem.risk.linear and problem.separators:
            rounds = vertex_rounds(problem)
        return of_cuts(problem, (None,), rounds, _CALLS)

    def step(self, run: Run, state: None) -> Step:
        start = run.best
        target = run.evaluate(run.reduced().x)
        if start is None or not target.feasible:
            run.add_cut(target)
            return Step("cut")
        best = run.line_search(start, target)
        if best is target and not run.closed:
            run.add_cut(target)
        elif not run.closed:
            if self.second_cut and run.evaluator.imaged:
                run.add_cut(run.between(best, target, _BESIDE))
            run.add_cut(run.between(best, target, self.theta))
        return Step("serious" if best.objective < start.objective else "null")
