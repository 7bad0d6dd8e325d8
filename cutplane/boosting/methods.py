"""The boosting methods: methods of the engine on the edge problem or on its dual, the margin problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from cutplane.boosting.weak_learner import EdgeOracle, check_values
from cutplane.methods.base import Method
from cutplane.methods.frank_wolfe import FrankWolfe
from cutplane.methods.kelley import BMRM, Kelley
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array, as_choice, as_positive
from cutplane.problem import Problem
from cutplane.regularizers.entropy import RelativeEntropy
from cutplane.risks.base import ImagedRisk, Risk
from cutplane.sets.base import FeasibleSet
from cutplane.sets.simplex import CappedSimplex

if TYPE_CHECKING:
    from cutplane.engine.method_process import MethodProcess

Started = tuple["MethodProcess", Callable[[], Array]]
"""The process of a method, and a function that returns the current weights of the hypotheses."""


class Pool:
    """The hypotheses found so far: the checked answers of the weak learner, without duplicates.

    Attributes
    ----------
    hypotheses : list
    edge : float
        The least edge of the best hypothesis over all queried distributions. If the learner is exact, this is
        an upper bound of the soft margin of every ensemble; otherwise only of ensembles of the hypotheses
        found.
    distribution : ndarray of shape (m,)
        The distribution with this edge.
    """

    def __init__(self, learner: EdgeOracle, m: int):
        self.learner = learner
        self.hypotheses: list[Any] = []
        self.edge = math.inf
        self.distribution = np.full(m, 1.0 / m)
        self._rows = np.empty((16, m))
        self._places: dict[bytes, int] = {}

    @property
    def columns(self) -> Array:
        """The margins y_i h_k(x_i), one hypothesis per row, shape (K, m)."""
        return self._rows[: len(self.hypotheses)]

    def index(self, margins: Array) -> int:
        """Return the index of the hypothesis with these margins; a new hypothesis gets the next index."""
        return self._places.setdefault(margins.tobytes(), len(self.hypotheses))

    def query(self, d: Array) -> tuple[float, int]:
        """Return the edge at the distribution d, and the index of the hypothesis with this edge.

        A learner that is not exact may return a hypothesis that is worse than an earlier one. Then the
        earlier one is returned, and the new one is dropped.
        """
        hypothesis, margins = self.learner.best(d)
        margins = check_values(hypothesis, margins, d.size) + 0.0  # no -0.0, because bytes are keys
        edge = float(margins @ d)
        edges = np.empty(0) if self.learner.exact else self.columns @ d
        if edges.size and edges.max() >= edge:
            edge, k = float(edges.max()), int(edges.argmax())
        else:
            k = self.index(margins)
            if k == len(self.hypotheses):
                if k == len(self._rows):
                    self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
                self._rows[k] = margins
                self.hypotheses.append(hypothesis)
                if self.edge < math.inf:
                    self.edge = max(self.edge, float(margins @ self.distribution))
        if edge < self.edge:
            self.edge, self.distribution = edge, d.copy()
        return edge, k


class EdgeRisk(Risk):
    """f(d) = max_h sum_i d_i y_i h(x_i), the largest edge of a hypothesis at the distribution d."""

    black_box = False

    def __init__(self, pool: Pool, m: int):
        self.pool = pool
        self.dim = m
        self.exact = pool.learner.exact

    def __repr__(self) -> str:
        return f"EdgeRisk({self.pool.learner!r}, {self.dim} examples)"

    def oracle(self, x: Array) -> tuple[float, Array]:
        edge, k = self.pool.query(x)
        return edge, self.pool.columns[k].copy()


class Projected(NamedTuple):
    """Margins, the distribution that maximises `SmoothedMargin` for them, and the maximum."""

    margins: Array
    distribution: Array
    value: float


@dataclass(frozen=True, eq=False)
class SmoothedMargin(ImagedRisk):
    """f(theta) = max over d in D of -<theta, d> - lam sum_i d_i ln(m d_i), with D the capped simplex.

    Up to the entropy, which is at most ``lam ln(m / nu)``, f is the negative soft margin of an ensemble with
    the margins theta. The gradient is -d at the maximiser d. The Lipschitz constant of the gradient is 1/lam,
    from the maximum norm to the sum norm.
    """

    black_box = False
    dim: int
    nu: float
    lam: float
    exact: bool = True

    def image(self, x: Array) -> Projected:
        minimum = RelativeEntropy(1.0 / self.dim, self.lam).conjugate_minimiser(
            x, CappedSimplex(1.0 / self.nu, self.dim)
        )
        assert minimum is not None and minimum.x is not None
        return Projected(x, minimum.x, -minimum.value)

    def values(self, z: Projected) -> float:
        return z.value

    def slopes(self, z: Projected) -> Array:
        return -z.distribution

    def combine(self, z0: Projected, z1: Projected, t: float) -> Projected:
        return self.image(z0.margins + t * (z1.margins - z0.margins))

    def line(self, z0: Projected, z1: Projected) -> Line:
        direction = z1.margins - z0.margins

        def evaluate(t: float) -> tuple[float, float]:
            answer = self.combine(z0, z1, t)
            return answer.value, -float(answer.distribution @ direction)

        return Line(evaluate)

    def curvature_bound(self, x: Array, direction: Array) -> float:
        """Return ``max_i direction_i^2 / lam``."""
        return float(np.abs(direction).max() ** 2 / self.lam)


class HypothesisHull(FeasibleSet):
    """The convex hull of the margins of all hypotheses, given by a weak learner.

    Attributes
    ----------
    alternative : ndarray of shape (m,) or None
        A distribution that is queried once, after another distribution gave no new hypothesis. It must be in
        the capped simplex up to rounding, because its edge is used as a bound.
    """

    bounded = True
    dim: int

    def __init__(self, pool: Pool, m: int):
        self.pool = pool
        self.dim = m
        self.alternative: Array | None = None

    def __repr__(self) -> str:
        return f"HypothesisHull({self.pool.learner!r}, {self.dim} examples)"

    def violation(self, x: Array) -> float:
        return float(max(0.0, np.abs(x).max() - 1.0))

    def minimise_linear(self, v: Array) -> Array:
        """Return the margins of the hypothesis with the largest edge at max(-v, 0), scaled to sum 1."""
        d, count = np.maximum(-v, 0.0), len(self.pool.hypotheses)
        total = float(d.sum())
        _, k = self.pool.query(d / total if total > 0.0 else np.full(v.size, 1.0 / v.size))
        if self.alternative is not None and len(self.pool.hypotheses) == count:
            self.pool.query(self.alternative)
            self.alternative = None
        return self.pool.columns[k].copy()


@dataclass(frozen=True)
class LPBoost:
    """Kelley's method over the distributions: each new hypothesis is a cut, and the master is an LP.

    It usually takes few rounds, but for some data as many rounds as there are examples. The optimum of the LP
    is the lower bound.

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

    def start(self, pool: Pool, m: int, nu: float, tol: float) -> Started:
        """Start Kelley's method on the edge."""
        return _over_distributions(Kelley(), None, pool, m, nu)


