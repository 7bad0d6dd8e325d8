"""A convex function restricted to a line, t -> phi(t), as line searches see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cutplane.validation import Array


@dataclass(frozen=True)
class Line:
    """phi(t) along x0 + t (x1 - x0).

    Parameters
    ----------
    evaluate : callable
        ``evaluate(t)`` returns (phi(t), a right derivative of phi at t).
    kinks : ndarray or None
        Every t at which a piece of phi ends, in any order, if phi is piecewise linear or quadratic, so that
        an exact search is possible; None if it is not, or if it is not known.
    """

    evaluate: Callable[[float], tuple[float, float]]
    kinks: Array | None = None

    def __call__(self, t: float) -> tuple[float, float]:
        """Return (phi(t), a right derivative of phi at t)."""
        return self.evaluate(t)

    def __add__(self, other: Line) -> Line:
        def evaluate(t: float) -> tuple[float, float]:
            value, slope = self(t)
            more, steeper = other(t)
            return value + more, slope + steeper

        if self.kinks is None or other.kinks is None:
            return Line(evaluate)
        return Line(evaluate, np.concatenate([self.kinks, other.kinks]))

    def __rmul__(self, factor: float) -> Line:
        def evaluate(t: float) -> tuple[float, float]:
            value, slope = self(t)
            return factor * value, factor * slope

        return Line(evaluate, self.kinks)


NO_KINKS = np.empty(0)


def quadratic_line(constant: float, linear: float, curvature: float) -> Line:
    """phi(t) = constant + linear t + curvature t^2 / 2."""

    def evaluate(t: float) -> tuple[float, float]:
        return constant + t * (linear + 0.5 * curvature * t), linear + curvature * t

    return Line(evaluate, NO_KINKS)
