"""Losses for labels y in {-1, +1}, each a function of the margin y t."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.losses.base import MarginLoss
from cutplane.losses.elementary import exp, softplus, x_log_x
from cutplane.losses.pieces import Pieces
from cutplane.pieces.validation import Array


@dataclass(frozen=True)
class Hinge(MarginLoss):
    """l(t, y) = max(0, 1 - y t), the loss of the support vector machine (10.1007/BF00994018).

    Examples
    --------
    >>> from cutplane.losses import Hinge
    >>> float(Hinge().value(0.25, 1.0)), float(Hinge().derivative(0.25, 1.0))
    (0.75, -1.0)
    """

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        """Return l(t, y) in LaTeX."""
        return rf"\max(0,\, 1 - {y} {t})"

    def outline(self) -> Pieces:
        """Return max(0, 1 - s)."""
        return Pieces(knots=[1.0], slopes=[-1.0, 0.0])


@dataclass(frozen=True)
class SquaredHinge(MarginLoss):
    """l(t, y) = max(0, 1 - y t)^2, without the factor 1/2: scikit-learn's ``squared_hinge``.

    Examples
    --------
    >>> from cutplane.losses import SquaredHinge
    >>> float(SquaredHinge().value(-1.0, 1.0)), float(SquaredHinge().derivative(-1.0, 1.0))
    (4.0, -4.0)
    """

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        """Return l(t, y) in LaTeX."""
        return rf"\max(0,\, 1 - {y} {t})^2"

    def outline(self) -> Pieces:
        """Return max(0, 1 - s)^2."""
        return Pieces(knots=[1.0], slopes=[-2.0, 0.0], curvatures=[2.0, 0.0])


@dataclass(frozen=True)
class ModifiedHuber(MarginLoss):
    """l(t, y) = max(0, 1 - y t)^2 if y t >= -1, else -4 y t: scikit-learn's ``modified_huber``.

    Quadratic near the margin and linear beyond: smooth and tolerant of outliers (10.1145/1015330.1015332).

    Examples
    --------
    >>> from cutplane.losses import ModifiedHuber
    >>> float(ModifiedHuber().value(0.0, 1.0)), float(ModifiedHuber().value(-3.0, 1.0))
    (1.0, 12.0)
    """

    def outline(self) -> Pieces:
        """Return max(0, 1 - s)^2 for s >= -1, and -4 s for less."""
        return Pieces(knots=[-1.0, 1.0], slopes=[-4.0, -2.0, 0.0], curvatures=[0.0, 2.0, 0.0])


@dataclass(frozen=True)
class Logistic(MarginLoss):
    """l(t, y) = ln(1 + exp(-y t)), computed without overflow for any margin.

    Examples
    --------
    >>> from cutplane.losses import Logistic
    >>> round(float(Logistic().value(0.0, 1.0)), 6), float(Logistic().value(-1000.0, 1.0))
    (0.693147, 1000.0)
    """

    smoothness = 0.25
    lipschitz = 1.0

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        """Return l(t, y) in LaTeX."""
        return rf"\ln(1 + e^{{-{y} {t}}})"

    def value(self, t: Any, y: Any) -> Any:
        """Return l(t, y)."""
        return softplus(-y * t)

    def derivative(self, t: Any, y: Any) -> Any:
        """Return the derivative of l in t."""
        e = exp(-abs(y * t))
        return -y * (e + (1.0 - e) * (y * t <= 0.0)) / (1.0 + e)

    def second_derivative(self, t: Any, y: Any) -> Any:
        """Return the second derivative of l in t."""
        e = exp(-abs(y * t))
        return e / (1.0 + e) / (1.0 + e)

    def log_probability(self, t: Any) -> Any:
        """Return the logarithm of the probability of the label 1."""
        return -softplus(-t)

    def infimum(self, y: Array) -> Array:
        """Return 0 for each example."""
        return np.zeros(np.shape(y))

    def conjugate(self, u: Any, y: Any) -> Any:
        """Return sup over t of u t - l(t, y); inf outside its domain."""
        v = u * y
        return np.where((v >= -1.0) & (v <= 0.0), x_log_x(-v) + x_log_x(1.0 + v), np.inf)

    def cvxpy_form(self, t: Any, y: Array) -> Any:
        """Return the losses as a cvxpy expression of the shape of t."""
        import cvxpy as cp

        return cp.logistic(-cp.multiply(y, t))


@dataclass(frozen=True)
class Exponential(MarginLoss):
    """l(t, y) = exp(-y t), the loss of AdaBoost (10.1006/jcss.1997.1504); inf for margins below -709.

    Examples
    --------
    >>> from cutplane.losses import Exponential
    >>> float(Exponential().value(0.0, -1.0)), float(Exponential().derivative(0.0, -1.0))
    (1.0, 1.0)
    """

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        """Return l(t, y) in LaTeX."""
        return rf"e^{{-{y} {t}}}"

    def value(self, t: Any, y: Any) -> Any:
        """Return l(t, y)."""
        return exp(-y * t)

    def derivative(self, t: Any, y: Any) -> Any:
        """Return the derivative of l in t."""
        return -y * exp(-y * t)

    def second_derivative(self, t: Any, y: Any) -> Any:
        """Return the second derivative of l in t."""
        return exp(-y * t)

    def infimum(self, y: Array) -> Array:
        """Return 0 for each example."""
        return np.zeros(np.shape(y))

    def conjugate(self, u: Any, y: Any) -> Any:
        """Return sup over t of u t - l(t, y); inf outside its domain."""
        v = u * y
        return np.where(v <= 0.0, x_log_x(-v) + v, np.inf)

    def cvxpy_form(self, t: Any, y: Array) -> Any:
        """Return the losses as a cvxpy expression of the shape of t."""
        import cvxpy as cp

        return cp.exp(-cp.multiply(y, t))
