"""Functions of one variable that are linear or quadratic between knots, with the operations of a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutplane.pieces.validation import Array

_SAME = 1e-12
"""Relative: numbers of a model that differ by less are the same, rounded in two ways."""


def same(a: Array | float, b: Array | float, size: float = 0.0) -> bool:
    """Tell whether arrays agree up to rounding of their largest entries, or of numbers of a given size."""
    largest = max(size, np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0))
    return bool((np.abs(np.subtract(a, b)) <= _SAME * largest).all())


@dataclass(frozen=True, eq=False)
class Curve:
    """u -> c_0 + c_1 u + c_2 u^2, with other coefficients in each of the intervals between the knots."""

    knots: Array
    coefficients: Array

    def at(self, u: Array) -> Array:
        """Return the values at u."""
        c = self.coefficients[np.searchsorted(self.knots, u)]
        return c[..., 0] + u * (c[..., 1] + u * c[..., 2])

    @property
    def is_line(self) -> bool:
        """Whether the function is linear, with a constant."""
        return not self.knots.size and not self.coefficients[0, 2]

    @property
    def degree(self) -> int | None:
        """P if the function of c u is c^p times that of u, for c > 0 and p = 1 or 2; else None."""
        if self.knots.any():
            return None
        powers = np.flatnonzero(self.coefficients.any(axis=0))
        return int(powers[0]) if powers.size == 1 and powers[0] else None

    @property
    def is_convex(self) -> bool:
        """Whether a continuous function is convex: no piece is concave, and no slope falls at a knot."""
        _, slopes, halves = self.coefficients.T
        left = slopes[:-1] + 2.0 * halves[:-1] * self.knots
        right = slopes[1:] + 2.0 * halves[1:] * self.knots
        rounding = _SAME * (np.abs(left) + np.abs(right))
        return bool((halves >= 0.0).all() and (right - left >= -rounding).all())

    @property
    def is_even(self) -> bool:
        """Whether u and -u have the same value."""
        return self.agrees(self.of(-1.0))

    def agrees(self, other: Curve) -> bool:
        """Tell whether two functions are the same, up to rounding."""
        return (
            self.knots.shape == other.knots.shape
            and same(self.knots, other.knots)
            and same(self.coefficients, other.coefficients)
        )

    def of(self, slope: float, shift: float = 0.0) -> Curve:
        """Return the function of slope u + shift; the slope is not 0."""
        c0, c1, c2 = self.coefficients.T
        moved = [c0 + shift * (c1 + shift * c2), slope * (c1 + 2.0 * shift * c2), slope**2 * c2]
        order = 1 if slope > 0.0 else -1
        return Curve((self.knots[::order] - shift) / slope, np.stack(moved, axis=1)[::order])

    def times(self, factor: float) -> Curve:
        """Return the multiple."""
        return Curve(self.knots, factor * self.coefficients)

    def plus(self, other: Curve) -> Curve:
        """Return the sum."""
        knots = np.union1d(self.knots, other.knots)
        a, b = self._on(knots), other._on(knots)
        cancelled = np.abs(a + b) <= _SAME * (np.abs(a) + np.abs(b))
        return _merged(knots, np.where(cancelled, 0.0, a + b))

    def maximum(self, other: Curve) -> Curve:
        """Return the larger one of two functions at each u."""
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
        """Return the coefficients on the intervals between more knots."""
        return self.coefficients[np.searchsorted(self.knots, _middles(knots))]


def line(constant: float, slope: float) -> Curve:
    """Return u -> constant + slope u."""
    return Curve(np.empty(0), np.array([[constant, slope, 0.0]]))


def huber(m: float) -> Curve:
    """Return cvxpy's function of that name: u^2 if |u| <= m, else 2 m |u| - m^2."""
    tail = [-m * m, 2.0 * m, 0.0]
    return Curve(np.array([-m, m]), np.array([[-m * m, -2.0 * m, 0.0], [0.0, 0.0, 1.0], tail]))


def _middles(knots: Array) -> Array:
    """Return a point in each interval."""
    if not knots.size:
        return np.zeros(1)
    return np.concatenate([[knots[0] - 1.0], (knots[1:] + knots[:-1]) / 2.0, [knots[-1] + 1.0]])


def _merged(knots: Array, coefficients: Array) -> Curve:
    """Return the function without the knots where nothing changes."""
    kept = [j for j in range(knots.size) if not same(coefficients[j], coefficients[j + 1])]
    return Curve(knots[kept], coefficients[[*kept, knots.size]])
