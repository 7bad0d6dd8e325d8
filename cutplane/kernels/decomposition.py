"""Decomposition methods for kernel machines, as a method of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.kernels.dual_form import DualForm, dual_form
from cutplane.kernels.norm import machine_of
from cutplane.kernels.smooth_form import multipliers
from cutplane.methods.base import Method, Step

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.kernels.descent import Descent
    from cutplane.kernels.risk import KernelRisk

_SLICE = 40_000_000
"""Numbers read by the steps of an iteration: some hundredths of a second."""
_SHARE = 0.9
"""Of the gap asked for, what the steps aim at: the rest is for what rounding leaves of their slopes."""


@dataclass(eq=False)
class DecompositionState:
    """Where the method stands.

    Attributes
    ----------
    descent : Descent
        On the dual, in the unit of the objective divided by lam.
    lam : float
    since, pause : int
        Steps since the bounds were last certified, and after how many they are again.
    certified : float
        The gap when they were.
    """

    descent: Descent
    lam: float
    since: int = 0
    pause: int = 0
    certified: float = np.inf


@dataclass(frozen=True)
class Decomposition(Method):
    """Sequential minimal optimisation on the dual of a kernel machine, with Newton steps in between.

    With multipliers u_i of the examples and a_i = -c_i u_i / lam the dual is a quadratic programme over a
    box, with sum a = 0 if there is an intercept. A step changes two coefficients (one without an intercept),
    chosen by second-order information [1]_. Rows of the kernel matrix are computed some at a time, those of
    the examples that violate the optimality conditions most first. Coefficients that their slopes hold at a
    bound are left out for a while (shrinking [2]_), and Newton steps on those off their bounds take half of
    the time. The multipliers give a cut of the risk and with it a lower bound, the coefficients the upper
    one; both are computed afresh, in float64.

    It takes a `KernelRisk` whose loss has a conjugate that is quadratic on an interval (`Hinge`,
    `SquaredHinge`, `ModifiedHuber`, `Squared`, `Absolute`, `Quantile`, `EpsilonInsensitive`,
    `SquaredEpsilonInsensitive`, `Huber`), its `squared_norm`, and no feasible set. A solve starts from the
    coefficients of the first point, clipped to their bounds, and scaled up if that is better: for another
    lam, from those of the last.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form; use `LBFGS` or `ProximalBundle` then.

    References
    ----------
    .. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working set selection using second order information for
       training support vector machines", JMLR 6, 2005, https://jmlr.org/papers/v6/fan05a.html.
    .. [2] T. Joachims, "Making large-scale SVM learning practical", in Advances in Kernel Methods, 1999,
       doi:10.7551/mitpress/1130.003.0015.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[-2.0], [-1.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0, 1.0])
    >>> risk = cut.kernels.KernelRisk(X, y, cut.losses.Squared(), cut.kernels.Gaussian(1.0))
    >>> result = cut.Problem(risk, risk.squared_norm(0.1)).solve(cut.kernels.Decomposition(), tol=1e-9)
    >>> print(result.status, round(result.objective, 4))
    OPTIMAL 0.1182
    """

    first_cut = False
    stabilizations = ()

    def check(self, problem: Declaration) -> None:
        """Raise unless the problem is a kernel machine whose dual is a quadratic programme over a box."""
        form_of(problem, self.name)

    def start(self, run: Run) -> DecompositionState:
        """Start from the coefficients of the first point."""
        from cutplane.kernels.descent import Descent

        risk, form, lam = form_of(run.problem, self.name)
        a = form.mended(run.anchor.x[: risk.gram.n], bool(risk.intercept))
        descent = run.timed(Descent, form, risk.gram.cache, a, bool(risk.intercept))
        run.timed(descent.rescale)
        return DecompositionState(descent, lam)

    def step(self, run: Run, state: DecompositionState) -> Step:
        """Do some steps; certify both bounds if they are expected to close the gap, or if it is time to."""
        descent, lam = state.descent, state.lam
        most = 1 + _SLICE // (descent.a.size + 1000)
        before = descent.n_steps
        descent.most_steps = before + most
        known = -1
        while known < descent.n_steps < descent.most_steps:
            known = descent.n_steps
            accuracy = _SHARE * run.tolerance(lam * (descent.dual_value + descent.gap)) / lam
            run.timed(descent.descend, accuracy)
        done = descent.n_steps - before
        state.since += done
        if done >= most and state.since < state.pause:
            run.proceed()
            return Step("steps", state)
        state.pause, state.since = max(2 * state.pause, 2 * most), 0
        self._certify(run, state)
        if run.closed or done >= most or lam * descent.gap <= 0.5 * state.certified:
            state.certified = min(state.certified, lam * descent.gap)
            run.proceed()
            return Step("certified", state)
        return Step("certified", state, "rounding errors leave no step that lowers the gap")

    def _certify(self, run: Run, state: DecompositionState) -> None:
        descent, risk = state.descent, run.problem.risk.kernel_predictor()  # type: ignore[attr-defined]
        run.timed(descent.refresh, queries=1)
        x = descent.a
        if risk.intercept:
            x = np.append(x, descent.form.middle(descent.form.linear - descent.predictions, descent.b))
        run.evaluate(x)
        run.add_dual_cut(multipliers(risk, -state.lam * descent.a))


def form_of(problem: Declaration, method: str) -> tuple[KernelRisk, DualForm, float]:
    """Return the risk of a kernel machine, its dual in numbers, and the weight of its norm, or raise."""
    remedy = "Use ProximalBundle(), or make the risk a cutplane.kernels.KernelRisk."
    risk, lam = machine_of(problem, method, remedy)
    try:
        return risk, dual_form(risk.loss, risk.y, risk.weights / lam), lam
    except InvalidInputError as error:
        raise MissingCapabilityError(f"{method}: {error}") from error
