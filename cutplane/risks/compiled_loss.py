"""The weighted losses of predictions: one compiled pass for each question."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from cutplane.losses import passes
from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.losses.compiling import Compiled
from cutplane.pieces.lines import NO_KINKS, Derivative, PiecewiseLinear
from cutplane.pieces.validation import Array
from cutplane.risks.chunks import equal_ranges
from cutplane.risks.weighted_loss import Derivatives, WeightedLoss, weighted_loss
from cutplane.runtime.threads import run_chunks

_CHEAP, _DEAR = 0.6, 2.5
"""Nanoseconds for an example: a few operations, and those with divisions or exponentials."""

_SAMPLE = 2048
_GOLDEN = 0.6180339887498949


class CompiledLoss(WeightedLoss):
    """The same as `WeightedLoss`, in one pass and with no array of m numbers but those it returns."""

    def __init__(self, code: Compiled, loss: ScalarLoss, y: Array, weights: Array, edges: Array) -> None:
        super().__init__(loss, np.ascontiguousarray(y), np.ascontiguousarray(weights), edges)
        self.numbers, self.passes = code.numbers, code.passes
        phi = pieces_of(loss)
        self.is_piecewise = phi is not None
        self.is_curved = phi is not None and bool(phi.curvatures.any())
        self.is_piecewise_linear = self.is_piecewise and not self.is_curved
        self.n_knots = 0 if phi is None else phi.knots.size
        m = y.shape[0]
        self._few, self._many = (
            [slice(*rows) for rows in equal_ranges(m, m * cost)] for cost in (_CHEAP, _DEAR)
        )
        self._chunks = self._few if self.is_piecewise else self._many

    def __reduce__(self) -> tuple[Any, ...]:
        return weighted_loss, (self.loss, self.y, self.weights, self.edges)

    @cached_property
    def _cuts(self) -> Array:
        """Where blocks or chunks begin, and m."""
        return np.union1d(self.edges, [rows.start for rows in self._chunks])

    @cached_property
    def sample(self) -> tuple[Array, Array, Array] | None:
        """Some examples, at equal distances in a shuffled order: numbers, y, weights; None if m is small."""
        m = self.y.shape[0]
        if m <= 2 * _SAMPLE:
            return None
        rows = (m * (np.arange(_SAMPLE) * _GOLDEN % 1.0)).astype(np.int64)
        return rows, self.y[rows], (m / _SAMPLE) * self.weights[rows]

    def values(self, z: Array) -> Array:
        """Return the sum of each block; inf where a loss overflows."""
        out = self._sums(self.passes["values"], z)
        return super().values(z) if np.isnan(out).any() else out  # some prediction is infinite

    def cancelled(self, z: Array) -> Array:
        """Return the sum of each block of the terms that cancel where `derivatives` crosses kinks."""
        return self._sums(passes.cancelled, z) if self.is_piecewise else super().cancelled(z)

    def _sums(self, routine: Any, z: Array) -> Array:
        """Return what a routine adds up over each block."""
        z, sums = _as_floats(z), np.empty(self._cuts.size - 1)

        def add(rows: slice) -> None:
            first, last = np.searchsorted(self._cuts, [rows.start, rows.stop])
            cuts, out = self._cuts[first : last + 1], sums[first:last]
            routine(self.numbers, z, self.y, self.weights, cuts, out)

        run_chunks(add, self._chunks)
        if sums.size == self.edges.size - 1:
            return sums
        return np.add.reduceat(sums, np.searchsorted(self._cuts, self.edges[:-1]))

    def derivatives(self, z: Array) -> Array:
        """Return the weighted right derivative of each loss in its prediction, shape (m,)."""
        return self._each("derivatives", self.numbers, z)

    def second_derivatives(self, z: Array) -> Array:
        """Return the weighted second derivative of each loss in its prediction, shape (m,)."""
        if self.is_piecewise:
            return np.abs(self._each("derivatives", passes.bent(self.numbers), z))
        return self._each("second_derivatives", self.numbers, z)

    def _each(self, name: str, numbers: Any, z: Array) -> Array:
        out = np.empty(self.y.shape)
        _run(self._chunks, partial(self.passes[name], numbers), (_as_floats(z), self.y, self.weights, out))
        return out

    def combine(self, z0: Array, z1: Array, t: float) -> Array:
        """Return z0 + t (z1 - z0)."""
        out = np.empty(self.y.shape)
        arrays = _as_floats(z0), _as_floats(z1), out
        _run(self._few, lambda z0, z1, out: passes.combine(z0, z1, t, out), arrays)
        return out

    def _derivative(self, z0: Array, z1: Array) -> Derivative | None:
        if not self.is_piecewise:
            return super()._derivative(z0, z1)
        return LossDerivative(self, _as_floats(z0), _as_floats(z1))

    def _newton(self, z0: Array, z1: Array) -> Derivatives | None:
        if "along" not in self.passes:
            return super()._newton(z0, z1)
        z0, z1, along = _as_floats(z0), _as_floats(z1), self.passes["along"]

        def newton(t: float) -> tuple[float, float]:
            parts = self.along(lambda z0, z1, y, c: along(self.numbers, z0, z1, y, c, t), z0, z1)
            return sum(slope for slope, _ in parts), sum(curvature for _, curvature in parts)

        return newton

    def along(self, function: Callable[..., Any], z0: Array, z1: Array) -> list[Any]:
        """Return what the function says of (z0, z1, y, weights), one answer for each part of the examples."""
        return _run(self._many, function, (z0, z1, self.y, self.weights))


@dataclass(frozen=True, eq=False)
class LossDerivative(Derivative):
    """The derivative of a piecewise loss of z0 + t (z1 - z0); each question is one pass over z0 and z1."""

    losses: CompiledLoss
    z0: Array
    z1: Array

    def between(self, low: float, high: float) -> PiecewiseLinear:
        """Return it on [low, high], with the kinks strictly inside."""
        parts = self.losses.along(
            lambda z0, z1, y, weights: self._pieces(z0, z1, y, weights, low, high), self.z0, self.z1
        )
        slopes, curvatures, *arrays = zip(*parts, strict=True)
        kinks, jumps, bends = (part[0] if len(parts) == 1 else np.concatenate(part) for part in arrays)
        kept = bends if self.losses.is_curved else None
        return PiecewiseLinear(sum(slopes), sum(curvatures), kinks, jumps, kept, low)

    def estimate(self) -> tuple[PiecewiseLinear, float]:
        """Return the derivative of a sample of the examples; the deviation is that at t = 0."""
        if self.losses.sample is None:
            return self.between(0.0, math.inf), 0.0
        rows, y, weights = self.losses.sample
        z0, z1 = self.z0[rows], self.z1[rows]
        slope, curvature, kinks, jumps, bends = self._pieces(z0, z1, y, weights, 0.0, math.inf)
        terms = np.empty(rows.size)
        passes.derivatives(self.losses.numbers, z0, y, weights, terms)
        terms *= z1 - z0
        deviation = math.sqrt(float(terms @ terms))
        kept = bends if self.losses.is_curved else None
        return PiecewiseLinear(slope, curvature, kinks, jumps, kept), deviation

    def _pieces(self, z0: Array, z1: Array, y: Array, weights: Array, low: float, high: float) -> tuple:
        size = self.losses.n_knots * y.shape[0]
        kinks, jumps = np.empty((2, size))
        bends = np.empty(size) if self.losses.is_curved else NO_KINKS
        slope, curvature, count = passes.between(
            self.losses.numbers, z0, z1, y, weights, low, high, kinks, jumps, bends
        )
        return slope, curvature, kinks[:count], jumps[:count], bends[:count]


def _run(chunks: list[slice], function: Callable[..., Any], arrays: tuple[Array, ...]) -> list[Any]:
    return run_chunks(lambda rows: function(*(array[rows] for array in arrays)), chunks)


def _as_floats(z: Array) -> Array:
    return np.ascontiguousarray(z, dtype=np.float64)
