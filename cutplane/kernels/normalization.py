"""Normalisations of a kernel in feature space: what they learn from the examples, and how it is applied.

Applied to a matrix K of kernel values, a step needs the statistics of its rows and of its columns. Those of
the examples are kept; those of new points follow from their kernels with the examples and with themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.validation import Array

NEGLIGIBLE = 1e-13
"""Part of k(x, x) below which what centring leaves of it is rounding, and counts as zero."""

NAMES = ("trace", "diagonal", "center")


@dataclass(frozen=True)
class Multiple:
    """K * factor."""

    factor: float

    def examples(self, K: Array, rows: slice, columns: slice) -> Array:
        """Return part of the matrix of the examples."""
        return K * self.factor

    def new(self, K: Array, diagonal: Array, columns: Any) -> tuple[Array, Array]:
        """Return kernels of new points with examples, and with themselves."""
        return K * self.factor, diagonal * self.factor

    def factored(self, F: Array) -> Array:
        """Return the factor of the result."""
        return F * np.sqrt(self.factor) if self.factor > 0.0 else F[:, :0]

    def diagonal(self, diagonal: Array) -> Array:
        """Return the diagonal of the result for the examples."""
        return diagonal * self.factor


@dataclass(frozen=True, eq=False)
class UnitDiagonal:
    """K_ij / sqrt(K_ii K_jj); 0 where K_ii <= floor."""

    inverses: Array
    floor: float

    def examples(self, K: Array, rows: slice, columns: slice) -> Array:
        """Return part of the matrix of the examples."""
        return K * self.inverses[rows, np.newaxis] * self.inverses[columns]

    def new(self, K: Array, diagonal: Array, columns: Any) -> tuple[Array, Array]:
        """Return kernels of new points with examples, and with themselves."""
        inverses = inverse_roots(diagonal, self.floor)
        return K * inverses[:, np.newaxis] * self.inverses[columns], (inverses > 0.0).astype(np.float64)

    def factored(self, F: Array) -> Array:
        """Return the factor of the result."""
        return F * self.inverses[:, np.newaxis]

    def diagonal(self, diagonal: Array) -> Array:
        """Return the diagonal of the result for the examples."""
        return (self.inverses > 0.0).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Centred:
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


Step = Multiple | UnitDiagonal | Centred


def as_normalization(normalize: Any) -> tuple[str, ...]:
    """Return the names of the steps in order, or raise `InvalidInputError`."""
    names = () if normalize is None else (normalize,) if isinstance(normalize, str) else normalize
    if not isinstance(names, tuple | list) or not all(name in NAMES for name in names):
        raise InvalidInputError(
            f"normalize must be None, {', '.join(map(repr, NAMES))} or a tuple of these, got {normalize!r}."
        )
    return tuple(names)


def normalized(form: Any, names: tuple[str, ...]) -> tuple[Any, tuple[Step, ...]]:
    """Return a form of a kernel after the named steps, and the steps with what they have learnt.

    What centring leaves of a kernel that is constant on the examples is rounding: it becomes zero.
    """
    steps: list[Step] = []
    floor = 0.0
    for name in names:
        diagonal = form.diagonal()
        if name == "trace":
            mean = float(diagonal.mean())
            learnt: Sequence[Step] = [Multiple(1.0 / mean if mean > floor else 0.0)]
            floor /= mean if mean > floor else 1.0
        elif name == "diagonal":
            learnt = [UnitDiagonal(inverse_roots(diagonal, floor), floor)]
            floor = 0.0
        else:
            means = form.means()
            centred = Centred(means, float(means.mean()))
            floor = max(floor, NEGLIGIBLE * float(diagonal.max()))
            is_zero = form.then(centred).diagonal().max() <= floor
            learnt = [centred, Multiple(0.0)] if is_zero else [centred]
        for step in learnt:
            form = form.then(step)
        steps += learnt
    return form, tuple(steps)


def inverse_roots(diagonal: Array, floor: float) -> Array:
    """Return 1 / sqrt(d_i), and 0 where d_i <= floor."""
    large = diagonal > floor
    return np.where(large, 1.0 / np.sqrt(np.where(large, diagonal, 1.0)), 0.0)
