"""The best point and the best lower bound, kept monotone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from cutplane.engine.evaluator import Point
from cutplane.engine.oracle_checks import TOLERANCE, show
from cutplane.engine.proof import Proof
from cutplane.exceptions import OracleError
from cutplane.validation import Array

_NOISE = 1e-13


class Bounds:
    """Both bounds on the optimum, and what proves them.

    Parameters
    ----------
    exact : bool, default True
        Whether the oracles are; if not, a lower bound that a point contradicts is forgotten.

    Attributes
    ----------
    best : Point or None
        The best feasible point.
    lower : float
        The best certified lower bound.
    proof : Proof
        The multipliers that give `lower`.
    """

    def __init__(self, exact: bool = True) -> None:
        self.exact = exact
        self.best: Point | None = None
        self.lower = -math.inf
        self.proof = Proof()
        self.slack = 0.0
        """What the tolerance of an oracle or a set may change in the objective, before `TOLERANCE`."""
        self._magnitude = 0.0

    @property
    def upper(self) -> float:
        """The objective at the best feasible point; inf if there is none."""
        return self.best.objective if self.best is not None else math.inf

    def offer_point(self, point: Point) -> bool:
        """Keep the point if it is feasible and better; tell whether it is better beyond rounding."""
        if not (point.feasible and point.objective < self.upper):
            return False
        better = not self.upper - point.objective <= _NOISE * abs(self.upper)
        self.best = point
        if not self.exact and self.lower > point.objective:
            self.lower, self.proof = -math.inf, Proof()
        self._check(self.lower, self._magnitude)
        return better

    def raise_best(self, slopes: Array, offsets: Array) -> None:
        """Raise the values at the best point to those of new cuts, one per block, where these are higher."""
        assert self.best is not None
        values = np.maximum(self.best.values, slopes @ self.best.x + offsets)
        rise = float((values - self.best.values).sum())
        if rise > 0.0:
            self.best = replace(self.best, values=values, objective=self.best.objective + rise)

    def offer_bound(self, value: float, magnitude: float, proof: Proof) -> bool:
        """Keep the lower bound if it is better; tell whether it is better beyond rounding.

        `magnitude` is the size of the terms that `value` is the sum of.
        """
        if not value > self.lower or (value > self.upper and not self.exact):
            return False
        better = not value - self.lower <= _NOISE * magnitude
        self._check(value, magnitude)
        self.lower = max(self.lower, min(value, self.upper))
        self._magnitude = magnitude
        self.proof = proof
        return better

    def _check(self, lower: float, magnitude: float) -> None:
        """Raise `OracleError` if the lower bound exceeds the upper one by more than rounding errors."""
        if self.best is not None and lower - self.upper > TOLERANCE * (
            magnitude + abs(self.upper) + self.slack
        ):
            raise OracleError(
                f"The lower bound {lower:.10g} exceeds the objective {self.upper:.10g} at x = "
                f"{show(self.best.x)}: a cut lies above the risk. Check the subgradients with "
                "cutplane.testing.check_risk."
            )
