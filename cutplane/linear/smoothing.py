"""The losses of examples with their kinks smoothed by Moreau envelopes, shifted by multipliers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.losses.pieces import Pieces
from cutplane.pieces.validation import Array
from cutplane.risks.weighted_loss import WeightedLoss, weighted_loss

if TYPE_CHECKING:
    from cutplane.linear.predictor import LinearPredictor

_SAMPLE = 512
"""Examples that tell the first mu, to the factor of 4 that it is rounded to."""
_SHARE = 0.2
"""The first smoothing costs at most a fifth of what the risk has above its infimum."""
_RANGE = 30
"""The first mu lies within 4^-30 and 4^30, beyond all digits."""


@dataclass(frozen=True, eq=False)
class Outlined(ScalarLoss):
    """The loss with given pieces of a given variable."""

    phi: Pieces
    variable: Any = "residual"

    def outline(self) -> Pieces:
        """Return the pieces."""
        return self.phi


class Smoothing:
    """The loss of example i is min over r of phi(r) + (r - s_i - mu v_i)^2 / (2 mu), with s_i its argument.

    Its slopes are multipliers of the examples; in the place of the shifts v they lead to those of the loss
    itself: the method of multipliers. A loss without kinks is left as it is, and mu is 0.

    Attributes
    ----------
    mu : float
    shifts : ndarray of shape (m,)
        The multipliers v.
    loss : ScalarLoss
        The envelope.
    weighted : WeightedLoss
        Of the examples, with their weights.
    """

    def __init__(self, risk: LinearPredictor, shifts: Array | None = None):
        phi = pieces_of(risk.loss)
        self.risk = risk
        self.phi = phi if phi is not None and phi.jumps.any() else None
        self.shifts = np.zeros(risk.X.shape[0]) if shifts is None else shifts
        self.conjugate = conjugates(risk, risk.y, risk.weights)
        self.become(0.0, self.shifts)

    def become(self, mu: float, shifts: Array) -> None:
        """Smooth by mu, and shift by these multipliers."""
        self.mu, self.shifts = mu, shifts
        self.loss = self._envelope(mu)
        self.weighted = weighted(self.loss, self.risk.y, self.risk.weights)

    def shifted(self, z: Array) -> Array:
        """Return the arguments of the envelopes at predictions z."""
        return z + self.mu * self.shifts if self.mu else z

    def into_domain(self, u: Array) -> Array:
        """Return u with what rounding has put outside the domain of the conjugates put back."""
        return _into_domain(self.risk, u, self.risk.y)

    def first_mu(self, z: Array, gap: float) -> float:
        """Return the power of 4 for which smoothing at the predictions z costs about `gap`, or 0."""
        if self.phi is None:
            return 0.0
        risk, rows = self.risk, slice(None, None, max(1, z.size // _SAMPLE))
        y, weights, z = risk.y[rows], risk.weights[rows], z[rows]
        total = float(weights.sum())
        if not total > 0.0:
            return 1.0
        weights = weights * (risk.weights.sum() / total)
        value = float(weights @ risk.loss.value(z, y))
        gap = min(gap, _SHARE * (value - float(weights @ risk.loss.infimum(y))))
        conjugate = conjugates(risk, y, weights)

        def costs_more(k: int) -> bool:
            u = _into_domain(risk, self._envelope(4.0**k).derivative(z, y), y)
            return value - float((weights * u) @ z) + conjugate(u) > gap

        k = 0
        step = -1 if costs_more(0) else 1
        while abs(k) < _RANGE and costs_more(k) == (step < 0):
            k += step
        return 4.0**k

    def _envelope(self, mu: float) -> ScalarLoss:
        loss = self.risk.loss
        return loss if self.phi is None else Outlined(self.phi.envelope(mu), loss.variable)


def weighted(loss: ScalarLoss, y: Array, weights: Array) -> WeightedLoss:
    """Return the weighted sum of the losses of the examples, in one block."""
    return weighted_loss(loss, y, weights, np.array([0, y.size]))


def conjugates(risk: LinearPredictor, y: Array, weights: Array) -> Callable[[Array], float]:
    """Return the weighted sum of the conjugates as a function of multipliers within their domain.

    It is nan if the loss has no pieces.
    """
    phi, variable = pieces_of(risk.loss), risk.loss.variable
    if phi is None:
        return lambda u: np.nan
    zeros = np.zeros(y.size)
    star = weighted(Outlined(phi.star, variable), y if variable == "margin" else zeros, weights)
    targets = zeros if variable == "margin" else weights * y
    return lambda u: float(star.values(u)[0] + u @ targets)


def _into_domain(risk: LinearPredictor, u: Array, y: Array) -> Array:
    phi = pieces_of(risk.loss)
    if phi is None:
        return u
    low, high = phi.domain
    return y * np.clip(y * u, low, high) if risk.loss.variable == "margin" else np.clip(u, low, high)
