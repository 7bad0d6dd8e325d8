"""The best point and the best lower bound, kept monotone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cutplane.engine.bundle import Proof
from cutplane.engine.checks import allowed
from cutplane.engine.evaluator import Point
from cutplane.exceptions import OracleError
from cutplane.pieces.answers import show
from cutplane.pieces.validation import Array

_NOISE = 1e-13
"""Changes of a bound below this share of it may be rounding, and are no progress."""


class Bounds:
    """Both bounds on the optimum, and what proves them.

    A lower bound above the objective of a point is a contradiction. One that the errors of an oracle or of
    rounding explain leaves a gap as large as the contradiction, because nothing better is proven. A
    larger one is an `OracleError`.

    Parameters
    ----------
    exact : bool, default True
        Whether the oracles are; if not, a lower bound that a point contradicts is forgotten.

    Attributes
    ----------
    best : Point or None
        The best feasible point.
    upper : float
        The objective there; inf if there is none.
    lower : float
        The best certified lower bound.
    proof : Proof
        The multipliers that give `lower`.
    scale : float
        The largest size of the objective at a point that was offered.
    """

    def __init__(self, exact: bool = True) -> None:
        self._settles = exact
        self.best: Point | None = None
        self.lower, self.upper = -math.inf, math.inf
        self.proof = Proof()
        self.scale = 0.0
        self._computed = -math.inf
        self._magnitude = 0.0
        self._known: tuple[float, Proof] = -math.inf, Proof()

    def terms(self) -> float:
        """Return the size of the terms that objectives are sums of, and which may cancel."""
        return self.scale

    def slack(self) -> float:
        """Return the size of terms of which the tolerance of a set may change a share."""
        return 0.0

    def offer_point(self, point: Point) -> bool:
        """Keep the point if it is feasible and better; tell whether it is better beyond rounding."""
        if math.isfinite(point.objective):
            self.scale = max(self.scale, abs(point.objective))
        if not (point.feasible and point.objective < self.upper):
            return False
        better = not self.upper - point.objective <= _NOISE * abs(self.upper)
        self.best, self.upper = point, point.objective
        if not self._settles and self.lower > point.objective:
            self._computed, self.proof = -math.inf, Proof()
        self.lower = self._settled(self._computed, self._magnitude)
        if self.lower < self._known[0]:
            self._take_known()
        return better

    def replace_best(self, point: Point) -> None:
        """Take another evaluation of the best point; its objective may be larger."""
        self.best, self.upper = point, point.objective
        self.lower = self._settled(self._computed, self._magnitude)

    def raise_best(self, slopes: Array, offsets: Array) -> None:
        """Raise the values at the best point to those of new cuts, one per block, where these are higher."""
        assert self.best is not None
        values = np.maximum(self.best.values, slopes @ self.best.x + offsets)
        rise = float((values - self.best.values).sum())
        if rise > 0.0:
            self.upper += rise
            self.best = replace(self.best, values=values, objective=self.upper)

    def offer_known(self, value: float, proof: Proof) -> None:
        """Keep a lower bound that is known beforehand, without rounding errors."""
        self._known = value, proof
        self._take_known()

    def _take_known(self) -> None:
        self._computed, self.proof = self._known
        self._magnitude = 0.0
        self.lower = self._settled(self._computed, 0.0)

    def offer_bound(self, value: float, magnitude: float, proof: Proof) -> bool:
        """Keep the lower bound if it is better; tell whether it is better beyond rounding.

        `magnitude` is the size of the terms that `value` is the sum of.
        """
        if value > self.upper and not self._settles:
            return False
        settled = self._settled(value, magnitude)
        if not settled > self.lower:
            if self.lower == -math.inf:
                self.proof = proof
            return False
        better = not settled - self.lower <= _NOISE * magnitude
        self.lower, self.proof = settled, proof
        self._computed, self._magnitude = value, magnitude
        return better

    def _settled(self, value: float, magnitude: float) -> float:
        """Return the bound that a computed one proves, given the best point; see the class."""
        if self.best is None or value == -math.inf:
            return value
        upper = self.upper
        excess = value - upper
        if excess <= 0.0:
            return value
        if excess > allowed(magnitude + abs(upper) + self.slack(), self.terms()):
            raise OracleError(
                f"The lower bound {value:.10g} exceeds the objective {upper:.10g} at x = "
                f"{show(self.best.x)}: a cut lies above the risk. Check the subgradients with "
                "cutplane.testing.check_risk."
            )
        return upper - excess
