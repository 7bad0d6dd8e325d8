"""The active set method for kernel machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.kernels.curves import Curves, curves_of
from cutplane.kernels.dual_form import mended
from cutplane.kernels.norm import machine_of
from cutplane.kernels.smooth_form import multipliers
from cutplane.methods.base import Method, Step

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.kernels.pivoting import Pivoting
    from cutplane.kernels.risk import KernelRisk

_SLICE = 40_000_000
"""Numbers read by the changes of an iteration: some hundredths of a second."""
_PATIENCE = 3
"""Certified bounds in a row that are no better than before, each after twice as many changes, when rounding
errors are taken to go in circles."""


@dataclass(eq=False)
class ActiveSetState:
    """Where the method stands.

    Attributes
    ----------
    walk : Pivoting
    since, pause : int
        Examples taken in since the bounds were last certified, and after how many they are again.
    idle : int
        Times in a row that they were certified in vain.
    """

    walk: Pivoting
    since: int = 0
    pause: int = 0
    idle: int = 0


@dataclass(frozen=True)
class ActiveSet(Method):
    """The active set method on the dual of a kernel machine, SimpleSVM [1]_.

    Examples strictly between the bounds of their multipliers are the active set. Their equations, with one
    for the intercept, are solved by a Cholesky factor; where the solution leaves the bounds, the step ends
    at the first of them, and that example leaves. When it is inside, the example that violates the
    optimality conditions most joins. The factor follows in O(k^2) for k active examples. After finitely many
    changes the solution is exact, whatever lam is [2]_; the factor has 8 k^2 bytes. `Decomposition` is faster
    where it applies.

    Duplicates, and kernels of low rank, make the equations singular: the multipliers then move
    in a direction that changes no prediction, until one of them is at a bound.

    It takes a `KernelRisk` whose loss is linear or quadratic on pieces and has a least value, any number of
    pieces (all of ours but `Logistic`, `Poisson` and the like), its `squared_norm`, and no feasible set. A
    solve starts from the multipliers of a warm start, else from the coefficients of the first point, clipped
    to their bounds.

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
        """Raise unless the problem is a kernel machine with a loss that is quadratic on pieces."""
        machine_curves(problem, self.name)

    def start(self, run: Run) -> ActiveSetState:
        """Start from known multipliers, or from the coefficients of the first point."""
        from cutplane.kernels.pivoting import Pivoting

        risk, lam, curves = machine_curves(run.problem, self.name)
        u = run.known_multipliers()
        p = -lam * run.anchor.x[: risk.gram.n] if u is None else risk.weights * u
        p = mended(p, *curves.bounds, bool(risk.intercept))
        return ActiveSetState(run.timed(Pivoting, risk.gram, curves, lam, bool(risk.intercept), p))

    def step(self, run: Run, state: ActiveSetState) -> Step:
        """Take in some examples; certify both bounds at the end, and in between now and then."""
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


def machine_curves(problem: Declaration, method: str) -> tuple[KernelRisk, float, Curves]:
    """Return the risk of a kernel machine, the weight of its norm and the curves of its losses, or raise."""
    remedy = "Use FiniteNewton() or ProximalBundle()."
    risk, lam = machine_of(problem, method, remedy)
    try:
        curves = curves_of(risk.loss, risk.y, risk.weights)
    except InvalidInputError as error:
        raise MissingCapabilityError(f"{method}: {error}") from error
    if curves is None:
        raise MissingCapabilityError(
            f"{method} needs a loss that is linear or quadratic on pieces and has a least value, such as "
            f"Hinge() or Huber(), got {risk.loss!r}. {remedy}"
        )
    return risk, lam, curves