def _over_distributions(
    method: Method, entropy: RelativeEntropy | None, pool: Pool, m: int, nu: float
) -> Started:
    """Start a method on the edge plus an entropy; the multipliers of the cuts are the weights."""
    problem = Problem(EdgeRisk(pool, m), entropy, CappedSimplex(1.0 / nu, m))
    process: Any = problem.iterate(method, x0=np.full(m, 1.0 / m), tol=0.0).process
    return process, lambda: process.run.proof.multipliers


@dataclass(frozen=True)
class ERLPBoost:
    """LPBoost with relative entropy: O(ln(m / nu) / tol^2) rounds, each with a convex master.

    It is the engine's bundle method with ``g(d) = 1/eta sum_i d_i ln(m d_i)``. In the dual problem this is
    the fully corrective Frank-Wolfe method on the smoothed soft margin.

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
        _smoothing(self, 1, 1.0, 1.0)

    def start(self, pool: Pool, m: int, nu: float, tol: float) -> Started:
        """Start the bundle method on the edge plus an entropy."""
        entropy = RelativeEntropy(1.0 / m, _smoothing(self, m, nu, tol))
        return _over_distributions(BMRM(), entropy, pool, m, nu)


def _smoothing(method: Any, m: int, nu: float, tol: float) -> float:
    """Return 1/eta, the weight of the entropy; by default the entropy is at most tol / 2."""
    if method.eta is None:
        return tol / (2.0 * max(math.log(m / nu), 1e-3))
    return 1.0 / as_positive(f"{type(method).__name__}.eta", method.eta)


@dataclass(frozen=True)
class CorrectiveERLPBoost:
    """Frank-Wolfe on the smoothed soft margin: a round sorts the examples and solves no master.

    Parameters
    ----------
    step : {"short", "exact", "open_loop"}, default "exact"
        The rule for the step length towards the new hypothesis.
    eta : float, optional
        Positive; by default ``2 / tol ln(m / nu)``.

    References
    ----------
    .. [1] S. Shalev-Shwartz, Y. Singer, "On the equivalence of weak learnability and linear separability: new
       relaxations and efficient boosting algorithms", Machine Learning 80, 2010,
       doi:10.1007/s10994-010-5173-z.
    """

    step: Literal["short", "exact", "open_loop"] = "exact"
    eta: float | None = None

    def __post_init__(self) -> None:
        _smoothing(self, 1, 1.0, 1.0)
        as_choice(f"{type(self).__name__}.step", self.step, ("short", "exact", "open_loop"))

    def start(self, pool: Pool, m: int, nu: float, tol: float) -> Started:
        """Start Frank-Wolfe on the hull of the hypotheses."""
        hull = HypothesisHull(pool, m)
        first = hull.minimise_linear(np.full(m, -1.0 / m))
        risk = SmoothedMargin(m, nu, _smoothing(self, m, nu, tol), pool.learner.exact)
        method = FrankWolfe(self.step, correction=self._correction(hull, nu, tol))
        problem = Problem(risk, feasible_set=hull)
        process: Any = problem.iterate(method, x0=first, tol=0.0, max_cuts=4).process

        def weights() -> Array:
            state, out = process.method_state, np.zeros(len(pool.hypotheses))
            np.add.at(out, [pool.index(atom) for atom in state.atoms], state.weights)
            return out

        return process, weights

    def _correction(self, hull: HypothesisHull, nu: float, tol: float) -> Any:
        return None


@dataclass(frozen=True)
class MLPBoost(CorrectiveERLPBoost):
    """Frank-Wolfe on the smoothed soft margin; it uses LPBoost's ensemble whenever this is better.

    In practice it needs about as many rounds as LPBoost, with the guarantee of ERLPBoost, O(ln(m / nu) /
    tol^2) rounds.

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


