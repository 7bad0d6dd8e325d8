"""A risk and a regularizer together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutplane.pieces.linear_maps import enclosed
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Regularizer
from cutplane.risks.base import Risk


@dataclass(frozen=True, eq=False, repr=False)
class CompositeObjective:
    """f(x) + g(x), a risk plus a regularizer: what `Problem` minimises; written ``risk + regularizer``.

    More risks and regularizers are added to it as to either of them.

    Parameters
    ----------
    risk : Risk
    regularizer : Regularizer

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> lasso = cut.LinearRisk(np.eye(2), [3.0, -1.0], cut.losses.Squared(), normalize=False) + cut.L1(1.0)
    >>> result = cut.Problem(lasso).solve(tol=1e-9)
    >>> print(result.x.round(6) + 0.0, lasso(np.zeros(2)))
    [2. 0.] 5.0
    """

    risk: Risk
    regularizer: Regularizer
    __array_ufunc__ = None  # numpy leaves its operators to ours

    def __repr__(self) -> str:
        return f"{self.risk!r} + {self.regularizer!r}"

    def __call__(self, x: Array) -> float:
        """Return f(x) + g(x)."""
        return self.risk(x) + self.regularizer.value(x)

    def __add__(self, other: Any) -> CompositeObjective:
        if isinstance(other, CompositeObjective):
            return self + other.risk + other.regularizer
        if isinstance(other, Risk):
            return CompositeObjective(self.risk + other, self.regularizer)
        if isinstance(other, Regularizer):
            return CompositeObjective(self.risk, self.regularizer + other)
        return NotImplemented

    def __radd__(self, other: Any) -> CompositeObjective:
        return self if isinstance(other, int) and other == 0 else self.__add__(other)

    def __rmul__(self, factor: Any) -> CompositeObjective:
        return CompositeObjective(factor * self.risk, factor * self.regularizer)

    __mul__ = __rmul__

    def __matmul__(self, matrix: Any) -> CompositeObjective:
        return CompositeObjective(self.risk @ matrix, self.regularizer @ matrix)

    def __rmatmul__(self, matrix: Any) -> CompositeObjective:
        raise TypeError(f"The function of an image B x is written f @ B, as in {enclosed(self)} @ B.")
