"""Equal weights: the baseline of multiple kernel learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutplane.engine.tangent import minimise_cut
from cutplane.methods.base import Method, Step

if TYPE_CHECKING:
    from cutplane.engine.run import Run


@dataclass(frozen=True)
class UniformWeights(Method):
    """The point at which the run starts, equal weights for multiple kernel learning, and its certified gap.

    Nothing is minimised over the weights: the cut at that point alone gives a lower bound, and the run ends
    with status STALLED unless the gap happens to be within the tolerance.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> y = np.array([1.0, 1.0, -1.0, -1.0])
    >>> problem = cut.mkl.MKL([np.outer(y, y), np.eye(4)], y)
    >>> result = problem.solve(cut.mkl.UniformWeights(), tol=1e-9)
    >>> print(result.status, round(result.objective, 4), round(result.lower_bound, 4))
    STALLED 0.8 0.32
    """

    stabilizations = ()

    def step(self, run: Run, state: Any) -> Step:
        """Evaluate as accurately as the tolerance needs."""
        point = run.visit(run.first.x, 0.1 * run.tolerance(run.upper))
        minimise_cut(run, point)
        return Step("uniform", finished="equal weights were asked for: only their gap is certified")
