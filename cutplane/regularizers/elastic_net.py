"""The sum of the l1 norm and the squared Euclidean norm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from cutplane.pieces.parameters import short_repr
from cutplane.pieces.validation import as_scalar
from cutplane.regularizers.base import Regularizer, check_lam
from cutplane.regularizers.combination import Combination
from cutplane.regularizers.l1 import L1
from cutplane.regularizers.l2 import L2

if TYPE_CHECKING:
    from cutplane.pieces.capabilities import ExactTerms


@dataclass(frozen=True, eq=False)
class ElasticNet(Combination):
    """g(x) = lam (l1_ratio ||x||_1 + (1 - l1_ratio)/2 ||x||_2^2).

    Parameters
    ----------
    lam : float, default 1.0
        Nonnegative and finite.
    l1_ratio : float, default 0.5
        In [0, 1]; 1 is `L1`, 0 is `L2`.

    References
    ----------
    Zou and Hastie, Regularization and variable selection via the elastic net, J. R. Stat. Soc. B 67 (2005),
    doi:10.1111/j.1467-9868.2005.00503.x.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import ElasticNet
    >>> from cutplane.sets import WholeSpace
    >>> ElasticNet(2.0).conjugate_minimiser(np.array([3.0, -0.5]), WholeSpace())
    Minimum(value=-2.0, x=array([-2.,  0.]))
    >>> ElasticNet(2.0).summands
    (L1(lam=1), L2(lam=1))
    """

    lam: float = 1.0
    l1_ratio: float = 0.5

    __repr__ = short_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", check_lam(self.lam))
        object.__setattr__(
            self, "l1_ratio", as_scalar("ElasticNet.l1_ratio", self.l1_ratio, low=0.0, high=1.0)
        )

    @cached_property
    def summands(self) -> tuple[Regularizer, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The two parts."""
        return L1(self.lam * self.l1_ratio), L2(self.lam * (1.0 - self.l1_ratio))

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """State costs and quadratic; see `ExactTerms`."""
        factor, share = factor * Fraction(self.lam), Fraction(self.l1_ratio)
        found.costs(None, factor * share)
        found.quadratic(None, None, factor * (1 - share))

    def in_unit(self, unit: float) -> ElasticNet:
        """Return u -> g(unit * u)."""
        absolute = self.l1_ratio + unit * (1.0 - self.l1_ratio)
        return replace(self, lam=unit * absolute * self.lam, l1_ratio=self.l1_ratio / absolute)
