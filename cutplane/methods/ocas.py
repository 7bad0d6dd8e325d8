"""The line-searched bundle method for risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutplane.exceptions import InvalidInputError
from cutplane.methods.base import Method, Step
from cutplane.methods.moves import DIRECT, EPOCHS, NEWTON, Moves
from cutplane.methods.requirements import require_bounded_model, require_line
from cutplane.pieces.capabilities import LinearPredictor
from cutplane.pieces.validation import as_scalar

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run

_NEAR = 0.1
_FAR = 0.3
_BESIDE = 1e-6
"""An exact search ends at a kink, where rounding would choose the subgradient."""


@dataclass(frozen=True)
class OCAS(Method):
    """BMRM with a line search from the best point to the minimiser of the model, cut near the best point.

    ``w_b <- argmin F on the ray from w_b through w_t``, next cut at ``(1 - theta) w_b + theta w_t``. The
    search is exact where the risk is piecewise linear or quadratic, safeguarded otherwise. With a risk that
    keeps images (`LinearRisk`) an iteration takes two passes over the data, whatever the search does;
    otherwise the search calls the oracle a few times and keeps every cut.

    Four additions to the method of the paper [1]_ each save many iterations:

    * a cut at the solution itself, where the problem is one linear system that costs no more than the cuts
      would: a squared loss with `L2`, few features or few examples (any risk with `minimise_with`);
    * a second cut just beside w_b. It costs a part of a pass where the risk is piecewise linear, for few
      examples change sides between the two;
    * epochs of dual coordinate ascent before an iteration, as long as they close the gap faster than cuts do:
      their multipliers give a cut, a lower bound and a point. It takes a risk that offers them (`LinearRisk`
      with CSR or C-ordered data) and `L2`; where there are more features than examples, they do most of the
      work;
    * Newton steps of the method of multipliers [2]_, as long as they are expected to close the gap first: the
      losses are smoothed by their Moreau envelopes, whose slopes are multipliers that give a cut. They take a
      risk that offers them (`LinearRisk` with up to 2000 features) and `L2`, and are at their best with few
      features, small weights and small tolerances.

    Parameters
    ----------
    theta : float, optional
        Where on the segment from the best point (0) to the minimiser of the model (1) the next cut is taken;
        in (0, 1]. By default 0.3 if a linear risk has more features than examples, else 0.1.
    second_cut : bool, default True
        Whether to cut beside the best point too.
    dual_ascent : bool, default True
        Whether to use dual coordinate ascent, Newton steps and the linear system, where they are offered and
        pay.

    Raises
    ------
    MissingCapabilityError
        If the problem has neither a regularizer nor a bounded set, or the regularizer has no subgradient.

    References
    ----------
    .. [1] V. Franc, S. Sonnenburg, "Optimized cutting plane algorithm for large-scale risk minimization",
       JMLR 10, 2009,
       https://jmlr.org/papers/v10/franc09a.html.
    .. [2] X. Li, D. Sun, K.-C. Toh, "A highly efficient semismooth Newton augmented Lagrangian method for
       solving Lasso problems", SIAM J. Optim. 28, 2018, doi:10.1137/16M1097572.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
    >>> print(round(problem.solve(cut.OCAS(), tol=1e-9).objective, 6))
    0.125
    """

    theta: float | None = None
    second_cut: bool = True
    dual_ascent: bool = True

    def __post_init__(self) -> None:
        if self.theta is not None:
            as_scalar("OCAS.theta", self.theta, low=0.0, high=1.0, low_open=True)
        for name in ("second_cut", "dual_ascent"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(f"OCAS.{name} must be True or False, got {getattr(self, name)!r}.")

    def check(self, problem: Declaration) -> None:
        """Raise unless the reduced problem is bounded below and g can be followed along a line."""
        require_bounded_model(problem, self.name)
        require_line(problem, self.name)

    def start(self, run: Run) -> Moves:
        """Return what is known of the speed of dual ascent, of Newton steps and of cuts."""
        return Moves()

    def step(self, run: Run, state: Moves) -> Step:
        """Do a Newton step, or search the line to where epochs or the model point, and cut."""
        move = state.choose(run) if self.dual_ascent else None
        if move == DIRECT:
            if state.direct(run):
                return Step("direct", state)
            move = state.choose(run)
        if move == NEWTON and state.newton(run):
            state.learn(run)
            return Step("Newton", state)
        epochs, x = state.epochs(run) if move == EPOCHS else (0, None)
        start = run.best
        target = run.evaluate(run.reduced().x if x is None else x)
        if start is None or not target.feasible:
            run.add_cut(target)
            return Step("cut", state)
        best = run.line_search(start, target)
        if not (epochs or state.probing):
            self._cut(run, best, target)
        if self.dual_ascent:
            state.learn(run)
        kind = "serious" if best.objective < start.objective else "null"
        return Step(f"ascent {epochs}" if epochs else kind, state)

    def _cut(self, run: Run, best: Point, target: Point) -> None:
        if run.closed:
            return
        if best is target:
            run.add_cut(target)
            return
        if self.second_cut and run.imaged:
            run.add_cut(run.between(best, target, _BESIDE))
        run.add_cut(run.between(best, target, self._theta(run)))

    def _theta(self, run: Run) -> float:
        if self.theta is not None:
            return self.theta
        risk = run.problem.risk
        if not isinstance(risk, LinearPredictor):
            return _NEAR
        m, n = risk.data.X.shape
        return _FAR if n > m else _NEAR
