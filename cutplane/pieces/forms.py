"""Standard forms of pieces of a problem, with their values, lines and cvxpy expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import eq, ge, le
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.pieces.lines import Line, absolute_line, quadratic_line
from cutplane.pieces.validation import Array


@dataclass(frozen=True)
class DiagonalQuadratic:
    """g(x) = 1/2 sum_j weights_j (x_j - centre_j)^2 + constant; weights >= 0 and centre of shape (dim,).

    The constant is >= 0; it is positive if forms with different centres were added.
    """

    weights: Array
    centre: Array
    constant: float = 0.0

    @cached_property
    def is_flat(self) -> bool:
        """Whether all weights are zero."""
        return not self.weights.any()

    @cached_property
    def is_strict(self) -> bool:
        """Whether all weights are positive."""
        return bool(self.weights.all())

    @cached_property
    def is_central(self) -> bool:
        """Whether the centre is the origin."""
        return not self.centre.any()

    def offset(self, x: Any) -> Any:
        """Return x - centre."""
        return x if self.is_central else x - self.centre

    def __call__(self, x: Array) -> float:
        """Return the value at x."""
        offset = self.offset(x)
        return 0.5 * float(self.weights * offset @ offset) + self.constant

    def gradient(self, x: Array) -> Array:
        """Return the gradient at x."""
        return self.weights * self.offset(x)

    def line(self, x0: Array, x1: Array) -> Line:
        slope, direction = self.gradient(x0), x1 - x0
        curvature = float(self.weights * direction @ direction)
        return quadratic_line(self(x0), float(slope @ direction), curvature)

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as a sum of squares, with the largest weight as a factor."""
        import cvxpy as cp

        if self.is_flat:
            return cp.Constant(self.constant)
        top, offset = float(self.weights.max()), self.offset(x)
        if (self.weights < top).any():
            offset = cp.multiply(np.sqrt(self.weights / top), offset)
        squares = 0.5 * top * cp.sum_squares(offset)
        return squares + self.constant if self.constant else squares

    def __add__(self, other: DiagonalQuadratic) -> DiagonalQuadratic:
        weights = self.weights + other.weights
        moments = self.weights * self.centre + other.weights * other.centre
        centre = np.divide(moments, weights, out=np.zeros_like(moments), where=weights > 0.0)
        return DiagonalQuadratic(weights, centre, self(centre) + other(centre))

    def on(self, mask: Array) -> DiagonalQuadratic:
        """Return the part of g in the given coordinates, with the constant."""
        return DiagonalQuadratic(self.weights[mask], self.centre[mask], self.constant)

    def in_unit(self, unit: float) -> DiagonalQuadratic:
        return DiagonalQuadratic(unit * unit * self.weights, self.centre / unit, self.constant)


