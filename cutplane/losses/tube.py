"""The squared loss with a tube in which residuals cost nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.losses.base import Outline, ResidualLoss
from cutplane.validation import as_scalar


@dataclass(frozen=True)
class SquaredEpsilonInsensitive(ResidualLoss):
    """l(t, y) = max(0, |t - y| - epsilon)^2, without the factor 1/2: the smooth support vector regression.

    It is scikit-learn's ``squared_epsilon_insensitive`` (10.1023/B:STCO.0000035301.49549.88).

    Parameters
    ----------
    epsilon : float, default 0.1
        Half the width of the tube without loss, in the unit of y; at least 0.

    Raises
    ------
    InvalidInputError
        If `epsilon` is negative or not finite.

    Examples
    --------
    >>> from cutplane.losses.tube import SquaredEpsilonInsensitive
    >>> loss = SquaredEpsilonInsensitive(0.5)
    >>> float(loss.value(3.0, 1.0)), float(loss.derivative(3.0, 1.0)), float(loss.value(1.2, 1.0))
    (2.25, 3.0, 0.0)
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        name = "SquaredEpsilonInsensitive.epsilon"
        epsilon = as_scalar(name, self.epsilon, low=0.0, high=math.inf, high_open=True)
        object.__setattr__(self, "epsilon", epsilon)

    def _phi(self, s: Any) -> Any:
        return np.maximum(0.0, np.abs(s) - self.epsilon) ** 2

    def _slope(self, s: Any, d: Any) -> Any:
        return 2.0 * np.sign(s) * np.maximum(0.0, np.abs(s) - self.epsilon) * d

    def _conjugate(self, v: Any) -> Any:
        return self.epsilon * np.abs(v) + 0.25 * v**2

    def _outline(self) -> Outline:
        epsilon, square = self.epsilon, self.epsilon**2
        sides = (1.0, 2.0 * epsilon, square), (1.0, -2.0 * epsilon, square)
        return (-epsilon, epsilon), (sides[0], (0.0, 0.0, 0.0), sides[1])

    def _expression(self, s: Any) -> Any:
        import cvxpy as cp

        return cp.square(cp.pos(cp.abs(s) - self.epsilon))
