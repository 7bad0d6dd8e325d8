"""Fast methods for linear predictors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.engine.costs import (
    BATCH,
    DESCENT,
    DESCENT_ENTRY,
    KINKED,
    KINKED_ENTRY,
    NEWTON,
    OVERHEAD,
    USUAL_FALL,
    cost_of_newton,
    cost_of_pass,
)
from cutplane.exceptions import MissingCapabilityError
from cutplane.linear.predictor import (
    LinearPredictor,
    Regularized,
    predictor_of,
    quadratic_of,
    require_regularized,
)
from cutplane.linear.terms import terms_of
from cutplane.methods.base import Method, Step
from cutplane.pieces.capabilities import Capability, offers, require

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.linear.descent import LineDescent
    from cutplane.linear.dual_ascent import Batches
    from cutplane.linear.multiplier_method import NewtonSteps

_SAMPLE = 2048
"""Number of examples whose norms predict the rate of ascent, because one percent of accuracy is enough."""
FIRST_EPOCHS = 4
"""Number of epochs before the first gap check, because fewer epochs seldom close the gap."""
_USUAL_EPOCHS = 20
"""Number of epochs with sparse or few examples, because they share few features and the theory is then too
pessimistic."""
_MOST_FEATURES = 2000
"""Most features of a Newton step, because factoring a Hessian of 32 MB takes about half a second."""
_USUAL_SHARE, _USUAL_STEPS, _USUAL_IF_SMOOTH = 0.1, 12, 4
"""Share of examples near a kink, and Newton steps for a gap of 1e-3 with and without kinks, fewer without
because the model is then exact."""


@dataclass(frozen=True)
class LinearSystem(Method):
    """The minimiser of ``f(x) + 1/2 sum_j weights_j (x_j - centre_j)^2``, by one linear system, and its cut.

    It needs a risk with `minimise_with`, for example a squared loss with few features or few examples, and a
    diagonal quadratic such as `L2`. The lower bound is computed from the cut.

    Raises
    ------
    MissingCapabilityError
        If the risk has no `minimise_with`, or the other pieces are more than a diagonal quadratic.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> problem = cut.Problem(cut.LinearRisk(np.eye(2), [1.0, 3.0], cut.losses.Squared()), cut.L2(1.0))
    >>> result = problem.solve(cut.linear.LinearSystem())
    >>> (result.n_iter, result.x.round(6).tolist())
    (1, [0.333333, 1.0])
    """

    def check(self, problem: Declaration) -> None:
        require(problem.risk, Capability.MINIMISER, self.name, "Use Portfolio() or OCAS().")
        if quadratic_of(problem) is None:
            raise MissingCapabilityError(
                f"{self.name} needs a diagonal quadratic, such as L2(0.1), and no feasible set; got "
                f"{problem.regularizer!r} over {problem.simple_set!r}. Use Portfolio() or OCAS()."
            )

    def step(self, run: Run, state: None) -> Step:
        quadratic = quadratic_of(run.problem)
        assert quadratic is not None
        x = run.evaluator.minimiser(quadratic)
        if x is None:
            return Step("singular", finished="the linear system is singular; use OCAS()")
        known = run.n_cuts
        run.add_cut(run.evaluate(x))
        new = np.arange(run.n_cuts) >= known
        if new.sum() == run.problem.risk.n_blocks:
            run.certify(new.astype(np.float64))
        if not run.closed:
            run.reduced()
        return Step("direct")


@dataclass(frozen=True)
class CoordinateAscent(Method):
    """Dual coordinate ascent, with a cut and a lower bound after each batch of epochs.

    With multipliers u_i of the examples, ``x = centre - (sum_i c_i u_i x_i) / weights``; a step on one u_i is
    a proximal step of its loss [1]_. After a batch of epochs, the multipliers give a cut and a lower bound;
    if the gap is still open, the line from the best point through x is searched. This is the fastest method
    if there are more features than examples. With a bias without a weight, such a cut gives no bound alone,
    because it is not flat along the bias. Then the cut of the best point is added, and `Portfolio` proves the
    last digits.

    It needs a risk of linear predictions (`LinearRisk` with CSR or C-ordered data, one block, a loss with a
    conjugate and a second derivative) and `L2` with equal weights, except of a bias, without a feasible set.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form; `Portfolio` then omits it.

    References
    ----------
    .. [1] C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual coordinate descent
       method for large-scale linear SVM", ICML 2008, doi:10.1145/1390156.1390208.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
    >>> print(round(problem.solve(cut.linear.CoordinateAscent(), tol=1e-9).objective, 6))
    0.125
    """

    turn = 1
    memory = 0.0

    def check(self, problem: Declaration) -> None:
        found = require_regularized(problem, self.name)
        X = found.risk.X
        rows = X.format == "csr" if sparse.issparse(X) else X.flags.c_contiguous
        if np.ptp(found.quadratic.weights[: X.shape[1]]) > 0.0 or not (rows and has_bends(found.risk)):
            raise MissingCapabilityError(
                f"{self.name} needs equal weights in {problem.regularizer!r}, one block, rows that can be "
                "read one by one (CSR or C-ordered) and a loss with a second derivative, got "
                f"{found.risk!r}. Use Portfolio()."
            )

    def usual_rate(self, problem: Declaration) -> float:
        """Return the usual decrease of log(gap) per nanosecond.

        If Newton steps have few coordinates, it is the rate of the theory: an epoch reduces the gap by the
        share s / (1 + s), where s is the weight of the regularizer divided by the mean of c_i ||x_i||^2 and
        by the smoothness of the loss. It is 0 with a free bias if Newton steps suit, because the cuts of
        ascent then give no bound alone.
        """
        form = require_regularized(problem, self.name)
        (m, n, _), risk, epoch = form.size, form.risk, form.cost_of_epoch
        if sparse.issparse(risk.X) or m < n:
            return USUAL_FALL / (_USUAL_EPOCHS * epoch + cost_of_pass(form.size))
        if not form.quadratic.is_strict and newton_suits(risk):
            return 0.0
        rows = slice(None, None, max(1, m // _SAMPLE))
        norms = np.square(risk.X[rows], dtype=np.float64).sum(axis=1)
        steep = float(risk.weights[rows] @ norms) / norms.size
        bend = risk.loss.smoothness
        share = float(form.quadratic.weights[0]) / max(steep * (bend if math.isfinite(bend) else 1.0), 1e-300)
        epochs = max(USUAL_FALL / max(math.log1p(share), 1e-300), FIRST_EPOCHS)
        iterations = max(epochs / max(FIRST_EPOCHS, BATCH / epoch), 1.0)
        return USUAL_FALL / (epochs * epoch + iterations * cost_of_pass(form.size))

    def start(self, run: Run) -> Batches:
        """Return the state before the first epoch, from the multipliers of the last dual cut, if any."""
        from cutplane.linear.dual_ascent import Batches

        return Batches(require_regularized(run.problem, self.name), run)

    def step(self, run: Run, state: Batches) -> Step:
        if state.ascent is None:
            return Step("none", state, "the loss cannot be compiled; use OCAS()")
        start, epochs = run.best, run.timed(state.ascend, run.tolerance)
        bound = run.add_dual_cut(state.ascent.multipliers)
        point = best = run.evaluate(state.ascent.x.copy())
        if start is not None and point.feasible and not run.closed:
            best = run.line_search(start, point)
        if state.free and not run.closed:
            run.add_cut(best)
        state.conclude(run, (run.upper if state.free else point.objective) - bound)
        useless = math.isinf(state.remaining)
        return Step(
            f"ascent {epochs}", state, "the multipliers give no bound; use OCAS()" if useless else None
        )


@dataclass(frozen=True)
class SemismoothNewton(Method):
    """Newton steps on a problem whose losses are smoothed by their Moreau envelopes, shifted by multipliers.

    The slopes of the envelopes are multipliers of the examples, which give a cut and a lower bound. Close to
    the minimiser of the smoothed problem, they become the next shifts, as in the method of multipliers [1]_.
    A step costs a pass over the data, the Gram matrix of the examples near a kink, and a Cholesky factor. The
    method is fast for few features, small weights and small tolerances.

    It needs a risk of linear predictions (`LinearRisk` with up to 2000 features, one block, a loss with a
    conjugate and a second derivative) and a diagonal quadratic such as `L2`, without a feasible set.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form; `Portfolio` then omits it.

    References
    ----------
    .. [1] X. Li, D. Sun, K.-C. Toh, "A highly efficient semismooth Newton augmented Lagrangian method for
       solving Lasso problems", SIAM J. Optim. 28, 2018, doi:10.1137/16M1097572.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0, 0.0], [-2.0, 0.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
    >>> print(round(problem.solve(cut.linear.SemismoothNewton(), tol=1e-9).objective, 6))
    0.125
    """

    turn = 12
    memory = 0.5

    def check(self, problem: Declaration) -> None:
        found = require_regularized(problem, self.name)
        if not newton_suits(found.risk):
            raise MissingCapabilityError(
                f"{self.name} needs one block, at most 2000 features, rows that can be read one by one and a "
                f"loss with a second derivative, got {found.risk!r}. Use Portfolio() or OCAS()."
            )

    def usual_rate(self, problem: Declaration) -> float:
        """Return the usual decrease of log(gap) per nanosecond."""
        return USUAL_FALL / usual_cost_of_newton(require_regularized(problem, self.name))

    def start(self, run: Run) -> NewtonSteps:
        """Return the state before the first step, from the last multipliers and the best point."""
        from cutplane.linear.multiplier_method import MultiplierMethod, NewtonSteps

        form = require_regularized(run.problem, self.name)
        risk, quadratic, point = form.risk, form.quadratic, run.best
        assert point is not None
        kinked = math.isinf(risk.loss.smoothness)
        if point is run.first and kinked and cost_of_newton(form.size, 0.0) > 2.0 * NEWTON:
            weights, centre = quadratic.weights, quadratic.centre
            slope, strict = run.slopes(point)[0], weights > 0.0
            lowest = np.where(strict, centre - slope / np.where(strict, weights, 1.0), point.x)
            run.line_search(point, run.evaluate(lowest))  # the minimiser of the cut plus the quadratic
        point: Any = run.best
        gap = point.objective - run.lower
        size = gap if math.isfinite(gap) else abs(point.objective)
        return NewtonSteps(
            MultiplierMethod(risk, quadratic, run.known_multipliers(), np.asarray(point.image), size), point
        )

    def step(self, run: Run, state: NewtonSteps) -> Step:
        return Step("Newton", state, None if state.step(run) else "rounding errors leave no Newton step")


@dataclass(frozen=True)
class CoordinateDescent(Method):
    """Coordinate descent on working sets, with a cut, a lower bound and exact zeros after each step.

    The regularizer and the bounds are a sum over the coordinates, ``sum_j h_j(x_j)`` with h_j(x_j) = a_j
    |x_j| + q_j (x_j - o_j)^2 / 2 on an interval. Coordinates that can change both ways, and those with the
    largest slopes, form a working set [1]_. It is solved by sweeps with extrapolation [2]_ over a quadratic
    model of the losses [3]_, or by Newton steps if the sweeps are slow. Losses with kinks are smoothed by
    Moreau envelopes, shifted by multipliers as in the method of multipliers [4]_. The slopes of the losses
    are multipliers u_i of the examples. Scaled by the factor s at which the conjugates h_j*(-s sum_i c_i u_i
    x_ij) are finite, they give a cut and the lower bound. If a coordinate has neither a cost nor bounds, for
    example a bias, a Newton step first makes its slope zero.

    It needs a risk of linear predictions (`LinearRisk` with data of any layout, one block, a loss with
    pieces, or with a conjugate and a second derivative), and `L1`, `ElasticNet`, `L2` or their sums, with
    weights and on parts of the coordinates, over the whole space or a `Box`. Every coordinate must have a
    cost, a square, two bounds, or none of them. The regularizer can also be `GroupLasso`, on some or all
    coordinates, over the whole space. Groups then replace coordinates, and sweeps take proximal gradient
    steps.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form; `Portfolio` then omits it.

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
        risk, terms = predictor_of(problem), terms_of(problem, groups=True)
        if risk is None or not has_bends(risk) or not offers(problem.risk, Capability.DUAL_CUT):
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
        """Return the usual decrease of log(gap) per nanosecond."""
        risk: Any = predictor_of(problem)
        entries = risk.X.shape[0] * risk.data.row_entries
        if math.isfinite(risk.loss.smoothness):
            return USUAL_FALL / (DESCENT + DESCENT_ENTRY * entries)
        return USUAL_FALL / (KINKED + KINKED_ENTRY * entries)

    def start(self, run: Run) -> LineDescent:
        from cutplane.linear.descent import LineDescent

        point = run.anchor
        return LineDescent(run.problem, point.x.copy(), np.array(point.image, dtype=np.float64))

    def step(self, run: Run, state: LineDescent) -> Step:
        return Step("descent", state, state.advance(run))