@dataclass(frozen=True)
class SeparableForm:
    """g(x) = quadratic(x) + sum_j costs_j |x_j|, with costs of shape (dim,), >= 0."""

    quadratic: DiagonalQuadratic
    costs: Array

    @cached_property
    def is_smooth(self) -> bool:
        """Whether all costs are zero."""
        return not self.costs.any()

    def __call__(self, x: Array) -> float:
        """Return the value at x."""
        value = self.quadratic.constant if self.quadratic.is_flat else self.quadratic(x)
        return value if self.is_smooth else value + float(self.costs @ np.abs(x))

    def subgradient(self, x: Array) -> Array:
        """Return a subgradient, which is the gradient of the quadratic where x_j = 0."""
        if self.is_smooth:
            return self.quadratic.gradient(x)
        absolute = self.costs * np.sign(x)
        return absolute if self.quadratic.is_flat else absolute + self.quadratic.gradient(x)

    def line(self, x0: Array, x1: Array) -> Line:
        """Return t -> g(x0 + t (x1 - x0)); its kinks are the sign changes."""
        if self.is_smooth:
            return self.quadratic.line(x0, x1)
        absolute = absolute_line(self.costs, x0, x1)
        return absolute if self.quadratic.is_flat else absolute + self.quadratic.line(x0, x1)

    @cached_property
    def linear(self) -> LinearForm | None:
        """The linear form of g, with a variable t_j >= |x_j| for each positive cost; None if g is curved."""
        if not self.quadratic.is_flat:
            return None
        dim, paid = self.costs.size, np.flatnonzero(self.costs)
        if not paid.size:
            return bounds_only(np.full(dim, -np.inf), np.full(dim, np.inf))
        pairs = np.tile(np.column_stack([paid, dim + np.arange(paid.size)]), (2, 1))
        signs, zeros, infinite = np.ones(pairs.shape), np.zeros(paid.size), np.full(paid.size, np.inf)
        signs[: paid.size, 1] = -1.0
        rows = signs.ravel(), pairs.ravel(), np.arange(0, pairs.size + 1, 2)
        return LinearForm(
            cost=np.concatenate([np.zeros(dim), self.costs[paid]]),
            lower=np.concatenate([np.full(dim, -np.inf), zeros]),
            upper=np.full(dim + paid.size, np.inf),
            rows=sparse.csr_array(rows, shape=(len(pairs), dim + paid.size)),
            row_lower=np.concatenate([-infinite, zeros]),
            row_upper=np.concatenate([zeros, infinite]),
        )

    def cvxpy_form(self, x: Any) -> Any:
        """Return g as a sum of squares and an l1 norm."""
        import cvxpy as cp

        if self.is_smooth:
            return self.quadratic.cvxpy_form(x)
        top = float(self.costs.max())
        norm = top * cp.norm1(x if (self.costs == top).all() else cp.multiply(self.costs / top, x))
        return norm if self.quadratic.is_flat else norm + self.quadratic.cvxpy_form(x)

    def __add__(self, other: SeparableForm) -> SeparableForm:
        return SeparableForm(self.quadratic + other.quadratic, self.costs + other.costs)

    def in_unit(self, unit: float) -> SeparableForm:
        return SeparableForm(self.quadratic.in_unit(unit), unit * self.costs)


@dataclass(frozen=True)
class GroupedForm:
    """g(x) = sum_k costs_k ||x_k||_2, where x_k are the coordinates with label k; label -1 means no group."""

    labels: Array
    costs: Array

    def norms(self, x: Array) -> Array:
        """Return the norms of the groups."""
        labels = self.labels + 1
        return np.sqrt(np.bincount(labels, np.square(x), self.costs.size + 1)[1:])

    def __call__(self, x: Array) -> float:
        """Return the value at x."""
        return float(self.costs @ self.norms(x))


class ImageForm(NamedTuple):
    """A risk f(x) = h(M x) for cvxpy.

    Attributes
    ----------
    image : cvxpy.Expression
        M x.
    value : callable
        z -> h(z), where z is an expression of the image's shape.
    multipliers : callable or None
        (slope, x) -> the multipliers whose dual cut has this slope in z; the slope is a subgradient of h
        close to M x. None if the risk has no dual cuts.
    """

    image: Any
    value: Callable[[Any], Any]
    multipliers: Callable[[Array, Array], Array] | None