BoostingMethod = LPBoost | ERLPBoost | CorrectiveERLPBoost


class LPCorrection:
    """The optimal ensemble of the hypotheses found, without entropy, which is the master of LPBoost.

    If Frank-Wolfe finds no new hypothesis, the weak learner is also called at the LP's distribution.
    """

    def __init__(self, hull: HypothesisHull, nu: float, accuracy: float):
        from cutplane.masters.base import ReducedProblem
        from cutplane.masters.select import Backend, first_candidate
        from cutplane.regularizers.separable import NoRegularizer

        self._hull = hull
        self._distributions = CappedSimplex(1.0 / nu, hull.dim)
        reduced = ReducedProblem(hull.dim, 1, NoRegularizer(), self._distributions)
        self._master = first_candidate(reduced, None, Backend()).build(reduced)
        self._accuracy = accuracy
        self._order: list[int] = []
        self._solved = 0

    def correct(self, atoms: Array, weights: Array, run: Any) -> tuple[Array, Array] | None:
        """Return the hypotheses that are not atoms yet, and the multipliers of the LP over all hypotheses."""
        from cutplane.proof.bound import normalised

        columns = self._hull.pool.columns
        count = len(columns)
        if self._solved == count:
            return None
        blocks = np.zeros(count, np.int64)
        rows: Any = SimpleNamespace(
            slopes=columns, offsets=np.zeros(count), blocks=blocks, ids=np.arange(count)
        )
        solution = self._master.solve(rows, None, self._accuracy)
        found = None if solution.multipliers is None else normalised(solution.multipliers, blocks, 1)
        self._solved = count
        if found is None or solution.x is None:
            return None
        self._hull.alternative = self._distributions.project(solution.x)
        self._order += [self._hull.pool.index(atom) for atom in atoms[len(self._order) :]]
        further = sorted(set(range(count)) - set(self._order))
        self._order += further
        return columns[further], found[self._order]
