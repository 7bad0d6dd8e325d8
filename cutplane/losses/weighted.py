"""Weighted sums of losses of given predictions: values and derivatives, at a point and along a line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.losses.base import ExamplePieces, ScalarLoss, pieces_of
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.lines import NO_KINKS, Derivative, Line, PiecewiseLinear
from cutplane.pieces.validation import Array
from cutplane.runtime.chunks import equal_ranges
from cutplane.runtime.threads import run_chunks

if TYPE_CHECKING:
    from cutplane.losses.compiling import Compiled

Derivatives = Callable[[float], tuple[float, float]]

FEW = 512
"""Number of examples up to which numpy is used, because compiled loops are hardly faster for so few."""

_CHEAP, _COSTLY = 0.6, 2.5
"""Nanoseconds per example, without and with divisions or exponentials, which differ because these take
longest."""

_SAMPLE = 2048
"""Number of examples in a sample, because 2048 bracket a line search to one part in 45 = sqrt(2048)."""

_GOLDEN = 0.6180339887498949
"""Step between examples of the sample as a share of all, because its multiples modulo 1 are evenly spread."""


def weighted_loss(loss: ScalarLoss, y: Array, weights: Array, edges: Array) -> WeightedLoss:
    """Return compiled sums if there are enough examples and the loss can be compiled, else sums in numpy."""
    if y.size > FEW:
        from cutplane.losses.compiling import compiled

        code = compiled(loss, y)
        if code is not None:
            return CompiledLoss(code, loss, y, weights, edges)
    losses = WeightedLoss(loss, y, weights, edges)
    losses.refused = y.size > FEW
    return losses


class WeightedLoss:
    """z -> sum_i weights_i l(z_i, y_i) over each block edges[k] <= i < edges[k + 1] of examples."""

    is_piecewise_linear = False
    refused = False
    """Whether the loss was to be compiled, but cannot be."""

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
        """Return the sum over each block of the weighted terms of `ScalarLoss.cancelled`."""
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
            return value, 0.0 if math.isnan(slope) else slope  # nan: the risk is inf everywhere

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
        """Return z with zeros for the examples of weight zero, because their losses might overflow."""
        return z if self._weightless is None else np.where(self._weightless, 0.0, z)


class CompiledLoss(WeightedLoss):
    """The same as `WeightedLoss`, by one compiled pass without temporary arrays of m numbers."""

    def __init__(self, code: Compiled, loss: ScalarLoss, y: Array, weights: Array, edges: Array) -> None:
        super().__init__(loss, np.ascontiguousarray(y), np.ascontiguousarray(weights), edges)
        self.numbers, self.passes = code.numbers, code.passes
        phi = pieces_of(loss)
        self.is_piecewise = phi is not None
        self.n_knots = 0 if phi is None else phi.knots.size
        self.is_curved = phi is not None and bool(phi.curvatures.any())
        self.is_piecewise_linear = self.is_piecewise and not self.is_curved
        m = y.shape[0]
        self._few, self._many = (
            [slice(*rows) for rows in equal_ranges(m, m * cost)] for cost in (_CHEAP, _COSTLY)
        )
        self._chunks = self._few if self.is_piecewise else self._many

    def __reduce__(self) -> tuple[Any, ...]:
        return weighted_loss, (self.loss, self.y, self.weights, self.edges)

    @cached_property
    def _cuts(self) -> Array:
        """The first examples of blocks and chunks, and m."""
        return np.union1d(self.edges, [rows.start for rows in self._chunks])

    def values(self, z: Array) -> Array:
        out = self._sums("values", z)
        return super().values(z) if np.isnan(out).any() else out  # some prediction is infinite

    def cancelled(self, z: Array) -> Array:
        return self._sums("cancelled", z) if self.is_piecewise else super().cancelled(z)

    def _sums(self, name: str, z: Array) -> Array:
        """Return the sums of the pass of this name over each block."""
        z, sums = _as_floats(z), np.empty(self._cuts.size - 1)

        def add(rows: slice) -> None:
            first, last = np.searchsorted(self._cuts, [rows.start, rows.stop])
            cuts, out = self._cuts[first : last + 1], sums[first:last]
            self.passes[name](self.numbers, z, self.y, self.weights, cuts, out)

        run_chunks(add, self._chunks)
        if sums.size == self.edges.size - 1:
            return sums
        return np.add.reduceat(sums, np.searchsorted(self._cuts, self.edges[:-1]))

    def derivatives(self, z: Array) -> Array:
        return self._each("derivatives", self.numbers, z)

    def second_derivatives(self, z: Array) -> Array:
        if self.is_piecewise:
            return np.abs(self._each("derivatives", self.passes["bent"](self.numbers), z))
        return self._each("second_derivatives", self.numbers, z)

    def _each(self, name: str, numbers: Any, z: Array) -> Array:
        out = np.empty(self.y.shape)
        _run(self._chunks, partial(self.passes[name], numbers), _as_floats(z), self.y, self.weights, out)
        return out

    def combine(self, z0: Array, z1: Array, t: float) -> Array:
        out = np.empty(self.y.shape)
        function = self.passes["combine"]
        _run(self._few, partial(function, t), _as_floats(z0), _as_floats(z1), out)
        return out

    def _derivative(self, z0: Array, z1: Array) -> Derivative | None:
        if not self.is_piecewise:
            return super()._derivative(z0, z1)
        arrays = _as_floats(z0), _as_floats(z1), self.y, self.weights
        return LossesOnLine(self._between, self._squares, arrays, self._many)

    def _between(self, low: float, high: float, *rows: Array) -> LinePart:
        kinks, jumps, bends = np.empty((3, self.n_knots * len(rows[0])))
        bends = bends if self.is_curved else NO_KINKS
        between = self.passes["between"]
        slope, curvature, count = between(self.numbers, *rows, low, high, kinks, jumps, bends)
        return slope, curvature, kinks[:count], jumps[:count], bends[:count] if self.is_curved else None

    def _squares(self, z0: Array, z1: Array, y: Array, weights: Array) -> float:
        terms = np.empty(len(z0))
        self.passes["derivatives"](self.numbers, z0, y, weights, terms)
        terms *= z1 - z0
        return float(terms @ terms)

    def _newton(self, z0: Array, z1: Array) -> Derivatives | None:
        if "along" not in self.passes:
            return super()._newton(z0, z1)
        arrays, along = (_as_floats(z0), _as_floats(z1), self.y, self.weights), self.passes["along"]

        def newton(t: float) -> tuple[float, float]:
            parts = _run(self._many, lambda *rows: along(self.numbers, *rows, t), *arrays)
            return sum(slope for slope, _ in parts), sum(curvature for _, curvature in parts)

        return newton


def _run(chunks: list[slice], function: Callable[..., Any], *arrays: Array) -> list[Any]:
    return run_chunks(lambda rows: function(*(array[rows] for array in arrays)), chunks)


def _as_floats(z: Array) -> Array:
    return np.ascontiguousarray(z, dtype=np.float64)


LinePart = tuple[float, float, Array, Array, Array | None]
"""The first and second derivative at the start of an interval, its kinks, and the jumps of both
derivatives."""


@dataclass(frozen=True, eq=False)
class LossesOnLine(Derivative):
    """The derivative of a weighted sum of losses along a line; each method takes one compiled pass.

    Parameters
    ----------
    find : callable
        ``find(low, high, *arrays)`` returns the `LinePart` of some examples on [low, high].
    squares : callable
        ``squares(*arrays)`` returns the sum of squares of the terms of the derivative at 0.
    arrays : tuple of ndarray
        The arguments, with one row per example; the last argument is the weights.
    chunks : list of slice
        The examples of each thread.
    """

    find: Callable[..., LinePart]
    squares: Callable[..., float]
    arrays: tuple[Array, ...]
    chunks: list[slice]

    def between(self, low: float, high: float) -> PiecewiseLinear:
        parts = _run(self.chunks, partial(self.find, low, high), *self.arrays)
        slopes, curvatures, kinks, jumps, bends = zip(*parts, strict=True)
        kinks, jumps = (part[0] if len(part) == 1 else np.concatenate(part) for part in (kinks, jumps))
        bends = None if bends[0] is None else np.concatenate(bends)
        return PiecewiseLinear(sum(slopes), sum(curvatures), kinks, jumps, bends, low)

    def estimate(self) -> tuple[PiecewiseLinear, float]:
        m = len(self.arrays[0])
        if m <= 2 * _SAMPLE:
            return self.between(0.0, math.inf), 0.0
        *arrays, weights = (array[_sample(m)] for array in self.arrays)
        rows = *arrays, m / _SAMPLE * weights
        rough = PiecewiseLinear(*self.find(0.0, math.inf, *rows))
        return rough, math.sqrt(max(0.0, self.squares(*rows) - rough.slope**2 / _SAMPLE))


@lru_cache(maxsize=16)
def _sample(m: int) -> Array:
    """Return the indices of a sample of the examples 0, ..., m - 1."""
    return (m * (np.arange(_SAMPLE) * _GOLDEN % 1.0)).astype(np.int64)


class PiecesOnLine(Derivative):
    """The derivative in t of the weighted sum of piecewise losses of start + t step, in numpy."""

    def __init__(self, pieces: ExamplePieces, start: Array, step: Array, weights: Array) -> None:
        self.pieces, self.start, self.step = pieces, start, step
        self.curved, self.up, self.rates = bool(pieces.curvatures.any()), step > 0.0, weights * step
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            self.times = (pieces.knots - start) / step  # the t at which examples reach their knots
        bends, rates = np.diff(pieces.curvatures, axis=0), np.abs(self.rates)
        self.jumps = np.maximum(0.0, rates * (np.diff(pieces.slopes, axis=0) + bends * pieces.knots))
        self.bends = rates * step * bends

    def between(self, low: float, high: float) -> PiecewiseLinear:
        slopes, bends = self.pieces.slopes[0], self.pieces.curvatures[0]
        for j, times in enumerate(self.times, start=1):
            after = (times <= low) == self.up
            slopes = np.where(after, self.pieces.slopes[j], slopes)
            bends = np.where(after, self.pieces.curvatures[j], bends) if self.curved else bends
        if self.curved:
            slopes = slopes + bends * (self.start + low * self.step)
        slope = float(self.rates @ slopes)
        curvature = float((self.rates * self.step) @ bends) if self.curved else 0.0
        if low == high:
            return PiecewiseLinear(
                slope, curvature, NO_KINKS, NO_KINKS, NO_KINKS if self.curved else None, low
            )
        inside = (self.times > low) & (self.times < high)
        bends = self.bends[inside] if self.curved else None
        return PiecewiseLinear(slope, curvature, self.times[inside], self.jumps[inside], bends, low)

    def estimate(self) -> tuple[PiecewiseLinear, float]:
        return self.between(0.0, math.inf), 0.0
