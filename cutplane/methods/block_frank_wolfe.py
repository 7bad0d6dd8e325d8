"""Block-coordinate Frank-Wolfe: one example at a time, with a cache of labellings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cutplane.engine.costs import ITERATION
from cutplane.methods.base import Estimate, Method, Step, require_square
from cutplane.pieces.capabilities import Capability, require
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock
from cutplane.runtime.deadline import seconds_left

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.run import Run

_SHARE = 1.0 / 3.0
"""First guess of the ratio of the certified gap to an epoch's sum of gaps, because the gap decreases during
the epoch."""
_HURRY = 3.0
"""Remaining time, in epochs, at which the bounds are certified, because the next epoch may take longer, and a
certificate takes about as long as an epoch."""
_PASSES = 30.0
"""Expected number of passes, because about so many suffice if there are many examples."""
_EPOCH = 4.0
"""Number of oracle calls that take as long as an epoch, more than one because an epoch also visits cached
labellings: 2.6 to 10 for chains."""
_TINY = 1e-300
"""Replaces 0 in a denominator, because quotients must be finite."""
_TURN = 10
"""Number of epochs after which the bounds are certified, because this adds a tenth to the work."""


class BlockAscent(Protocol):
    """Block ascent on the dual: the object that ``risk.block_ascent(quadratic, multipliers)`` returns."""

    @property
    def x(self) -> Array:
        """The point computed from the aggregates, shape (dim,)."""
        ...

    @property
    def average(self) -> Array:
        """The average of the iterates, shape (dim,)."""
        ...

    @property
    def multipliers(self) -> Array:
        """The multipliers of the examples; ``risk.dual_cut`` computes the sum of the aggregates from them."""
        ...

    def advance(self) -> float:
        """Visit every example with its decoder, then with the cache while it pays; return an estimated gap.

        The estimate is the sum of the gaps of the examples, each at the time of its visit.
        """
        ...


@dataclass(eq=False)
class BlockState:
    """The ascent, and the result of its last certificate."""

    ascent: BlockAscent
    share: float = _SHARE  # certified gap / estimated gap; above 1, the last iterate is the best one
    waited: int = 0  # number of epochs since the last certificate


@dataclass(frozen=True)
class BlockFrankWolfe(Method):
    """Frank-Wolfe steps on the dual of a sum over examples, one example at a time [1]_.

    For ``f(w) = sum_i max_y <a_i(y), w> + b_i(y)`` and ``lam/2 ||w||^2``, each example i has a convex
    combination of labellings, with the aggregate (a_i, b_i), and ``w = -sum_i a_i / lam``. A visit decodes
    example i at w, and transfers weight from the worst of its labellings to the best one, as long as the dual
    increases (a pairwise step [2]_). Further visits use the best cached labelling and do not decode [3]_;
    they continue as long as the dual increases faster per second. The sum of the aggregates is one cut of f,
    whose lower bound never decreases. The upper bound is the objective at the weighted average of the
    iterates (weight k for iterate k), or at the last iterate if it is better. A pass over the data certifies
    both bounds, when the gaps of an epoch are small enough, and after every tenth epoch.

    The risk needs ``block_ascent`` and ``dual_cut``: `structured.ChainRisk`, `StructuredRisk`, your own
    `structured.ExampleSum`, and `MulticlassRisk` with a loss of margins, for which a visit optimises the
    shares of all classes at once. The regularizer must be `L2` with equal weights, without a feasible set.

    Raises
    ------
    MissingCapabilityError
        If the problem has another form; use `ProximalBundle` then.

    References
    ----------
    .. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt, P. Pletscher, "Block-coordinate Frank-Wolfe optimization
       for structural SVMs", ICML 2013, https://proceedings.mlr.press/v28/lacoste-julien13.html.
    .. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania, S. Lacoste-Julien, "Minding the gaps for
       block Frank-Wolfe optimization of structured SVMs", ICML 2016,
       https://proceedings.mlr.press/v48/osokin16.html.
    .. [3] N. Shah, V. Kolmogorov, C. Lampert, "A multi-plane block-coordinate Frank-Wolfe algorithm for
       training structural SVMs with a costly max-oracle", CVPR 2015, doi:10.1109/CVPR.2015.7298890.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> X = [np.eye(2)[[0, 1, 0]], np.eye(2)[[1, 1]]]
    >>> problem = cut.Problem(cut.structured.ChainRisk(X, [[0, 1, 0], [1, 1]]), cut.L2(0.1))
    >>> result = problem.solve(cut.BlockFrankWolfe(), tol=1e-6)
    >>> print(result.status, round(result.objective, 4))
    OPTIMAL 0.05
    """

    kind = "first order"
    stabilizations = ()

    def check(self, problem: Declaration) -> None:
        remedy = (
            "Use ProximalBundle(), which takes risks on workers, too, or make your risk a "
            "cutplane.structured.ExampleSum: each step needs the examples, and the point after the last."
        )
        for capability in (Capability.BLOCK_ASCENT, Capability.DUAL_CUT):
            require(problem.risk, capability, self.name, remedy)
        require_square(problem, self.name, "with equal weights", equal=True)

    def estimate(self, problem: Declaration) -> Estimate:
        return Estimate(1e-9 * _PASSES * ITERATION, _EPOCH * _PASSES, rounds=_PASSES)

    def start(self, run: Run) -> BlockState:
        risk: Any = run.problem.risk
        quadratic = require_square(run.problem, self.name, "with equal weights", equal=True)
        return BlockState(run.call(risk, risk.block_ascent, quadratic, run.known_multipliers()))

    def step(self, run: Run, state: BlockState) -> Step:
        began = clock()
        estimate = run.call(run.problem.risk, state.ascent.advance, queries=1)
        state.waited += 1
        last = seconds_left() < _HURRY * (clock() - began)
        if state.share * estimate > run.tolerance(run.upper) and state.waited < _TURN and not last:
            run.proceed()
            return Step("epoch", state)
        bound = run.add_dual_cut(state.ascent.multipliers)
        known = state.ascent.average if state.share <= 1.0 else state.ascent.x
        point = run.evaluate(known.copy())  # a copy, because the next visits may change it in place
        if not run.closed:
            run.add_cut(point)
        left = run.upper - bound
        state.share = left / max(estimate, _TINY) if 0.0 < left < math.inf else _SHARE
        state.waited = 0
        return Step("certified", state)
