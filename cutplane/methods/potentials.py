"""Potentials of mirror descent: a distance for the steps, and the norm in which gradients are measured."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from cutplane.pieces.capabilities import Capability
from cutplane.pieces.validation import Array

_TINY = 1e-300


class Euclidean:
    """Psi(x) = ||x||_2^2 / 2: steps are projected gradient steps; 1-strongly convex in the l2 norm."""

    capability = Capability.PROJECTION
    remedy = 'Use a set such as Simplex, Box or L2Ball, or MirrorDescent("entropy") on a Simplex.'

    def step(self, feasible_set: Any, x: Array, move: Array) -> Array:
        """Return the minimiser over X of <move, z> + D(z, x)."""
        return feasible_set.project(x - move)

    def spread(self, x: Array, start: Array) -> float:
        """Return D(x, start) over the modulus of strong convexity."""
        return 0.5 * float(((x - start) ** 2).sum())

    def second_moment(self, gradient: Array) -> float:
        """Return the square of the dual norm."""
        return float(gradient @ gradient)


class Entropy:
    """Psi(x) = sum_j x_j ln x_j: multiplicative steps; 1 / ||x||_1-strongly convex in the l1 norm."""

    capability = Capability.ENTROPIC_MINIMISATION
    remedy = 'Use a set such as Simplex or CappedSimplex, or MirrorDescent("l2").'

    def step(self, feasible_set: Any, x: Array, move: Array) -> Array:
        """Return the minimiser over X of <move, z> + D(z, x)."""
        return feasible_set.minimise_entropy(move, np.log(np.maximum(x, _TINY)))

    def spread(self, x: Array, start: Array) -> float:
        """Return D(x, start) over the modulus of strong convexity."""
        used = x > 0.0
        ratio = np.log(x[used]) - np.log(np.maximum(start[used], _TINY))
        return float(x.sum()) * float(x[used] @ ratio - x.sum() + start.sum())

    def second_moment(self, gradient: Array) -> float:
        """Return the square of the dual norm."""
        return float(np.abs(gradient).max(initial=0.0)) ** 2


Potential = Literal["l2", "entropy"]
POTENTIALS = {"l2": Euclidean(), "entropy": Entropy()}
