"""The l1 norm."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.pieces.forms import DiagonalQuadratic, LinearForm, SeparableForm
from cutplane.pieces.latex import times
from cutplane.pieces.lines import Line, PiecewiseLinear
from cutplane.pieces.parameters import as_optional_vector, set_fields, short_repr
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Minimum, Regularizer, check_fits, check_lam
from cutplane.regularizers.separable import minimise_absolute

if TYPE_CHECKING:
    from cutplane.pieces.capabilities import ExactTerms
    from cutplane.sets.base import FeasibleSet


@dataclass(frozen=True, eq=False)
class L1(Regularizer):
    """g(x) = lam sum_j weights_j |x_j|.

    Parameters
    ----------
    lam : float, default 1.0
        Nonnegative and finite.
    weights : array_like of shape (dim,), optional
        Nonnegative; by default all 1. A zero leaves a coordinate, such as a bias, unregularised.

    Raises
    ------
    InvalidInputError
        If `weights` do not have the dimension of the problem.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import L1
    >>> from cutplane.sets import WholeSpace
    >>> L1(0.5).value(np.array([3.0, -4.0]))
    3.5
    >>> L1(0.5).conjugate_minimiser(np.array([1.0, 0.2]), WholeSpace(), budget=3.0)
    Minimum(value=-3.0, x=array([-6.,  0.]))
    """

    lam: float = 1.0
    weights: Any = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        set_fields(
            self, lam=check_lam(self.lam), weights=as_optional_vector("L1.weights", self.weights, low=0.0)
        )

    def formula(self, x: str = "x") -> str:
        """Return g(x) in LaTeX."""
        norm = rf"\lVert {x} \rVert_1" if self.weights is None else rf"\textstyle\sum_j w_j |({x})_j|"
        return times(self.lam, norm)

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if `weights` do not have shape (dim,)."""
        check_fits("L1.weights", self.weights, dim)

    @property
    def dim(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the weights."""
        return None if self.weights is None else self.weights.size

    def value(self, x: Array) -> float:
        """Return g(x)."""
        return float(self._costs(x.shape[0]) @ np.abs(x))

    def subgradient(self, x: Array) -> Array:
        """Return lam weights_j sign(x_j), which is 0 at 0."""
        return self._costs(x.shape[0]) * np.sign(x)

    def line(self, x0: Array, x1: Array) -> Line:
        """Return a piecewise linear function with its kinks: the sign changes."""
        return absolute_line(self._costs(x0.shape[0]), x0, x1)

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of g(x) + <v, x> over a box or a nonnegative set, or a lower bound of it.

        Where the box is open on the side to which x_j escapes, the minimum is -inf, unless `budget` is
        finite: g <= budget then keeps those coordinates in a ball of the l1 norm.
        """
        return minimise_absolute(self._costs(v.shape[0]), v, feasible_set, budget)

    def unregularized(self, dim: int) -> Array:
        """Return the coordinates without weight."""
        return self._costs(dim) == 0.0

    def separable_form(self, dim: int) -> SeparableForm:
        """Return the costs, and no quadratic."""
        return SeparableForm(DiagonalQuadratic(np.zeros(dim), np.zeros(dim)), self._costs(dim))

    def linear_form(self, dim: int) -> LinearForm:
        """Return one auxiliary t_j >= |x_j| for each coordinate with a positive weight."""
        if dim not in self._forms:
            self._forms[dim] = self._linear_form(dim)
        return self._forms[dim]

    @cached_property
    def _forms(self) -> dict[int, LinearForm]:
        """The linear forms by dimension: several masters ask for it."""
        return {}

    def _linear_form(self, dim: int) -> LinearForm:
        costs = self._costs(dim)
        paid = np.flatnonzero(costs)
        pairs = np.tile(np.column_stack([paid, dim + np.arange(paid.size)]), (2, 1))
        signs = np.ones(pairs.shape)
        signs[: paid.size, 1] = -1.0
        rows = signs.ravel(), pairs.ravel(), np.arange(0, pairs.size + 1, 2)
        return LinearForm(
            cost=np.concatenate([np.zeros(dim), costs[paid]]),
            lower=np.concatenate([np.full(dim, -np.inf), np.zeros(paid.size)]),
            upper=np.full(dim + paid.size, np.inf),
            rows=sparse.csr_array(rows, shape=(len(pairs), dim + paid.size)),
            row_lower=np.concatenate([np.full(paid.size, -np.inf), np.zeros(paid.size)]),
            row_upper=np.concatenate([np.zeros(paid.size), np.full(paid.size, np.inf)]),
        )

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """State the costs; see `ExactTerms`."""
        found.costs(self.weights, factor * Fraction(self.lam))

    def in_unit(self, unit: float) -> L1:
        """Return u -> g(unit * u)."""
        return replace(self, lam=unit * self.lam)

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as a weighted l1 norm."""
        import cvxpy as cp

        return self.lam * cp.norm1(x if self.weights is None else cp.multiply(self.weights, x))

    def _costs(self, dim: int) -> Array:
        return np.full(dim, self.lam) if self.weights is None else self.lam * self.weights


def absolute_line(costs: Array, x0: Array, x1: Array) -> Line:
    """Return t -> sum_j costs_j |x0_j + t (x1_j - x0_j)|; the kinks are where a term changes its sign."""
    direction = x1 - x0
    moving = np.flatnonzero((direction != 0.0) & (costs != 0.0))
    rates = costs[moving] * np.abs(direction[moving])
    with np.errstate(over="ignore"):
        kinks = -x0[moving] / direction[moving]
    ahead = (kinks > 0.0) & (kinks < np.inf)

    def evaluate(t: float) -> tuple[float, float]:
        return float(costs @ np.abs(x0 + t * direction)), float(rates @ np.where(t >= kinks, 1.0, -1.0))

    derivative = PiecewiseLinear(evaluate(0.0)[1], 0.0, kinks[ahead], 2.0 * rates[ahead])
    return Line(evaluate, derivative=derivative)
