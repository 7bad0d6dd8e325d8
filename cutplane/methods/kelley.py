"""The cutting-plane method, and the bundle method for risk minimisation, which has the same iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutplane.methods.base import Estimate, Method, Refusal, Step, require_bounded_model
from cutplane.methods.estimates import of_cuts, vertex_rounds
from cutplane.pieces.parameters import short_repr
from cutplane.pieces.validation import as_count

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run


@dataclass(frozen=True, repr=False)
class Kelley(Method):
    """Cutting planes: evaluate the minimiser of the model.

    ``x_t = argmin {f_t(x) + g(x) : x in X_t}``; the cut of f at x_t, or the half-spaces that separate x_t
    from X, are added. The reduced problem must be bounded below; its multipliers give the lower bound. The
    model of a linear f is exact. Then points of X, which give upper bounds, are evaluated only if they may
    halve the gap or a separation oracle proposes them.

    Parameters
    ----------
    max_age : int, optional
        Half-spaces whose multipliers have been zero for more iterations than this are dropped when the lower
        bound increases, because few rows make the reduced problem cheap. A half-space dropped too early is
        found again. By default, no half-space is dropped.

    Raises
    ------
    MissingCapabilityError
        If the reduced problem is unbounded: add a bounded set or a regularizer.

    References
    ----------
    .. [1] J. E. Kelley, "The cutting-plane method for solving convex programs", J. SIAM 8(4), 1960,
       doi:10.1137/0108053.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> @cut.risk(dim=2)
    ... def distance(x):
    ...     return np.abs(x - 1).sum(), np.sign(x - 1)
    >>> result = cut.Problem(distance, feasible_set=cut.Box(-5, 0.5)).solve(cut.Kelley())
    >>> print(result.status, round(result.objective, 6), result.x.round(6))
    OPTIMAL 1.0 [0.5 0.5]
    """

    max_age: int | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if self.max_age is not None:
            as_count("max_age", self.max_age)

    def check(self, problem: Declaration) -> None:
        require_bounded_model(problem, self.name)

    def estimate(self, problem: Declaration) -> Refusal | Estimate:
        return of_cuts(problem, (None,), vertex_rounds(problem))

    def needs_infima(self, problem: Declaration) -> bool:
        """Return whether the model may be unbounded, because rows of infima alone have many minimisers."""
        return problem.simple_set.bounded is not True

    def step(self, run: Run, state: None) -> Step:
        reduced = run.reduced(max_age=self.max_age)
        point = run.evaluate_relaxed(reduced) if run.problem.risk.linear else run.evaluate(reduced.x)
        if point is None:
            return Step("separation")
        run.add_cut(point)
        return Step("cut")


@dataclass(frozen=True)
class BMRM(Kelley):
    """The bundle method for regularized risk minimisation, in which the regularizer stabilises the iteration.

    The next cut is at ``w_t = argmin f_t(w) + g(w)``. This is the iteration of `Kelley` with a regularizer g
    that makes the reduced problem bounded. With g = lam/2 ||w||^2 it needs at most O(1/(lam eps)) iterations,
    and O(log 1/eps) for a smooth risk.

    Raises
    ------
    MissingCapabilityError
        If the problem has neither a regularizer nor a bounded set.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola, Q. V. Le, "Bundle methods for regularized risk
       minimization", JMLR 11, 2010, https://jmlr.org/papers/v11/teo10a.html.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X, y = np.array([[2.0], [-2.0]]), np.array([1.0, -1.0])
    >>> problem = cut.Problem(cut.LinearRisk(X, y, cut.losses.Hinge()), cut.L2(1.0))
    >>> print(round(problem.solve(cut.BMRM(), tol=1e-9).objective, 6))
    0.125
    """
