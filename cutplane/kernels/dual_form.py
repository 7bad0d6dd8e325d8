"""The losses whose kernel machines have a box-constrained quadratic dual, and that dual in numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.losses.pieces import Pieces
from cutplane.pieces.validation import Array, as_scalar

_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class DualForm:
    """C l*(-a / C, y) = ridge/2 a^2 - linear a + tube |a| on lower <= a <= upper, inf elsewhere.

    Conversely the losses are C l(t, y) = max over a in the box of (linear - t) a - tube |a| - ridge/2 a^2.
    """

    linear: Array
    tube: float
    ridge: float
    lower: Array
    upper: Array

    def conjugates(self, a: Array) -> float:
        """Return the sum over the examples of C l*(-a_i / C, y_i), for a in the box."""
        total = 0.5 * self.ridge * (a @ a) - self.linear @ a
        return float(total + self.tube * np.abs(a).sum() if self.tube else total)

    def part(self, chosen: Array) -> DualForm:
        """Return the form for those examples alone."""
        return replace(self, linear=self.linear[chosen], lower=self.lower[chosen], upper=self.upper[chosen])

    def maximisers(self, residuals: Array) -> Array:
        """Return the a that attain the losses, -C times a slope of l, where residuals = linear - t."""
        beyond = np.sign(residuals) * np.maximum(0.0, np.abs(residuals) - self.tube)
        if self.ridge:
            return np.clip(beyond / self.ridge, self.lower, self.upper)
        return np.where(beyond > 0.0, self.upper, np.where(beyond < 0.0, self.lower, 0.0))

    def losses(self, residuals: Array) -> float:
        """Return the sum over the examples of C l(t_i, y_i), where residuals = linear - t."""
        a = self.maximisers(residuals)
        total = residuals @ a - 0.5 * self.ridge * (a @ a)
        return float(total - self.tube * np.abs(a).sum() if self.tube else total)

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


def dual_form(loss: ScalarLoss, y: Any, C: float) -> DualForm:
    """Return the dual form of C l(t, y)."""
    phi = pieces_of(loss)
    star = None if phi is None else phi.star
    if phi is None or star is None or not _fits(star, phi.domain):
        raise InvalidInputError(
            "A kernel machine needs a loss whose dual is a quadratic programme: a least value of 0 and a "
            "conjugate that is one parabola, but for a kink at 0, as of Hinge, SquaredHinge, Huber or "
            f"EpsilonInsensitive; got {loss!r}."
        )
    C = as_scalar("C", C, low=0.0, high=math.inf, low_open=True, high_open=True)
    y = np.ascontiguousarray(loss.check_targets(y))
    if y.size == 0:
        raise InvalidInputError("y is empty; a kernel machine needs at least one example.")
    ridge = float(star.curvatures[0]) / C
    if not math.isfinite(ridge):
        raise InvalidInputError(f"C = {C:g} is so small that 1 / C overflows; pass a larger one.")
    shift, tube = 0.5 * (star.slopes[0] + star.slopes[-1]), 0.5 * (star.slopes[-1] - star.slopes[0])
    least, largest = phi.domain
    lower, upper = -C * largest + 0.0, -C * least
    if loss.variable == "margin":
        box = np.where(y > 0.0, lower, 0.0 - upper), np.where(y > 0.0, upper, 0.0 - lower)
        return DualForm(shift * y, float(tube), ridge, *box)
    return DualForm(y + shift, float(tube), ridge, np.full(y.size, lower), np.full(y.size, upper))


def _fits(star: Pieces, domain: tuple[float, float]) -> bool:
    """Tell whether a conjugate is curvature / 2 v^2 + shift v + tube |v| on its domain, around 0."""
    zero_inside = domain[0] <= 0.0 <= domain[1] and star(0.0) == 0.0
    return zero_inside and not star.knots.any() and np.ptp(star.curvatures) == 0.0
