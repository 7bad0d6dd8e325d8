"""The losses of the examples at a point: slopes, a quadratic model, and what scaled multipliers cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cutplane.linear.smoothing import Smoothing
from cutplane.losses.base import pieces_of
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.linear.predictor import LinearPredictor


_SHRINK = 0.5
"""By what the smoothing shrinks with the shifts."""


_FINEST = 4.0**-60
"""Least smoothing relative to the targets, because less changes no digit of data of sizes down to 1e-20."""


class Examples:
    """The weighted sum of the losses, without kinks or smoothed, as a function f of the predictions z.

    Attributes
    ----------
    kinked : bool
        Whether the losses have kinks.
    quadratic : bool
        Whether the model of `bends` is the risk itself.
    """

    def __init__(self, risk: LinearPredictor):
        self.risk = risk
        self._smoothing = Smoothing(risk)
        self._true = self._smoothing.weighted
        self._valued: tuple[Array, float] | None = None
        self.kinked = self._smoothing.phi is not None
        self.quadratic = risk.loss.curvature is not None
        self._known = not self.quadratic and pieces_of(risk.loss) is not None
        self._infimum = float(
            np.where(risk.weights > 0.0, risk.weights * risk.loss.infimum(risk.y), 0.0).sum()
        )

    def risk_at(self, z: Array) -> float:
        """Return the weighted sum of the losses as they are; for the same array it is computed once."""
        if self._valued is None or self._valued[0] is not z:
            self._valued = z, float(self._true.values(z)[0])
        return self._valued[1]

    def value(self, z: Array) -> float:
        """Return f(z)."""
        if not self.kinked:
            return self.risk_at(z)
        return float(self._smoothing.weighted.values(self._smoothing.shifted(z))[0])

    def slopes(self, z: Array) -> Array:
        """Return the weighted multipliers of the examples: the slopes of f."""
        if self.kinked and not self._smoothing.mu:
            self._smoothing.become(self._smoothing.first_mu(z, math.inf), self._smoothing.shifts)
        return self._smoothing.weighted.derivatives(self._smoothing.shifted(z))

    def bends(self, z: Array, least: float = 0.0) -> Array:
        """Return the second derivatives of f, each at least a share `least` of what it can be."""
        loss, weights = self._smoothing.loss, self.risk.weights
        if self.quadratic:
            return loss.curvature * weights
        d = self._smoothing.weighted.second_derivatives(self._smoothing.shifted(z))
        if least > 0.0 and math.isfinite(loss.smoothness):
            d = np.maximum(d, (least * loss.smoothness) * weights)
        return d

    def excess(self, s: float, z: Array, r: Array, d: Array | None = None) -> float:
        """Return f(z) + f*(s r) - <s r, z> for the slopes r at z, or about that; 0 for s = 1.

        With smoothed losses it is what the factor costs the losses as they are. `d` are the bends at z.
        """
        if s == 1.0:
            return 0.0
        if self._known:
            return max(0.0, self.error(s, z, r) - (self.error(1.0, z, r) if self.kinked else 0.0))
        quadratic = 0.5 * (1.0 - s) ** 2 * bend_of_conjugate(r, self.bends(z) if d is None else d)
        return quadratic if self.quadratic else min(quadratic, (1.0 - s) * (self.value(z) - self._infimum))

    def error(self, s: float, z: Array, r: Array) -> float:
        """Return the sum of the losses and their conjugates at s r, less <s r, z>: at least 0."""
        return max(
            0.0, self.risk_at(z) + self._smoothing.conjugate(s * self.unweighted(r)) - s * float(r @ z)
        )

    def advance(self, r: Array) -> bool:
        """Shift by the multipliers that the slopes r are, and smooth less; tell whether that was possible."""
        possible = self._smoothing.mu > _FINEST * max(1.0, float(np.abs(self.risk.y).max()))
        if possible:
            self._smoothing.become(_SHRINK * self._smoothing.mu, self.unweighted(r))
        return possible

    def unweighted(self, r: Array) -> Array:
        """Return multipliers without the weights of the examples, in the domain of the conjugates."""
        weights = self.risk.weights
        u = np.divide(r, weights, out=np.zeros_like(r), where=weights > 0.0)
        return self._smoothing.into_domain(u)


def bend_of_conjugate(r: Array, d: Array) -> float:
    """Return the second derivative of the conjugate of the model with bends d, along its multipliers r."""
    return float(r @ np.divide(r, d, out=np.zeros_like(r), where=d > 0.0))
