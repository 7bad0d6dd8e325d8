"""The weighted losses of the predictions of a linear risk, whatever data they come from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutplane.losses.base import ExamplePieces, ScalarLoss, pieces_of
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.lines import NO_KINKS, Derivative, Line, PiecewiseLinear
from cutplane.pieces.validation import Array

Derivatives = Callable[[float], tuple[float, float]]

FEW = 512
"""Examples for which numpy takes as long as compiled loops, within the time of a few of its calls."""


def weighted_loss(loss: ScalarLoss, y: Array, weights: Array, edges: Array) -> WeightedLoss:
    """Return the compiled form, if it pays and the loss can be compiled; else that in numpy."""
    if y.size > FEW:
        from cutplane.losses.compiling import compiled
        from cutplane.risks.compiled_loss import CompiledLoss

        code = compiled(loss, y)
        if code is not None:
            return CompiledLoss(code, loss, y, weights, edges)
    losses = WeightedLoss(loss, y, weights, edges)
    losses.refused = y.size > FEW
    return losses


class WeightedLoss:
    """z -> sum over i of weights_i l(z_i, y_i), one sum for each block of examples, cut at `edges`."""

    is_piecewise_linear = False
    refused = False
    """Whether the loss was to be compiled and could not be."""

    def __init__(self, loss: ScalarLoss, y: Array, weights: Array, edges: Array) -> None:
        self.loss = loss
        self.y = y
        self.weights = weights
        self.edges = edges

    def values(self, z: Array) -> Array:
        """Return the sum of each block; inf where a loss overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self.loss.value(self._relevant(z), self.y)
            if self.edges.size == 2:
                return np.array([self.weights @ losses])
            return np.add.reduceat(self.weights * losses, self.edges[:-1])

    def derivatives(self, z: Array) -> Array:
        """Return the weighted right derivative of each loss in its prediction, shape (m,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.weights * self.loss.derivative(self._relevant(z), self.y)

    def cancelled(self, z: Array) -> Array:
        """Return the sum of each block of the terms that cancel where `derivatives` crosses kinks."""
        if pieces_of(self.loss) is None:
            return np.zeros(self.edges.size - 1)
        terms = self.weights * self.loss.cancelled(self._relevant(z), self.y)
        return np.add.reduceat(terms, self.edges[:-1])

    def second_derivatives(self, z: Array) -> Array:
        """Return the weighted second derivative of each loss in its prediction, shape (m,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.weights * self.loss.second_derivative(self._relevant(z), self.y)

    def combine(self, z0: Array, z1: Array, t: float) -> Array:
        """Return z0 + t (z1 - z0)."""
        return z0 + t * (z1 - z0)

    def line(self, z0: Array, z1: Array) -> Line:
        """Return t -> the sum over all blocks at z0 + t (z1 - z0)."""
        derivative = self._derivative(z0, z1)
        newton = None if derivative else self._newton(z0, z1)
        along = derivative or newton or self._slope(z0, z1)

        def evaluate(t: float) -> tuple[float, float]:
            value, slope = float(self.values(self.combine(z0, z1, t)).sum()), along(t)[0]
            return value, 0.0 if math.isnan(slope) else slope  # nan: the risk is inf on the whole line

        return Line(evaluate, derivative=derivative, newton=newton)

    def _derivative(self, z0: Array, z1: Array) -> Derivative | None:
        """Return the derivative of piecewise losses along the line."""
        if self._pieces is None:
            return None
        start = self._relevant(z0)
        return PiecesOnLine(self._pieces, start, self._relevant(z1) - start, self.weights)

    def _newton(self, z0: Array, z1: Array) -> Derivatives | None:
        """Return the derivatives, first and second, of smooth losses along the line."""
        if not offers(self.loss, Capability.SECOND_DERIVATIVE):
            return None
        step = self._relevant(z1) - self._relevant(z0)

        def newton(t: float) -> tuple[float, float]:
            with np.errstate(over="ignore", invalid="ignore"):
                z = self.combine(z0, z1, t)
                return float(self.derivatives(z) @ step), float(self.second_derivatives(z) @ (step * step))

        return newton

    def _slope(self, z0: Array, z1: Array) -> Derivatives:
        start = self._relevant(z0)
        step = self._relevant(z1) - start

        def slope(t: float) -> tuple[float, float]:
            with np.errstate(over="ignore", invalid="ignore"):
                slopes = self.loss.directional(start + t * step, self.y, step)
                return float(self.weights @ slopes), math.nan

        return slope

    @cached_property
    def _weightless(self) -> Array | None:
        return self.weights == 0.0 if (self.weights == 0.0).any() else None

    @cached_property
    def _pieces(self) -> ExamplePieces | None:
        return self.loss.pieces(self.y)

    def _relevant(self, z: Array) -> Array:
        """Return z with zeros for the examples without weight, whose losses might overflow."""
        return z if self._weightless is None else np.where(self._weightless, 0.0, z)


@dataclass(frozen=True, eq=False)
class PiecesOnLine(Derivative):
    """The derivative in t of the weighted sum of piecewise losses of start + t step."""

    pieces: ExamplePieces
    start: Array
    step: Array
    weights: Array

    def between(self, low: float, high: float) -> PiecewiseLinear:
        """Return it on [low, high], with the kinks strictly inside."""
        curved = self._curved
        slopes, bends = self.pieces.slopes[0], self.pieces.curvatures[0]
        for j, times in enumerate(self._times, start=1):
            after = (times <= low) == self._up
            slopes = np.where(after, self.pieces.slopes[j], slopes)
            bends = np.where(after, self.pieces.curvatures[j], bends) if curved else bends
        if curved:
            slopes = slopes + bends * (self.start + low * self.step)
        slope = float(self._rates @ slopes)
        curvature = float((self._rates * self.step) @ bends) if curved else 0.0
        if low == high:
            return PiecewiseLinear(slope, curvature, NO_KINKS, NO_KINKS, NO_KINKS if curved else None, low)
        inside = (self._times > low) & (self._times < high)
        jumps, bends = self._jumps
        kinks = self._times[inside]
        return PiecewiseLinear(slope, curvature, kinks, jumps[inside], bends[inside] if curved else None, low)

    def estimate(self) -> tuple[PiecewiseLinear, float]:
        """Return it as it is, for it is not off."""
        return self.between(0.0, math.inf), 0.0

    @cached_property
    def _rates(self) -> Array:
        return self.weights * self.step

    @cached_property
    def _up(self) -> Array:
        return self.step > 0.0

    @cached_property
    def _curved(self) -> bool:
        return bool(self.pieces.curvatures.any())

    @cached_property
    def _times(self) -> Array:
        """When the examples come to their knots, shape (k, m)."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return (self.pieces.knots - self.start) / self.step

    @cached_property
    def _jumps(self) -> tuple[Array, Array]:
        """What the derivative, and the one of that, rises by there, shape (k, m) each."""
        bends = np.diff(self.pieces.curvatures, axis=0)
        jumps = np.diff(self.pieces.slopes, axis=0) + bends * self.pieces.knots
        rates = np.abs(self._rates)
        return np.maximum(0.0, rates * jumps), rates * self.step * bends
