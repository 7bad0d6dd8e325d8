"""The weighted losses of the predictions of a linear risk, whatever data they come from."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from cutplane.lines import Line
from cutplane.losses.base import ScalarLoss
from cutplane.validation import Array


class WeightedLoss:
    """z -> sum over i of weights_i l(z_i, y_i), one sum for each block of examples; any loss.

    Parameters
    ----------
    loss : ScalarLoss
    y, weights : ndarray of shape (m,)
    edges : ndarray of shape (n_blocks + 1,)
        Examples edges[k] <= i < edges[k + 1] form block k.
    """

    is_piecewise_linear = False

    def __init__(self, loss: ScalarLoss, y: Array, weights: Array, edges: Array) -> None:
        self.loss = loss
        self.y = y
        self.weights = weights
        self.edges = edges

    def values(self, z: Array) -> Array:
        """Return the sum of each block; inf where a loss overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self.weights * self.loss.value(self._relevant(z), self.y)
            return np.add.reduceat(losses, self.edges[:-1])

    def derivatives(self, z: Array) -> Array:
        """Return the weighted right derivative of each loss in its prediction, shape (m,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.weights * self.loss.derivative(self._relevant(z), self.y)

    def combine(self, z0: Array, z1: Array, t: float) -> Array:
        """Return z0 + t (z1 - z0)."""
        return z0 + t * (z1 - z0)

    def line(self, z0: Array, z1: Array) -> Line:
        """Return t -> the sum over all blocks at z0 + t (z1 - z0)."""
        start = self._relevant(z0)
        step = self._relevant(z1) - start

        def evaluate(t: float) -> tuple[float, float]:
            with np.errstate(over="ignore", invalid="ignore"):
                z = start + t * step
                value = float(self.weights @ self.loss.value(z, self.y))
                slope = float(self.weights @ self.loss.directional(z, self.y, step))
            return value, 0.0 if math.isnan(slope) else slope  # nan: the risk is inf on the whole line

        return Line(evaluate, self._kinks(start, step))

    @cached_property
    def _weightless(self) -> Array | None:
        return self.weights == 0.0 if (self.weights == 0.0).any() else None

    @cached_property
    def _knots(self) -> Array | None:
        pieces = self.loss.pieces(self.y)
        return None if pieces is None else pieces.knots

    def _relevant(self, z: Array) -> Array:
        """Return z with zeros for the examples without weight, whose losses might overflow."""
        return z if self._weightless is None else np.where(self._weightless, 0.0, z)

    def _kinks(self, start: Array, step: Array) -> Array | None:
        if self._knots is None:
            return None
        moving = np.flatnonzero(step)
        with np.errstate(over="ignore"):
            t = ((self._knots[:, moving] - start[moving]) / step[moving]).ravel()
        return t[np.isfinite(t)]
