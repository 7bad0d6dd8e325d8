"""Boxes lower <= x <= upper, and the whole space."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.pieces.capabilities import Capability
from cutplane.pieces.forms import LinearForm, bounds_only
from cutplane.pieces.latex import number
from cutplane.pieces.parameters import as_parameter, brief, common_dim, read_only, set_fields, short_repr
from cutplane.pieces.validation import Array, as_positive
from cutplane.sets.base import LAST_BITS, FeasibleSet, LinearSet

if TYPE_CHECKING:
    from fractions import Fraction

    from cutplane.pieces.capabilities import ExactTerms


@dataclass(frozen=True, eq=False, repr=False)
class Box(LinearSet):
    """{x : lower <= x <= upper}, coordinate by coordinate.

    Parameters
    ----------
    lower, upper : float or array_like of shape (dim,)
        The bounds; ``-inf`` and ``inf`` mean no bound.
    dim : int, optional
        Dimension; by default the size of the vectors, or any if both bounds are numbers.

    Raises
    ------
    InvalidInputError
        If the box is empty; the message names the coordinate. A lower bound that exceeds the upper bound by a
        rounding error, such as ``0.1 + 0.2`` and ``0.3``, is set to the upper bound.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.sets import Box
    >>> box = Box(-1, [1, 2, np.inf])
    >>> box.project(np.array([-3, 3, 5])).tolist()
    [-1.0, 2.0, 5.0]
    >>> box.bounded
    False
    """

    lower: Any
    upper: Any
    dim: int | None = None

    def __post_init__(self) -> None:
        lower = as_parameter("Box.lower", self.lower, finite=False)
        upper = as_parameter("Box.upper", self.upper, finite=False)
        dim = common_dim("Box", self.dim, lower=lower, upper=upper)
        lower, upper = _met(lower, upper)
        empty = np.atleast_1d((lower > upper) | np.equal(lower, np.inf) | np.equal(upper, -np.inf))
        if empty.any():
            j = int(np.flatnonzero(empty)[0])
            low, high = (float(np.broadcast_to(side, empty.shape)[j]) for side in (lower, upper))
            raise InvalidInputError(f"The box is empty: lower[{j}] = {low!r}, upper[{j}] = {high!r}.")
        if dim is not None:
            lower, upper = (_filled(side, dim) for side in (lower, upper))
        set_fields(self, lower=lower, upper=upper, dim=dim)

    def __repr__(self) -> str:
        dim = "" if self.dim is None else f"dim={self.dim}"
        if np.all(self.lower == 0.0) and np.all(np.isposinf(self.upper)):
            return f"NonnegativeOrthant({dim})"
        return f"Box({brief(self.lower)}, {brief(self.upper)}{dim and ', ' + dim})"

    @cached_property
    def bounded(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether all bounds are finite."""
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """Linear minimisation, withheld if the box is unbounded."""
        return () if self.bounded else (Capability.LINEAR_MINIMISATION,)

    def meet(self, other: FeasibleSet) -> FeasibleSet | None:
        """Return the intersection with a set that implements `meet_box`, otherwise None."""
        return other.meet_box(self.lower, self.upper)

    def meet_box(self, lower: Any, upper: Any) -> Box:
        return Box(np.maximum(self.lower, lower), np.minimum(self.upper, upper), self.dim)

    def violation(self, x: Array) -> float:
        return float(np.maximum(self.lower - x, x - self.upper).max(initial=0.0))

    def project(self, x: Array) -> Array:
        return np.minimum(np.maximum(x, self.lower), self.upper)

    def minimise_linear(self, v: Array) -> Array:
        """Return the corner that minimises <v, x>; x_j is nearest to 0 where v_j = 0."""
        corner = box_corner(v, *self.bounds(v.shape[0]))
        if not np.isfinite(corner).all():
            raise MissingCapabilityError(
                f"{self!r} is unbounded in coordinate {int(np.flatnonzero(~np.isfinite(corner))[0])} "
                "in the direction of -v; intersect it with a bounded set."
            )
        return corner

    def formula(self, x: str = "x") -> str:
        return rf"{number(self.lower, 'l')} \le {x} \le {number(self.upper, 'u')}"

    def bounds(self, dim: int) -> tuple[Array, Array]:
        form = self.linear_form(dim)
        return form.lower, form.upper

    def form_of(self, dim: int) -> LinearForm:
        box = self.resolve(dim)
        return bounds_only(box.lower, box.upper)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        found.within(self.lower, self.upper)

    def in_unit(self, unit: float) -> Box:
        return replace(self, lower=self.lower / unit, upper=self.upper / unit)


