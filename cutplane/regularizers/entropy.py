"""Entropies, the regularizers of probability distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.pieces.capabilities import Capability, ability
from cutplane.pieces.latex import times
from cutplane.pieces.parameters import as_parameter, set_fields, short_repr
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import (
    UNBOUNDED,
    Minimum,
    Regularizer,
    check_lam,
    minimise_linear,
    minimum,
)
from cutplane.sets.box import Box, NonnegativeOrthant

if TYPE_CHECKING:
    from cutplane.sets.base import FeasibleSet

_TINY = float(np.finfo(np.float64).tiny)
"""Replaces zero in logarithms, because x ln x is then 0 up to rounding."""


class _Entropy(Regularizer):
    """lam sum_j x_j ln(x_j / reference_j) for x >= 0, else inf; 0 ln 0 = 0."""

    domain = NonnegativeOrthant()
    reference: Any

    @property
    def _log_reference(self) -> Any:
        return np.log(self.reference)

    def log_reference(self, dim: int) -> Array:
        return np.broadcast_to(self._log_reference, (dim,))

    def in_unit(self, unit: float) -> RelativeEntropy:
        return RelativeEntropy(self.reference / unit, unit * self.lam)

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp
        from cvxpy.transforms.indicator import indicator

        if self.lam == 0.0:
            return indicator([x >= 0])
        return -self.lam * (cp.sum(cp.entr(x)) + self.log_reference(x.size) @ x)

    def value(self, x: Array) -> float:
        if (x < 0.0).any():
            return math.inf
        return self.lam * float(x @ self._logarithms(x))

    def subgradient(self, x: Array) -> Array:
        return self.lam * (self._logarithms(x) + 1.0)

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum and the minimiser of g(x) + <v, x> over a box, a simplex or a capped simplex."""
        bounds = feasible_set.bounds(v.shape[0])
        if bounds is not None:
            lower, upper = np.maximum(bounds[0], 0.0), bounds[1]
            return self._over_box(v, lower, upper) if (upper >= 0.0).all() else Minimum(math.inf, None)
        minimise = ability(feasible_set, Capability.ENTROPIC_MINIMISATION)
        if minimise is None:
            return None
        if self.lam == 0.0:
            return minimise_linear(v, feasible_set)
        with np.errstate(over="ignore"):
            scaled = v / self.lam
        if not np.isfinite(scaled).all():
            return UNBOUNDED
        x = minimise(scaled, np.broadcast_to(self._log_reference, v.shape))
        return minimum(x @ (self.lam * self._logarithms(x) + v), x)

    def _over_box(self, v: Array, lower: Array, upper: Array) -> Minimum | None:
        if self.lam == 0.0:
            return minimise_linear(v, Box(lower, upper))
        with np.errstate(over="ignore"):
            free = np.exp(self._log_reference - v / self.lam - 1.0)
        x = np.clip(free, lower, upper)
        if not np.isfinite(x).all():
            return UNBOUNDED
        terms = np.where(x == free, -self.lam * x, x * (self.lam * self._logarithms(x) + v))
        return minimum(terms.sum(), x)

    def _logarithms(self, x: Array) -> Array:
        return np.log(np.maximum(x, _TINY)) - self._log_reference


@dataclass(frozen=True, eq=False)
class NegativeEntropy(_Entropy):
    """g(x) = lam sum_j x_j ln x_j for x >= 0, else inf; 0 ln 0 = 0.

    Parameters
    ----------
    lam : float, default 1.0
        Nonnegative and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import NegativeEntropy
    >>> from cutplane.sets import Simplex
    >>> minimum = NegativeEntropy().conjugate_minimiser(np.log([1.0, 2.0]), Simplex())
    >>> round(minimum.value, 6), minimum.x.round(6).tolist()
    (-0.405465, [0.666667, 0.333333])
    """

    lam: float = 1.0

    reference = 1.0
    __repr__ = short_repr

    def formula(self, x: str = "x") -> str:
        return times(self.lam, rf"\textstyle\sum_j {x}_j \ln {x}_j")

    def __post_init__(self) -> None:
        object.__setattr__(self, "lam", check_lam(self.lam))


@dataclass(frozen=True, eq=False)
class RelativeEntropy(_Entropy):
    """g(x) = lam sum_j x_j ln(x_j / reference_j) for x >= 0, else inf; 0 ln 0 = 0.

    Parameters
    ----------
    reference : float or array_like of shape (dim,)
        Positive; the sum may be any. A number means a constant vector.
    lam : float, default 1.0
        Nonnegative and finite.

    Raises
    ------
    InvalidInputError
        If an entry of `reference` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import RelativeEntropy
    >>> from cutplane.sets import CappedSimplex
    >>> entropy = RelativeEntropy([0.5, 0.25, 0.25])
    >>> entropy.conjugate_minimiser(np.zeros(3), CappedSimplex(0.4)).x.round(6).tolist()
    [0.4, 0.3, 0.3]
    """

    reference: Any
    lam: float = 1.0

    __repr__ = short_repr

    def formula(self, x: str = "x") -> str:
        return times(self.lam, rf"\textstyle\sum_j {x}_j \ln \frac{{{x}_j}}{{r_j}}")

    def __post_init__(self) -> None:
        reference = as_parameter("RelativeEntropy.reference", self.reference, low=0.0, low_open=True)
        dim = reference.size if isinstance(reference, np.ndarray) else None
        set_fields(self, reference=reference, lam=check_lam(self.lam), dim=dim)
