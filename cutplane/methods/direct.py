"""The whole problem as one conic programme, then cuts if a gap remains."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import MissingCapabilityError, OracleError
from cutplane.methods.base import Estimate, Method, Refusal, Step, is_certifiable
from cutplane.methods.estimates import cost_of_whole
from cutplane.methods.proximal import ProximalBundle
from cutplane.pieces.capabilities import Capability, offers, require
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import RESIDUAL
from cutplane.regularizers.base import separable_form_of, unregularized_by

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run
    from cutplane.masters.base import Whole


@dataclass(frozen=True)
class Direct(Method):
    """Solves the whole problem as one conic programme.

    ``min f(u) + g(x) over x in X subject to u = x`` is solved by a conic solver of cvxpy. The objective at
    its solution x is the upper bound. The multiplier s of the equation is a subgradient of f at x. The lower
    bound is computed from the highest cut of f over X with slope s, whose offset the dual point of another
    conic solve certifies. The solver's tolerance is a small share of `tol`, then the smallest that the solver
    reaches. If a gap remains, for example because the risk has no such cut, `ProximalBundle` continues.

    Piecewise linear and quadratic losses, their sums and linear images, with l1 norms, squared l2 norms,
    quadratic forms and polyhedra, give a quadratic programme. It is assembled without cvxpy, and the cut is
    computed from the multipliers of its rows by the conjugates of the losses.

    The method needs a cvxpy form of all pieces, one block, and no separation oracle. It is for small
    problems, because all data are part of one programme. The solver is the chosen backend if it is a conic
    solver of cvxpy, otherwise Clarabel.

    Raises
    ------
    MissingCapabilityError
        If a piece has no method ``cvxpy_form``, or there are separation oracles.

    References
    ----------
    .. [1] S. Boyd, L. Vandenberghe, "Convex Optimization", Cambridge University Press, 2004, section 5.

    Examples
    --------
    >>> import cvxpy as cp, numpy as np, cutplane as cut
    >>> w = cp.Variable(2)
    >>> risk = cut.CvxpyRisk(cp.norm_inf(w - np.array([3.0, -1.0])), w)
    >>> result = cut.Problem(risk, cut.L2(0.5)).solve(cut.Direct(), tol=1e-6)
    >>> print(result.status, round(result.objective, 5))
    OPTIMAL 2.0
    """

    kind = "whole"
    stabilizations = ()

    def check(self, problem: Declaration) -> None:
        remedy = "Give it a method cvxpy_form(x), or use another method, such as ProximalBundle()."
        for piece in (problem.risk, problem.active_regularizer, problem.simple_set):
            require(piece, Capability.CVXPY, self.name, remedy)
        if problem.separators:
            raise MissingCapabilityError(
                f"{self.name} solves the whole problem, but {problem.separators[0]!r} is known only by what "
                "it cuts off. Use ProximalBundle()."
            )

    def estimate(self, problem: Declaration) -> Refusal | Estimate:
        risk = problem.risk
        if risk.n_blocks > 1 or offers(risk, Capability.PIECES):
            return Refusal("an interior point does not give the weights of blocks or of parts of a maximum")
        if offers(risk, Capability.DUAL_CUT) and not is_certifiable(problem):
            return Refusal("the slope of an interior point is not exactly zero, where only that is bounded")
        return Estimate(1e-9 * cost_of_whole(problem), whole=True)

    def step(self, run: Run, state: Any) -> Step:
        stable = ProximalBundle()
        if state is not None:
            return stable.step(run, state)
        whole = run.solver.whole(run.problem.risk, run.tol)
        self._take(run, whole)
        if not run.closed and (exact := run.solver.whole(run.problem.risk, 0.0)) is not whole:
            self._take(run, exact)
        return Step("conic", stable.start(run))

    def _take(self, run: Run, whole: Whole) -> None:
        if whole.x is None:
            return
        run.query(run.problem.into_simple_set(_with_zeros(run.problem, whole)))
        self._certify(run, whole)
        if not run.closed:
            run.query(run.problem.into_simple_set(whole.x))

    def _certify(self, run: Run, whole: Whole) -> None:
        problem, risk = run.problem, run.problem.risk
        if whole.multipliers is None or risk.n_blocks > 1:
            return
        multipliers, offset, least = whole.multipliers.copy(), whole.offset, whole.least
        rounding = RESIDUAL * run.bundle.steepest
        if least is not None and least.residual > rounding:
            offset, least = -math.inf, None
        if not offers(risk, Capability.DUAL_CUT):
            free = self._free(problem)  # the slope is zero there, up to rounding
            if np.abs(multipliers[free]).max(initial=0.0) > rounding:
                return
            if least is not None:
                offset -= least.reach * float(np.abs(multipliers[free]).sum())
            multipliers[free] = 0.0
        known = offers(risk, Capability.DUAL_CUT) or offset == -math.inf
        cut = None if known else (multipliers[np.newaxis], np.array([offset]))
        with suppress(OracleError):  # rounding errors may put the slope outside the domain of the conjugate
            run.add_dual_cut(multipliers, cut, least)

    def _free(self, problem: Declaration) -> Array:
        """Return a mask of the coordinates that neither the regularizer nor the set bounds."""
        regularizer, bounds = problem.active_regularizer, problem.simple_set.bounds(problem.dim)
        unregularized = unregularized_by(regularizer, problem.dim)
        if unregularized is None or bounds is None:
            return np.zeros(problem.dim, dtype=bool)
        return unregularized & np.isinf(bounds[0]) & np.isinf(bounds[1])


def _with_zeros(problem: Declaration, whole: Whole) -> Array:
    """Return the solution with exact zeros where the terms c_j |x_j| of the regularizer force x_j to be zero.

    There, the slope of the risk is smaller than c_j by a margin. Because an interior point has errors in x_j
    and in the margin, x_j is set to zero if it is smaller, relative to the largest coordinate, than the
    margin relative to c_j.
    """
    x = whole.x
    assert x is not None
    separable = separable_form_of(problem.active_regularizer, problem.dim)
    if separable is None or whole.multipliers is None or whole.multipliers.shape != x.shape:
        return x
    costs = separable.costs
    quadratic = separable.quadratic
    margin = costs - np.abs(whole.multipliers + quadratic.weights * (x - quadratic.centre))
    return np.where(np.abs(x) * costs < margin * np.abs(x).max(initial=0.0), 0.0, x)