def NonnegativeOrthant(dim: int | None = None) -> Box:
    """Return {x : x >= 0}.

    Parameters
    ----------
    dim : int, optional
        Dimension; by default the set fits any.

    Examples
    --------
    >>> from cutplane.sets import NonnegativeOrthant
    >>> NonnegativeOrthant(dim=4)
    NonnegativeOrthant(dim=4)
    """
    return Box(0.0, math.inf, dim)


def LinfBall(radius: float, centre: Any = None, dim: int | None = None) -> Box:
    """Return {x : max_j |x_j - centre_j| <= radius}, a `Box`.

    Parameters
    ----------
    radius : float
        Positive and finite.
    centre : array_like of shape (dim,), optional
        By default the origin.
    dim : int, optional
        Dimension; by default the size of `centre`, or any.

    Examples
    --------
    >>> from cutplane.sets import LinfBall
    >>> LinfBall(2, centre=[1, 1])
    Box(-1, 3, dim=2)
    """
    radius = as_positive("LinfBall.radius", radius)
    middle = 0.0 if centre is None else as_parameter("LinfBall.centre", centre)
    return Box(middle - radius, middle + radius, dim)


def box_corner(v: Array, lower: Array, upper: Array, rest: float | Array = 0.0) -> Array:
    """Return the minimiser of <v, x> over a box, with infinite entries where the box is unbounded.

    Where v_j = 0, every x_j is a minimiser, and the x_j nearest to `rest` is returned.
    """
    nearest = np.minimum(np.maximum(rest, lower), upper)
    return np.where(v > 0.0, lower, np.where(v < 0.0, upper, nearest))


def _met(lower: Any, upper: Any) -> tuple[Any, Any]:
    """Return the bounds; a lower bound that exceeds the upper bound by a rounding error is set to it."""
    if not np.any(lower > upper):
        return lower, upper
    with np.errstate(invalid="ignore"):
        crossed = (lower > upper) & (lower - upper <= LAST_BITS * (np.abs(lower) + np.abs(upper)))
    lower = np.where(crossed, upper, lower)
    return (lower if lower.ndim else float(lower)), upper


def _filled(side: float | Array, dim: int) -> Array:
    if isinstance(side, np.ndarray):
        return side
    vector = np.full(dim, side)
    vector.flags.writeable = False
    return vector


@dataclass(frozen=True, eq=False)
class WholeSpace(LinearSet):
    """R^dim, without constraints.

    Parameters
    ----------
    dim : int, optional
        Dimension; by default the set fits any.

    Examples
    --------
    >>> from cutplane.sets import Box, WholeSpace
    >>> WholeSpace() & Box(0, 1, dim=3)
    Box(0, 1, dim=3)
    """

    dim: int | None = None

    bounded = False
    __repr__ = short_repr

    def __post_init__(self) -> None:
        common_dim("WholeSpace", self.dim)

    def meet(self, other: FeasibleSet) -> FeasibleSet:
        return other

    def formula(self, x: str = "x") -> str:
        return ""

    def violation(self, x: Array) -> float:
        return 0.0

    def project(self, x: Array) -> Array:
        return x.copy()

    def bounds(self, dim: int) -> tuple[Array, Array]:
        form = _free(dim)
        return form.lower, form.upper

    def form_of(self, dim: int) -> LinearForm:
        return _free(dim)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """Add no constraint; see `ExactTerms`."""

    def in_unit(self, unit: float) -> WholeSpace:
        return self


@lru_cache(maxsize=8)
def _free(dim: int) -> LinearForm:
    """Return the linear form of R^dim, from a cache because several parts of every solve need it."""
    return bounds_only(read_only(np.full(dim, -np.inf)), read_only(np.full(dim, np.inf)))
