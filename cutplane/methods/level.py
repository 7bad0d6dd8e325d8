"""The level bundle method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutplane.masters.base import Level
from cutplane.methods.base import Estimate, Method, Refusal, Step, require_bounded_model
from cutplane.methods.estimates import of_cuts, stable_rounds
from cutplane.pieces.validation import as_scalar

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run


@dataclass(frozen=True)
class LevelBundle(Method):
    """The level bundle method: project the last point on a level set of the model.

    ``x_{t+1} = argmin {||x - x_t||^2 : f_t(x) + g(x) <= l, x in X}`` with ``l = LB + kappa (UB - LB)``, where
    LB is the least value of the model. It takes O(1/eps^2) iterations in any dimension, far fewer than
    `Kelley` in practice.

    Parameters
    ----------
    kappa : float, default 0.5
        Position of the level between the lower bound (0) and the upper bound (1); in (0, 1).

    Raises
    ------
    MissingCapabilityError
        If the reduced problem is unbounded: add a bounded set or a regularizer.

    References
    ----------
    .. [1] C. Lemaréchal, A. Nemirovskii, Y. Nesterov, "New variants of bundle methods", Math. Program. 69,
       1995, doi:10.1007/BF01585555.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> @cut.risk(dim=2)
    ... def distance(x):
    ...     return np.abs(x - 1).sum(), np.sign(x - 1)
    >>> result = cut.Problem(distance, feasible_set=cut.Box(-5, 0.5)).solve(cut.LevelBundle(), tol=1e-6)
    >>> print(result.status, round(result.objective, 4))
    OPTIMAL 1.0
    """

    kappa: float = 0.5
    stabilizations = (None, Level)

    def __post_init__(self) -> None:
        as_scalar("LevelBundle.kappa", self.kappa, low=0.0, high=1.0, low_open=True, high_open=True)

    def check(self, problem: Declaration) -> None:
        require_bounded_model(problem, self.name)

    def estimate(self, problem: Declaration) -> Refusal | Estimate:
        return of_cuts(problem, (None, Level), stable_rounds(problem))

    def start(self, run: Run) -> Any:
        return run.anchor.x

    def step(self, run: Run, state: Any) -> Step:
        least = run.reduced()
        if not -math.inf < run.lower < run.upper < math.inf:
            run.query(least.x)
            return Step("cut", least.x)
        level = run.lower + self.kappa * (run.upper - run.lower)
        x = run.reduced(Level(state, level)).x
        run.query(x)
        return Step("level", x)
