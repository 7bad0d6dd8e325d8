"""Risks that are sums over examples of a maximum over labellings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.risks.base import Risk
from cutplane.structured.example_ascent import ExampleAscent
from cutplane.structured.features import Factors
from cutplane.structured.mixture import sizes_in, unpack


class ExampleSum(Risk):
    """f(w) = sum_i max over labellings y of <a_i(y), w> + b_i(y).

    A subclass says how many examples there are, and implements `decode` and `piece`; the oracle, and what
    `BlockFrankWolfe` needs, follow. Labellings are numbers, or arrays of numbers, of the same shape for all
    labellings of an example; for others, implement `as_numbers` and `from_numbers`.

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
        """Return a labelling as a vector of float64, from which a certificate recomputes its piece."""
        return np.array(y, dtype=np.float64).ravel()

    def from_numbers(self, i: int, numbers: Array) -> Any:
        """Return the labelling of example i that `as_numbers` turned into numbers: a number, or a vector."""
        return numbers if numbers.size > 1 else numbers[0]

    def best(self, w: Array, i: int) -> tuple[Any, Factors, float]:
        """Return a labelling that attains the maximum at w, with its slope and offset."""
        y = self.decode(w, i)
        return y, *self.piece(i, y)

    def oracle(self, x: Array) -> tuple[float, Array]:
        """Return the value and a subgradient at `x`: every example is decoded."""
        value, slope = 0.0, np.zeros(self.dim)
        for i in range(self.n_examples):
            _, factors, offset = self.best(x, i)
            value += factors.dot(x) + offset
            factors.add_to(slope, 1.0)
        return value, slope

    def block_ascent(self, quadratic: DiagonalQuadratic, multipliers: Array | None = None) -> ExampleAscent:
        """Return block-coordinate ascent on the dual, as `BlockFrankWolfe` does it."""
        return ExampleAscent(self, quadratic, multipliers)

    def dual_cut(self, u: Array) -> tuple[Array, Array]:
        """Return the cut that convex combinations of labellings give."""
        slope, total = np.zeros(self.dim), 0.0
        for i, share, numbers in self.labellings_in(u):
            factors, offset = self.piece(i, self.from_numbers(i, numbers))
            factors.add_to(slope, share)
            total += share * offset
        return slope[np.newaxis], np.array([total])

    def labellings_in(self, u: Array) -> Iterator[tuple[int, float, Array]]:
        """Yield example, share and numbers of each labelling in a vector of convex combinations."""
        sizes = sizes_in(u, self.n_examples)
        for there, shares, _, numbers in unpack(u, sizes):
            parts = np.split(numbers, np.cumsum(sizes[there])[:-1])
            yield from zip(there.tolist(), shares.tolist(), parts, strict=True)
