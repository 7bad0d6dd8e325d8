"""Scalar losses: of the margin y t for labels y in {-1, +1}, then of real targets y."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import MarginLoss, ScalarLoss
from cutplane.losses.elementary import exp, softplus, x_log_x
from cutplane.losses.pieces import Pieces
from cutplane.pieces.latex import number
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_nonnegative, as_positive, as_scalar, as_vector


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
        return rf"\max(0,\, 1 - {y} {t})"

    def outline(self) -> Pieces:
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
        return rf"\max(0,\, 1 - {y} {t})^2"

    def outline(self) -> Pieces:
        return Pieces(knots=[1.0], slopes=[-2.0, 0.0], curvatures=[2.0, 0.0])


@dataclass(frozen=True)
class ModifiedHuber(MarginLoss):
    """l(t, y) = max(0, 1 - y t)^2 if y t >= -1, else -4 y t: scikit-learn's ``modified_huber``.

    It is quadratic near the margin and linear beyond, therefore smooth and robust to outliers
    (10.1145/1015330.1015332).

    Examples
    --------
    >>> from cutplane.losses import ModifiedHuber
    >>> float(ModifiedHuber().value(0.0, 1.0)), float(ModifiedHuber().value(-3.0, 1.0))
    (1.0, 12.0)
    """

    def outline(self) -> Pieces:
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
        return rf"\ln(1 + e^{{-{y} {t}}})"

    def value(self, t: Any, y: Any) -> Any:
        return softplus(-y * t)

    def derivative(self, t: Any, y: Any) -> Any:
        e = exp(-abs(y * t))
        return -y * (e + (1.0 - e) * (y * t <= 0.0)) / (1.0 + e)

    def second_derivative(self, t: Any, y: Any) -> Any:
        e = exp(-abs(y * t))
        return e / (1.0 + e) / (1.0 + e)

    def log_probability(self, t: Any) -> Any:
        return -softplus(-t)

    def infimum(self, y: Array) -> Array:
        return np.zeros(np.shape(y))

    def conjugate(self, u: Any, y: Any) -> Any:
        v = u * y
        return np.where((v >= -1.0) & (v <= 0.0), x_log_x(-v) + x_log_x(1.0 + v), np.inf)

    def cvxpy_form(self, t: Any, y: Array) -> Any:
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
        return rf"e^{{-{y} {t}}}"

    def value(self, t: Any, y: Any) -> Any:
        return exp(-y * t)

    def derivative(self, t: Any, y: Any) -> Any:
        return -y * exp(-y * t)

    def second_derivative(self, t: Any, y: Any) -> Any:
        return exp(-y * t)

    def infimum(self, y: Array) -> Array:
        return np.zeros(np.shape(y))

    def conjugate(self, u: Any, y: Any) -> Any:
        v = u * y
        return np.where(v <= 0.0, x_log_x(-v) + v, np.inf)

    def cvxpy_form(self, t: Any, y: Array) -> Any:
        import cvxpy as cp

        return cp.exp(-cp.multiply(y, t))


@dataclass(frozen=True)
class Squared(ScalarLoss):
    """l(t, y) = (t - y)^2 / 2.

    Examples
    --------
    >>> from cutplane.losses import Squared
    >>> float(Squared().value(3.0, 1.0)), float(Squared().derivative(3.0, 1.0))
    (2.0, 2.0)
    """

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        return rf"\tfrac12 ({t} - {y})^2"

    def outline(self) -> Pieces:
        return Pieces(knots=[], slopes=[0.0], curvatures=[1.0])


@dataclass(frozen=True)
class Absolute(ScalarLoss):
    """l(t, y) = |t - y|; its constant minimiser is the median.

    Examples
    --------
    >>> from cutplane.losses import Absolute
    >>> float(Absolute().value(3.0, 1.0)), float(Absolute().derivative(0.0, 1.0))
    (2.0, -1.0)
    """

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        return rf"|{t} - {y}|"

    def outline(self) -> Pieces:
        return Pieces(knots=[0.0], slopes=[-1.0, 1.0])


@dataclass(frozen=True)
class Quantile(ScalarLoss):
    """l(t, y) = max(tau r, (tau - 1) r) with r = y - t: the pinball loss (10.2307/1913643).

    Parameters
    ----------
    tau : float, default 0.5
        The quantile to predict, in (0, 1).

    Examples
    --------
    >>> from cutplane.losses import Quantile
    >>> float(Quantile(0.75).value(0.0, 2.0)), float(Quantile(0.75).value(2.0, 0.0))
    (1.5, 0.5)
    """

    tau: float = 0.5

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        return rf"\max({number(self.tau)} ({y} - {t}),\, {number(1.0 - self.tau)} ({t} - {y}))"

    def __post_init__(self) -> None:
        tau = as_scalar("Quantile.tau", self.tau, low=0.0, high=1.0, low_open=True, high_open=True)
        set_fields(self, tau=tau)

    def outline(self) -> Pieces:
        return Pieces(knots=[0.0], slopes=[-self.tau, 1.0 - self.tau])

    def exact_slopes(self) -> list[Fraction]:
        """Return the slopes as exact fractions, because `outline` rounds the second one."""
        return [-Fraction(self.tau), 1 - Fraction(self.tau)]


@dataclass(frozen=True)
class EpsilonInsensitive(ScalarLoss):
    """l(t, y) = max(0, |t - y| - epsilon), of support vector regression (10.1023/B:STCO.0000035301.49549.88).

    Parameters
    ----------
    epsilon : float, default 0.1
        Half the width of the tube without loss, in the unit of y; at least 0 (0 is the absolute loss).

    Examples
    --------
    >>> from cutplane.losses import EpsilonInsensitive
    >>> float(EpsilonInsensitive(0.5).value(2.0, 1.0)), float(EpsilonInsensitive(0.5).derivative(1.2, 1.0))
    (0.5, 0.0)
    """

    epsilon: float = 0.1

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        return rf"\max(0,\, |{t} - {y}| - {number(self.epsilon)})"

    def __post_init__(self) -> None:
        set_fields(self, epsilon=as_nonnegative("EpsilonInsensitive.epsilon", self.epsilon))

    def outline(self) -> Pieces:
        return Pieces(knots=[-self.epsilon, self.epsilon], slopes=[-1.0, 0.0, 1.0])


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(ScalarLoss):
    """l(t, y) = max(0, |t - y| - epsilon)^2, without the factor 1/2.

    This loss of smooth support vector regression is scikit-learn's ``squared_epsilon_insensitive``
    (10.1023/B:STCO.0000035301.49549.88).

    Parameters
    ----------
    epsilon : float, default 0.1
        Half the width of the tube without loss, in the unit of y; at least 0.

    Examples
    --------
    >>> from cutplane.losses import SquaredEpsilonInsensitive
    >>> loss = SquaredEpsilonInsensitive(0.5)
    >>> float(loss.value(3.0, 1.0)), float(loss.derivative(3.0, 1.0)), float(loss.value(1.2, 1.0))
    (2.25, 3.0, 0.0)
    """

    epsilon: float = 0.1

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        return rf"\max(0,\, |{t} - {y}| - {number(self.epsilon)})^2"

    def __post_init__(self) -> None:
        set_fields(self, epsilon=as_nonnegative("SquaredEpsilonInsensitive.epsilon", self.epsilon))

    def outline(self) -> Pieces:
        knots, slopes = [-self.epsilon, self.epsilon], [2.0 * self.epsilon, 0.0, -2.0 * self.epsilon]
        return Pieces(knots, slopes, curvatures=[2.0, 0.0, 2.0])


@dataclass(frozen=True)
class Huber(ScalarLoss):
    """l(t, y) = r^2 / 2 if |r| <= delta, else delta (|r| - delta / 2), r = t - y (10.1214/aoms/1177703732).

    Parameters
    ----------
    delta : float, default 1.0
        The residual beyond which the loss is linear, in the unit of y; greater than 0.

    Examples
    --------
    >>> from cutplane.losses import Huber
    >>> float(Huber(1.0).value(0.5, 0.0)), float(Huber(1.0).value(3.0, 0.0))
    (0.125, 2.5)
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, delta=as_positive("Huber.delta", self.delta))

    def outline(self) -> Pieces:
        knots, slopes = [-self.delta, self.delta], [-self.delta, 0.0, self.delta]
        return Pieces(knots, slopes, curvatures=[0.0, 1.0, 0.0])


