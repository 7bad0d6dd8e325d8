"""Losses for real targets y; all but the last are functions of the residual t - y."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import Outline, ResidualLoss, ScalarLoss, at_kink, within, x_log_x
from cutplane.validation import Array, as_scalar, as_vector


@dataclass(frozen=True)
class Squared(ResidualLoss):
    """l(t, y) = (t - y)^2 / 2.

    Examples
    --------
    >>> from cutplane.losses import Squared
    >>> float(Squared().value(3.0, 1.0)), float(Squared().derivative(3.0, 1.0))
    (2.0, 2.0)
    """

    smoothness = 1.0
    curvature = 1.0

    def _phi(self, s: Any) -> Any:
        return 0.5 * s**2

    def _slope(self, s: Any, d: Any) -> Any:
        return s * d

    def _conjugate(self, v: Any) -> Any:
        return 0.5 * v**2

    def _outline(self) -> Outline:
        return (), ((0.5, 0.0, 0.0),)

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return 0.5 * cp.square(s)


@dataclass(frozen=True)
class Absolute(ResidualLoss):
    """l(t, y) = |t - y|; its constant minimiser is the median.

    Examples
    --------
    >>> from cutplane.losses import Absolute
    >>> float(Absolute().value(3.0, 1.0)), float(Absolute().derivative(0.0, 1.0))
    (2.0, -1.0)
    """

    def _phi(self, s: Any) -> Any:
        return np.abs(s)

    def _slope(self, s: Any, d: Any) -> Any:
        return at_kink(s, 0.0, -1.0, 1.0, d)

    def _conjugate(self, v: Any) -> Any:
        return within(v, -1.0, 1.0, 0.0)

    def _outline(self) -> Outline:
        return (0.0,), ((0.0, -1.0, 0.0), (0.0, 1.0, 0.0))

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return cp.abs(s)


@dataclass(frozen=True)
class Quantile(ResidualLoss):
    """l(t, y) = max(tau r, (tau - 1) r) with r = y - t: the pinball loss (10.2307/1913643).

    Parameters
    ----------
    tau : float, default 0.5
        The quantile to predict, in (0, 1).

    Raises
    ------
    InvalidInputError
        If `tau` is not strictly between 0 and 1.

    Examples
    --------
    >>> from cutplane.losses import Quantile
    >>> float(Quantile(0.75).value(0.0, 2.0)), float(Quantile(0.75).value(2.0, 0.0))
    (1.5, 0.5)
    """

    tau: float = 0.5

    def __post_init__(self) -> None:
        tau = as_scalar("Quantile.tau", self.tau, low=0.0, high=1.0, low_open=True, high_open=True)
        object.__setattr__(self, "tau", tau)

    def _phi(self, s: Any) -> Any:
        return np.maximum(-self.tau * s, (1.0 - self.tau) * s)

    def _slope(self, s: Any, d: Any) -> Any:
        return at_kink(s, 0.0, -self.tau, 1.0 - self.tau, d)

    def _conjugate(self, v: Any) -> Any:
        return within(v, -self.tau, 1.0 - self.tau, 0.0)

    def _outline(self) -> Outline:
        return (0.0,), ((0.0, -self.tau, 0.0), (0.0, 1.0 - self.tau, 0.0))

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return cp.maximum(-self.tau * s, (1.0 - self.tau) * s)


@dataclass(frozen=True)
class EpsilonInsensitive(ResidualLoss):
    """l(t, y) = max(0, |t - y| - epsilon), the loss of support vector regression.

    See 10.1023/B:STCO.0000035301.49549.88.

    Parameters
    ----------
    epsilon : float, default 0.1
        Half the width of the tube without loss, in the unit of y; at least 0 (0 is the absolute loss).

    Raises
    ------
    InvalidInputError
        If `epsilon` is negative or not finite.

    Examples
    --------
    >>> from cutplane.losses import EpsilonInsensitive
    >>> float(EpsilonInsensitive(0.5).value(2.0, 1.0)), float(EpsilonInsensitive(0.5).derivative(1.2, 1.0))
    (0.5, 0.0)
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        epsilon = as_scalar(
            "EpsilonInsensitive.epsilon", self.epsilon, low=0.0, high=math.inf, high_open=True
        )
        object.__setattr__(self, "epsilon", epsilon)

    def _phi(self, s: Any) -> Any:
        return np.maximum(0.0, np.abs(s) - self.epsilon)

    def _slope(self, s: Any, d: Any) -> Any:
        return at_kink(s, -self.epsilon, -1.0, 0.0, d) + at_kink(s, self.epsilon, 0.0, 1.0, d)

    def _conjugate(self, v: Any) -> Any:
        return within(v, -1.0, 1.0, self.epsilon * np.abs(v))

    def _outline(self) -> Outline:
        sides = (0.0, -1.0, -self.epsilon), (0.0, 1.0, -self.epsilon)
        return (-self.epsilon, self.epsilon), (sides[0], (0.0, 0.0, 0.0), sides[1])

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return cp.pos(cp.abs(s) - self.epsilon)


