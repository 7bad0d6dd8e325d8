"""The dual of a kernel machine as arrays, for losses whose dual is a quadratic programme."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.losses.base import ScalarLoss, pieces_of
from cutplane.pieces.capabilities import Capability, ask, require
from cutplane.pieces.validation import Array, as_positive, as_vector

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

_ROUNDING = 1e-12
"""Relative difference at which two sums of losses count as equal, because their rounding errors are as
large."""
_FAR = 30.0
"""Prediction at which a smooth loss such as the logistic loss almost has its extreme slopes, because exp(-30)
is negligible."""
_BALANCE = 2.0**-53
"""Sum of the coefficients relative to the sum of their absolute values that counts as 0, because a bound with
an intercept is -inf if the sum is above the rounding errors of the terms."""


@dataclass(frozen=True, eq=False)
class DualForm:
    """The dual problem in groups of coefficients; each group has one coefficient per example:

        minimise  1/2 c'Kc + sum_i ridge_i/2 c_i^2 - linear'c + tube ||c||_1   over  lower <= a <= upper,

    where c is the sum of the groups of a, and the coefficients of group s add up to sums_s. There is one
    group without a sum (no intercept), one with sum 0 (an intercept), or one for each term of a nu-form. With
    one group, the terms of an example without K are the conjugate C_i l*(-a_i / C_i, y_i). Conversely, C_i
    l(t, y_i) is the maximum over lower_i <= a_i <= upper_i of (linear_i - t) a_i - tube |a_i| - ridge_i/2
    a_i^2.

    The ridges are all positive or all zero. With two groups they are zero.
    """

    linear: Array
    tube: float
    ridge: Array
    lower: Array
    upper: Array
    sums: tuple[float, ...] = ()

    @property
    def curved(self) -> bool:
        """Whether the ridges are positive."""
        return bool(self.ridge[0] > 0.0)

    def part(self, chosen: Array) -> DualForm:
        """Return the form for some examples; there must be one group."""
        parts = {name: getattr(self, name)[chosen] for name in ("linear", "ridge", "lower", "upper")}
        return replace(self, **parts)

    def group(self, s: int) -> DualForm:
        """Return the form of group s."""
        part = slice(s * self.linear.size, (s + 1) * self.linear.size)
        return replace(self, lower=self.lower[part], upper=self.upper[part], sums=self.sums[s : s + 1])

    def feasible(self, c: Array) -> Array:
        """Return feasible coefficients close to c, for each group.

        c is clipped to the bounds first. If the sum must be 0, the coefficients of the sign with the larger
        sum are then scaled down, so that zeros stay zeros. If the sum must be another number, all
        coefficients are scaled down, or the first ones are raised.
        """
        if not self.sums:
            return np.clip(c, self.lower, self.upper)
        groups = [self.group(s) for s in range(len(self.sums))]
        return np.concatenate([_with_sum(c, group.lower, group.upper, *group.sums) for group in groups])

    def conjugates(self, a: Array) -> float:
        """Return the sum over the examples of C l*(-a_i / C, y_i), for a within the bounds."""
        total = (0.5 * self.ridge * a - self.linear) @ a
        return float(total + self.tube * np.abs(a).sum() if self.tube else total)

    def maximisers(self, residuals: Array) -> Array:
        """Return the a that attain the maxima in the losses, -C_i times a slope; residuals = linear - t."""
        beyond = np.sign(residuals) * np.maximum(0.0, np.abs(residuals) - self.tube)
        if self.curved:
            return np.clip(beyond / self.ridge, self.lower, self.upper)
        return np.where(beyond > 0.0, self.upper, np.where(beyond < 0.0, self.lower, 0.0))

    def losses(self, residuals: Array) -> float:
        """Return the sum over the examples of C l(t_i, y_i), where residuals = linear - t."""
        a = np.abs(self.maximisers(residuals))  # each maximiser has the sign of its residual
        return float((np.abs(residuals) - self.tube - 0.5 * self.ridge * a) @ a)

    def middles(self, residuals: Array, b: Array) -> Array:
        """Return the middle of the interval of optimal intercepts for each sum; b is in each interval."""
        return np.array([self.group(s)._middle(residuals, float(b[s])) for s in range(len(self.sums))])

    def _middle(self, residuals: Array, b: float) -> float:
        up, down = residuals[self.upper > 0.0] - self.tube, residuals[self.lower < 0.0] + self.tube
        knots, total = np.concatenate([up, down]), self.sums[0]
        apart = _ROUNDING * max(abs(b), float(np.abs(residuals).max()))
        least = self.losses(residuals - b)
        bound = least + total * b + _ROUNDING * (least + abs(total * b))

        def end(others: Array, nearest: Any) -> float:
            if not others.size:
                return b
            other = float(nearest(others))
            halfway = 0.5 * (b + other)
            return other if self.losses(residuals - halfway) + total * halfway <= bound else b

        low, high = end(knots[knots < b - apart], np.max), end(knots[knots > b + apart], np.min)
        if (knots > b + apart).all():
            low = high  # the interval is unbounded
        return 0.5 * (low + (low if (knots < b - apart).all() else high))


def made_feasible(a: Array, lower: Array, upper: Array, balanced: bool) -> Array:
    """Clip a to bounds that contain 0; if `balanced`, also scale down one sign to make the sum 0.

    Zeros stay zeros.
    """
    return _with_sum(a, lower, upper, 0.0) if balanced else np.clip(a, lower, upper)


def _with_sum(a: Array, lower: Array, upper: Array, total: float) -> Array:
    if total < 0.0:
        return -_with_sum(-a, -upper, -lower, -total)
    a = np.clip(a, lower, upper)
    positive, negative = float(a[a > 0.0].sum()), -float(a[a < 0.0].sum())
    if total > 0.0:
        missing = total - float(a.sum())
        if missing <= 0.0:
            return a * (total / max(float(a.sum()), total))
        room = upper - a
        return np.minimum(a + np.clip(missing - (np.cumsum(room) - room), 0.0, room), upper)
    if abs(positive - negative) > _BALANCE * (positive + negative):
        heavier = a > 0.0 if positive > negative else a < 0.0
        a[heavier] *= min(positive, negative) / max(positive, negative)
    return a


def dual_form(loss: ScalarLoss, y: Any, C: Any, intercept: bool = True) -> DualForm:
    """Return the dual form of the losses C_i l(t, y_i); C >= 0 is a number, or one for each example."""
    phi = pieces_of(loss)
    star = None if phi is None else phi.star
    parabola = star is not None and not star.knots.any() and np.ptp(star.curvatures) == 0.0
    around = phi is not None and phi.domain[0] <= 0.0 <= phi.domain[1]
    if phi is None or star is None or not (parabola and around and star(0.0) == 0.0):
        raise InvalidInputError(
            "A kernel machine needs a loss whose dual is a quadratic programme, such as Hinge, SquaredHinge, "
            "Huber or EpsilonInsensitive: its least value must be 0, and its conjugate must be one parabola, "
            f"except for a kink at 0; got {loss!r}."
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
        lower, upper = np.where(y > 0.0, lower, 0.0 - upper), np.where(y > 0.0, upper, 0.0 - lower)
    linear = shift * y if loss.variable == "margin" else y + shift
    return DualForm(linear, float(tube), ridge, lower, upper, (0.0,) if intercept else ())


def multipliers(risk: Any, p: Array) -> Array:
    """Return the multipliers p_i / c_i of a risk's examples, projected onto the domain of the conjugate."""
    u = np.divide(p, risk.weights, out=np.zeros_like(p), where=risk.weights > 0.0)
    phi, y = pieces_of(risk.loss), risk.y
    if phi is not None:
        return np.clip(u * y, *phi.domain) * y if risk.loss.variable == "margin" else np.clip(u, *phi.domain)
    inside = np.isfinite(risk.loss.conjugate(u, y))
    far = np.where(u > 0.0, _FAR, -_FAR)  # the slopes there are close to the ends of the domain
    return u if inside.all() else np.where(inside | (u == 0.0), u, risk.loss.derivative(far, y))


def machine_of(
    problem: Declaration, method: str, remedy: str, kind: Capability = Capability.KERNEL_PREDICTOR
) -> tuple[Any, float]:
    """Return the risk of a kernel machine and the weight of its norm; raise an error for another problem."""
    require(problem.risk, kind, method, remedy)
    risk: Any = ask(problem.risk, kind)
    found = ask(problem.active_regularizer, Capability.KERNEL_NORM)
    if found is None or found[0] is not risk.gram or not found[1] > 0.0 or not problem.is_unconstrained:
        raise MissingCapabilityError(
            f"{method} needs the squared norm of the risk's functions, risk.squared_norm(lam) with lam > 0, "
            f"and no feasible set; got {problem.regularizer!r} over {problem.feasible_set!r}."
        )
    return risk, found[1]
