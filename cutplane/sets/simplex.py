"""The simplex and the capped simplex, with exact minimisers that are stable for entries of any size.

A minimiser does not depend on a constant added to its argument. Therefore a constant is subtracted first,
such that the entries that determine the result are near zero, because huge entries would lose digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.forms import LinearForm, bounded_sum
from cutplane.pieces.latex import number
from cutplane.pieces.parameters import as_parameter, common_dim, set_fields, short_repr
from cutplane.pieces.validation import Array, as_positive
from cutplane.sets.base import FeasibleSet, LinearSet
from cutplane.sets.box import Box

if TYPE_CHECKING:
    from fractions import Fraction

    from cutplane.pieces.capabilities import ExactTerms

_SLACK = 1e-12
"""Largest difference of 1 and the sum of the caps that counts as a rounding error, because thousands of caps
may be added."""
_ROUNDING = 1e-15
"""Difference of a sum and 1 that counts as a rounding error, because it is a few ulps."""
_FAR = 100.0
"""Largest exponent relative to the pivot, because exp(100) times any number of coordinates is finite."""
_LEAST = 700.0
"""Largest negative exponent relative to the pivot, because exp(-700) is still a normal number."""
_LOWEST = -1e307
"""Least logit, because differences of logits must be finite."""
_TINY = 1e-300
"""Replaces a zero sum in a denominator, because the numerators are then zero, too."""


@dataclass(frozen=True, eq=False)
class Simplex(LinearSet):
    """{x : x >= 0, sum_j x_j = radius}.

    Parameters
    ----------
    dim : int, optional
        Dimension; by default the set fits any.
    radius : float, default 1.0
        Positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.sets import Simplex
    >>> Simplex(3).project(np.array([1.0, 0.5, -2.0])).tolist()
    [0.75, 0.25, 0.0]
    """

    dim: int | None = None
    radius: float = 1.0

    bounded = True
    nonnegative = True
    __repr__ = short_repr

    def __post_init__(self) -> None:
        common_dim("Simplex", self.dim)
        radius = as_positive("Simplex.radius", self.radius)
        object.__setattr__(self, "radius", radius)

    def meet_box(self, lower: Any, upper: Any) -> FeasibleSet | None:
        """Return the simplex with the upper bounds as caps, or itself if no bound is active."""
        if np.max(lower) > 0.0:
            return None
        if np.all(upper >= self.radius):
            return self
        return CappedSimplex(np.minimum(upper, 1.0), self.dim) if self.radius == 1.0 else None

    def formula(self, x: str = "x") -> str:
        return rf"{x} \ge 0,\; \textstyle\sum_j {x}_j = {number(self.radius)}"

    def violation(self, x: Array) -> float:
        return float(max(np.max(-x, initial=0.0), abs(np.sum(x) - self.radius)))

    def norm_ball(self) -> tuple[float, float]:
        return self.radius, 1.0

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection, by sorting: O(dim log dim)."""
        return project_simplex(x, self.radius)

    def minimise_linear(self, v: Array) -> Array:
        """Return the vertex of the smallest v_j."""
        vertex = np.zeros(v.shape[0])
        vertex[np.argmin(v)] = self.radius
        return vertex

    def minimise_entropy(self, v: Array, log_reference: Array) -> Array:
        """Return the minimiser of <v, x> + sum_j x_j (ln x_j - log_reference_j): a softmax."""
        return self.radius * softmax(log_reference - v)

    def form_of(self, dim: int) -> LinearForm:
        return bounded_sum(dim, self.radius, self.radius)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        found.within(0.0, self.radius)
        found.total(self.radius)

    def in_unit(self, unit: float) -> Simplex:
        return replace(self, radius=self.radius / unit)