@dataclass(frozen=True)
class Huber(ResidualLoss):
    """l(t, y) = r^2 / 2 if |r| <= delta, else delta (|r| - delta / 2), with r = t - y.

    See 10.1214/aoms/1177703732.

    Parameters
    ----------
    delta : float, default 1.0
        The residual beyond which the loss is linear, in the unit of y; greater than 0.

    Raises
    ------
    InvalidInputError
        If `delta` is not positive and finite.

    Examples
    --------
    >>> from cutplane.losses import Huber
    >>> float(Huber(1.0).value(0.5, 0.0)), float(Huber(1.0).value(3.0, 0.0))
    (0.125, 2.5)
    """

    delta: float = 1.0
    smoothness = 1.0

    def __post_init__(self) -> None:
        delta = as_scalar("Huber.delta", self.delta, low=0.0, high=math.inf, low_open=True, high_open=True)
        object.__setattr__(self, "delta", delta)

    def _phi(self, s: Any) -> Any:
        inside = np.minimum(np.abs(s), self.delta)
        return inside * (np.abs(s) - 0.5 * inside)

    def _slope(self, s: Any, d: Any) -> Any:
        return np.clip(s, -self.delta, self.delta) * d

    def _conjugate(self, v: Any) -> Any:
        return within(v, -self.delta, self.delta, 0.5 * v**2)

    def _outline(self) -> Outline:
        delta, constant = self.delta, -0.5 * self.delta**2
        return (-delta, delta), ((0.0, -delta, constant), (0.5, 0.0, 0.0), (0.0, delta, constant))

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return 0.5 * cp.huber(s, self.delta)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Poisson(ScalarLoss):
    """l(t, y) = exp(t) - y t: counts y >= 0 with mean exp(t); the constant ln(y!) is left out.

    Examples
    --------
    >>> from cutplane.losses import Poisson
    >>> float(Poisson().value(0.0, 2.0)), float(Poisson().derivative(0.0, 2.0))
    (1.0, -1.0)
    """

    def value(self, t: Any, y: Any) -> Any:
        """Return l(t, y); inf for t above 709."""
        with np.errstate(over="ignore"):
            return np.exp(t) - y * t

    def derivative(self, t: Any, y: Any) -> Any:
        """Return the derivative of l in t."""
        with np.errstate(over="ignore"):
            return np.exp(t) - y

    def conjugate(self, u: Any, y: Any) -> Any:
        """Return sup over t of u t - l(t, y); inf outside its domain."""
        s = u + y
        return within(s, 0.0, np.inf, x_log_x(s) - s)

    def infimum(self, y: Array) -> Array:
        """Return y - y ln y for each example."""
        return y - x_log_x(y)

    def cvxpy_form(self, t: Any, y: Array) -> Any:
        """Return the losses as a cvxpy expression of the shape of t."""
        import cvxpy as cp

        return cp.exp(t) - cp.multiply(y, t)

    def check_targets(self, y: Any) -> Array:
        """Return `y` as a nonnegative float64 vector, or raise `InvalidInputError`."""
        counts = as_vector("y", y)
        wrong = np.flatnonzero(counts < 0.0)
        if wrong.size:
            raise InvalidInputError(
                f"Poisson needs counts y >= 0, but y[{wrong[0]}] is {counts[wrong[0]]:g}; "
                "choose another loss, such as Squared, for targets that can be negative."
            )
        return counts