@dataclass(frozen=True)
class Poisson(ScalarLoss):
    """l(t, y) = exp(t) - y t: counts y >= 0 with mean exp(t); without the constant ln(y!).

    Examples
    --------
    >>> from cutplane.losses import Poisson
    >>> float(Poisson().value(0.0, 2.0)), float(Poisson().derivative(0.0, 2.0))
    (1.0, -1.0)
    """

    def formula(self, t: str = "t", y: str = "y_i") -> str:
        return rf"\left(e^{{{t}}} - {y} {t}\right)"

    def value(self, t: Any, y: Any) -> Any:
        return exp(t) - y * t

    def derivative(self, t: Any, y: Any) -> Any:
        return exp(t) - y

    def second_derivative(self, t: Any, y: Any) -> Any:
        return exp(t)

    def mean(self, t: Any) -> Any:
        return exp(t)

    def link(self, mean: Any) -> Any:
        return np.log(mean)

    def conjugate(self, u: Any, y: Any) -> Any:
        s = u + y
        return np.where(s >= 0.0, x_log_x(s) - s, np.inf)

    def infimum(self, y: Array) -> Array:
        return y - x_log_x(y)

    def cvxpy_form(self, t: Any, y: Array) -> Any:
        import cvxpy as cp

        return cp.exp(t) - cp.multiply(y, t)

    def check_targets(self, y: Any) -> Array:
        counts = as_vector("y", y)
        wrong = np.flatnonzero(counts < 0.0)
        if wrong.size:
            raise InvalidInputError(
                f"Poisson needs counts y >= 0, but y[{wrong[0]}] is {counts[wrong[0]]:g}; "
                "choose another loss, such as Squared, for targets that can be negative."
            )
        return counts
