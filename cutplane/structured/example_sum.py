"""Risks that are sums over examples of maxima over labellings, and the joint features of labellings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from copy import copy
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse

from cutplane.exceptions import OracleError
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.risks.base import Risk
from cutplane.runtime.chunks import balanced_ranges
from cutplane.structured.ascent import CachedAscent, ExampleAscent
from cutplane.structured.mixture import sizes_in, unpack


class Factors(NamedTuple):
    """A sparse vector: indices, which may repeat, and values, which are added."""

    indices: Array
    values: Array

    def dot(self, w: Array) -> float:
        """Return the inner product with w."""
        return float(self.values @ w[self.indices])

    def add_to(self, out: Array, factor: float) -> None:
        """Add a multiple to a dense vector."""
        np.add.at(out, self.indices, factor * self.values)

    def minus(self, other: Factors) -> Factors:
        """Return the difference, each index once."""
        indices, where = np.unique(np.concatenate([self.indices, other.indices]), return_inverse=True)
        return Factors(indices, np.bincount(where, np.concatenate([self.values, -other.values])))

    def times(self, factor: float) -> Factors:
        """Return a multiple."""
        return Factors(self.indices, factor * self.values)


class Shares:
    """A sum over examples that can be split; the attributes in `per_example` have one entry per example."""

    n_examples: int
    per_example: ClassVar[tuple[str, ...]] = ("weights",)

    @property
    def work(self) -> Array:
        """The cumulative cost of decoding the examples, in any unit, shape (m + 1,)."""
        return np.arange(self.n_examples + 1)

    @property
    def infima(self) -> Array:
        """The lower bound 0, because true labellings have the violation 0; shape (1,)."""
        return np.zeros(1)

    def part(self, low: int, high: int) -> Self:
        """Return the sum over the examples low <= i < high."""
        part = copy(self)
        part.n_examples = high - low
        for name in self.per_example:
            setattr(part, name, getattr(self, name)[low:high])
        return part

    def split(self, n_parts: int) -> list[Self]:
        """Split the examples into at most `n_parts` risks whose sum is this risk."""
        return [self.part(low, high) for low, high in balanced_ranges(self.work, n_parts)]


class ExampleSum(Risk):
    """f(w) = sum_i max over labellings y of <a_i(y), w> + b_i(y).

    A subclass sets `n_examples`, and implements `decode` and `piece`. The base class then provides the oracle
    and the members that `BlockFrankWolfe` needs. All labellings of an example are numbers, or arrays of
    numbers with the same shape; for other types, implement `as_numbers` and `from_numbers`.

    Attributes
    ----------
    n_examples : int

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> from cutplane.structured import ExampleSum, Factors
    >>> class Distance(ExampleSum):
    ...     dim, n_examples = 2, 2
    ...     def decode(self, w, i):
    ...         return np.sign(w[i] - 1.0)
    ...     def piece(self, i, y):
    ...         return Factors(np.array([i]), np.array([y])), -y
    >>> risk = Distance()
    >>> risk(np.array([3.0, 0.0]))
    3.0
    >>> print(cut.Problem(risk, cut.L2(0.5)).solve(cut.BlockFrankWolfe(), tol=1e-9).x)
    [1. 1.]
    """

    n_examples: int

    @abstractmethod
    def decode(self, w: Array, i: int) -> Any:
        """Return a labelling of example i that attains the maximum at w."""

    @abstractmethod
    def piece(self, i: int, y: Any) -> tuple[Factors, float]:
        """Return the slope a_i(y), as `Factors`, and the offset b_i(y)."""

    def as_numbers(self, y: Any) -> Array:
        """Return a labelling as a float64 vector, from which certificates recompute slope and offset."""
        return np.array(y, dtype=np.float64).ravel()

    def from_numbers(self, i: int, numbers: Array) -> Any:
        """Invert `as_numbers` for example i; by default the result is a number or a vector."""
        return numbers if numbers.size > 1 else numbers[0]

    def best(self, w: Array, i: int) -> tuple[Any, Factors, float]:
        """Return a labelling that attains the maximum at w, with its slope and offset."""
        y = self.decode(w, i)
        return y, *self.piece(i, y)

    def oracle(self, x: Array) -> tuple[float, Array]:
        value, slope = 0.0, np.zeros(self.dim)
        for i in range(self.n_examples):
            _, factors, offset = self.best(x, i)
            value += factors.dot(x) + offset
            factors.add_to(slope, 1.0)
        return value, slope

    def block_ascent(self, quadratic: DiagonalQuadratic, multipliers: Array | None = None) -> CachedAscent:
        """Return the block-coordinate ascent on the dual for `BlockFrankWolfe`."""
        return ExampleAscent(self, quadratic, multipliers)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return the cut of convex combinations of labellings, packed as in `mixture`."""
        slope, total = np.zeros(self.dim), 0.0
        for i, share, numbers in self.labellings_in(u):
            factors, offset = self.piece(i, self.from_numbers(i, numbers))
            factors.add_to(slope, share)
            total += share * offset
        return slope[np.newaxis], np.array([total])

    def labellings_in(self, u: Array) -> Iterator[tuple[int, float, Array]]:
        """Yield the example, the share and the numbers of each labelling in a vector of `mixture`."""
        sizes = sizes_in(u, self.n_examples)
        for there, shares, _, numbers in unpack(u, sizes):
            parts = np.split(numbers, np.cumsum(sizes[there])[:-1])
            yield from zip(there.tolist(), shares.tolist(), parts, strict=True)


def dimension_of(feature: Any) -> int | None:
    """Return the number of coordinates of a joint feature; None for a pair of indices and values."""
    if sparse.issparse(feature):
        return int(feature.shape[-1])
    return None if isinstance(feature, tuple) else int(np.size(feature))


def as_factors(feature: Any, dim: int) -> Factors:
    """Convert a joint feature (a vector, a sparse row, or a pair of indices and values) to `Factors`."""
    try:
        if sparse.issparse(feature):
            entries = feature.tocoo()
            indices, values = entries.coords[-1], entries.data
            fits = feature.shape[-1] == dim and feature.size <= np.size(values) + dim
            fits &= len(feature.shape) == 1 or feature.shape[0] == 1
        elif isinstance(feature, tuple):
            indices, values = np.asarray(feature[0]), np.asarray(feature[1])
            fits = len(feature) == 2 and indices.shape == values.shape and indices.ndim == 1
            fits &= indices.dtype.kind in "iu" or indices.size == 0
        else:
            dense = np.asarray(feature, dtype=np.float64).ravel()
            fits, indices = dense.size == dim, np.flatnonzero(dense)
            values = dense[indices] if fits else dense
        values = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, IndexError) as error:
        raise OracleError(f"joint_feature must return numbers, got {feature!r}: {error}.") from error
    if not fits:
        shape = getattr(feature, "shape", None)
        raise OracleError(
            f"joint_feature must return a vector of {dim} numbers, a sparse row of this length, or a pair "
            "(indices, values) of equal length, got "
            + (f"{feature!r}." if shape is None else f"shape {shape}.")
        )
    indices = np.array(indices, dtype=np.int64)
    if indices.size and not (0 <= indices.min() and indices.max() < dim):
        raise OracleError(f"joint_feature returned the index {indices.max()}; indices are below {dim}.")
    if not np.isfinite(values).all():
        raise OracleError("joint_feature returned an entry that is not finite.")
    return Factors(indices, values)
