"""The simplex, and the simplex with a cap on each coordinate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.forms import LinearForm, bounded_sum
from cutplane.pieces.latex import number
from cutplane.pieces.parameters import as_parameter, common_dim, set_fields, short_repr
from cutplane.pieces.validation import Array, as_positive
from cutplane.sets.base import AnyDimension, FeasibleSet
from cutplane.sets.box import Box
from cutplane.sets.projections import entropic_capped, fill, project_capped, project_simplex, softmax

if TYPE_CHECKING:
    from fractions import Fraction

    from cutplane.pieces.capabilities import ExactTerms


_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Simplex(AnyDimension):
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
        """Return the simplex capped by the sides; itself if they are beyond it."""
        if np.max(lower) > 0.0:
            return None
        if np.all(upper >= self.radius):
            return self
        return CappedSimplex(np.minimum(upper, 1.0), self.dim) if self.radius == 1.0 else None

    def formula(self, x: str = "x") -> str:
        """Return that x is in X, in LaTeX."""
        return rf"{x} \ge 0,\; \textstyle\sum_j {x}_j = {number(self.radius)}"

    def violation(self, x: Array) -> float:
        """Return the larger of max_j -x_j and |sum_j x_j - radius|."""
        return float(max(np.max(-x, initial=0.0), abs(np.sum(x) - self.radius)))

    def norm_ball(self) -> tuple[float, float]:
        """Return the radius and p of {x >= 0 : ||x||_p = radius}: p is 1."""
        return self.radius, 1.0

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection, by sorting: O(dim log dim)."""
        return project_simplex(x, self.radius)

    def minimise_linear(self, v: Array) -> Array:
        """Return the vertex of the least v_j."""
        vertex = np.zeros(v.shape[0])
        vertex[np.argmin(v)] = self.radius
        return vertex

    def minimise_entropy(self, v: Array, log_reference: Array) -> Array:
        """Return the minimiser of <v, x> + sum_j x_j (ln x_j - log_reference_j): a softmax."""
        return self.radius * softmax(log_reference - v)

    def linear_form(self, dim: int) -> LinearForm:
        """Return one equation."""
        return self._form if self.dim == dim else bounded_sum(dim, self.radius, self.radius)

    @cached_property
    def _form(self) -> LinearForm:
        assert self.dim is not None
        return bounded_sum(self.dim, self.radius, self.radius)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """State sides and sum; see `ExactTerms`."""
        found.within(0.0, self.radius)
        found.total(self.radius)

    def in_unit(self, unit: float) -> Simplex:
        """Return {u : unit * u is in the set}."""
        return replace(self, radius=self.radius / unit)

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return x >= 0 and sum x = radius."""
        return _cvxpy_sum(x, self.radius)


@dataclass(frozen=True, eq=False)
class CappedSimplex(AnyDimension):
    """{x : 0 <= x_j <= cap_j, sum_j x_j = 1}.

    With cap = 1 / nu, it holds the distributions that spread over at least nu coordinates.

    Parameters
    ----------
    cap : float or array_like of shape (dim,)
        Nonnegative and finite, with sum_j cap_j >= 1.
    dim : int, optional
        Dimension; by default that of `cap`, or any.

    Raises
    ------
    InvalidInputError
        If the caps sum to less than 1, so that the set is empty.

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
            if total < 1.0 - _ROUNDING:
                raise InvalidInputError(
                    f"The caps of CappedSimplex sum to {total:g} < 1: the set is empty; raise the caps."
                )
        set_fields(self, cap=cap, dim=dim)

    def meet_box(self, lower: Any, upper: Any) -> FeasibleSet | None:
        """Return the same set with the caps that are lower."""
        if np.max(lower) > 0.0:
            return None
        return self if np.all(upper >= self.cap) else CappedSimplex(np.minimum(upper, self.cap), self.dim)

    def formula(self, x: str = "x") -> str:
        """Return that x is in X, in LaTeX."""
        return rf"0 \le {x} \le {number(self.cap, 'u')},\; \textstyle\sum_j {x}_j = 1"

    def violation(self, x: Array) -> float:
        """Return the largest of max_j -x_j, max_j x_j - cap_j and |sum_j x_j - 1|."""
        outside = np.maximum(-x, x - self.cap).max(initial=0.0)
        return float(max(outside, abs(np.sum(x) - 1.0)))

    def project(self, x: Array) -> Array:
        """Return the Euclidean projection, by sorting the 2 dim breakpoints: O(dim log dim)."""
        return project_capped(x, self._caps(x.shape[0]))

    def minimise_linear(self, v: Array) -> Array:
        """Return the vertex that fills the caps in the order of increasing v_j."""
        return fill(v, self._caps(v.shape[0]))

    def minimise_entropy(self, v: Array, log_reference: Array) -> Array:
        """Return the minimiser of <v, x> + sum_j x_j (ln x_j - log_reference_j): sort, cap, rescale."""
        logits = log_reference - v
        return entropic_capped(logits, self.cap)

    def linear_form(self, dim: int) -> LinearForm:
        """Return the caps as bounds, and one equation."""
        return bounded_sum(dim, 1.0, 1.0, self.cap)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """State sides and sum; see `ExactTerms`."""
        found.within(0.0, self.cap)
        found.total(1.0)

    def in_unit(self, unit: float) -> FeasibleSet:
        """Return {u : unit * u is in the set}."""
        return Simplex(self.dim, 1.0 / unit) & Box(0.0, self.cap / unit, dim=self.dim)

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return 0 <= x <= cap and sum x = 1."""
        return [*_cvxpy_sum(x, 1.0), x <= self.cap]

    def _caps(self, dim: int) -> Array:
        return np.broadcast_to(self.cap, (dim,))


def _cvxpy_sum(x: Any, total: float) -> list[Any]:
    import cvxpy as cp

    return [x >= 0, cp.sum(x) == total]
