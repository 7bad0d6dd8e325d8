"""The boosting methods: each an engine method on one of the two problems that are dual to each other."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cutplane.boosting.risks import EdgeRisk, HypothesisHull, SmoothedMargin
from cutplane.exceptions import InvalidInputError
from cutplane.methods.base import Method
from cutplane.methods.kelley import Kelley
from cutplane.pieces.validation import Array, as_positive
from cutplane.problem import Problem
from cutplane.regularizers.entropy import RelativeEntropy
from cutplane.sets.simplex import CappedSimplex

if TYPE_CHECKING:
    from cutplane.boosting.pool import Pool
    from cutplane.engine.method_process import MethodProcess

Step = Literal["short", "exact", "open_loop"]


class Booster(NamedTuple):
    """A method of the engine that has not begun.

    Attributes
    ----------
    process : MethodProcess
    weights : callable
        Returns the weights of the hypotheses of the pool, the first K of them, after an iteration.
    """

    process: MethodProcess
    weights: Callable[[], Array]


class BoostingMethod(ABC):
    """A frozen dataclass of parameters that sets up a run of the engine."""

    @abstractmethod
    def start(self, pool: Pool, m: int, nu: float, tol: float) -> Booster:
        """Return a run on the hypotheses of the pool."""


def smoothing(m: int, nu: float, tol: float, eta: float | None) -> float:
    """Return 1/eta, the weight of the entropy; by default it costs at most tol / 2."""
    if eta is not None:
        return 1.0 / eta
    return tol / (2.0 * max(math.log(m / nu), 1e-3))


def check_eta(name: str, eta: float | None) -> None:
    """Raise `InvalidInputError` unless eta is None or positive."""
    if eta is not None:
        as_positive(f"{name}.eta", eta)


def over_distributions(method: Method, pool: Pool, m: int, nu: float, lam: float) -> Booster:
    """Minimise the edge plus lam times an entropy; the multipliers of the cuts are the weights."""
    regularizer = RelativeEntropy(1.0 / m, lam) if lam > 0.0 else None
    problem = Problem(EdgeRisk(pool, m), regularizer, CappedSimplex(1.0 / nu, m))
    process: Any = problem.iterate(method, x0=np.full(m, 1.0 / m), tol=0.0).process
    return Booster(process, lambda: process.run.proof.multipliers)


@dataclass(frozen=True)
class LPBoost(BoostingMethod):
    """Kelley's method over the distributions: every known hypothesis is a cut, the master is an LP.

    Few rounds as a rule, but for some data as many as there are examples. The bound is that of the LP itself.

    References
    ----------
    .. [1] A. Demiriz, K. P. Bennett, J. Shawe-Taylor, "Linear programming boosting via column generation",
       Machine Learning 46, 2002, doi:10.1023/A:1012470815092.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.boosting import DecisionStumps, LPBoost, SoftMargin
    >>> X, y = np.arange(6.0).reshape(-1, 1), np.array([-1.0, -1, 1, -1, 1, 1])
    >>> result = SoftMargin(X, y, nu=2, weak_learner=DecisionStumps()).solve(LPBoost(), tol=1e-9)
    >>> print(result.status, round(result.soft_margin, 6))
    OPTIMAL 0.333333
    """

    def start(self, pool: Pool, m: int, nu: float, tol: float) -> Booster:
        """Return Kelley's method on the edge."""
        return over_distributions(Kelley(), pool, m, nu, 0.0)


@dataclass(frozen=True)
class ERLPBoost(BoostingMethod):
    """LPBoost with relative entropy: O(ln(m / nu) / tol^2) rounds, each with a convex master.

    The engine's bundle method with ``g(d) = 1/eta sum_i d_i ln(m d_i)``; seen from the other side, the fully
    corrective Frank-Wolfe method on the smoothed soft margin.

    Parameters
    ----------
    eta : float, optional
        Positive; by default ``2 / tol ln(m / nu)``.

    References
    ----------
    .. [1] M. K. Warmuth, K. A. Glocer, S. V. N. Vishwanathan, "Entropy regularized LPBoost", ALT 2008,
       doi:10.1007/978-3-540-87987-9_23.
    """

    eta: float | None = None

    def __post_init__(self) -> None:
        check_eta("ERLPBoost", self.eta)

    def start(self, pool: Pool, m: int, nu: float, tol: float) -> Booster:
        """Return the bundle method on the edge plus entropy."""
        from cutplane.methods.bmrm import BMRM

        return over_distributions(BMRM(), pool, m, nu, smoothing(m, nu, tol, self.eta))


