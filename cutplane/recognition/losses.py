"""Piecewise quadratic functions of one variable, and their losses, targets and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.losses import scalar
from cutplane.losses.base import MarginLoss, ScalarLoss
from cutplane.losses.pieces import Pieces
from cutplane.pieces.validation import Array

_MARGIN_LOSSES = scalar.Hinge(), scalar.SquaredHinge(), scalar.ModifiedHuber()
_SAME = 1e-12
"""Relative difference below which two numbers of a model count as equal, because they have rounding
errors."""


def same(a: Array | float, b: Array | float, size: float = 0.0) -> bool:
    """Tell whether arrays agree up to rounding errors, relative to their largest entry or to `size`."""
    largest = max(size, np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0))
    return bool((np.abs(np.subtract(a, b)) <= _SAME * largest).all())


@dataclass(frozen=True, eq=False)
class Curve:
    """u -> c_0 + c_1 u + c_2 u^2, with a row of coefficients for each interval between the knots."""

    knots: Array
    coefficients: Array

    def at(self, u: Array) -> Array:
        """Return the values at u."""
        c = self.coefficients[np.searchsorted(self.knots, u)]
        return c[..., 0] + u * (c[..., 1] + u * c[..., 2])

    @property
    def is_line(self) -> bool:
        """Whether the function is affine."""
        return not self.knots.size and not self.coefficients[0, 2]

    @property
    def degree(self) -> int | None:
        """The degree p = 1 or 2 of a homogeneous function, h(c u) = c^p h(u) for c > 0; otherwise None."""
        if self.knots.any():
            return None
        powers = np.flatnonzero(self.coefficients.any(axis=0))
        return int(powers[0]) if powers.size == 1 and powers[0] else None

    @property
    def is_convex(self) -> bool:
        """Tell whether a continuous function is convex: no concave piece, no decrease of the slope at a
        knot.
        """
        _, slopes, halves = self.coefficients.T
        left = slopes[:-1] + 2.0 * halves[:-1] * self.knots
        right = slopes[1:] + 2.0 * halves[1:] * self.knots
        rounding = _SAME * (np.abs(left) + np.abs(right))
        return bool((halves >= 0.0).all() and (right - left >= -rounding).all())

    def agrees(self, other: Curve) -> bool:
        """Tell whether two functions are the same, up to rounding."""
        return (
            self.knots.shape == other.knots.shape
            and same(self.knots, other.knots)
            and same(self.coefficients, other.coefficients)
        )

    def of(self, slope: float, shift: float = 0.0) -> Curve:
        """Return u -> h(slope u + shift), for a nonzero slope."""
        c0, c1, c2 = self.coefficients.T
        found = [c0 + shift * (c1 + shift * c2), slope * (c1 + 2.0 * shift * c2), slope**2 * c2]
        order = 1 if slope > 0.0 else -1
        return Curve((self.knots[::order] - shift) / slope, np.stack(found, axis=1)[::order])

    def times(self, factor: float) -> Curve:
        """Return the product with a number."""
        return Curve(self.knots, factor * self.coefficients)

    def plus(self, other: Curve) -> Curve:
        """Return the sum."""
        knots = np.union1d(self.knots, other.knots)
        a, b = self._on(knots), other._on(knots)
        cancelled = np.abs(a + b) <= _SAME * (np.abs(a) + np.abs(b))
        return _merged(knots, np.where(cancelled, 0.0, a + b))

    def maximum(self, other: Curve) -> Curve:
        """Return the pointwise maximum."""
        knots = np.union1d(self.knots, other.knots)
        ends = np.concatenate([[-np.inf], knots, [np.inf]])
        gaps = self._on(knots) - other._on(knots)
        crossings = [
            root.real
            for gap, low, high in zip(gaps, ends[:-1], ends[1:], strict=True)
            for root in np.roots(gap[::-1])
            if root.imag == 0.0 and low < root.real < high
        ]
        knots = np.union1d(knots, crossings)
        middles = _middles(knots)
        larger = self.at(middles) >= other.at(middles)
        return _merged(knots, np.where(larger[:, np.newaxis], self._on(knots), other._on(knots)))

    def squared(self) -> Curve | None:
        """Return the square of a piecewise linear function; None for others."""
        c0, c1, c2 = self.coefficients.T
        return None if c2.any() else Curve(self.knots, np.stack([c0**2, 2.0 * c0 * c1, c1**2], axis=1))

    def _on(self, knots: Array) -> Array:
        """Return the coefficients on the intervals between given knots, a superset of the knots."""
        return self.coefficients[np.searchsorted(self.knots, _middles(knots))]


def line(constant: float, slope: float) -> Curve:
    """Return u -> constant + slope u."""
    return Curve(np.empty(0), np.array([[constant, slope, 0.0]]))


def _middles(knots: Array) -> Array:
    if not knots.size:
        return np.zeros(1)
    return np.concatenate([[knots[0] - 1.0], (knots[1:] + knots[:-1]) / 2.0, [knots[-1] + 1.0]])


def _merged(knots: Array, coefficients: Array) -> Curve:
    """Return the function without knots between equal coefficients."""
    kept = [j for j in range(knots.size) if not same(coefficients[j], coefficients[j + 1])]
    return Curve(knots[kept], coefficients[[*kept, knots.size]])


@dataclass(frozen=True)
class _Outlined:
    knots: tuple[float, ...]
    slopes: tuple[float, ...]
    curvatures: tuple[float, ...]

    def outline(self) -> Pieces:
        return Pieces(self.knots, self.slopes, self.curvatures)


class PiecewiseLoss(_Outlined, ScalarLoss):
    """A piecewise quadratic function of the residual t - y without a name."""


class PiecewiseMarginLoss(_Outlined, MarginLoss):
    """A piecewise quadratic function of the margin y t without a name."""


@dataclass(frozen=True, eq=False)
class Fit:
    """sum_i weight_i loss(factor_i t_i, y_i) + constant, for rows with predictions t.

    `factor` is None if it is 1 for all rows.
    """

    loss: ScalarLoss
    y: Array
    weight: Array
    constant: float = 0.0
    factor: Array | None = None


def fit(function: Curve | str, weight: Array, scale: Array, shift: Array) -> Fit | None:
    """Return sum_i weight_i h(scale_i t_i + shift_i) as a weighted loss; None if it is not a loss."""
    if isinstance(function, str):
        if function == "logistic" and shift.any():
            return None
        with np.errstate(over="ignore"):
            weight = weight * np.exp(shift)
        if not np.isfinite(weight).all() or (weight < 0.0).any():
            return None
        loss = scalar.Logistic() if function == "logistic" else scalar.Exponential()
        plain = same(np.abs(scale), 1.0)
        y, factor = (-np.sign(scale), None) if plain else (np.ones_like(scale), -scale)
        return Fit(loss, y, weight, factor=factor)
    if (weight <= 0.0).all():
        function, weight = function.times(-1.0), -weight
    if not function.is_convex or (weight < 0.0).any():
        return None
    sizes, factor = np.abs(scale), None
    if function.degree and sizes.all():
        weight, scale, shift = weight * sizes**function.degree, np.sign(scale), shift / sizes
    elif sizes.all() and same(sizes, sizes[0]):
        function, scale, shift = function.of(float(sizes[0])), np.sign(scale), shift / sizes
    else:
        factor, scale = scale, np.ones_like(scale)
    if function.agrees(function.of(-1.0)):
        scale, shift = np.ones_like(scale), scale * shift
    elif same(shift, shift[0]):
        for sign in (-1.0, 1.0):
            margin = function.of(sign, float(shift[0]))
            named = next((loss for loss in _MARGIN_LOSSES if _multiple(margin, loss) is not None), None)
            if named is not None:
                return _with_constant(named, sign * scale, weight, margin, factor)
        if not same(scale, scale[0]):
            margin = function.of(-1.0, float(shift[0]))
            return _with_constant(PiecewiseMarginLoss(*_outline(margin)), -scale, weight, margin, factor)
    elif not same(scale, scale[0]):
        factor, scale = (scale if factor is None else factor * scale), np.ones_like(scale)
    if scale[0] < 0.0:
        function, shift = function.of(-1.0), -shift
    centre = 0.0
    if function.knots.size:
        centre = float(function.knots[0] + function.knots[-1]) / 2.0
    elif half := function.coefficients[0, 2]:
        centre = float(-function.coefficients[0, 1] / (2.0 * half))
    residual = function.of(1.0, centre)
    named = next((loss for loss in _named(residual) if _multiple(residual, loss) is not None), None)
    loss = named or PiecewiseLoss(*_outline(residual))
    return _with_constant(loss, centre - shift, weight, residual, factor)


def _with_constant(loss: ScalarLoss, y: Array, weight: Array, curve: Curve, factor: Array | None) -> Fit:
    """Return the fit of a curve that is a multiple of a loss plus a constant."""
    multiple = _multiple(curve, loss)
    assert multiple is not None
    zero, size = np.zeros(1), float(np.abs(curve.coefficients).max())
    rest = float((curve.at(zero) - multiple * _curve(loss).at(zero))[0])
    constant = 0.0 if same(rest, 0.0, size) else rest * float(weight.sum())
    return Fit(loss, y, multiple * weight, constant, factor)


def _multiple(curve: Curve, loss: ScalarLoss) -> float | None:
    """Return c > 0 with curve = c loss + constant, as functions of residual or margin; otherwise None."""
    other = _curve(loss)
    if other.knots.shape != curve.knots.shape or not same(other.knots, curve.knots):
        return None
    ours, theirs = curve.coefficients[:, 1:], other.coefficients[:, 1:]
    where = np.unravel_index(np.abs(theirs).argmax(), theirs.shape)
    factor = float(ours[where] / theirs[where])
    return factor if factor > 0.0 and same(ours, factor * theirs) else None


def _curve(loss: ScalarLoss) -> Curve:
    """Return a loss with an outline as a curve."""
    phi: Any = loss.outline()
    slopes, halves = np.asarray(phi.slopes), np.asarray(phi.curvatures) / 2.0 + np.zeros(len(phi.slopes))
    knots = np.asarray(phi.knots)
    inside = np.concatenate([knots[:1], knots]) if knots.size else np.zeros(1)
    constants = phi(inside) - inside * (slopes + inside * halves)
    return Curve(knots, np.stack([constants, slopes, halves], axis=1))


def _outline(curve: Curve) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    _, slopes, halves = curve.coefficients.T
    knots, slopes, curvatures = (0.0 + part for part in (curve.knots, slopes, 2.0 * halves))  # no -0.0
    return tuple(knots.tolist()), tuple(slopes.tolist()), tuple(curvatures.tolist())


def _named(curve: Curve) -> list[ScalarLoss]:
    """Return the named losses of which the curve may be a multiple, according to its knots."""
    if not curve.knots.size:
        return [scalar.Squared()]
    if curve.knots.size == 1:
        (low, high) = curve.coefficients[:, 1]
        return [scalar.Absolute(), scalar.Quantile(_rounded(-low / (high - low)))] if low < 0.0 < high else []
    width = _rounded((curve.knots[-1] - curve.knots[0]) / 2.0)
    return [scalar.EpsilonInsensitive(width), scalar.SquaredEpsilonInsensitive(width), scalar.Huber(width)]


def _rounded(parameter: float) -> float:
    """Return the parameter of a loss, rounded to 12 digits, because further digits are rounding errors."""
    return float(f"{parameter:.12g}")
