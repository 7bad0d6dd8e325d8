"""Normalisations of a kernel in feature space: their statistics of the examples, and how they are applied.

Applied to a matrix K of kernel values, a step needs the statistics of its rows and of its columns. Those of
the examples are kept; those of new points follow from their kernels with the examples and with themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array

_NEGLIGIBLE = 1e-13
"""Fraction of k(x, x) below which diagonal entries count as zero after centring, because rounding reaches
it."""

NAMES = ("trace", "diagonal", "center")


@dataclass(frozen=True, eq=False)
class ScaledFeatures:
    """s_i K_ij s_j: with all s_i the same, or with 1 / sqrt(K_ii), 0 where K_ii <= floor.

    Attributes
    ----------
    scales : ndarray of shape (m,)
        The s_i of the examples.
    floor : float or None
        None if all are the same.
    """

    scales: Array
    floor: float | None = None

    def examples(self, K: Array, rows: slice, columns: slice) -> Array:
        """Return part of the matrix of the examples."""
        return K * self.scales[rows, np.newaxis] * self.scales[columns]

    def new(self, K: Array, diagonal: Array, columns: Any) -> tuple[Array, Array]:
        """Return kernels of new points with examples, and with themselves."""
        s = np.full(diagonal.size, self.scales[0])
        if self.floor is not None:
            s = inverse_roots(diagonal, self.floor)
        return K * s[:, np.newaxis] * self.scales[columns], s * diagonal * s

    def factored(self, F: Array) -> Array:
        """Return the factor of the result."""
        return F * self.scales[:, np.newaxis] if self.scales.any() else F[:, :0]

    def diagonal(self, diagonal: Array) -> Array:
        """Return the diagonal of the result for the examples."""
        return self.scales * diagonal * self.scales


@dataclass(frozen=True, eq=False)
class CentredFeatures:
    """The kernel of the features minus their mean over the examples."""

    means: Array
    mean: float

    def examples(self, K: Array, rows: slice, columns: slice) -> Array:
        """Return part of the matrix of the examples."""
        return K - (self.means[rows, np.newaxis] + self.means[columns] - self.mean)

    def new(self, K: Array, diagonal: Array, columns: Any) -> tuple[Array, Array]:
        """Return kernels of new points with all examples, and with themselves."""
        means = K.mean(axis=1)
        return K - (
            means[:, np.newaxis] + self.means[columns] - self.mean
        ), diagonal - 2.0 * means + self.mean

    def factored(self, F: Array) -> Array:
        """Return the factor of the result."""
        return F - F.mean(axis=0)

    def diagonal(self, diagonal: Array) -> Array:
        """Return the diagonal of the result for the examples."""
        return np.maximum(diagonal - 2.0 * self.means + self.mean, 0.0)


NormalizationStep = ScaledFeatures | CentredFeatures


def as_normalization(normalize: Any) -> tuple[str, ...]:
    """Return the names of the steps in order, or raise `InvalidInputError`."""
    names = () if normalize is None else (normalize,) if isinstance(normalize, str) else normalize
    if not isinstance(names, tuple | list) or not all(name in NAMES for name in names):
        raise InvalidInputError(
            f"normalize must be None, {', '.join(map(repr, NAMES))} or a tuple of these, got {normalize!r}."
        )
    return tuple(names)


def normalized(form: Any, names: tuple[str, ...]) -> tuple[Any, tuple[NormalizationStep, ...]]:
    """Return a form of a kernel after the named steps, and the steps with their statistics.

    A kernel that is constant on the examples becomes zero by centring, because only rounding errors remain.
    """
    steps: list[NormalizationStep] = []
    floor = 0.0
    for name in names:
        diagonal = form.diagonal()
        if name == "trace":
            mean = float(diagonal.mean())
            scale = 1.0 / np.sqrt(mean) if mean > floor else 0.0
            learnt: list[NormalizationStep] = [ScaledFeatures(np.full(diagonal.size, scale))]
            floor /= mean if mean > floor else 1.0
        elif name == "diagonal":
            learnt = [ScaledFeatures(inverse_roots(diagonal, floor), floor)]
            floor = 0.0
        else:
            means = form.means()
            learnt = [CentredFeatures(means, float(means.mean()))]
            floor = max(floor, _NEGLIGIBLE * float(diagonal.max()))
            if form.then(learnt[0]).diagonal().max() <= floor:
                learnt.append(ScaledFeatures(np.zeros(diagonal.size)))
        for step in learnt:
            form = form.then(step)
        steps += learnt
    return form, tuple(steps)


def inverse_roots(diagonal: Array, floor: float) -> Array:
    """Return 1 / sqrt(d_i), and 0 where d_i <= floor."""
    large = diagonal > floor
    return np.where(large, 1.0 / np.sqrt(np.where(large, diagonal, 1.0)), 0.0)
