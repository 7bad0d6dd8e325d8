"""Where to probe, and how large a difference counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from cutplane.pieces.validation import Array, as_count, as_positive

TOLERANCE = 1e-7
"""Relative rounding error that is forgiven; the engine forgives as much."""

CANCELLATION = 1e-6
"""Weight of the terms of a sum, against that of the sum itself, in its rounding error."""

STEP = 1e-3
"""Distance of nearby points, in units of the scale."""

UNITS = 2.0**-20, 2.0**10
"""Units in which pieces are stated: powers of two, so that nothing is rounded."""


class Sampler:
    """Random points of dimension `dim` whose entries are of size `scale`."""

    def __init__(self, dim: int, rng: int | np.random.Generator, n_points: int, scale: float):
        self.dim = dim
        self.rng = np.random.default_rng(rng)
        self.n_points = as_count("n_points", n_points, low=2)
        self.scale = as_positive("scale", scale)

    def directions(self, count: int) -> Array:
        """Return normally distributed vectors with entries of size 1, shape (count, dim)."""
        return self.rng.standard_normal((count, self.dim))

    def points(self) -> Array:
        """Return zero, then random points near to and far from it, shape (n_points, dim)."""
        sizes = self.scale * np.where(np.arange(self.n_points) % 3 == 2, 0.1, 1.0)
        points = sizes[:, np.newaxis] * self.directions(self.n_points)
        points[0] = 0.0
        return points

    def coordinates(self) -> Array:
        """Return up to 5 n_points different coordinates, in random order."""
        return self.rng.permutation(self.dim)[: 5 * self.n_points]

    def pairs(self) -> Array:
        """Return n_points pairs of different indices of points, shape (n_points, 2)."""
        first = self.rng.permutation(self.n_points)
        return np.column_stack([first, np.roll(first, 1)])

    def shares(self) -> Array:
        """Return n_points numbers in [0.1, 0.9]; the first is 0.5."""
        shares = self.rng.uniform(0.1, 0.9, self.n_points)
        shares[0] = 0.5
        return shares


def exceeds(excess: Any, *terms: Any) -> Array:
    """Return by how much `excess` is above the rounding error of a sum of `terms`, relative to it.

    It is <= 0 if `excess` is within that error, or proves nothing because a term is infinite.
    """
    size = sum(np.abs(term) for term in terms)
    ratio = np.asarray(excess) / np.maximum(TOLERANCE * size, 1e-300) - 1.0
    return np.where(np.isfinite(size), np.nan_to_num(ratio, nan=-1.0), -1.0)


def worst(ratios: Array) -> tuple[int, ...] | None:
    """Return the index of the largest positive entry, or None if there is none."""
    if not (ratios > 0.0).any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(ratios)), ratios.shape))