@dataclass(frozen=True, eq=False)
class CappedSimplex(LinearSet):
    """{x : 0 <= x_j <= cap_j, sum_j x_j = 1}.

    With cap = 1 / nu, these are the probability distributions on at least nu coordinates.

    Parameters
    ----------
    cap : float or array_like of shape (dim,)
        Nonnegative and finite, with sum_j cap_j >= 1.
    dim : int, optional
        Dimension; by default the size of `cap`, or any.

    Raises
    ------
    InvalidInputError
        If the set is empty because the caps sum to less than 1.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.sets import CappedSimplex
    >>> CappedSimplex(0.5, dim=3).minimise_linear(np.array([3, 1, 2])).tolist()
    [0.0, 0.5, 0.5]
    """

    cap: Any
    dim: int | None = None

    bounded = True
    nonnegative = True
    __repr__ = short_repr

    def __post_init__(self) -> None:
        cap = as_parameter("CappedSimplex.cap", self.cap, low=0.0)
        dim = common_dim("CappedSimplex", self.dim, cap=cap)
        if dim is not None:
            total = float(np.sum(cap)) if isinstance(cap, np.ndarray) else cap * dim
            if total < 1.0 - _SLACK:
                raise InvalidInputError(
                    f"The caps of CappedSimplex sum to {total:g} < 1: the set is empty; raise the caps."
                )
        set_fields(self, cap=cap, dim=dim)

    def meet_box(self, lower: Any, upper: Any) -> FeasibleSet | None:
        """Return the set with the smaller of caps and upper bounds as caps."""
        if np.max(lower) > 0.0:
            return None
        return self if np.all(upper >= self.cap) else CappedSimplex(np.minimum(upper, self.cap), self.dim)

    def formula(self, x: str = "x") -> str:
        return rf"0 \le {x} \le {number(self.cap, 'u')},\; \textstyle\sum_j {x}_j = 1"

    def violation(self, x: Array) -> float:
        outside = np.maximum(-x, x - self.cap).max(initial=0.0)
        return float(max(outside, abs(np.sum(x) - 1.0)))

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection, by sorting 2 dim knots: O(dim log dim)."""
        return project_capped(x, self._caps(x.shape[0]))

    def minimise_linear(self, v: Array) -> Array:
        """Return the vertex that fills the caps in the order of increasing v_j."""
        return fill(v, self._caps(v.shape[0]))

    def minimise_entropy(self, v: Array, log_reference: Array) -> Array:
        """Return the minimiser of <v, x> + sum_j x_j (ln x_j - log_reference_j), by sorting."""
        return entropic_capped(log_reference - v, self.cap)

    def form_of(self, dim: int) -> LinearForm:
        return bounded_sum(dim, 1.0, 1.0, self.cap)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        found.within(0.0, self.cap)
        found.total(1.0)

    def in_unit(self, unit: float) -> FeasibleSet:
        return Simplex(self.dim, 1.0 / unit) & Box(0.0, self.cap / unit, dim=self.dim)

    def _caps(self, dim: int) -> Array:
        return np.broadcast_to(self.cap, (dim,))


def project_simplex(z: Array, radius: float) -> Array:
    """Return the Euclidean projection of z onto {x >= 0, sum x = radius}.

    References
    ----------
    Held, Wolfe and Crowder, Validation of subgradient optimization, Math. Programming 6 (1974),
    doi:10.1007/BF01580223.
    """
    shifted = z - z.max()
    descending = np.sort(shifted[shifted >= -radius])[::-1]
    excess = np.cumsum(descending) - radius
    count = np.arange(1, descending.size + 1)
    last = int(np.flatnonzero(descending * count > excess)[-1])
    return _corrected(shifted, excess[last] / count[last], np.inf, radius)


def project_capped(z: Array, caps: Array) -> Array:
    """Return the Euclidean projection of z onto {0 <= x <= caps, sum x = 1}.

    It is clip(z - theta, 0, caps). The sum of its entries is piecewise linear and decreasing in theta, with
    knots at z and z - caps.
    """
    if abs(z.sum() - 1.0) <= _ROUNDING and (z >= 0.0).all() and (z <= caps).all():
        return z.copy()
    caps = np.minimum(caps, 1.0)
    pivot = z[_order(-z, caps)[1]]
    shifted = np.clip(z - pivot, -2.0, 3.0)
    knots = np.concatenate([shifted, shifted - caps])
    order = np.argsort(-knots)
    free = np.cumsum(np.where(order < z.size, 1.0, -1.0))
    descending = knots[order]
    sums = np.concatenate([[0.0], np.cumsum(free[:-1] * -np.diff(descending))])
    right = int(np.searchsorted(sums, 1.0))
    if right == sums.size:
        return caps.copy()
    theta = descending[right] + (sums[right] - 1.0) / free[right - 1]
    return _corrected(shifted, theta, caps, 1.0)


def fill(v: Array, caps: Array) -> Array:
    """Return a minimiser of <v, x> over {0 <= x <= caps, sum x = 1}: the smallest v_j get their caps."""
    order, _, filled = _order(v, caps)
    x = np.empty(v.shape[0])
    x[order] = np.clip(1.0 - (filled - caps[order]), 0.0, caps[order])
    return x


def softmax(logits: Array) -> Array:
    """Return exp(logits) / sum exp(logits)."""
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def entropic_capped(logits: Array, caps: Array | float) -> Array:
    """Return the minimiser of sum_j x_j (ln x_j - logits_j) over {0 <= x <= caps, sum x = 1}.

    It is min(caps, exp(logits - theta)). In the order of decreasing logits - ln(caps), the first k
    coordinates are at their caps, and the others are a softmax of their logits times the remaining sum. k is
    the smallest number for which coordinate k + 1 is below its cap. For equal caps only the largest logits
    are sorted.
    """
    logits = np.maximum(logits, _LOWEST)
    if not isinstance(caps, np.ndarray):
        return _entropic_uniform(logits, caps)
    pivot = logits[_order(-logits, caps)[1]]
    shifted = np.minimum(logits - pivot, _FAR)
    weights = np.exp(np.maximum(shifted, -_LEAST))
    with np.errstate(divide="ignore"):
        order = np.argsort(np.log(caps) - shifted)
    sorted_caps = caps[order]
    remaining = 1.0 - np.concatenate([[0.0], np.cumsum(sorted_caps)[:-1]])
    tails = np.cumsum(weights[order][::-1])[::-1]
    fits = remaining * weights[order] <= sorted_caps * tails
    if not fits.any():
        return caps.copy()
    capped, rest = np.split(order, [int(np.argmax(fits))])
    x = np.empty_like(weights)
    x[capped] = caps[capped]
    x[rest] = max(1.0 - caps[capped].sum(), 0.0) * softmax(shifted[rest])
    return x


def _entropic_uniform(logits: Array, cap: float) -> Array:
    """Return `entropic_capped` for equal caps; at most the ceil(1 / cap) largest logits can be at the cap."""
    most = math.ceil(1.0 / cap) if cap * logits.size > 1.0 else logits.size
    parted = np.partition(logits, logits.size - most)
    pivot = parted[-most]
    largest = np.sort(parted[-most:])[::-1]
    shifted = logits - pivot
    weights = np.exp(np.clip(shifted, -_LEAST, _FAR))
    below = shifted < 0.0
    others = weights @ below + (logits.size - most - np.count_nonzero(below))
    heads = np.exp(np.minimum(largest - pivot, _FAR))
    tails = others + np.cumsum(heads[::-1])[::-1]
    fits = (1.0 - cap * np.arange(most)) * heads <= cap * tails
    count = int(np.argmax(fits)) if fits.any() else most
    if count == 0:
        return weights / weights.sum()
    capped = logits >= largest[count - 1]
    remaining = max(1.0 - cap * np.count_nonzero(capped), 0.0)
    if count == most:
        weights[~capped] = softmax(logits[~capped]) if not capped.all() else 1.0
    weights[capped] = 0.0
    weights *= remaining / max(weights.sum(), _TINY)
    weights[capped] = cap
    return np.minimum(weights, cap, out=weights)


def _order(v: Array, caps: Array) -> tuple[Array, int, Array]:
    """Return the order of increasing v, the position where the sums of caps reach 1, and these sums."""
    order = np.argsort(v, kind="stable")
    filled = np.cumsum(caps[order])
    last = min(int(np.searchsorted(filled, 1.0)), v.shape[0] - 1)
    return order, int(order[last]), filled


def _corrected(z: Array, theta: float, caps: Array | float, total: float) -> Array:
    """Return clip(z - theta, 0, caps) after a Newton step on theta, because theta has rounding errors."""
    x = np.clip(z - theta, 0.0, caps)
    free = (x > 0.0) & (x < caps)
    if free.any():
        x = np.clip(z - (theta + (x.sum() - total) / np.count_nonzero(free)), 0.0, caps)
    return x
