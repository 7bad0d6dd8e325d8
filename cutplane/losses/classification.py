"""Losses for labels y in {-1, +1}, each a function of the margin y t."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.losses.base import MarginLoss, Outline, at_kink, within, x_log_x


@dataclass(frozen=True)
class Hinge(MarginLoss):
    """l(t, y) = max(0, 1 - y t), the loss of the support vector machine (10.1007/BF00994018).

    Examples
    --------
    >>> from cutplane.losses import Hinge
    >>> float(Hinge().value(0.25, 1.0)), float(Hinge().derivative(0.25, 1.0))
    (0.75, -1.0)
    """

    def _phi(self, s: Any) -> Any:
        return np.maximum(0.0, 1.0 - s)

    def _slope(self, s: Any, d: Any) -> Any:
        return at_kink(s, 1.0, -1.0, 0.0, d)

    def _conjugate(self, v: Any) -> Any:
        return within(v, -1.0, 0.0, v)

    def _outline(self) -> Outline:
        return (1.0,), ((0.0, -1.0, 1.0), (0.0, 0.0, 0.0))

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return cp.pos(1.0 - s)


@dataclass(frozen=True)
class SquaredHinge(MarginLoss):
    """l(t, y) = max(0, 1 - y t)^2, without the factor 1/2: scikit-learn's ``squared_hinge``.

    Examples
    --------
    >>> from cutplane.losses import SquaredHinge
    >>> float(SquaredHinge().value(-1.0, 1.0)), float(SquaredHinge().derivative(-1.0, 1.0))
    (4.0, -4.0)
    """

    smoothness = 2.0

    def _phi(self, s: Any) -> Any:
        return np.maximum(0.0, 1.0 - s) ** 2

    def _slope(self, s: Any, d: Any) -> Any:
        return -2.0 * np.maximum(0.0, 1.0 - s) * d

    def _conjugate(self, v: Any) -> Any:
        return within(v, -np.inf, 0.0, v + 0.25 * v**2)

    def _outline(self) -> Outline:
        return (1.0,), ((1.0, -2.0, 1.0), (0.0, 0.0, 0.0))

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return cp.square(cp.pos(1.0 - s))


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

    smoothness = 2.0

    def _phi(self, s: Any) -> Any:
        short = np.maximum(0.0, 1.0 - s)
        inside = np.minimum(short, 2.0)
        return inside * (2.0 * short - inside)

    def _slope(self, s: Any, d: Any) -> Any:
        return -2.0 * np.clip(1.0 - s, 0.0, 2.0) * d

    def _conjugate(self, v: Any) -> Any:
        return within(v, -4.0, 0.0, v + 0.25 * v**2)

    def _outline(self) -> Outline:
        return (-1.0, 1.0), ((0.0, -4.0, 0.0), (1.0, -2.0, 1.0), (0.0, 0.0, 0.0))

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return cp.huber(cp.pos(1.0 - s), 2)


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

    def _phi(self, s: Any) -> Any:
        return np.maximum(0.0, -s) + np.log1p(np.exp(-np.abs(s)))

    def _slope(self, s: Any, d: Any) -> Any:
        with np.errstate(over="ignore"):
            return -d / (1.0 + np.exp(s))

    def _conjugate(self, v: Any) -> Any:
        return within(v, -1.0, 0.0, x_log_x(-v) + x_log_x(1.0 + v))

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return cp.logistic(-s)


@dataclass(frozen=True)
class Exponential(MarginLoss):
    """l(t, y) = exp(-y t), the loss of AdaBoost (10.1006/jcss.1997.1504); inf for margins below -709.

    Examples
    --------
    >>> from cutplane.losses import Exponential
    >>> float(Exponential().value(0.0, -1.0)), float(Exponential().derivative(0.0, -1.0))
    (1.0, 1.0)
    """

    def _phi(self, s: Any) -> Any:
        with np.errstate(over="ignore"):
            return np.exp(-s)

    def _slope(self, s: Any, d: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            return -d * np.exp(-s)

    def _conjugate(self, v: Any) -> Any:
        return within(v, -np.inf, 0.0, x_log_x(-v) + v)

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return cp.exp(-s)
