"""Losses of the examples at a point; kinks are smoothed by Moreau envelopes, shifted by multipliers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
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
"""Nanoseconds per example in a pass over envelopes, because threads are faster only for enough work."""
_SAMPLE = 512
"""Number of examples that determine the first mu, few because mu is rounded to a power of 4."""
_SHARE = 0.2
"""Change of the risk by the first smoothing, relative to the risk above its infimum, because a larger change
would hide the kinks."""
_RANGE = 30
"""Largest absolute exponent of 4 in the first mu, because 4^-30 is below all digits."""
_SHRINK = 0.5
"""Factor of mu when the shifts change, because better shifts allow less smoothing."""
_FINEST = 4.0**-60
"""Least smoothing relative to the targets, because less changes no digit even of data of size 1e-20."""


@dataclass(frozen=True, eq=False)
class Outlined(ScalarLoss):
    """The loss with given pieces and a given variable."""

    phi: Pieces
    variable: Any = "residual"

    def outline(self) -> Pieces:
        """Return the pieces."""
        return self.phi


class Examples:
    """The weighted sum f of the losses as a function of the predictions z, smoothed if they have kinks.

    The smoothed loss of example i is min over r of phi(r) + (r - s_i - mu v_i)^2 / (2 mu), with s_i its
    argument. The slopes are multipliers of the examples. If they repeatedly become the shifts v, they
    converge to multipliers of the losses without smoothing; this is the method of multipliers. Without kinks,
    mu is 0.

    Attributes
    ----------
    mu : float
    shifts : ndarray of shape (m,)
        The multipliers v.
    kinked : bool
        Whether the losses have kinks.
    quadratic : bool
        Whether the model of `bends` is exact.
    """

    def __init__(self, risk: LinearPredictor, shifts: Array | None = None):
        self.risk, self.phi, m = risk, pieces_of(risk.loss), risk.X.shape[0]
        self.kinked = self.phi is not None and bool(self.phi.jumps.any())
        self.quadratic = risk.loss.curvature is not None
        self._outline = None if self.phi is None else as_outline(self.phi, risk.loss.variable == "margin")
        self._parts = equal_ranges(m, _PASS * m)
        self.conjugate = _conjugates(risk, risk.y, risk.weights, self._parts)
        self._true_risk = (
            (lambda z: float(self._true.values(z)[0]))
            if self._outline is None
            else _sum(self._outline, risk.y, risk.weights, self._parts)
        )
        self._valued: tuple[Array, float] | None = None
        self.set_smoothing(0.0, np.zeros(m) if shifts is None else shifts)

    def set_smoothing(self, mu: float, shifts: Array) -> None:
        """Change the smoothing to mu, and the shifts to these multipliers."""
        self.mu, self.shifts = mu, shifts
        self._envelope = None if self._outline is None else envelope(self._outline, mu)
        self._weighted: WeightedLoss | None = None

    def advance(self, r: Array) -> bool:
        """Shift by the slopes r, and smooth less; tell whether this was possible."""
        possible = self.mu > _FINEST * max(1.0, float(np.abs(self.risk.y).max()))
        if possible:
            self.set_smoothing(_SHRINK * self.mu, self.unweighted(r))
        return possible

    def risk_at(self, z: Array) -> float:
        """Return the weighted sum of the losses without smoothing, cached for the last array."""
        if self._valued is None or self._valued[0] is not z:
            self._valued = z, self._true_risk(z)
        return self._valued[1]

    def value(self, z: Array) -> float:
        """Return f(z)."""
        return float(self._smooth.values(self._shifted(z))[0]) if self.kinked else self.risk_at(z)

    def slopes(self, z: Array) -> Array:
        """Return the weighted multipliers of the examples: the slopes of f."""
        if self.kinked and not self.mu:
            self.set_smoothing(self.first_mu(z, math.inf), self.shifts)
        return self._smooth.derivatives(self._shifted(z))

    def bends(self, z: Array, least: float = 0.0) -> Array:
        """Return the second derivatives of f, each at least a share `least` of the largest possible value."""
        loss, weights = self._smooth.loss, self.risk.weights
        if self.quadratic:
            return loss.curvature * weights
        d = self._smooth.second_derivatives(self._shifted(z))
        if least > 0.0 and math.isfinite(loss.smoothness):
            d = np.maximum(d, (least * loss.smoothness) * weights)
        return d

    def derivatives(self, z: Array) -> tuple[Array, Array]:
        """Return the multipliers at predictions z, divided by the weights of the examples, and the bends."""
        if self._envelope is None:
            return self.unweighted(self._smooth.derivatives(z)), self._smooth.second_derivatives(z)
        u, bends = _derivatives(self._envelope, self._shifted(z), self.risk.y, self._parts)
        bends *= self.risk.weights
        return _into_domain(self.risk, u, self.risk.y), bends

    def along(self, z0: Array, z1: Array) -> Callable[[float], tuple[float, float]]:
        """Return t -> the first and second derivative of f(z0 + t (z1 - z0))."""
        if self._envelope is None:
            line = self._smooth.line(z0, z1)
            derivatives = line.derivative or line.newton
            assert derivatives is not None
            return derivatives
        arrays = self._shifted(z0), self._shifted(z1), self.risk.y, self.risk.weights
        if len(self._parts) == 1:
            return partial(along, self._envelope, *arrays)
        parts = [[array[slice(*part)] for array in arrays] for part in self._parts]

        def summed(t: float) -> tuple[float, float]:
            found = run_chunks(lambda part: along(self._envelope, *part, t), parts)
            return sum(slope for slope, _ in found), sum(bend for _, bend in found)

        return summed

    def excess(self, s: float, z: Array, r: Array, d: Array | None = None) -> float:
        """Return f(z) + f*(s r) - <s r, z> for the slopes r at z; 0 for s = 1.

        With smoothed losses, it is the increase of `error` due to s. For losses without pieces, it is
        estimated by the quadratic model with the bends `d` at z.
        """
        if s == 1.0:
            return 0.0
        if self.phi is not None and not self.quadratic:
            return max(0.0, self.error(s, z, r) - (self.error(1.0, z, r) if self.kinked else 0.0))
        quadratic = 0.5 * (1.0 - s) ** 2 * bend_of_conjugate(r, self.bends(z) if d is None else d)
        return quadratic if self.quadratic else min(quadratic, (1.0 - s) * (self.value(z) - self._infimum))

    def error(self, s: float, z: Array, r: Array) -> float:
        """Return the sum of the losses and their conjugates at s r, minus <s r, z>: at least 0."""
        return max(0.0, self.risk_at(z) + self.conjugate(s * self.unweighted(r)) - s * float(r @ z))

    def unweighted(self, r: Array) -> Array:
        """Return multipliers without the weights of the examples, in the domain of the conjugates."""
        weights = self.risk.weights
        u = np.divide(r, weights, out=np.zeros_like(r), where=weights > 0.0)
        return _into_domain(self.risk, u, self.risk.y)

    def first_mu(self, z: Array, gap: float) -> float:
        """Return the power of 4 for mu with which smoothing changes the risk at z by about `gap`; or 0."""
        if not self.kinked or self._outline is None:
            return 0.0
        risk, outline, rows = self.risk, self._outline, slice(None, None, max(1, z.size // _SAMPLE))
        y, weights, z = (np.ascontiguousarray(array[rows]) for array in (risk.y, risk.weights, z))
        total = float(weights.sum())
        if not total > 0.0:
            return 1.0
        weights = weights * (risk.weights.sum() / total)
        value = float(weights @ risk.loss.value(z, y))
        gap = min(gap, _SHARE * (value - float(weights @ risk.loss.infimum(y))))
        parts = [(0, y.size)]
        conjugate = _conjugates(risk, y, weights, parts)

        def costs_more(k: int) -> bool:
            u = _into_domain(risk, _derivatives(envelope(outline, 4.0**k), z, y, parts)[0], y)
            return value - float((weights * u) @ z) + conjugate(u) > gap

        steep = float(
            weights @ risk.loss.derivative(z, y) ** 2
        )  # at least twice the change of the risk, by mu
        k = math.floor(math.log(2.0 * gap / steep, 4.0)) if 0.0 < gap < math.inf and steep > 0.0 else 0
        k = min(max(k, -_RANGE), _RANGE)
        while k > -_RANGE and costs_more(k):
            k -= 1
        while k < _RANGE and not costs_more(k + 1):
            k += 1
        return 4.0**k

    @cached_property
    def _true(self) -> WeightedLoss:
        """The losses without smoothing."""
        return _weighted(self.risk.loss, self.risk)

    @property
    def _smooth(self) -> WeightedLoss:
        """The losses without kinks."""
        if not self.kinked:
            return self._true
        if self._weighted is None:
            phi: Any = self.phi
            self._weighted = _weighted(Outlined(phi.envelope(self.mu), self.risk.loss.variable), self.risk)
        return self._weighted

    @cached_property
    def _infimum(self) -> float:
        weights, infima = self.risk.weights, self.risk.loss.infimum(self.risk.y)
        return float(np.where(weights > 0.0, weights * infima, 0.0).sum())

    def _shifted(self, z: Array) -> Array:
        """Return the arguments of the envelopes at predictions z."""
        return z + self.mu * self.shifts if self.mu else z


def bend_of_conjugate(r: Array, d: Array) -> float:
    """Return the second derivative of the conjugate of the model with bends d, along its multipliers r."""
    return float(r @ np.divide(r, d, out=np.zeros_like(r), where=d > 0.0))


def _derivatives(outline: Outline, z: Array, y: Array, parts: Ranges) -> tuple[Array, Array]:
    """Return the first and second derivatives of losses without kinks in the predictions z."""
    first, second = np.empty(z.size), np.empty(z.size)

    def do(part: tuple[int, int]) -> None:
        rows = slice(*part)
        both_derivatives(outline, z[rows], y[rows], first[rows], second[rows])

    _run(do, parts)
    return first, second


def _run(do: Callable[[tuple[int, int]], Any], parts: Ranges) -> list[Any]:
    """Call a function for each range of examples, in threads if there are several ranges."""
    return [do(parts[0])] if len(parts) == 1 else run_chunks(do, parts)


def _weighted(loss: ScalarLoss, risk: LinearPredictor) -> WeightedLoss:
    return weighted_loss(loss, risk.y, risk.weights, np.array([0, risk.y.size]))


def _conjugates(risk: LinearPredictor, y: Array, weights: Array, parts: Ranges) -> Callable[[Array], float]:
    """Return a function: multipliers in their domain -> the weighted sum of the conjugates.

    The sum is nan if the loss has no pieces.
    """
    phi, margin = pieces_of(risk.loss), risk.loss.variable == "margin"
    if phi is None:
        return lambda u: np.nan
    if margin:
        return _sum(as_outline(phi.star, True), y, weights, parts)
    star, targets = _sum(as_outline(phi.star, False), np.zeros(y.size), weights, parts), weights * y
    return lambda u: star(u) + float(u @ targets)


def _sum(outline: Outline, y: Array, weights: Array, parts: Ranges) -> Callable[[Array], float]:
    """Return a function: predictions -> the weighted sum of losses."""

    def do(z: Array, part: tuple[int, int]) -> float:
        sums = np.empty(1)
        values(outline, z, y, weights, np.array(part), sums)
        return float(sums[0])

    return lambda z: sum(_run(partial(do, z), parts))


def _into_domain(risk: LinearPredictor, u: Array, y: Array) -> Array:
    """Return u, without the rounding errors that put it outside the domain of the conjugates."""
    phi = pieces_of(risk.loss)
    if phi is None:
        return u
    low, high = phi.domain
    if risk.loss.variable != "margin":
        return np.minimum(np.maximum(u, low), high)
    return y * np.minimum(np.maximum(y * u, low), high)
