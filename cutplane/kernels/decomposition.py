"""Decomposition methods for kernel machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.kernels.dual import DualForm, dual_form, machine_of, multipliers
from cutplane.methods.base import Method, Step
from cutplane.pieces.capabilities import Capability
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.kernels.descent import Descent
    from cutplane.kernels.nu import NuRisk
    from cutplane.kernels.risk import KernelRisk

_SLICE = 40_000_000
"""Matrix entries read by the steps of one iteration, because this takes some hundredths of a second."""
_SHARE = 0.9
"""Share of the tolerance at which the steps stop, because the updated slopes have rounding errors."""


@dataclass(eq=False)
class DecompositionState:
    """The dual problem divided by lam, and the time and gap of the last certified bounds.

    Attributes
    ----------
    risk : KernelRisk or NuRisk
    descent : Descent
    lam : float
    since, pause : int
        Number of steps since the last certificate, and until the next one.
    certified : float
        The least certified gap.
    """

    risk: Any
    descent: Descent
    lam: float
    since: int = 0
    pause: int = 0
    certified: float = np.inf


@dataclass(frozen=True)
class Decomposition(Method):
    """Sequential minimal optimisation on the dual of a kernel machine, with Newton steps in between.

    With multipliers u_i of the examples and a_i = -c_i u_i / lam, the dual is a quadratic programme over a
    box, with sum a = 0 if there is an intercept. A step changes two coefficients (one without an intercept),
    chosen by second-order information [1]_. Rows of the kernel matrix are computed in blocks, first for the
    examples that violate the optimality conditions most. Coefficients that stay at a bound are ignored for a
    while (shrinking [2]_). Newton steps on the other coefficients take half of the time. The multipliers give
    a cut of the risk and a lower bound, and the coefficients give the upper bound. Both bounds are recomputed
    in float64.

    It solves problems with a `KernelRisk`, its `squared_norm`, and no feasible set. The conjugate of the loss
    must be quadratic on an interval, as for `Hinge`, `SquaredHinge`, `ModifiedHuber`, `Squared`, `Absolute`,
    `Quantile`, `EpsilonInsensitive`, `SquaredEpsilonInsensitive` and `Huber`. A solve starts from the
    coefficients of the first point, for example the solution for another lam. They are clipped to their
    bounds, and scaled up if this increases the dual.

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
        self.machine(problem)

    def machine(self, problem: Declaration) -> tuple[Any, DualForm, float]:
        """Return the risk, the `DualForm` of the problem, and the weight of the norm, or raise."""
        return form_of(problem, self.name)

    def multipliers(self, risk: Any, a: Array, lam: float) -> Array:
        """Return the multipliers of the examples for coefficients of the dual."""
        return multipliers(risk, -lam * a)

    def start(self, run: Run) -> DecompositionState:
        from cutplane.kernels.descent import Descent

        risk, form, lam = self.machine(run.problem)
        a = form.feasible(run.anchor.x[: risk.gram.n])
        descent = run.timed(Descent, form, risk.gram.cache, a)
        run.timed(descent.rescale)
        return DecompositionState(risk, descent, lam)

    def step(self, run: Run, state: DecompositionState) -> Step:
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
        run.timed(descent.refresh, queries=1)
        form = descent.form
        b = form.middles(form.linear - descent.predictions, descent.b)
        run.evaluate(np.append(descent.coefficients, b))
        run.add_dual_cut(self.multipliers(state.risk, descent.a, lam))
        if run.closed or done >= most or lam * descent.gap <= 0.5 * state.certified:
            state.certified = min(state.certified, lam * descent.gap)
            run.proceed()
            return Step("certified", state)
        return Step("certified", state, "rounding errors prevent a smaller gap")


@dataclass(frozen=True)
class NuDecomposition(Decomposition):
    """Sequential minimal optimisation on the dual of a nu-form, with Newton steps in between.

    The coefficients are a = sum_s a_s. Each term of a `NuRisk` has one vector a_s >= 0 or a_s <= 0 with
    bounds and a fixed sum of absolute values, nu / (2 lam). A step raises one coefficient and lowers another
    one of the same term. It is taken in the term with the larger violation of the optimality conditions. All
    other steps are as in `Decomposition`.

    Raises
    ------
    MissingCapabilityError
        Unless the risk is a `NuRisk`, the regularizer its `squared_norm`, and there is no feasible set.

    References
    ----------
    C.-C. Chang, C.-J. Lin, "Training nu-support vector classifiers: theory and algorithms", Neural
    Computation 13, 2001, doi:10.1162/089976601750399335.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> risk = cut.kernels.NuRisk(np.array([[1.0], [2.0]]), None, 0.5, cut.kernels.Linear(), "novelty")
    >>> result = cut.Problem(risk, risk.squared_norm()).solve(cut.kernels.NuDecomposition(), tol=1e-9)
    >>> print(result.status, round(result.objective, 6))
    OPTIMAL -0.125
    """

    def machine(self, problem: Declaration) -> tuple[NuRisk, DualForm, float]:
        remedy = "Use Decomposition() for a KernelRisk, or make the risk a cutplane.kernels.NuRisk."
        risk, lam = machine_of(problem, self.name, remedy, Capability.KERNEL_SIDES)
        return risk, risk.dual(lam), lam

    def multipliers(self, risk: NuRisk, a: Array, lam: float) -> Array:
        return risk.multipliers(a, lam)

    def start(self, run: Run) -> DecompositionState:
        """Start from the coefficients of the first point; also evaluate a point with a single coefficient.

        That point is evaluated because the objective may be 0 at the first point and at the optimum, and the
        relative gap needs a nonzero objective.
        """
        state = super().start(run)
        single = np.zeros(state.risk.dim)
        single[int(state.risk.gram.diagonal().argmax())] = state.descent.form.sums[0]
        run.evaluate(single)
        return state


def form_of(problem: Declaration, method: str) -> tuple[KernelRisk, DualForm, float]:
    """Return the risk of a kernel machine, its `DualForm`, and the weight of its norm, or raise."""
    remedy = "Use ProximalBundle(), or make the risk a cutplane.kernels.KernelRisk."
    risk, lam = machine_of(problem, method, remedy)
    try:
        return risk, dual_form(risk.loss, risk.y, risk.weights / lam, bool(risk.intercept)), lam
    except InvalidInputError as error:
        raise MissingCapabilityError(f"{method}: {error}") from error
