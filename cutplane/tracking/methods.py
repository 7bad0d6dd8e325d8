"""Methods that follow a solution with an active set: exact paths, and SimpleSVM for kernel machines."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.engine.costs import OVERHEAD, PER_DENSE_ENTRY
from cutplane.exceptions import MissingCapabilityError
from cutplane.kernels.dual import machine_of, made_feasible, multipliers
from cutplane.linear.predictor import predictor_of
from cutplane.linear.terms import terms_of
from cutplane.losses.base import pieces_of
from cutplane.methods.base import Method, Step
from cutplane.methods.estimates import suits
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.pieces.validation import Array
from cutplane.tracking.curves import Curves, curves_of

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.kernels.gram import Gram
    from cutplane.kernels.risk import KernelRisk
    from cutplane.tracking.l1_path import L1Path
    from cutplane.tracking.machine_path import MachinePath, Pivoting
    from cutplane.tracking.walker import PathWalker

_TURN = 64
"""Number of events in one iteration, because the driver's work is then a few percent of their time."""
_PER_EVENT = 6e4
"""Cost of an event without passes over the data, in nanoseconds as in `engine.costs`, large because the code
is interpreted."""
_SOLVE, _EPOCHS = 9.0, 20.0
"""Iterations of a solve that starts at the last weight's solution, and its passes over the data, because
coordinate descent takes about so many."""
_SLICE = 40_000_000
"""Matrix entries that the changes of an iteration read, because this takes some hundredths of a second."""
_PATIENCE = 3
"""Number of certified bounds without improvement at which the method stops, because rounding errors then make
it cycle. The bounds are computed after 1, 2, 4, ... changes."""


class PathMethod(Method):
    """A method whose state is a `PathWalker`."""

    def step(self, run: Run, state: PathWalker) -> Step:
        try:
            done = run.timed(state.advance, _TURN)
        except ArithmeticError as lost:
            reached = state.lam / state.end
            return Step("tracking", state, f"the path is lost at lam = {reached:.6g} times its end: {lost}")
        run.proceed()
        if not done:
            return Step("tracking", state)
        return Step("proof", state, state.prove(run))


