"""The sum of the l1 norm and the squared Euclidean norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.pieces.forms import DiagonalQuadratic, LinearForm, SeparableForm
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import short_repr
from cutplane.pieces.validation import Array, as_scalar
from cutplane.regularizers.base import Minimum, Regularizer, check_lam, minimum
from cutplane.regularizers.l1 import L1
from cutplane.regularizers.l2 import L2

if TYPE_CHECKING:
    from cutplane.sets.base import FeasibleSet


@dataclass(frozen=True, eq=False)
class ElasticNet(Regularizer):
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
    """

    lam: float = 1.0
    l1_ratio: float = 0.5

    __repr__ = short_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", check_lam(self.lam))
        object.__setattr__(
            self, "l1_ratio", as_scalar("ElasticNet.l1_ratio", self.l1_ratio, low=0.0, high=1.0)
        )

    @property
    def _l1(self) -> L1:
        return L1(self.lam * self.l1_ratio)

    @property
    def _l2(self) -> L2:
        return L2(self.lam * (1.0 - self.l1_ratio))

    def value(self, x: Array) -> float:
        """Return g(x)."""
        return self._l1.value(x) + self._l2.value(x)

    def subgradient(self, x: Array) -> Array:
        """Return a subgradient whose l1 part is 0 at 0."""
        return self._l1.subgradient(x) + self._l2.subgradient(x)

    def line(self, x0: Array, x1: Array) -> Line:
        """Return a piecewise quadratic function with its kinks: the sign changes."""
        return self._l1.line(x0, x1) + self._l2.line(x0, x1)

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of g(x) + <v, x> over a box: soft thresholding, clipped."""
        absolute, curvature = self._l1.lam, self._l2.lam
        if curvature == 0.0:
            return self._l1.conjugate_minimiser(v, feasible_set, budget)
        if absolute == 0.0:
            return self._l2.conjugate_minimiser(v, feasible_set, budget)
        bounds = feasible_set.bounds(v.shape[0])
        if bounds is None:
            return None
        with np.errstate(all="ignore"):
            free = -np.sign(v) * np.maximum(np.abs(v) - absolute, 0.0) / curvature
            x = np.clip(free, *bounds)
            return minimum(v @ x + absolute * np.abs(x).sum() + 0.5 * curvature * (x @ x), x)

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        """Return the quadratic form if there is no l1 part."""
        return self._l2.quadratic(dim) if self._l1.lam == 0.0 else None

    def separable_form(self, dim: int) -> SeparableForm:
        """Return both parts."""
        return SeparableForm(self._l2.quadratic(dim), self._l1.separable_form(dim).costs)

    def linear_form(self, dim: int) -> LinearForm | None:
        """Return the linear form if there is no quadratic part."""
        return self._l1.linear_form(dim) if self._l2.lam == 0.0 else None

    def in_unit(self, unit: float) -> ElasticNet:
        """Return u -> g(unit * u)."""
        absolute = self.l1_ratio + unit * (1.0 - self.l1_ratio)
        return replace(self, lam=unit * absolute * self.lam, l1_ratio=self.l1_ratio / absolute)

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as the sum of its two parts."""
        return self._l1.cvxpy_form(x) + self._l2.cvxpy_form(x)
