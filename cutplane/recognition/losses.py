"""Which loss, with which targets and weights, a function of the rows of a model is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.losses.base import MarginLoss, ScalarLoss
from cutplane.losses.pieces import Pieces
from cutplane.losses.scalar import (
    Absolute,
    EpsilonInsensitive,
    Exponential,
    Hinge,
    Huber,
    Logistic,
    ModifiedHuber,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from cutplane.pieces.validation import Array
from cutplane.recognition.curves import Curve, same

_MARGIN_LOSSES = Hinge(), SquaredHinge(), ModifiedHuber()


@dataclass(frozen=True)
class PiecewiseLoss(ScalarLoss):
    """A piecewise quadratic function of the residual t - y that has no name."""

    knots: tuple[float, ...]
    slopes: tuple[float, ...]
    curvatures: tuple[float, ...]

    def outline(self) -> Pieces:
        """Return the pieces."""
        return Pieces(self.knots, self.slopes, self.curvatures)


@dataclass(frozen=True)
class PiecewiseMarginLoss(MarginLoss):
    """A piecewise quadratic function of the margin y t that has no name."""

    knots: tuple[float, ...]
    slopes: tuple[float, ...]
    curvatures: tuple[float, ...]

    def outline(self) -> Pieces:
        """Return the pieces."""
        return Pieces(self.knots, self.slopes, self.curvatures)


@dataclass(frozen=True, eq=False)
class Fit:
    """sum_i weight_i loss(factor_i t_i, y_i) + constant, the sum over rows with predictions t.

    `factor` is None where it is 1 for each row.
    """

    loss: ScalarLoss
    y: Array
    weight: Array
    constant: float = 0.0
    factor: Array | None = None


def fit(function: Curve | str, weight: Array, scale: Array, shift: Array) -> Fit | None:
    """Return sum_i weight_i h(scale_i t_i + shift_i) as a loss, or None if it is none."""
    if isinstance(function, str):
        return _smooth(function, weight, scale, shift) if (weight >= 0.0).all() else None
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
    if function.is_even:
        scale, shift = np.ones_like(scale), scale * shift
    elif same(shift, shift[0]):
        for sign in (-1.0, 1.0):
            margin = function.of(sign, float(shift[0]))
            known = next((loss for loss in _MARGIN_LOSSES if _multiple(margin, loss) is not None), None)
            if known is not None:
                return _with_constant(known, sign * scale, weight, margin, factor)
        if not same(scale, scale[0]):
            margin = function.of(-1.0, float(shift[0]))
            return _with_constant(PiecewiseMarginLoss(*_outline(margin)), -scale, weight, margin, factor)
    elif not same(scale, scale[0]):
        factor, scale = (scale if factor is None else factor * scale), np.ones_like(scale)
    if scale[0] < 0.0:
        function, shift = function.of(-1.0), -shift
    centre = _centre(function)
    residual = function.of(1.0, centre)
    loss = next((loss for loss in _candidates(residual) if _multiple(residual, loss) is not None), None)
    if loss is None:
        loss = PiecewiseLoss(*_outline(residual))
    return _with_constant(loss, centre - shift, weight, residual, factor)


def _smooth(name: str, weight: Array, scale: Array, shift: Array) -> Fit | None:
    if name == "logistic" and shift.any():
        return None
    loss = Logistic() if name == "logistic" else Exponential()
    with np.errstate(over="ignore"):
        weight = weight * np.exp(shift)
    if not np.isfinite(weight).all():
        return None
    if same(np.abs(scale), 1.0):
        return Fit(loss, -np.sign(scale), weight)
    return Fit(loss, np.ones_like(scale), weight, factor=-scale)


def _with_constant(loss: ScalarLoss, y: Array, weight: Array, curve: Curve, factor: Array | None) -> Fit:
    """Return the fit of a curve that is a multiple of a loss, plus a constant."""
    multiple = _multiple(curve, loss)
    assert multiple is not None
    zero, size = np.zeros(1), float(np.abs(curve.coefficients).max())
    rest = float((curve.at(zero) - multiple * _curve(loss).at(zero))[0])
    constant = 0.0 if same(rest, 0.0, size) else rest * float(weight.sum())
    return Fit(loss, y, multiple * weight, constant, factor)


def _multiple(curve: Curve, loss: ScalarLoss) -> float | None:
    """Return c with curve = c loss + a constant, as functions of the residual or the margin; None if not."""
    known = _curve(loss)
    if known.knots.shape != curve.knots.shape or not same(known.knots, curve.knots):
        return None
    ours, theirs = curve.coefficients[:, 1:], known.coefficients[:, 1:]
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


def _centre(curve: Curve) -> float:
    """Return the middle of the knots; the vertex of a parabola."""
    if curve.knots.size:
        return float(curve.knots[0] + curve.knots[-1]) / 2.0
    _, slope, half = curve.coefficients[0]
    return float(-slope / (2.0 * half)) if half else 0.0


def _rounded(parameter: float) -> float:
    """Return the parameter of a loss with the digits that arithmetic on it leaves."""
    return float(f"{parameter:.12g}")


def _candidates(curve: Curve) -> list[ScalarLoss]:
    """Return the losses with a name that the curve may be a multiple of, by its knots."""
    if not curve.knots.size:
        return [Squared()]
    if curve.knots.size == 1:
        (low, high) = curve.coefficients[:, 1]
        return [Absolute(), Quantile(_rounded(-low / (high - low)))] if low < 0.0 < high else []
    width = _rounded((curve.knots[-1] - curve.knots[0]) / 2.0)
    return [EpsilonInsensitive(width), SquaredEpsilonInsensitive(width), Huber(width)]