@dataclass(frozen=True)
class PathTracking(PathMethod):
    """The path of solutions over the weight of an l1 norm, followed from knot to knot [1]_.

    With a differentiable, piecewise quadratic loss, the solution of

        minimise  sum_i c_i l(<x_i, w> + b, y_i) + sum_j q_j (w_j - o_j)^2 / 2 + lam sum_j a_j |w_j|

    is a piecewise linear function of lam. The path starts at the least lam at which all coordinates with a
    cost are zero, and ends at the weight of the problem. A linear piece ends when a coordinate becomes active
    or inactive, or a prediction enters another piece of its loss. The direction of a piece is computed with a
    Cholesky factor for the active coordinates. Each event updates it by a matrix of rank one, and it is
    computed again when it has lost digits. Of simultaneous events, the one with the least index is first. If
    the active columns become dependent, the path changes the solution within the set of all solutions until
    they are independent.

    The last point is proven by the cut of its multipliers, as in `CoordinateDescent`. Use this method through
    `Problem.path` with ``exact=True``, which keeps the knots.

    It needs a risk of linear predictions with one block (`LinearRisk`, with data of any layout, whose columns
    are copied together unless they are contiguous), a loss without kinks such as `Squared`, `SquaredHinge`,
    `Huber` or `ModifiedHuber`, and `L1`, `ElasticNet`, or other sums of costs and squares of the coordinates,
    over the whole space. Coordinates without a cost, such as a bias, are always active.

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
        risk, terms = predictor_of(problem), terms_of(problem)
        phi = None if risk is None else pieces_of(risk.loss)
        if risk is None or risk.n_blocks > 1 or phi is None or phi.jumps.any():
            raise MissingCapabilityError(
                f"{self.name} needs a risk of linear predictions, one block, and a loss that is quadratic on "
                f"pieces and has no kinks, such as SquaredHinge(), got {problem.risk!r}. Use path(lams)."
            )
        if terms is None or not terms.costs.any() or not problem.is_unconstrained:
            raise MissingCapabilityError(
                f"{self.name} needs an l1 norm, such as L1(0.1), with squares at most, and no feasible "
                f"set; got {problem.regularizer!r} over {problem.feasible_set!r}. Use path(lams)."
            )

    def turns(self, problem: Declaration, count: int) -> int:
        """Return the number of iterations that cost as much as `count` solves along the path.

        The number of events of a path cannot be predicted. A path that is abandoned after this number costs
        no more than the solves. The result is 0 if there is no path, or if there are squares in addition to
        the norm, because their weight is constant on a path.
        """
        terms, risk = terms_of(problem), predictor_of(problem)
        if risk is None or terms is None or terms.weights.any() or not suits(self, problem):
            return 0
        entries = float(risk.X.size)
        solve = _SOLVE * OVERHEAD + _EPOCHS * PER_DENSE_ENTRY * entries
        return math.ceil(count * solve / (_TURN * (_PER_EVENT + PER_DENSE_ENTRY * entries)))

    def start(self, run: Run) -> L1Path:
        from cutplane.tracking.l1_path import L1Path

        return L1Path(run.problem)


@dataclass(frozen=True, eq=False)
class TrackedMachine:
    """sum_i c_i l(f(x_i) + b, y_i) + lam/2 ||f||^2 with f = sum_j a_j k(x_j, .), by its curves.

    The examples belong to a `KernelRisk` or a `LinearPredictor`; ``point(a, b)`` is the vector of the
    problem.
    """

    gram: Gram
    curves: Curves
    examples: Any
    intercept: bool
    lam: float
    point: Callable[[Array, float], Array]


@dataclass(frozen=True)
class KernelPathTracking(PathMethod):
    """The path of a support vector machine over the weight of its norm, followed from knot to knot [1]_.

    With a piecewise linear loss, the multipliers p_i of the examples in

        minimise  sum_i c_i l(f(x_i) + b, y_i) + lam/2 ||f||^2,   f = -1/lam sum_i p_i k(x_i, .),

    are piecewise linear in lam, and f and b are piecewise linear in 1/lam. Above the first knot, the p_i are
    constant: of all optimal p for lam = inf, they give the function of least norm. Between the first knot and
    the weight of the problem, a linear piece ends where the prediction for an example reaches a kink of its
    loss (it joins the elbow), or a multiplier reaches a bound (it leaves). The direction is computed with a
    Cholesky factor for the examples in the elbow, which each event updates. Simultaneous events, and
    dependent rows of the elbow, are treated as in `PathTracking`.

    With an intercept the elbow is never empty: an example whose multiplier is at a bound may stay in it. If
    an interval of intercepts is optimal, one of its ends is used.

    Use it through `Problem.path` with ``exact=True``. It needs `Hinge`, `Absolute`, `Quantile`,
    `EpsilonInsensitive` or another loss that is linear on pieces, in a `KernelRisk` with its `squared_norm`,
    or in a `LinearRisk` with `L2`, without a feasible set. With curved losses the path is not piecewise
    linear.

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
        self.machine(problem)

    def start(self, run: Run) -> MachinePath:
        from cutplane.tracking.machine_path import MachinePath

        return run.timed(MachinePath, run.problem, self.machine(run.problem))

    def machine(self, problem: Declaration) -> TrackedMachine:
        """Return the machine of a problem; raise `MissingCapabilityError` if it has another form."""
        risk: Any = problem.risk
        if offers(risk, Capability.KERNEL_PREDICTOR):
            risk, lam = machine_of(problem, self.name, "Use path(lams).")
            curves = self._curves(risk)
            point = np.append if risk.intercept else lambda a, b: a
            return TrackedMachine(risk.gram, curves, risk, bool(risk.intercept), lam, point)
        return self._linear(problem)

    def _curves(self, risk: Any) -> Curves:
        phi, curves = pieces_of(risk.loss), curves_of(self.name, risk, "Use path(lams).")
        if phi is None or phi.curvatures.any() or not phi.jumps.any():
            raise MissingCapabilityError(
                f"{self.name} needs a loss that is linear on pieces and has a least value, such as Hinge() "
                f"or Quantile(), got {risk.loss!r}. Use path(lams)."
            )
        return curves

    def _linear(self, problem: Declaration) -> TrackedMachine:
        """Return a machine of linear predictions, with features scaled to a norm with equal weights."""
        from cutplane.kernels.functions import Linear
        from cutplane.kernels.gram import Gram
        from cutplane.kernels.rows import CACHE_BYTES

        risk: Any = ask(problem.risk, Capability.LINEAR_PREDICTOR)
        if risk is None or risk.n_blocks > 1 or not offers(problem.risk, Capability.DUAL_CUT):
            raise MissingCapabilityError(
                f"{self.name} needs a KernelRisk, or a risk of linear predictions with one block, got "
                f"{problem.risk!r}. Use path(lams)."
            )
        curves, n, g = self._curves(risk), risk.X.shape[1], problem.regularizer
        form = ask(problem.active_regularizer, Capability.QUADRATIC, problem.dim)
        square = form is not None and problem.is_unconstrained and not form.centre.any()
        if form is None or not square or not n or not form.weights[:n].all():
            raise MissingCapabilityError(
                f"{self.name} needs squares of all weights around 0, such as L2(0.1), and no feasible set; "
                f"got {g!r} over {problem.feasible_set!r}. Use path(lams)."
            )
        free = bool(risk.intercept) and form.weights[n] == 0.0
        scale = np.sqrt(g.lam / form.weights[: problem.dim - free])
        X = risk.X
        if scale.size > n:
            ones = np.ones((X.shape[0], 1))
            X = sparse.hstack([X, ones], format="csr") if sparse.issparse(X) else np.hstack([X, ones])
        Z = X if (scale == 1.0).all() else X @ sparse.diags_array(scale)
        gram = Gram(Linear(), Z, CACHE_BYTES)

        def point(a: Array, b: float) -> Array:
            w = scale * (gram.X.T @ a)
            return np.append(w, b) if free else w

        return TrackedMachine(gram, curves, risk, free, g.lam, point)


