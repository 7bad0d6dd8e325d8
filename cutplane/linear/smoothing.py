"""The losses of examples with their kinks smoothed by Moreau envelopes, shifted by multipliers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.losses.passes import Outline, along, as_outline, both_derivatives, envelope, values
from cutplane.losses.pieces import Pieces
from cutplane.losses.weighted import WeightedLoss, weighted_loss
from cutplane.pieces.validation import Array
from cutplane.runtime.chunks import Ranges, equal_ranges
from cutplane.runtime.threads import run_chunks

if TYPE_CHECKING:
    from cutplane.linear.predictor import LinearPredictor

_PASS = 2.5
"""Nanoseconds for an example in a pass over envelopes."""
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
    """

    def __init__(self, risk: LinearPredictor, shifts: Array | None = None):
        phi = pieces_of(risk.loss)
        self.risk = risk
        self.phi = phi if phi is not None and phi.jumps.any() else None
        self._outline = None if phi is None else as_outline(phi, risk.loss.variable == "margin")
        m = risk.X.shape[0]
        self._parts = equal_ranges(m, _PASS * m)
        self.conjugate = conjugates(risk, risk.y, risk.weights, self._parts)
        self.risk_at = _risk(risk, self._outline, self._parts)
        self.become(0.0, np.zeros(m) if shifts is None else shifts)

    def become(self, mu: float, shifts: Array) -> None:
        """Smooth by mu, and shift by these multipliers."""
        self.mu, self.shifts = mu, shifts
        self._envelope = None if self._outline is None else envelope(self._outline, mu)
        self._weighted: WeightedLoss | None = None

    @property
    def loss(self) -> ScalarLoss:
        """The envelope."""
        return self.weighted.loss

    @property
    def weighted(self) -> WeightedLoss:
        """The envelopes of the examples, with their weights."""
        if self._weighted is None:
            loss, phi = self.risk.loss, self.phi
            loss = loss if phi is None else Outlined(phi.envelope(self.mu), loss.variable)
            self._weighted = weighted(loss, self.risk.y, self.risk.weights)
        return self._weighted

    def look(self, z: Array) -> tuple[Array, Array]:
        """Return the slopes of the envelopes at predictions z, which are multipliers, and weighted bends."""
        c = self.risk.weights
        if self._envelope is None:
            slopes = self.weighted.derivatives(z)
            u = np.divide(slopes, c, out=np.zeros(z.size), where=c > 0.0)
            return u, self.weighted.second_derivatives(z)
        u, bends = derivatives_of(self._envelope, self.shifted(z), self.risk.y, self._parts)
        bends *= c
        return self.into_domain(u), bends

    def along(self, z0: Array, z1: Array) -> Callable[[float], tuple[float, float]]:
        """Return t -> the derivatives, first and second, of the envelopes of z0 + t (z1 - z0), summed."""
        if self._envelope is None:
            line = self.weighted.line(z0, z1)
            derivatives = line.derivative or line.newton
            assert derivatives is not None
            return derivatives
        parts = self.shifted(z0), self.shifted(z1), self.risk.y, self.risk.weights
        if len(self._parts) == 1:
            return partial(along, self._envelope, *parts)

        def summed(t: float) -> tuple[float, float]:
            found = run_chunks(
                lambda part: along(self._envelope, *(array[slice(*part)] for array in parts), t), self._parts
            )
            return sum(slope for slope, _ in found), sum(bend for _, bend in found)

        return summed

    def shifted(self, z: Array) -> Array:
        """Return the arguments of the envelopes at predictions z."""
        return z + self.mu * self.shifts if self.mu else z

    def into_domain(self, u: Array) -> Array:
        """Return u with what rounding has put outside the domain of the conjugates put back."""
        return _into_domain(self.risk, u, self.risk.y)

    def first_mu(self, z: Array, gap: float) -> float:
        """Return the power of 4 for which smoothing at the predictions z costs about `gap`, or 0."""
        outline = self._outline
        if self.phi is None or outline is None:
            return 0.0
        risk, rows = self.risk, slice(None, None, max(1, z.size // _SAMPLE))
        y, weights, z = (np.ascontiguousarray(array[rows]) for array in (risk.y, risk.weights, z))
        total = float(weights.sum())
        if not total > 0.0:
            return 1.0
        weights = weights * (risk.weights.sum() / total)
        value = float(weights @ risk.loss.value(z, y))
        gap = min(gap, _SHARE * (value - float(weights @ risk.loss.infimum(y))))
        parts = [(0, y.size)]
        conjugate = conjugates(risk, y, weights, parts)

        def costs_more(k: int) -> bool:
            u, _ = derivatives_of(envelope(outline, 4.0**k), z, y, parts)
            u = _into_domain(risk, u, y)
            return value - float((weights * u) @ z) + conjugate(u) > gap

        steep = float(weights @ risk.loss.derivative(z, y) ** 2)  # smoothing costs at most mu / 2 times that
        k = math.floor(math.log(2.0 * gap / steep, 4.0)) if 0.0 < gap < math.inf and steep > 0.0 else 0
        k = min(max(k, -_RANGE), _RANGE)
        while k > -_RANGE and costs_more(k):
            k -= 1
        while k < _RANGE and not costs_more(k + 1):
            k += 1
        return 4.0**k


def derivatives_of(outline: Outline, z: Array, y: Array, parts: Ranges) -> tuple[Array, Array]:
    """Return the derivatives, first and second, of losses without kinks in the predictions z."""
    first, second = np.empty(z.size), np.empty(z.size)
    if len(parts) == 1:
        both_derivatives(outline, z, y, first, second)
        return first, second

    def do(part: tuple[int, int]) -> None:
        rows = slice(*part)
        both_derivatives(outline, z[rows], y[rows], first[rows], second[rows])

    run_chunks(do, parts)
    return first, second


def sum_of(outline: Outline, y: Array, weights: Array, parts: Ranges) -> Callable[[Array], float]:
    """Return the weighted sum of losses as a function of the predictions."""
    edges, sums = np.array([part[0] for part in parts] + [y.size]), np.empty(len(parts))

    def total(z: Array) -> float:
        if sums.size == 1:
            values(outline, z, y, weights, edges, sums)
        else:
            run_chunks(
                lambda k: values(outline, z, y, weights, edges[k : k + 2], sums[k : k + 1]), range(sums.size)
            )
        return float(sums.sum())

    return total


def _risk(risk: LinearPredictor, outline: Outline | None, parts: Ranges) -> Callable[[Array], float]:
    if outline is not None:
        return sum_of(outline, risk.y, risk.weights, parts)
    losses = weighted(risk.loss, risk.y, risk.weights)
    return lambda z: float(losses.values(z)[0])


def weighted(loss: ScalarLoss, y: Array, weights: Array) -> WeightedLoss:
    """Return the weighted sum of the losses of the examples, in one block."""
    return weighted_loss(loss, y, weights, np.array([0, y.size]))


def conjugates(risk: LinearPredictor, y: Array, weights: Array, parts: Ranges) -> Callable[[Array], float]:
    """Return the weighted sum of the conjugates as a function of multipliers within their domain.

    It is nan if the loss has no pieces.
    """
    phi = pieces_of(risk.loss)
    if phi is None:
        return lambda u: np.nan
    if risk.loss.variable == "margin":
        return sum_of(as_outline(phi.star, True), y, weights, parts)
    star, targets = sum_of(as_outline(phi.star, False), np.zeros(y.size), weights, parts), weights * y
    return lambda u: star(u) + float(u @ targets)


def _into_domain(risk: LinearPredictor, u: Array, y: Array) -> Array:
    phi = pieces_of(risk.loss)
    if phi is None:
        return u
    low, high = phi.domain
    if risk.loss.variable != "margin":
        return np.minimum(np.maximum(u, low), high)
    return y * np.minimum(np.maximum(y * u, low), high)