@dataclass(frozen=True)
class CorrectiveERLPBoost(BoostingMethod):
    """Frank-Wolfe on the smoothed soft margin: a round costs a sort of the examples, no master.

    Parameters
    ----------
    step : {"short", "exact", "open_loop"}, default "exact"
        How far to go towards the new hypothesis.
    eta : float, optional
        Positive; by default ``2 / tol ln(m / nu)``.

    References
    ----------
    .. [1] S. Shalev-Shwartz, Y. Singer, "On the equivalence of weak learnability and linear separability: new
       relaxations and efficient boosting algorithms", Machine Learning 80, 2010,
       doi:10.1007/s10994-010-5173-z.
    """

    step: Step = "exact"
    eta: float | None = None

    def __post_init__(self) -> None:
        check_eta(type(self).__name__, self.eta)
        if self.step not in ("short", "exact", "open_loop"):
            raise InvalidInputError(
                f"{type(self).__name__}.step must be 'short', 'exact' or 'open_loop', got {self.step!r}."
            )

    def start(self, pool: Pool, m: int, nu: float, tol: float) -> Booster:
        """Return Frank-Wolfe on the hull of the hypotheses."""
        from cutplane.methods.frank_wolfe import FrankWolfe

        hull = HypothesisHull(pool, m)
        first = hull.minimise_linear(np.full(m, -1.0 / m))
        risk = SmoothedMargin(m, nu, smoothing(m, nu, tol, self.eta), pool.learner.exact)
        problem = Problem(risk, feasible_set=hull)
        method = FrankWolfe(self.step, correction=self._correction(hull, nu, tol))
        process: Any = problem.iterate(method, x0=first, tol=0.0, max_cuts=4).process

        def weights() -> Array:
            out = np.zeros(len(pool.hypotheses))
            state = process.method_state
            for atom, weight in zip(state.atoms, state.weights, strict=True):
                out[pool.index(atom)] += weight
            return out

        return Booster(process, weights)

    def _correction(self, hull: HypothesisHull, nu: float, tol: float) -> Any:
        return None


@dataclass(frozen=True)
class MLPBoost(CorrectiveERLPBoost):
    """Frank-Wolfe on the smoothed soft margin, with LPBoost's ensemble taken whenever that is better.

    The rounds of LPBoost in practice, and the guarantee of ERLPBoost, O(ln(m / nu) / tol^2) rounds.

    Parameters
    ----------
    step : {"short", "exact", "open_loop"}, default "exact"
        The Frank-Wolfe step.
    eta : float, optional
        Positive; by default ``2 / tol ln(m / nu)``.

    References
    ----------
    .. [1] R. Mitsuboshi, K. Hatano, E. Takimoto, "Boosting as Frank-Wolfe", 2022, arXiv:2209.10831.
    """

    def _correction(self, hull: HypothesisHull, nu: float, tol: float) -> LPCorrection:
        return LPCorrection(hull, nu, 0.01 * tol)


class LPCorrection:
    """The best ensemble of the known hypotheses, without entropy: the master of LPBoost.

    Its distribution is what the weak learner is asked about next where Frank-Wolfe finds nothing new.
    """

    def __init__(self, hull: HypothesisHull, nu: float, accuracy: float):
        from cutplane.masters.base import ReducedProblem
        from cutplane.masters.select import Backend, first_candidate
        from cutplane.regularizers.none import NoRegularizer

        self._hull = hull
        self._distributions = CappedSimplex(1.0 / nu, hull.dim)
        reduced = ReducedProblem(hull.dim, 1, NoRegularizer(), self._distributions)
        self._master = first_candidate(reduced, None, Backend()).build(reduced)
        self._accuracy = accuracy
        self._order: list[int] = []
        self._solved = 0

    def correct(self, atoms: Array, weights: Array, run: Any) -> tuple[Array, Array] | None:
        """Return the hypotheses that Frank-Wolfe does not know, and the multipliers of the LP over all."""
        from cutplane.proof.bound import normalised

        columns = self._hull.pool.columns
        if self._solved == len(columns):
            return None
        count = len(columns)
        rows = _Rows(columns, np.zeros(count), np.zeros(count, np.int64), np.arange(count))
        solution = self._master.solve(rows, None, self._accuracy)
        found = None if solution.multipliers is None else normalised(solution.multipliers, rows.blocks, 1)
        self._solved = len(columns)
        if found is None or solution.x is None:
            return None
        self._hull.alternative = self._distributions.project(solution.x)
        self._order += [self._hull.pool.index(atom) for atom in atoms[len(self._order) :]]
        further = sorted(set(range(len(columns))) - set(self._order))
        self._order += further
        return columns[further], found[self._order]


class _Rows(NamedTuple):
    slopes: Array
    offsets: Array
    blocks: Array
    ids: Array
