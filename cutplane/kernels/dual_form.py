"""The losses whose kernel machines have a box-constrained quadratic dual, and that dual in numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.losses.pieces import Pieces
from cutplane.pieces.validation import Array, as_positive, as_vector

_ROUNDING = 1e-12
_BALANCE = 1e-14


@dataclass(frozen=True, eq=False)
class DualForm:
    """C_i l*(-a / C_i, y_i) = ridge_i/2 a^2 - linear_i a + tube |a| on lower_i <= a <= upper_i, else inf.

    Conversely the losses are C_i l(t, y_i) = max over a there of (linear - t) a - tube |a| - ridge/2 a^2.

    The ridges are all positive, or all zero.
    """

    linear: Array
    tube: float
    ridge: Array
    lower: Array
    upper: Array

    @property
    def curved(self) -> bool:
        """Whether the ridges are positive."""
        return bool(self.ridge[0] > 0.0)

    def conjugates(self, a: Array) -> float:
        """Return the sum over the examples of C l*(-a_i / C, y_i), for a in the box."""
        total = (0.5 * self.ridge * a - self.linear) @ a
        return float(total + self.tube * np.abs(a).sum() if self.tube else total)

    def part(self, chosen: Array) -> DualForm:
        """Return the form for those examples alone."""
        parts = {name: getattr(self, name)[chosen] for name in ("linear", "ridge", "lower", "upper")}
        return replace(self, **parts)

    def mended(self, a: Array, balanced: bool) -> Array:
        """Return a point of the box, whose sum is 0 if it is to be; see `mended`."""
        return mended(a, self.lower, self.upper, balanced)

    def maximisers(self, residuals: Array) -> Array:
        """Return the a that attain the losses, -C times a slope of l, where residuals = linear - t."""
        beyond = np.sign(residuals) * np.maximum(0.0, np.abs(residuals) - self.tube)
        if self.curved:
            return np.clip(beyond / self.ridge, self.lower, self.upper)
        return np.where(beyond > 0.0, self.upper, np.where(beyond < 0.0, self.lower, 0.0))

    def losses(self, residuals: Array) -> float:
        """Return the sum over the examples of C l(t_i, y_i), where residuals = linear - t."""
        a = np.abs(self.maximisers(residuals))  # each has the sign of its residual
        return float((np.abs(residuals) - self.tube - 0.5 * self.ridge * a) @ a)

    def middle(self, residuals: Array, b: float) -> float:
        """Return the middle of the interval of best intercepts, of which b is one."""
        up, down = residuals[self.upper > 0.0] - self.tube, residuals[self.lower < 0.0] + self.tube
        knots = np.concatenate([up, down])
        apart = _ROUNDING * max(abs(b), float(np.abs(residuals).max()))
        least = self.losses(residuals - b)

        def end(others: Array, nearest: Any) -> float:
            if not others.size:
                return b
            other = float(nearest(others))
            halfway = self.losses(residuals - 0.5 * (b + other))
            return other if halfway <= least * (1.0 + _ROUNDING) else b

        return 0.5 * (end(knots[knots < b - apart], np.max) + end(knots[knots > b + apart], np.min))


def mended(a: Array, lower: Array, upper: Array, balanced: bool) -> Array:
    """Return a clipped to a box around 0; if its sum is to be 0, the heavier of its signs is scaled down.

    Zeros stay zeros.
    """
    a = np.clip(a, lower, upper)
    positive, negative = float(a[a > 0.0].sum()), -float(a[a < 0.0].sum())
    if not balanced or abs(positive - negative) <= _BALANCE * (positive + negative):
        return a
    if positive > negative:
        a[a > 0.0] *= negative / positive
    else:
        a[a < 0.0] *= positive / negative
    return a


def dual_form(loss: ScalarLoss, y: Any, C: Any) -> DualForm:
    """Return the dual form of C_i l(t, y_i); C is a number, or one for each example, at least 0."""
    phi = pieces_of(loss)
    star = None if phi is None else phi.star
    if phi is None or star is None or not _fits(star, phi.domain):
        raise InvalidInputError(
            "A kernel machine needs a loss whose dual is a quadratic programme: a least value of 0 and a "
            "conjugate that is one parabola, but for a kink at 0, as of Hinge, SquaredHinge, Huber or "
            f"EpsilonInsensitive; got {loss!r}."
        )
    y = np.ascontiguousarray(loss.check_targets(y))
    if y.size == 0:
        raise InvalidInputError("y is empty; a kernel machine needs at least one example.")
    C = as_vector("C", C, y.size) if np.ndim(C) else np.full(y.size, as_positive("C", C))
    ridge = np.divide(star.curvatures[0], C, out=np.ones(y.size), where=C > 0.0)
    ridge *= star.curvatures[0] > 0.0
    if not np.isfinite(ridge).all():
        raise InvalidInputError(f"C = {C.min():g} is so small that 1 / C overflows; pass a larger one.")
    shift, tube = 0.5 * (star.slopes[0] + star.slopes[-1]), 0.5 * (star.slopes[-1] - star.slopes[0])
    least, largest = phi.domain
    with np.errstate(invalid="ignore"):
        lower, upper = (np.where(C > 0.0, -C * end, 0.0) + 0.0 for end in (largest, least))
    if loss.variable == "margin":
        box = np.where(y > 0.0, lower, 0.0 - upper), np.where(y > 0.0, upper, 0.0 - lower)
        return DualForm(shift * y, float(tube), ridge, *box)
    return DualForm(y + shift, float(tube), ridge, lower, upper)


def _fits(star: Pieces, domain: tuple[float, float]) -> bool:
    """Tell whether a conjugate is curvature / 2 v^2 + shift v + tube |v| on its domain, around 0."""
    zero_inside = domain[0] <= 0.0 <= domain[1] and star(0.0) == 0.0
    return zero_inside and not star.knots.any() and np.ptp(star.curvatures) == 0.0
