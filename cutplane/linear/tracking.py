"""The exact path of solutions over the weight of an l1 norm, as a method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutplane.engine.costs import OVERHEAD, PER_DENSE_ENTRY
from cutplane.exceptions import MissingCapabilityError
from cutplane.linear.predictor import predictor_of
from cutplane.linear.terms import terms_of
from cutplane.losses.base import pieces_of
from cutplane.methods.base import Method, Step
from cutplane.methods.requirements import suits

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.linear.tracker import Tracker

_TURN = 64
"""Events of one iteration."""
_PER_EVENT = 6e4
"""What an event costs outside the data, in the nanoseconds of `engine.costs`."""
_SOLVE, _EPOCHS = 9.0, 20.0
"""A solve from the last weight's solution: iterations, and passes over the data in them."""


@dataclass(frozen=True)
class PathTracking(Method):
    """The path of solutions over the weight of an l1 norm, followed from knot to knot [1]_.

    With a differentiable loss that is quadratic on pieces the solution of

        minimise  sum_i c_i l(<x_i, w> + b, y_i) + sum_j q_j (w_j - o_j)^2 / 2 + lam sum_j a_j |w_j|

    is a piecewise linear function of lam. From the least lam at which all coordinates with a cost are zero,
    down to that of the problem, each linear piece ends where a coordinate joins the active ones, one leaves
    them, or a prediction crosses to another piece of its loss. The direction of a piece comes from a Cholesky
    factor for the active coordinates, which each event changes by a rank of one, and which is made anew
    when it has lost digits. Of events that happen at once the one with the least index goes first. Where
    the active columns become dependent the solution moves along the set of all solutions until they are not.

    The last point is proven by the cut of its multipliers, as in `CoordinateDescent`. Use it through
    `Problem.path` with ``exact=True``, which keeps the knots.

    It takes a risk of linear predictions with one block (`LinearRisk`, with data of any layout, whose columns
    are copied together unless they are contiguous), a loss without kinks such as `Squared`, `SquaredHinge`,
    `Huber` or `ModifiedHuber`, and `L1`, `ElasticNet`, or other sums of costs and squares of the coordinates,
    over the whole space. Coordinates without a cost, such as a bias, are active all along.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form.

    References
    ----------
    .. [1] S. Rosset, J. Zhu, "Piecewise linear regularized solution paths", Ann. Stat. 35, 2007,
       doi:10.1214/009053606000001370.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> risk = cut.LinearRisk(np.eye(2), [1.0, 3.0], cut.losses.Squared())
    >>> result = cut.Problem(risk, cut.L1(0.25)).solve(cut.linear.PathTracking(), tol=1e-9)
    >>> (result.x.round(6).tolist(), round(result.objective, 6))
    ([0.5, 2.5], 0.875)
    """

    def check(self, problem: Declaration) -> None:
        """Raise unless the problem has the form."""
        risk, terms = predictor_of(problem), terms_of(problem)
        phi = None if risk is None else pieces_of(risk.loss)
        if risk is None or risk.n_blocks > 1 or phi is None or phi.jumps.any():
            raise MissingCapabilityError(
                f"{self.name} needs a risk of linear predictions, one block, and a loss that is quadratic on "
                f"pieces and has no kinks, such as SquaredHinge(), got {problem.risk!r}. Use path(lams)."
            )
        if terms is None or not terms.costs.any() or not problem.is_unconstrained:
            raise MissingCapabilityError(
                f"{self.name} needs an l1 norm, such as L1(0.1), beside squares at most, and no feasible "
                f"set; got {problem.regularizer!r} over {problem.feasible_set!r}. Use path(lams)."
            )

    def turns(self, problem: Declaration, count: int) -> int:
        """Return the iterations that should cost as much as so many solves along the path.

        How many events a path has is not known before. Left after so many, it costs no more than the solves
        that follow. 0 if there is no path, or squares beside the norm, whose weight it would leave as it is.
        """
        terms, risk = terms_of(problem), predictor_of(problem)
        if risk is None or terms is None or terms.weights.any() or not suits(self, problem):
            return 0
        entries = float(risk.X.size)
        solve = _SOLVE * OVERHEAD + _EPOCHS * PER_DENSE_ENTRY * entries
        return math.ceil(count * solve / (_TURN * (_PER_EVENT + PER_DENSE_ENTRY * entries)))

    def start(self, run: Run) -> Tracker:
        """Go to the weight where the path begins."""
        from cutplane.linear.tracker import Tracker

        return Tracker(run.problem)

    def step(self, run: Run, state: Tracker) -> Step:
        """Go on by some events; at the end, prove the last point."""
        try:
            done = run.timed(state.advance, _TURN)
        except ArithmeticError as lost:
            return Step("tracking", state, f"the path is lost at lam = {state.t:.6g} times its end: {lost}")
        run.proceed()
        if not done:
            return Step("tracking", state)
        return Step("proof", state, state.ending.advance(run))
