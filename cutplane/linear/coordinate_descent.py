"""Primal coordinate descent for linear predictors with l1 norms, bounds, norms of groups, and their kin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.costs import DESCENT, DESCENT_ENTRY, KINKED, KINKED_ENTRY, USUAL_FALL
from cutplane.exceptions import MissingCapabilityError
from cutplane.linear.group_terms import group_terms_of
from cutplane.linear.predictor import predictor_of
from cutplane.linear.terms import terms_of
from cutplane.methods.base import Method, Step
from cutplane.pieces.capabilities import Capability, offers

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.linear.descent import Descent
    from cutplane.linear.predictor import LinearPredictor


@dataclass(frozen=True)
class CoordinateDescent(Method):
    """Coordinate descent on working sets, each step with a cut, a lower bound and exact zeros.

    The regularizer and the bounds are a sum over the coordinates, ``sum_j h_j(x_j)`` with h_j(x_j) = a_j
    |x_j| + q_j (x_j - o_j)^2 / 2 on an interval. Coordinates that move, and those whose slopes pull most,
    form a working set [1]_; it is solved by sweeps with extrapolation [2]_ over a quadratic model of the
    losses [3]_, and by Newton steps in the coordinates that move where the sweeps are slow. Losses with kinks
    are smoothed by Moreau envelopes, shifted by multipliers as in the method of multipliers [4]_. The slopes
    of the losses are multipliers u_i of the examples; scaled by the factor s at which the conjugates h_j*(-s
    sum_i c_i u_i x_ij) are finite, they give a cut and the lower bound. Where a coordinate has neither a cost
    nor bounds, such as a bias, a Newton step makes their slope zero first.

    It takes a risk of linear predictions (`LinearRisk` with data of any layout, one block, a loss with
    pieces, or with a conjugate and a second derivative), `L1`, `ElasticNet`, `L2` and their sums, with
    weights and on parts of the coordinates, over the whole space or a `Box`; every coordinate is to have a
    cost, a square, two bounds, or none of them. Or `GroupLasso`, on some or all of the coordinates, over the
    whole space: groups take the place of coordinates, and the steps of sweeps are proximal gradient steps.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form; `Portfolio` does without it then.

    References
    ----------
    .. [1] M. Massias, A. Gramfort, J. Salmon, "Celer: a fast solver for the lasso with dual extrapolation",
       ICML 2018, arXiv:1802.07481.
    .. [2] Q. Bertrand, M. Massias, "Anderson acceleration of coordinate descent", AISTATS 2021,
       arXiv:2011.10065.
    .. [3] G.-X. Yuan, C.-H. Ho, C.-J. Lin, "An improved GLMNET for l1-regularized logistic regression",
       KDD 2011, doi:10.1145/2020408.2020421.
    .. [4] X. Li, D. Sun, K.-C. Toh, "A highly efficient semismooth Newton augmented Lagrangian method for
       solving Lasso problems", SIAM J. Optim. 28, 2018, doi:10.1137/16M1097572.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> risk = cut.LinearRisk(np.eye(2), [1.0, 3.0], cut.losses.Squared())
    >>> result = cut.Problem(risk, cut.L1(0.75)).solve(cut.linear.CoordinateDescent(), tol=1e-9)
    >>> (result.x.round(6).tolist(), round(result.objective, 6))
    ([0.0, 1.5], 1.9375)
    """

    turn = 1
    memory = 0.0

    def check(self, problem: Declaration) -> None:
        """Raise unless the problem has the form."""
        risk, terms = predictor_of(problem), terms_of(problem) or group_terms_of(problem)
        if risk is None or not suits(risk) or not offers(problem.risk, Capability.DUAL_CUT):
            raise MissingCapabilityError(
                f"{self.name} needs a risk of linear predictions, one block, and a loss with pieces, or a "
                f"second derivative and a conjugate, got {problem.risk!r}. Use Portfolio()."
            )
        if terms is None or not terms.scalable:
            raise MissingCapabilityError(
                f"{self.name} needs a regularizer and bounds of the coordinates, as L1(0.1) over a Box, or "
                "norms of groups, got "
                f"{problem.regularizer!r} over {problem.feasible_set!r}. Use Portfolio()."
            )
        if not terms.costs.any() and problem.is_unconstrained:
            raise MissingCapabilityError(
                f"{self.name} is for costs |x_j| and bounds, and {problem.regularizer!r} is smooth. "
                "Use Portfolio()."
            )

    def usual_rate(self, problem: Declaration) -> float:
        """Return by how much the logarithm of the gap usually falls per nanosecond."""
        risk: Any = predictor_of(problem)
        entries = risk.X.shape[0] * risk.data.row_entries
        if math.isfinite(risk.loss.smoothness):
            return USUAL_FALL / (DESCENT + DESCENT_ENTRY * entries)
        return USUAL_FALL / (KINKED + KINKED_ENTRY * entries)

    def start(self, run: Run) -> Descent:
        """Begin at the best point."""
        from cutplane.linear.descent import Descent

        point = run.anchor
        return Descent(run.problem, point.x.copy(), np.array(point.image, dtype=np.float64))

    def step(self, run: Run, state: Descent) -> Step:
        """Solve working sets, evaluate where that ends, and add the cut of the multipliers there."""
        return Step("descent", state, state.advance(run))


def lam_max(problem: Declaration) -> float:
    """Return the least weight of the regularizer with which all coordinates that have a cost are zero.

    The others are minimised over, with these at zero; then it is the largest slope of the risk in proportion
    to its cost. A path begins there.

    Parameters
    ----------
    problem : Problem
        One that `CoordinateDescent` takes, with a loss without kinks; its own weight, which has to be
        positive, does not matter.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form, or no weight makes those coordinates zero.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> problem = cut.Problem(cut.LinearRisk(np.eye(2), [1.0, 3.0], cut.losses.Squared()), cut.L1())
    >>> cut.linear.lam_max(problem)
    1.5
    >>> path = problem.path(cut.linear.lam_max(problem) * np.array([1.0, 0.5]), tol=1e-9)
    >>> [result.x.round(6).tolist() for result in path]
    [[0.0, 0.0], [0.0, 1.5]]
    """
    from cutplane.linear.descent import Descent

    CoordinateDescent().check(problem)
    x = np.zeros(problem.dim)
    state = Descent(problem, x, np.zeros(predictor_of(problem).y.shape))  # pyright: ignore[reportOptionalMemberAccess]
    terms, paid = state.terms, state.terms.costs > 0.0
    if state.examples.kinked:
        raise MissingCapabilityError(
            f"lam_max needs a loss without kinks, such as SquaredHinge(), got {problem.risk!r}; for others "
            "begin a path at a weight whose solution is zero."
        )
    if terms.forced:
        raise MissingCapabilityError(
            f"No weight of {problem.regularizer!r} makes the coordinates zero over {problem.feasible_set!r}."
        )
    slopes = state.slopes_without(paid)
    return problem.regularizer.lam * float(terms.ratios(x, slopes)[paid].max(initial=0.0))


def suits(risk: LinearPredictor) -> bool:
    """Tell whether coordinate descent suits a risk: one block, and a loss with bends."""
    return bool(risk.n_blocks == 1 and offers(risk.loss, Capability.SECOND_DERIVATIVE))
