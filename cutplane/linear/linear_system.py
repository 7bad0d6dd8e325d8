"""A problem that is one linear system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cutplane.exceptions import MissingCapabilityError
from cutplane.linear.predictor import quadratic_of
from cutplane.methods.base import Method, Step
from cutplane.pieces.capabilities import Capability, require

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run


@dataclass(frozen=True)
class LinearSystem(Method):
    """The solution of ``f(x) + 1/2 sum_j weights_j (x_j - centre_j)^2`` in one step, and the cut there.

    It takes a risk with `minimise_with`, such as a squared loss with few features or few examples, and a
    diagonal quadratic such as `L2`; the lower bound comes from the cut.

    Raises
    ------
    MissingCapabilityError
        If the risk has no `minimise_with`, or something else than a diagonal quadratic is beside it.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> problem = cut.Problem(cut.LinearRisk(np.eye(2), [1.0, 3.0], cut.losses.Squared()), cut.L2(1.0))
    >>> result = problem.solve(cut.linear.LinearSystem())
    >>> (result.n_iter, result.x.round(6).tolist())
    (1, [0.333333, 1.0])
    """

    def check(self, problem: Declaration) -> None:
        """Raise unless the risk can be minimised with the regularizer."""
        require(problem.risk, Capability.MINIMISER, self.name, "Use Portfolio() or OCAS().")
        if quadratic_of(problem) is None:
            raise MissingCapabilityError(
                f"{self.name} needs a diagonal quadratic, such as L2(0.1), and no feasible set; got "
                f"{problem.regularizer!r} over {problem.simple_set!r}. Use Portfolio() or OCAS()."
            )

    def step(self, run: Run, state: None) -> Step:
        """Go to the solution, and cut there."""
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
