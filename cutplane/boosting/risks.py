"""The two risks of soft-margin boosting, one on each side of duality."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cutplane.boosting.pool import Pool
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array
from cutplane.regularizers.entropy import RelativeEntropy
from cutplane.risks.base import ImagedRisk, Risk
from cutplane.sets.base import FeasibleSet
from cutplane.sets.simplex import CappedSimplex


class EdgeRisk(Risk):
    """f(d) = max_h sum_i d_i y_i h(x_i), the edge of the best hypothesis at the distribution d."""

    black_box = False

    def __init__(self, pool: Pool, m: int):
        self.pool = pool
        self.dim = m
        self.exact = pool.learner.exact

    def __repr__(self) -> str:
        return f"EdgeRisk({self.pool.learner!r}, {self.dim} examples)"

    def oracle(self, x: Array) -> tuple[float, Array]:
        """Return the edge at the distribution x, and the margins of the hypothesis that has it."""
        edge, k = self.pool.ask(x)
        return edge, self.pool.columns[k].copy()


class Answer(NamedTuple):
    """Margins, the distribution that is worst for them, and the value there."""

    margins: Array
    distribution: Array
    value: float


@dataclass(frozen=True, eq=False)
class SmoothedMargin(ImagedRisk):
    """f(theta) = max over d in D of -<theta, d> - lam sum_i d_i ln(m d_i), with D the capped simplex.

    Minus the soft margin of an ensemble with the margins theta, but for the entropy, which is at most ``lam
    ln(m / nu)``. The gradient is -d at the maximiser d, and has the Lipschitz constant 1/lam from the maximum
    norm to the sum norm.
    """

    black_box = False
    dim: int
    nu: float
    lam: float
    exact: bool = True

    def image(self, x: Array) -> Answer:
        """Return the margins x with the worst distribution for them: the entropic projection."""
        minimum = RelativeEntropy(1.0 / self.dim, self.lam).conjugate_minimiser(
            x, CappedSimplex(1.0 / self.nu, self.dim)
        )
        assert minimum is not None and minimum.x is not None
        return Answer(x, minimum.x, -minimum.value)

    def values(self, z: Answer) -> float:
        """Return the value."""
        return z.value

    def slopes(self, z: Answer) -> Array:
        """Return minus the distribution."""
        return -z.distribution

    def combine(self, z0: Answer, z1: Answer, t: float) -> Answer:
        """Return the image between two others: another projection."""
        return self.image(z0.margins + t * (z1.margins - z0.margins))

    def line(self, z0: Answer, z1: Answer) -> Line:
        """Return t -> f(theta_0 + t (theta_1 - theta_0))."""
        direction = z1.margins - z0.margins

        def evaluate(t: float) -> tuple[float, float]:
            answer = self.combine(z0, z1, t)
            return answer.value, -float(answer.distribution @ direction)

        return Line(evaluate)

    def curvature_bound(self, x: Array, direction: Array) -> float:
        """Return ``max_i direction_i^2 / lam``."""
        return float(np.abs(direction).max() ** 2 / self.lam)


class HypothesisHull(FeasibleSet):
    """The convex hull of the margins of all hypotheses, known through a weak learner.

    Attributes
    ----------
    alternative : ndarray of shape (m,) or None
        A distribution to ask about, once, when the answer to another brings nothing new. Its edge counts, so
        that it must be in the capped simplex up to rounding.
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
        """Return how far x is outside the cube [-1, 1]^m, which holds the hull."""
        return float(max(0.0, np.abs(x).max() - 1.0))

    def minimise_linear(self, v: Array) -> Array:
        """Return the margins of the hypothesis with the largest edge at -v, scaled to a distribution."""
        d, known = np.maximum(-v, 0.0), len(self.pool.hypotheses)
        total = float(d.sum())
        _, k = self.pool.ask(d / total if total > 0.0 else np.full(v.size, 1.0 / v.size))
        if self.alternative is not None and len(self.pool.hypotheses) == known:
            self.pool.ask(self.alternative)
            self.alternative = None
        return self.pool.columns[k].copy()
