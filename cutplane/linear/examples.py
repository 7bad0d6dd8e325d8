"""The losses of the examples at a point: slopes, a quadratic model, and what scaled multipliers cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.linear.multiplier_method import Outlined
from cutplane.losses.base import pieces_of
from cutplane.pieces.validation import Array
from cutplane.risks.weighted_loss import weighted_loss

if TYPE_CHECKING:
    from cutplane.linear.predictor import LinearPredictor


class Examples:
    """The weighted sum of smooth losses, as a function f of the predictions z.

    Attributes
    ----------
    quadratic : bool
        Whether the model of `bends` is the risk itself.
    """

    def __init__(self, risk: LinearPredictor):
        self.risk = risk
        self._edges = np.array([0, risk.X.shape[0]])
        self._losses = weighted_loss(risk.loss, risk.y, risk.weights, self._edges)
        self._phi = pieces_of(risk.loss)
        self.quadratic = risk.loss.curvature is not None
        self._infimum = float(
            np.where(risk.weights > 0.0, risk.weights * risk.loss.infimum(risk.y), 0.0).sum()
        )
        self._star: Any = None
        if self._phi is not None and not self.quadratic:
            star = Outlined(self._phi.star, risk.loss.variable)
            margin = risk.loss.variable == "margin"
            self._star = weighted_loss(
                star, risk.y if margin else np.zeros(risk.y.size), risk.weights, self._edges
            )
            self._shift = 0.0 if margin else risk.y

    def value(self, z: Array) -> float:
        """Return f(z)."""
        return float(self._losses.values(z)[0])

    def slopes(self, z: Array) -> Array:
        """Return the weighted multipliers of the examples: the slopes of f."""
        return self._losses.derivatives(z)

    def bends(self, z: Array, least: float = 0.0) -> Array:
        """Return the second derivatives of f, each at least a share `least` of what it can be."""
        loss, weights = self.risk.loss, self.risk.weights
        if self.quadratic:
            return loss.curvature * weights
        d = self._losses.second_derivatives(z)
        if least > 0.0 and math.isfinite(loss.smoothness):
            d = np.maximum(d, (least * loss.smoothness) * weights)
        return d

    def excess(self, s: float, z: Array, r: Array, d: Array) -> float:
        """Return f(z) + f*(s r) - <s r, z> for the slopes r at z, or about that; 0 for s = 1."""
        if s == 1.0:
            return 0.0
        if self._star is not None:
            u = s * self.unweighted(r)
            star = float(self._star.values(u)[0]) + s * float(r @ np.broadcast_to(self._shift, r.shape))
            return max(0.0, self.value(z) + star - s * float(r @ z))
        quadratic = 0.5 * (1.0 - s) ** 2 * bend_of_conjugate(r, d)
        return quadratic if self.quadratic else min(quadratic, (1.0 - s) * (self.value(z) - self._infimum))

    def unweighted(self, r: Array) -> Array:
        """Return multipliers without the weights of the examples, in the domain of the conjugates."""
        weights, loss = self.risk.weights, self.risk.loss
        u = np.divide(r, weights, out=np.zeros_like(r), where=weights > 0.0)
        if self._phi is None:
            return u
        low, high = self._phi.domain
        return (
            self.risk.y * np.clip(self.risk.y * u, low, high)
            if loss.variable == "margin"
            else np.clip(u, low, high)
        )


def bend_of_conjugate(r: Array, d: Array) -> float:
    """Return the second derivative of the conjugate of the model with bends d, along its multipliers r."""
    return float(r @ np.divide(r, d, out=np.zeros_like(r), where=d > 0.0))
