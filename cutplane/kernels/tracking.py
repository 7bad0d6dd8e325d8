"""The exact path of a kernel machine over the weight of its norm, as a method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import MissingCapabilityError
from cutplane.kernels.curves import Curves, curves_of
from cutplane.kernels.norm import machine_of
from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.methods.base import Method, Step
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.kernels.gram import Gram
    from cutplane.kernels.tracker import KernelTracker

_TURN = 64
"""Events of one iteration, after which K p and the factor are computed anew."""


@dataclass(frozen=True, eq=False)
class Machine:
    """sum_i c_i l(f(x_i) + b, y_i) + lam/2 ||f||^2 with f = sum_j a_j k(x_j, .), by its curves.

    Attributes
    ----------
    gram : Gram
    curves : Curves
    examples : KernelRisk or LinearPredictor
    intercept : bool
    lam : float
    point : callable
        (a, b) -> the vector of the problem.
    """

    gram: Gram
    curves: Curves
    examples: Any
    intercept: bool
    lam: float
    point: Callable[[Array, float], Array]


@dataclass(frozen=True)
class KernelPathTracking(Method):
    """The path of a support vector machine over the weight of its norm, followed from knot to knot [1]_.

    With a loss that is linear on pieces the multipliers p_i of the examples in

        minimise  sum_i c_i l(f(x_i) + b, y_i) + lam/2 ||f||^2,   f = -1/lam sum_i p_i k(x_i, .),

    are piecewise linear in lam, and so are f and b in 1/lam. Beyond the first knot the p_i stay the same:
    those of the function of least norm among the best ones for lam = inf. From there down to the weight of
    the problem each linear piece ends where the prediction for an example comes to a kink of its loss (it
    joins the elbow), or a multiplier comes to a bound (it leaves). The direction comes from a Cholesky factor
    for the examples in the elbow, which follows each event. Of events at one weight the one with the
    least index goes first. Where examples of the elbow depend on one another, the multipliers move along the
    set of all solutions until they do not.

    With an intercept the elbow is never empty: an example whose multiplier is at a bound may stay there, and
    where an interval of intercepts is best, the one in use is an end of it.

    The last point is proven by the cut of its multipliers. Use it through `Problem.path` with ``exact=True``,
    which keeps the knots.

    It takes `Hinge`, `Absolute`, `Quantile`, `EpsilonInsensitive` and other losses that are linear on
    pieces, in a `KernelRisk` with its `squared_norm`, or in a `LinearRisk` with `L2`, without a feasible
    set. With curved losses the path is no piecewise linear one.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form.

    References
    ----------
    .. [1] T. Hastie, S. Rosset, R. Tibshirani, J. Zhu, "The entire regularization path for the support
       vector machine", JMLR 5, 2004, https://jmlr.org/papers/v5/hastie04a.html.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> risk = cut.kernels.KernelRisk(X, y, cut.losses.Hinge(), cut.kernels.Linear())
    >>> path = cut.Problem(risk, risk.squared_norm(0.1)).path(exact=True)
    >>> path.knots.round(6).tolist(), path.events
    ([4.375, 1.25, 1.0, 0.5, 0.1], ('starts', 'leaves 0', 'joins 1', 'joins 2', 'ends'))
    """

    first_cut = False
    stabilizations = ()

    def check(self, problem: Declaration) -> None:
        """Raise unless the problem has the form."""
        self.machine(problem)

    def start(self, run: Run) -> KernelTracker:
        """Go to the weight where the path begins."""
        from cutplane.kernels.tracker import KernelTracker

        return run.timed(KernelTracker, run.problem, self.machine(run.problem))

    def step(self, run: Run, state: KernelTracker) -> Step:
        """Go on by some events; at the end, prove the last point."""
        try:
            done = run.timed(state.advance, _TURN)
        except ArithmeticError as lost:
            return Step("tracking", state, f"the path is lost at lam = {state.lam:.6g}: {lost}")
        run.proceed()
        if not done:
            return Step("tracking", state)
        run.evaluate(state.point)
        run.add_dual_cut(state.multipliers(state.p))
        reason = None if run.closed else "the path has ended, and rounding errors leave a gap"
        return Step("proof", state, reason)

    def machine(self, problem: Declaration) -> Machine:
        """Return the machine that a problem is; raise `MissingCapabilityError` if it is none."""
        risk: Any = problem.risk
        if offers(risk, Capability.KERNEL_PREDICTOR):
            risk, lam = machine_of(problem, self.name, "Use path(lams).")
            curves = self._curves(risk.loss, risk.y, risk.weights)
            point = np.append if risk.intercept else _alone
            return Machine(risk.gram, curves, risk, bool(risk.intercept), lam, point)
        return self._linear(problem)

    def _curves(self, loss: ScalarLoss, y: Array, weights: Array) -> Curves:
        phi, curves = pieces_of(loss), curves_of(loss, y, weights)
        if phi is None or curves is None or phi.curvatures.any() or not phi.jumps.any():
            raise MissingCapabilityError(
                f"{self.name} needs a loss that is linear on pieces and has a least value, such as Hinge() "
                f"or Quantile(), got {loss!r}. Use path(lams)."
            )
        return curves

    def _linear(self, problem: Declaration) -> Machine:
        """Return a machine of linear predictions, whose features are scaled to a norm with equal weights."""
        from cutplane.kernels.functions import Linear
        from cutplane.kernels.gram import Gram
        from cutplane.kernels.rows import CACHE_BYTES

        risk: Any = ask(problem.risk, Capability.LINEAR_PREDICTOR)
        if risk is None or risk.n_blocks > 1 or not offers(problem.risk, Capability.DUAL_CUT):
            raise MissingCapabilityError(
                f"{self.name} needs a KernelRisk, or a risk of linear predictions with one block, got "
                f"{problem.risk!r}. Use path(lams)."
            )
        curves, n, g = self._curves(risk.loss, risk.y, risk.weights), risk.X.shape[1], problem.regularizer
        form = ask(problem.active_regularizer, Capability.QUADRATIC, problem.dim)
        square = form is not None and problem.is_unconstrained and not form.centre.any()
        if form is None or not square or not n or not form.weights[:n].all():
            raise MissingCapabilityError(
                f"{self.name} needs squares of all weights around 0, such as L2(0.1), and no feasible set; "
                f"got {g!r} over {problem.feasible_set!r}. Use path(lams)."
            )
        free = bool(risk.intercept) and form.weights[n] == 0.0
        scale = np.sqrt(g.lam / form.weights[: problem.dim - free])
        X = risk.X if scale.size == n else _with_ones(risk.X)
        Z = X if (scale == 1.0).all() else X @ sparse.diags_array(scale)
        gram = Gram(Linear(), Z, CACHE_BYTES)

        def point(a: Array, b: float) -> Array:
            w = scale * (gram.X.T @ a)
            return np.append(w, b) if free else w

        return Machine(gram, curves, risk, free, g.lam, point)


def _alone(a: Array, b: float) -> Array:
    return a


def _with_ones(X: Any) -> Any:
    ones = np.ones((X.shape[0], 1))
    return sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])
