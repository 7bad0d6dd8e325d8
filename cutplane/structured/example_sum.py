"""Risks that are sums over examples of a maximum over labellings."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.risks.base import Risk
from cutplane.structured.features import Factors


class ExampleSum(Risk):
    """f(w) = sum_i max over labellings y of <a_i(y), w> + b_i(y).

    A subclass says how many examples there are and implements `decode` and `piece`; the oracle follows.

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
    >>> Distance()(np.array([3.0, 0.0]))
    3.0
    """

    n_examples: int

    @abstractmethod
    def decode(self, w: Array, i: int) -> Any:
        """Return a labelling of example i that attains the maximum at w."""

    @abstractmethod
    def piece(self, i: int, y: Any) -> tuple[Factors, float]:
        """Return the slope a_i(y), as `Factors`, and the offset b_i(y)."""

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
