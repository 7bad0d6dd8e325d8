"""Norms, whose conjugate is that of the ball of the dual norm; the norm of the largest entry."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from cutplane.pieces.forms import LinearForm
from cutplane.pieces.latex import times
from cutplane.pieces.parameters import set_fields, short_repr
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import UNBOUNDED, Minimum, Regularizer, check_lam, minimise_linear, minimum
from cutplane.sets.base import is_whole_space

if TYPE_CHECKING:
    from cutplane.sets.base import FeasibleSet


class Norm(Regularizer):
    """g(x) = lam ||x||: a subclass gives the norm, a slope of it, and the dual norm."""

    @abstractmethod
    def norm(self, x: Array) -> float:
        """Return ||x||."""

    @abstractmethod
    def norm_slope(self, x: Array) -> Array:
        """Return a subgradient of the norm: s with <s, x> = ||x||, of dual norm at most 1."""

    @abstractmethod
    def dual_norm(self, v: Array) -> tuple[float, Array]:
        """Return max over ||a|| <= 1 of <v, a>, and an a that attains it."""

    def value(self, x: Array) -> float:
        """Return g(x)."""
        return self.lam * self.norm(x)

    def subgradient(self, x: Array) -> Array:
        """Return lam times a subgradient of the norm."""
        return self.lam * self.norm_slope(x)

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of g(x) + <v, x> over the whole space: 0 if the dual norm of v is at most lam.

        Else it is -inf, or, with a finite `budget`, attained where g is the budget.
        """
        if self.lam == 0.0:
            return minimise_linear(v, feasible_set)
        if not is_whole_space(feasible_set, v.shape[0]):
            return None
        dual, atom = self.dual_norm(v)
        if dual <= self.lam:
            return Minimum(0.0, np.zeros(v.shape[0]))
        if not math.isfinite(budget):
            return UNBOUNDED
        with np.errstate(all="ignore"):
            return minimum(budget * (1.0 - dual / self.lam), -budget / self.lam * atom)

    def in_unit(self, unit: float) -> Self:
        """Return u -> g(unit * u)."""
        return replace(self, lam=unit * self.lam)  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class LInf(Norm):
    """g(x) = lam max_j |x_j|.

    Parameters
    ----------
    lam : float, default 1.0
        Nonnegative and finite.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.LInf(0.5).value(np.array([3.0, -4.0]))
    2.0
    >>> cut.LInf(2.0).conjugate_minimiser(np.array([1.0, -0.5]), cut.WholeSpace()).value
    0.0
    """

    lam: float = 1.0

    __repr__ = short_repr

    def __post_init__(self) -> None:
        set_fields(self, lam=check_lam(self.lam))

    def formula(self, x: str = "x") -> str:
        """Return g(x) in LaTeX."""
        return times(self.lam, rf"\lVert {x} \rVert_\infty")

    def norm(self, x: Array) -> float:
        """Return the largest absolute entry."""
        return float(np.abs(x).max())

    def norm_slope(self, x: Array) -> Array:
        """Return the sign of the largest entry, in its place."""
        slope, j = np.zeros(x.shape[0]), np.argmax(np.abs(x))
        slope[j] = np.sign(x[j])
        return slope

    def dual_norm(self, v: Array) -> tuple[float, Array]:
        """Return the sum of the absolute entries, and their signs."""
        return float(np.abs(v).sum()), np.sign(v)

    def linear_form(self, dim: int) -> LinearForm:
        """Return one auxiliary t >= |x_j| for all j."""
        eye, ones = sparse.eye_array(dim, format="csr"), sparse.csr_array(np.ones((dim, 1)))
        return LinearForm(
            cost=np.append(np.zeros(dim), self.lam),
            lower=np.append(np.full(dim, -np.inf), 0.0),
            upper=np.full(dim + 1, np.inf),
            rows=sparse.csr_array(sparse.block_array([[eye, -ones], [eye, ones]])),
            row_lower=np.append(np.full(dim, -np.inf), np.zeros(dim)),
            row_upper=np.append(np.zeros(dim), np.full(dim, np.inf)),
        )

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as the norm of the largest entry."""
        import cvxpy as cp

        return self.lam * cp.norm_inf(x)