@dataclass(eq=False)
class ActiveSetState:
    """The walk, and counters: examples that joined since the last certificate, and until the next one;
    successive bounds without improvement.
    """

    walk: Pivoting
    since: int = 0
    pause: int = 0
    idle: int = 0


@dataclass(frozen=True)
class ActiveSet(Method):
    """The active set method on the dual of a kernel machine, SimpleSVM [1]_.

    Examples strictly between the bounds of their multipliers are the active set. Their equations, with one
    for the intercept, are solved by a Cholesky factor. If the solution is outside the bounds, the step ends
    at the first bound, and its example is removed from the set. If it is inside, the example with the largest
    violation of the optimality conditions is added. A change of the factor costs O(k^2) for k active
    examples. After finitely many changes the solution is exact, for any lam [2]_; the factor has 8 k^2 bytes.
    `Decomposition` is faster for the losses that it supports. Duplicates, and kernels of low rank, make the
    equations singular. Then the multipliers change along a direction that changes no prediction, until one of
    them is at a bound.

    It needs a `KernelRisk` whose loss is piecewise linear or quadratic and has a minimum (every loss of the
    package except `Logistic`, `Poisson` and other smooth ones), its `squared_norm`, and no feasible set. A
    solve starts from the multipliers of a warm start, or from the coefficients of the first point, clipped to
    their bounds.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form; use `FiniteNewton` or `ProximalBundle` then.

    References
    ----------
    .. [1] S. V. N. Vishwanathan, A. J. Smola, M. N. Murty, "SimpleSVM", ICML 2003,
       https://cdn.aaai.org/ICML/2003/ICML03-098.pdf.
    .. [2] K. Scheinberg, "An efficient implementation of an active set method for SVMs", JMLR 7, 2006,
       https://jmlr.org/papers/v7/scheinberg06a.html.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> risk = cut.kernels.KernelRisk(X, y, cut.losses.Hinge(), cut.kernels.Linear())
    >>> result = cut.Problem(risk, risk.squared_norm(0.1)).solve(cut.kernels.ActiveSet(), tol=1e-9)
    >>> print(result.status, round(result.objective, 6))
    OPTIMAL 0.05
    """

    first_cut = False
    stabilizations = ()

    def check(self, problem: Declaration) -> None:
        self._machine(problem)

    def _machine(self, problem: Declaration) -> tuple[KernelRisk, float, Curves]:
        remedy = "Use FiniteNewton() or ProximalBundle()."
        risk, lam = machine_of(problem, self.name, remedy)
        return risk, lam, curves_of(self.name, risk, remedy)

    def start(self, run: Run) -> ActiveSetState:
        from cutplane.tracking.machine_path import Pivoting

        risk, lam, curves = self._machine(run.problem)
        u = run.known_multipliers()
        p = -lam * run.anchor.x[: risk.gram.n] if u is None else risk.weights * u
        p = made_feasible(p, *curves.bounds, bool(risk.intercept))
        return ActiveSetState(run.timed(Pivoting, risk.gram, curves, lam, bool(risk.intercept), p))

    def step(self, run: Run, state: ActiveSetState) -> Step:
        walk = state.walk
        most = 1 + _SLICE // (walk.p.size * (walk.members.size + 10))
        before = walk.n_changes
        try:
            done = run.timed(walk.advance, most)
        except ArithmeticError as lost:
            return Step("pivots", state, f"rounding errors: {lost}")
        state.since += most
        if not done and state.since < state.pause:
            run.proceed()
            return Step("pivots", state)
        state.pause, state.since = max(2 * state.pause, 2 * most), 0
        gap = run.upper - run.lower
        self._certify(run, walk)
        state.idle = state.idle + 1 if walk.n_changes == before or run.upper - run.lower >= gap else 0
        if state.idle >= _PATIENCE and not run.closed:
            return Step("certified", state, "rounding errors leave no step that lowers the gap")
        run.proceed()
        return Step("certified", state)

    def _certify(self, run: Run, walk: Pivoting) -> None:
        risk = run.problem.risk.kernel_predictor()  # type: ignore[attr-defined]
        run.timed(walk.refresh, queries=1)
        a = -walk.p / walk.lam
        run.evaluate(np.append(a, walk.b / walk.lam) if risk.intercept else a)
        run.add_dual_cut(multipliers(risk, walk.p))