@dataclass(frozen=True)
class LinearForm:
    """min cost'u subject to row_lower <= rows u <= row_upper, lower <= u <= upper, with u = (x, auxiliaries).

    The value of a regularizer at x is the minimum of ``cost'u`` over the auxiliary variables. A set has zero
    costs.
    """

    cost: Array
    lower: Array
    upper: Array
    rows: sparse.csr_array
    row_lower: Array
    row_upper: Array

    @cached_property
    def sizes(self) -> sparse.csr_array:
        """The absolute values of the rows."""
        return abs(self.rows)

    @property
    def n_columns(self) -> int:
        """The dimension of x plus the number of auxiliary variables."""
        return self.cost.shape[0]

    @property
    def scale(self) -> float:
        """The largest finite bound; 0 if there is none."""
        sides = np.concatenate([self.lower, self.upper, self.row_lower, self.row_upper])
        return float(np.abs(sides[np.isfinite(sides)]).max(initial=0.0))

    def in_unit(self, unit: float) -> LinearForm:
        """Return the programme in u / unit; `unit` times its solution is a solution of this programme."""
        if unit == 1.0:
            return self
        return LinearForm(
            cost=unit * self.cost,
            lower=self.lower / unit,
            upper=self.upper / unit,
            rows=self.rows,
            row_lower=self.row_lower / unit,
            row_upper=self.row_upper / unit,
        )

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return the constraints on a cvxpy expression x, for a form without auxiliary variables."""

        def within(z: Any, lower: Array, upper: Array) -> list[Any]:
            equal = lower == upper
            rows = equal, ~equal & (lower > -np.inf), ~equal & (upper < np.inf)
            relations = (eq, lower), (ge, lower), (le, upper)
            return [
                relation(z if chosen.all() else z[np.flatnonzero(chosen)], side[chosen])
                for chosen, (relation, side) in zip(rows, relations, strict=True)
                if chosen.any()
            ]

        found, rows = within(x, self.lower, self.upper), self.row_lower.size
        return found + within(self.rows @ x, self.row_lower, self.row_upper) if rows else found

    def merge(self, other: LinearForm, dim: int) -> LinearForm:
        """Return the sum of the costs under the constraints of both forms, which share only x."""
        mine = self.n_columns - dim
        left: Any = self.rows
        right: Any = other.rows
        shifted = right.indices + np.where(right.indices < dim, 0, mine)
        rows = sparse.csr_array(
            (
                np.concatenate([left.data, right.data]),
                np.concatenate([left.indices, shifted]),
                np.concatenate([left.indptr, left.indptr[-1] + right.indptr[1:]]),
            ),
            shape=(left.shape[0] + right.shape[0], other.n_columns + mine),
        )
        return LinearForm(
            cost=np.concatenate([self.cost[:dim] + other.cost[:dim], self.cost[dim:], other.cost[dim:]]),
            lower=np.concatenate(
                [np.maximum(self.lower[:dim], other.lower[:dim]), self.lower[dim:], other.lower[dim:]]
            ),
            upper=np.concatenate(
                [np.minimum(self.upper[:dim], other.upper[:dim]), self.upper[dim:], other.upper[dim:]]
            ),
            rows=rows,
            row_lower=np.concatenate([self.row_lower, other.row_lower]),
            row_upper=np.concatenate([self.row_upper, other.row_upper]),
        )


class Programme(NamedTuple):
    """f(x) = constant + min over z of cost'u + 1/2 sum_j curvatures_j u_j^2, with u = (x, z).

    Attributes
    ----------
    linear : LinearForm
        The costs and the constraints, which do not bound x.
    curvatures : ndarray of shape (n_columns,)
        At least 0, and 0 for x.
    constant : float
    cut : callable
        (y, x) -> (multipliers, slope, offset), the cut of f for multipliers y of the rows near a solution x;
        y is positive at an active lower bound. `multipliers` is the argument of `Run.add_dual_cut`, or None
        if the slope is.
    """

    linear: LinearForm
    curvatures: Array
    constant: float
    cut: Callable[[Array, Array], tuple[Array | None, Array, float]]


class ProgrammeForm(NamedTuple):
    """A risk as a quadratic programme.

    Attributes
    ----------
    size : int
        The approximate number of nonzero entries.
    build : callable
        () -> the `Programme`.
    kinked : bool
        Whether the risk has kinks.
    rows : int
        The approximate number of rows.
    """

    size: int
    build: Callable[[], Programme]
    kinked: bool = False
    rows: int = 0


def bounded_sum(dim: int, least: float, most: float, upper: float | Array = np.inf) -> LinearForm:
    """Return the linear form of 0 <= x <= upper, least <= sum x <= most."""
    return LinearForm(
        cost=np.zeros(dim),
        lower=np.zeros(dim),
        upper=np.array(np.broadcast_to(upper, (dim,))),
        rows=sparse.csr_array(np.ones((1, dim))),
        row_lower=np.array([least]),
        row_upper=np.array([most]),
    )


@lru_cache(maxsize=32)
def _no_rows(dim: int) -> sparse.csr_array:
    """Return a matrix without rows, from a cache because scipy takes longer to build it than a box."""
    return sparse.csr_array((0, dim))


def bounds_only(lower: Array, upper: Array, cost: Array | None = None) -> LinearForm:
    """Return the linear form of lower <= x <= upper, with an optional cost."""
    dim = lower.shape[0]
    return LinearForm(
        cost=np.zeros(dim) if cost is None else cost,
        lower=lower,
        upper=upper,
        rows=_no_rows(dim),
        row_lower=np.empty(0),
        row_upper=np.empty(0),
    )
