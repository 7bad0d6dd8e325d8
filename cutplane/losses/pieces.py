"""Convex piecewise linear and piecewise quadratic functions of one variable."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_numbers, as_scalar, as_vector

LAST_BITS = 2.0**-48
"""Rounding error of a prediction, or of a sum over examples, relative to the terms: 16 ulps, because a
prediction on a line is rounded several times."""

TINY = 2.0**-1022
"""Least distance within which a point counts as at a knot, needed because a relative distance is 0 at the
knot 0."""

_SLACK = 1e-12
"""Relative difference of the slopes at a knot that counts as no jump, because both slopes have rounding
errors."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """A convex, continuous function phi of one variable that is linear or quadratic between knots.

    On piece j, between knots j - 1 and j, ``phi'(s) = slopes[j] + curvatures[j] s``.

    Parameters
    ----------
    knots : array_like of shape (k,)
        The ends of the pieces, ascending; k may be 0. Pieces between equal knots are removed.
    slopes : array_like of shape (k + 1,)
        The slope of each piece; for a quadratic piece the slope of its parabola at s = 0.
    curvatures : array_like of shape (k + 1,), default 0
        The second derivative of each piece, at least 0.
    value : float, default 0.0
        phi(at).
    at : float, optional
        By default a minimiser, so that `value` is the infimum. If phi is unbounded below, the default is the
        first or the last knot, on the side where phi decreases, or 0 without knots.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, a number is not finite, the knots are not ascending, or phi is not convex
        because its slope decreases at a knot or a curvature is negative.

    Examples
    --------
    >>> from cutplane.losses import Pieces
    >>> hinge = Pieces(knots=[1.0], slopes=[-1.0, 0.0])
    >>> float(hinge(-2.0)), float(hinge.slope(-2.0)), float(hinge.conjugate(-0.25))
    (3.0, -1.0, -0.25)
    >>> huber = Pieces(knots=[-1.0, 1.0], slopes=[-1.0, 0.0, 1.0], curvatures=[0.0, 1.0, 0.0])
    >>> float(huber(0.5)), float(huber(-3.0)), float(huber.slope(0.5))
    (0.125, 2.5, 0.5)
    """

    knots: Any
    slopes: Any
    curvatures: Any = None
    value: float = 0.0
    at: Any = None

    def __post_init__(self) -> None:
        knots = as_numbers("Pieces.knots", self.knots)
        if knots.ndim != 1:
            raise InvalidInputError(f"Pieces.knots must have one dimension, got shape {knots.shape}.")
        k = knots.size
        slopes = as_vector("Pieces.slopes", self.slopes, k + 1)
        given = np.zeros(k + 1) if self.curvatures is None else self.curvatures
        curvatures = as_vector("Pieces.curvatures", given, k + 1)
        widths = knots[1:] - knots[:-1]
        for j in np.flatnonzero(widths < 0.0)[:1].tolist():
            raise InvalidInputError(
                f"Pieces.knots must ascend, but knots[{j + 1}] = {knots[j + 1]:g} is less than "
                f"knots[{j}] = {knots[j]:g}; sort the knots, and the pieces with them."
            )
        for j in np.flatnonzero(curvatures < 0.0)[:1].tolist():
            raise InvalidInputError(
                f"Pieces is not convex: curvatures[{j}] = {curvatures[j]:g} is less than 0."
            )
        if not widths.all():
            empty = np.flatnonzero(widths == 0.0)
            knots, slopes, curvatures = (
                np.delete(array, empty + shift) for array, shift in ((knots, 0), (slopes, 1), (curvatures, 1))
            )
        value = as_scalar("Pieces.value", self.value)
        knots, slopes, curvatures = map(np.array, (knots, slopes, curvatures))
        set_fields(self, knots=knots, slopes=slopes, curvatures=curvatures, value=value)
        before, after = self._sides
        for j in np.flatnonzero(after - before < -self._slack)[:1].tolist():
            raise InvalidInputError(
                f"Pieces is not convex: at the knot {knots[j]:g} its slope falls from {before[j]:g} to "
                f"{after[j]:g}; the slope of piece j at s is slopes[j] + curvatures[j] s."
            )
        set_fields(self, at=self._minimiser if self.at is None else as_scalar("Pieces.at", self.at))

    def __call__(self, s: Any) -> Any:
        """Return phi(s), as the minimum plus nonnegative terms, because these do not cancel."""
        base, terms = self.terms
        total = np.add(base * (s - self.at), self.value) if base else np.full(np.shape(s), self.value)
        for sign, knot, width, jump, curvature in terms.tolist():
            u = np.maximum(0.0, s - knot if sign > 0.0 else knot - s)
            if curvature:
                v = np.minimum(u, width)
                total += curvature * (0.5 * u * u if width == math.inf else v * (u - 0.5 * v))
            if jump:
                u *= jump
                total += u
        return total[()]

    def slope(self, s: Any, direction: Any = 1.0, size: Any = 0.0) -> Any:
        """Return the slope of phi at s; at a knot, the slope on the side of `direction`.

        If s differs from a kink only by rounding errors, relative to the knot and to `size`, it is treated as
        equal to the kink. Then a point computed in two ways has the same slope.
        """
        first, *others = (b + c * s if c else b for b, c in zip(self.slopes, self.curvatures, strict=True))
        found = first if others else first + np.zeros(np.shape(s))
        for knot, jump, slope in zip(self.knots.tolist(), self.jumps.tolist(), others, strict=True):
            near = np.copysign(LAST_BITS * (size + abs(knot)) + TINY, direction) if jump else 0.0
            found = np.where(s + near >= knot, slope, found)
        return found[()]

    def cancelled(self, s: Any, direction: Any = 1.0, size: Any = 0.0) -> Any:
        """Return the jump times the size of the terms of s, if `slope` is the slope beyond a kink near s.

        The tangent at s with this slope exceeds phi by at most `LAST_BITS` times the result, because it
        exceeds phi by the jump times the distance to the kink.
        """
        total = np.zeros(np.shape(s))
        for knot, jump in zip(self.knots.tolist(), self.jumps.tolist(), strict=True):
            if jump:
                terms = size + abs(knot)
                crossed = (s + np.copysign(LAST_BITS * terms + TINY, direction) >= knot) != (s >= knot)
                total += np.where(crossed, jump * terms, 0.0)
        return total[()]

    def curvature(self, s: Any) -> Any:
        """Return the second derivative of phi at s; at a knot, the one to the right."""
        return self.curvatures[np.searchsorted(self.knots, s, side="right")]

    @cached_property
    def jumps(self) -> Array:
        """The increase of the slope at each knot, shape (k,)."""
        before, after = self._sides
        return np.where(after - before > self._slack, after - before, 0.0)

    @cached_property
    def domain(self) -> tuple[float, float]:
        """The least and the largest slope; the conjugate is finite between them."""
        low, high = (self.slopes[j] if self.curvatures[j] == 0.0 else math.inf for j in (0, -1))
        return (float(low) if low < math.inf else -math.inf), float(high)

    @cached_property
    def infimum(self) -> float:
        """The infimum of phi."""
        low, high = self.domain
        return float(self(self._minimiser)) if low <= 0.0 <= high else -math.inf

    @cached_property
    def terms(self) -> tuple[float, Array]:
        """The slope `base` and a row for each term of phi(s) = phi(at) + base (s - at) + sum of terms.

        The row (sign, knot, width, jump, curvature) is the nonnegative term jump u + curvature v (u - v / 2),
        with u = max(0, sign (s - knot)) and v = min(u, width).
        """
        at = self.at
        last, first = (int(np.searchsorted(self.knots, at, side)) for side in ("left", "right"))
        left, right = (float(self.slopes[j] + self.curvatures[j] * at) for j in (last, first))
        slack = _SLACK * float(abs(self.slopes[last]) + abs(self.curvatures[last] * at))
        base = 0.0 if left <= slack and right >= -slack else left if left > 0.0 else right
        ends = [-math.inf, *self.knots.tolist(), math.inf]
        jumps = [0.0, *self.jumps.tolist(), 0.0]
        rows = []
        for sign, piece, jump in ((1, first, right - base), (-1, last, base - left)):
            start, jump = at, jump if jump > slack else 0.0
            while math.isfinite(start):
                curvature, end = self.curvatures[piece], piece + (sign > 0)
                if jump or curvature:
                    rows.append((sign, start, abs(ends[end] - start), jump, curvature))
                start, jump, piece = ends[end], jumps[end], piece + sign
        return base, np.array(rows, np.float64).reshape(-1, 5)

    def conjugate(self, v: Any) -> Any:
        """Return sup over s of v s - phi(s); inf outside `domain`."""
        low, high = self.domain
        return np.where((v >= low) & (v <= high), self.star(v), math.inf)[()]

    @cached_property
    def star(self) -> Pieces:
        """The conjugate on `domain`, with its first and last piece extended beyond it."""
        before, after = self._sides
        rows = []
        for j, (slope, curvature) in enumerate(zip(self.slopes, self.curvatures, strict=True)):
            if curvature > 0.0:
                rows.append((after[j - 1] if j else -math.inf, -slope / curvature, 1.0 / curvature))
            if j < self.knots.size and self.jumps[j] > 0.0:
                rows.append((before[j], self.knots[j], 0.0))
        starts, slopes, curvatures = np.array(rows or [(-math.inf, 0.0, 0.0)]).T
        at = min(max(0.0, self.domain[0]), self.domain[1])
        star = Pieces(np.maximum.accumulate(starts[1:]), slopes, curvatures, at=at)
        attained = star.slope(at)
        return replace(star, value=at * attained - self(attained))

    def envelope(self, mu: float) -> Pieces:
        """Return the Moreau envelope, s -> min over r of phi(r) + (r - s)^2 / (2 mu), for mu >= 0."""
        shrink = 1.0 / (1.0 + mu * self.curvatures)
        before, after = self._sides
        first, *others = zip(self.slopes * shrink, self.curvatures * shrink, strict=True)
        knots, pieces = [], [first]
        for knot, jump, left, right, piece in zip(self.knots, self.jumps, before, after, others, strict=True):
            knots.append(knot + mu * left)
            if jump > 0.0 and mu > 0.0:
                pieces.append((-knot / mu, 1.0 / mu))
                knots.append(knot + mu * right)
            pieces.append(piece)
        slopes, curvatures = zip(*pieces, strict=True)
        base, _ = self.terms
        return Pieces(knots, slopes, curvatures, self.value + 0.5 * mu * base**2, self.at + mu * base)

    def cvxpy_form(self, s: Any) -> Any:
        """Return phi of a cvxpy expression, elementwise."""
        import cvxpy as cp

        base, terms = self.terms
        signs: dict[tuple[float, ...], float] = {}
        for sign, *row in terms.tolist():
            signs[tuple(row)] = 0.0 if tuple(row) in signs else sign
        total = self.value + base * (s - self.at) if base or not signs else self.value
        for (knot, width, jump, curvature), sign in signs.items():
            u = cp.pos(sign * (s - knot)) if sign else s - knot
            if jump:
                total = total + jump * (u if sign else cp.abs(u))
            if curvature:
                bounded: Any = width  # cvxpy's annotation is int
                square = cp.square(u) if width == math.inf else cp.huber(u, bounded)
                total = total + 0.5 * curvature * square
        return total

    @property
    def _sides(self) -> tuple[Array, Array]:
        """The slopes before and after each knot."""
        return (
            self.slopes[:-1] + self.curvatures[:-1] * self.knots,
            self.slopes[1:] + self.curvatures[1:] * self.knots,
        )

    @property
    def _slack(self) -> Array:
        size = np.abs(self.slopes[:-1]) + np.abs(self.slopes[1:])
        return _SLACK * (size + (self.curvatures[:-1] + self.curvatures[1:]) * np.abs(self.knots))

    @cached_property
    def _minimiser(self) -> float:
        """The smallest minimiser of phi; the first or last knot, or 0, if phi is unbounded below."""
        after = self._sides[1]
        j = [*(after >= 0.0).tolist(), True].index(True)
        slope, curvature = self.slopes[j], self.curvatures[j]
        nearest = self.knots[min(j, self.knots.size - 1)] if self.knots.size else 0.0
        if curvature > 0.0 and (j == self.knots.size or -slope <= curvature * nearest):
            return float(-slope / curvature) + 0.0
        return float(nearest)