def lam_max(problem: Declaration) -> float:
    """Return the least weight of the regularizer for which all coordinates with a cost are zero.

    The risk is minimised over the other coordinates. The weight is then the largest slope of the risk divided
    by the cost of its coordinate. A path starts at this weight.

    Parameters
    ----------
    problem : Problem
        A problem for `CoordinateDescent`, with a loss without kinks and any positive weight.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form, or no weight makes these coordinates zero.

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
    from cutplane.linear.descent import LineDescent

    CoordinateDescent().check(problem)
    risk: Any = predictor_of(problem)
    x = np.zeros(problem.dim)
    state = LineDescent(problem, x, np.zeros(risk.y.shape))
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


def has_bends(risk: LinearPredictor) -> bool:
    """Tell whether a risk has one block, and a loss with a second derivative."""
    return bool(risk.n_blocks == 1 and offers(risk.loss, Capability.SECOND_DERIVATIVE))


def newton_suits(risk: LinearPredictor) -> bool:
    """Tell whether Newton steps suit a risk: second derivative, one block, few features, cheap rows."""
    rows = risk.X.format == "csr" if sparse.issparse(risk.X) else risk.data.cheap_rows
    return has_bends(risk) and risk.X.shape[1] <= _MOST_FEATURES and bool(rows)


def usual_cost_of_newton(form: Regularized) -> float:
    """Return the usual cost of Newton steps until the gap is 1e-3."""
    smooth = math.isfinite(form.risk.loss.smoothness)
    steps, share = (_USUAL_IF_SMOOTH, 1.0) if smooth else (_USUAL_STEPS, _USUAL_SHARE)
    cost = steps * cost_of_newton(form.size, share * form.size[0])
    return cost + OVERHEAD * min(max(cost / BATCH, 1.0), steps)
