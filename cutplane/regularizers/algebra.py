"""Sums and linear images of regularizers, regularizers of some coordinates, and penalties of differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial, reduce
from operator import add, and_
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError, MissingCapabilityError
from cutplane.pieces.algebra import Composed, common_domain, enclosed, not_offered
from cutplane.pieces.capabilities import Capability, ability, ask, offers
from cutplane.pieces.cvxpy_tools import common_variables
from cutplane.pieces.forms import DiagonalQuadratic, GroupedForm, LinearForm, SeparableForm
from cutplane.pieces.linear_maps import LinearMap, Selection, as_linear_map
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_count
from cutplane.regularizers.base import (
    Minimum,
    Regularizer,
    check_lam,
    has_slope,
    joined,
    minimise_linear,
    minimise_separable,
    separable_form_of,
    unregularized_by,
)
from cutplane.regularizers.separable import L1, NoRegularizer
from cutplane.sets.box import Box

if TYPE_CHECKING:
    from cutplane.pieces.capabilities import ExactTerms
    from cutplane.sets.base import FeasibleSet

Closed = Callable[[Array, "FeasibleSet", float], Minimum | None]
"""A function (v, feasible_set, budget) -> the minimum, by a closed form of the conjugate."""

_OF_ALL = Capability.SUBGRADIENT, Capability.LINEAR_FORM, Capability.CVXPY, Capability.UNIT
_SEPARABLE = Capability.SEPARABLE, Capability.QUADRATIC


@dataclass(frozen=True, eq=False, repr=False)
class RegularizerSum(Regularizer):
    """g(x) = lam sum_j g_j(x); written ``L1(0.1) + L2(0.1)``.

    Its `lam` is a factor of all terms, so that `Problem.path` keeps their proportions. A sum of diagonal
    quadratics and l1 norms, of all or some coordinates, has the same closed forms as `ElasticNet`.

    Parameters
    ----------
    terms : tuple of Regularizer
        The g_j; the operator ``+`` replaces a sum by its terms.
    lam : float, default 1.0
        Nonnegative and finite.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> g = cut.L1(0.5) + 0.1 * cut.L2(2.0)
    >>> g
    L1(lam=0.5) + L2(lam=0.2)
    >>> g.value(np.array([1.0, -1.0])), (10 * g).value(np.array([1.0, -1.0]))
    (1.2, 12.0)
    """

    terms: tuple[Regularizer, ...]
    lam: float = 1.0

    def __post_init__(self) -> None:
        terms = tuple(self.terms)
        if not terms or not all(isinstance(term, Regularizer) for term in terms):
            raise InvalidInputError(f"RegularizerSum.terms must be regularizers, got {self.terms!r}.")
        lam = check_lam(self.lam) if any(term.lam > 0.0 for term in terms) else 0.0
        dim = next((term.dim for term in terms if term.dim is not None), None)
        set_fields(self, terms=terms, lam=lam, dim=dim, cvxpy_variables=common_variables(terms))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.summands))

    def formula(self, x: str = "x") -> str:
        return " + ".join(filter(None, (term.formula(x) for term in self.summands)))

    @cached_property
    def summands(self) -> tuple[Regularizer, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.terms if self.lam == 1.0 else tuple(self.lam * term for term in self.terms)

    @cached_property
    def _terms(self) -> tuple[Any, ...]:
        return tuple(term for term in self.summands if term.lam > 0.0) or (NoRegularizer(),)

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that are missing because a term does not have them."""
        missing = not_offered(self._terms, _OF_ALL)
        if not all(map(has_slope, self._terms)):
            missing += (Capability.LINE,)
        others = [term for term in self._terms if not any(offers(term, kind) for kind in _SEPARABLE)]
        if others:
            missing += _SEPARABLE
        return missing + not_offered(others, [Capability.CONJUGATE])

    @property
    def domain(self) -> FeasibleSet | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The intersection of the domains of the terms."""
        return common_domain(self._terms)

    def check_dim(self, dim: int) -> None:
        for term in self.summands:
            term.check_dim(dim)

    def resolve(self, dim: int) -> Regularizer:
        terms = tuple(term.resolve(dim) for term in self.terms)
        same = all(new is old for new, old in zip(terms, self.terms, strict=True))
        return self if same else replace(self, terms=terms)

    def value(self, x: Array) -> float:
        return sum(term.value(x) for term in self._terms)

    def subgradient(self, x: Array) -> Array:
        return reduce(add, [term.subgradient(x) for term in self._terms])

    def line(self, x0: Array, x1: Array) -> Line:
        return reduce(add, [term.line(x0, x1) for term in self._terms])

    def separable_form(self, dim: int) -> SeparableForm | None:
        form, others = self._parts(dim)
        return None if others else form

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        form = self.separable_form(dim)
        return None if form is None or not form.is_smooth else form.quadratic

    def unregularized(self, dim: int) -> Array:
        masks = [unregularized_by(term, dim) for term in self._terms]
        return reduce(and_, [np.zeros(dim, dtype=bool) if mask is None else mask for mask in masks])

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum of g(x) + <v, x> in closed form, or None.

        The separable terms form one separable function. If there are other terms, all these functions must
        depend on disjoint sets of coordinates, and the feasible set must be a box.
        """
        form, others = self._parts(v.shape[0])
        if form is not None and not others:
            return minimise_separable(form, v, feasible_set, budget)
        if form is None and len(others) == 1:
            return others[0][1](v, feasible_set, budget)
        parts = others
        if form is not None:
            used = (form.costs > 0.0) | (form.quadratic.weights > 0.0)
            parts = [(used, partial(minimise_separable, form)), *others]
        return _minimise_apart(parts, v, feasible_set, budget)

    def linear_form(self, dim: int) -> LinearForm | None:
        forms = [ask(term, Capability.LINEAR_FORM, dim) for term in self._terms]
        return None if None in forms else reduce(lambda one, other: one.merge(other, dim), forms)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        for term in self.terms:
            found.add(term, factor * Fraction(self.lam))

    def in_unit(self, unit: float) -> Regularizer:
        return RegularizerSum(tuple(term.in_unit(unit) for term in self._terms))

    def cvxpy_form(self, x: Any) -> Any:
        return reduce(add, [term.cvxpy_form(x) for term in self._terms])

    @cached_property
    def _parts_by_dim(self) -> dict[int, tuple[SeparableForm | None, list[tuple[Array, Closed]]]]:
        return {}

    def _parts(self, dim: int) -> tuple[SeparableForm | None, list[tuple[Array, Closed]]]:
        """Return the sum of the separable terms, and (coordinates, closed form) for each other term."""
        if dim not in self._parts_by_dim:
            separable, others = [], []
            for term in self._terms:
                if (form := separable_form_of(term, dim)) is not None:
                    separable.append(form)
                else:
                    free = unregularized_by(term, dim)
                    used = np.ones(dim, dtype=bool) if free is None else ~free
                    others.append((used, ability(term, Capability.CONJUGATE)))
            self._parts_by_dim[dim] = reduce(add, separable) if separable else None, others
        return self._parts_by_dim[dim]


def _minimise_apart(
    parts: list[tuple[Array, Closed]], v: Array, feasible_set: FeasibleSet, budget: float
) -> Minimum | None:
    """Return the minimum over a box of a sum of functions of disjoint coordinates, plus <v, x>.

    If it is -inf, the minimum is computed again with a budget for each function: the whole budget minus the
    infima of the other functions.
    """
    bounds, counts = feasible_set.bounds(v.size), np.sum([used for used, _ in parts], axis=0)
    if bounds is None or (counts > 1).any():
        return None
    rest = counts == 0
    linear = minimise_linear(v[rest], Box(bounds[0][rest], bounds[1][rest])) if rest.any() else None

    def least(budgets: list[float]) -> Minimum | None:
        found: list[tuple[Array, Minimum | None]] = [(rest, linear)] if rest.any() else []
        for (used, minimise), most in zip(parts, budgets, strict=True):
            part = minimise(np.where(used, v, 0.0), feasible_set, most)
            if part is not None and part.x is not None:
                part = Minimum(part.value, part.x[used])
            found.append((used, part))
        return joined(found, v.size)

    minimum = least([math.inf] * len(parts))
    if minimum is None or minimum.value > -math.inf or not math.isfinite(budget):
        return minimum
    floors = [minimise(np.zeros_like(v), feasible_set, math.inf) for _, minimise in parts]
    values = [-math.inf if floor is None else floor.value for floor in floors]
    return least([budget - sum(values[:k] + values[k + 1 :]) for k in range(len(parts))])


@dataclass(frozen=True, eq=False, repr=False)
class LinearImage(Composed, Regularizer):
    """g(x) = h(D x); written ``L1(2.0) @ D``.

    Because the conjugate has no closed form, bounds are computed by a linear programme if h has a linear form
    (for example `L1`), otherwise by a conic solver.

    Parameters
    ----------
    regularizer : Regularizer
        h. Its `lam` is the `lam` of g.
    matrix : array_like, scipy sparse matrix or array, or LinearOperator, of shape (any, dim)
        D. A sparse matrix remains sparse. A `LinearOperator` needs ``rmatvec``; masters use its matrix.

    Raises
    ------
    InvalidInputError
        If D is not a matrix of finite numbers, or the dimension of h is not the number of rows of D.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> variation = cut.L1(2.0) @ np.diff(np.eye(4), axis=0)
    >>> variation
    L1(lam=2) @ <3x4 matrix>
    >>> variation.value(np.array([1.0, 1.0, 3.0, 2.0]))
    6.0
    """

    passed_on = _OF_ALL
    regularizer: Any
    matrix: Any

    def __post_init__(self) -> None:
        h, image = self.regularizer, self.matrix
        if not isinstance(image, LinearMap):
            image = as_linear_map(enclosed(h), image, h.dim)
        self._set(h, image)

    def _set(self, h: Regularizer, image: LinearMap) -> None:
        h = h if image.open else h.resolve(image.shape[0])
        dim = None if image.open else image.shape[1]
        set_fields(self, regularizer=h, matrix=image, inner=h, map=image, dim=dim)

    def _with(self, h: Regularizer) -> Any:
        return type(self)(h, self.map)

    def formula(self, x: str = "x") -> str:
        return self.inner.formula(f"D {x}")

    @property
    def lam(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The weight of h."""
        return self.inner.lam

    @cached_property
    def withheld(self) -> tuple[Capability, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        missing = not_offered([self.inner], self.passed_on)
        return missing if has_slope(self.inner) else (*missing, Capability.LINE)

    def check_dim(self, dim: int) -> None:
        self.map.resolve(dim)

    def with_lam(self, lam: float) -> Any:
        return self._with(self.inner.with_lam(lam))

    def value(self, x: Array) -> float:
        return self.inner.value(self.map.resolve(x.size)(x))

    def subgradient(self, x: Array) -> Array:
        chosen = self.map.resolve(x.size)
        return chosen.transposed(self.inner.subgradient(chosen(x)))

    def line(self, x0: Array, x1: Array) -> Line:
        chosen = self.map.resolve(x0.size)
        return self.inner.line(chosen(x0), chosen(x1))

    def unregularized(self, dim: int) -> Array:
        """Return the coordinates whose columns of D are zero."""
        return abs(self.map.matrix).sum(axis=0) == 0.0

    def linear_form(self, dim: int) -> LinearForm | None:
        return self._linear_form

    @cached_property
    def _linear_form(self) -> LinearForm | None:
        rows, dim = self.map.shape
        form = self.inner.linear_form(rows)
        if form is None:
            return None
        D, others = sparse.csr_array(self.map.matrix), sparse.csr_array((rows, form.n_columns - rows))
        image = sparse.hstack([D, -sparse.eye_array(rows), others])
        below = sparse.hstack([sparse.csr_array((form.rows.shape[0], dim)), form.rows])
        zero = np.zeros(rows)
        return LinearForm(
            cost=np.concatenate([np.zeros(dim), form.cost]),
            lower=np.concatenate([np.full(dim, -np.inf), form.lower]),
            upper=np.concatenate([np.full(dim, np.inf), form.upper]),
            rows=sparse.csr_array(sparse.vstack([image, below])),
            row_lower=np.concatenate([zero, form.row_lower]),
            row_upper=np.concatenate([zero, form.row_upper]),
        )

    def in_unit(self, unit: float) -> Any:
        return self._with(self.inner.in_unit(unit))


class Partial(LinearImage):
    """g(x) = h(x[index]); also written ``h.on(index)``.

    It does not regularize the other coordinates, for example a bias.

    Parameters
    ----------
    regularizer : Regularizer
        h, a function of as many coordinates as `index` selects. Its `lam` is the `lam` of g.
    index : slice, or array_like of int or bool
        At least one coordinate, without repetition. Booleans have shape (dim,).
    dim : int, optional
        The dimension of x; by default the dimension of the problem, or of the booleans.

    Raises
    ------
    InvalidInputError
        If `index` is not as above, or h has another dimension.
    MissingCapabilityError
        If h implements neither ``subgradient`` nor ``line``.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import ElasticNet, Partial
    >>> Partial(ElasticNet(1.0), [True, True, False]).value(np.array([1.0, -1.0, 50.0]))
    1.5
    """

    passed_on = (
        Capability.CONJUGATE,
        Capability.QUADRATIC,
        Capability.SEPARABLE,
        Capability.LINEAR_FORM,
        Capability.CVXPY,
        Capability.UNIT,
    )

    def __init__(self, regularizer: Regularizer, index: Any, dim: int | None = None) -> None:
        if not isinstance(regularizer, Regularizer):
            raise InvalidInputError(
                f"Partial.regularizer must be a Regularizer such as L1(), got {regularizer!r}."
            )
        if not has_slope(regularizer):
            raise MissingCapabilityError(
                f"Partial needs the slope of {regularizer!r}: give it a method subgradient(x)."
            )
        self._set(
            regularizer, index if isinstance(index, Selection) else Selection(index, dim, regularizer.dim)
        )

    @property
    def index(self) -> Selection:
        """The coordinates that h depends on."""
        return self.matrix

    @property
    def mask(self) -> Array:
        """Whether h depends on each coordinate, shape (dim,)."""
        return self.index.mask

    def formula(self, x: str = "x") -> str:
        return Regularizer.formula(self, x)

    @property
    def domain(self) -> FeasibleSet | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The box where h is finite; coordinates that h does not depend on are unbounded."""
        within = self.inner.domain
        bounds = None if within is None else within.bounds(self.index.shape[0])
        if bounds is None:
            return None
        return Box(self.index.spread(bounds[0], -math.inf), self.index.spread(bounds[1], math.inf))

    def check_dim(self, dim: int) -> None:
        self.inner.check_dim(self._at(dim).shape[0])

    def resolve(self, dim: int) -> Regularizer:
        chosen = self._at(dim)
        h = self.inner.resolve(chosen.shape[0])
        return self if chosen is self.index and h is self.inner else Partial(h, chosen)

    def unregularized(self, dim: int) -> Array:
        chosen = self._at(dim)
        free, inner = ~chosen.mask, unregularized_by(self.inner, chosen.shape[0])
        free[chosen.index] = False if inner is None else inner
        return free

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        """Return the minimum over a box of h(x[index]) + <v, x>, in closed form if h has one."""
        bounds = feasible_set.bounds(v.shape[0])
        if bounds is None or not offers(self.inner, Capability.CONJUGATE):
            return None
        chosen = self._at(v.shape[0])
        inside, rest = chosen.positions, np.flatnonzero(~chosen.mask)
        box = Box(bounds[0][inside], bounds[1][inside])
        parts = [(inside, self.inner.conjugate_minimiser(v[inside], box, budget))]
        if rest.size:
            parts.append((rest, minimise_linear(v[rest], Box(bounds[0][rest], bounds[1][rest]))))
        return joined(parts, v.shape[0])

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        chosen, form = self._form(Capability.QUADRATIC, dim)
        return form and _spread(form, chosen)

    def separable_form(self, dim: int) -> SeparableForm | None:
        chosen, form = self._form(Capability.SEPARABLE, dim)
        return form and SeparableForm(_spread(form.quadratic, chosen), chosen.spread(form.costs, 0.0))

    def grouped_form(self, dim: int) -> GroupedForm | None:
        chosen, form = self._form(Capability.GROUPED, dim)
        return form and GroupedForm(chosen.spread(form.labels, -1).astype(int), form.costs)

    def linear_form(self, dim: int) -> LinearForm | None:
        chosen, form = self._form(Capability.LINEAR_FORM, dim)
        if form is None:
            return None
        total = dim + form.n_columns - chosen.shape[0]
        columns = Selection(np.concatenate([chosen.positions, np.arange(dim, total)]), total)
        rows = form.rows.tocoo()
        coordinates = rows.row, columns.positions[rows.col]
        return LinearForm(
            cost=columns.spread(form.cost, 0.0),
            lower=columns.spread(form.lower, -np.inf),
            upper=columns.spread(form.upper, np.inf),
            rows=sparse.csr_array((rows.data, coordinates), shape=(rows.shape[0], total)),
            row_lower=form.row_lower,
            row_upper=form.row_upper,
        )

    def _at(self, dim: int) -> Any:
        return self.index if dim == self.index.dim else self.index.resolve(dim)

    def _form(self, kind: Capability, dim: int) -> tuple[Selection, Any]:
        chosen = self._at(dim)
        return chosen, ask(self.inner, kind, chosen.shape[0])


def _spread(form: DiagonalQuadratic, chosen: Selection) -> DiagonalQuadratic:
    weights, centre = chosen.spread(form.weights, 0.0), chosen.spread(form.centre, 0.0)
    return DiagonalQuadratic(weights, centre, form.constant)


def total_variation(shape: int | Sequence[int], lam: float = 1.0) -> Regularizer:
    """Return g(x) = lam times the sum of |x_i - x_j| over all neighbours i, j on a grid.

    ``total_variation(n, a) + L1(b)`` is the fused lasso.

    Parameters
    ----------
    shape : int or tuple of int
        The shape of the grid; x is the vector of its values, row after row.
    lam : float, default 1.0
        Nonnegative and finite.

    Returns
    -------
    LinearImage
        ``L1(lam) @ D`` with the sparse matrix D of the differences along each axis.

    Raises
    ------
    InvalidInputError
        If a side is not a positive integer, or no two points are neighbours.

    References
    ----------
    Tibshirani, Saunders, Rosset, Zhu and Knight, Sparsity and smoothness via the fused lasso, J. R. Stat.
    Soc. B 67 (2005), doi:10.1111/j.1467-9868.2005.00490.x.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.total_variation((2, 3)).value(np.array([0.0, 0.0, 1.0, 0.0, 0.0, 1.0]))
    2.0
    """
    sides = [as_count("shape", side) for side in (shape if isinstance(shape, Sequence) else (shape,))]
    parts = []
    for axis, side in enumerate(sides):
        if side > 1:
            factors = [sparse.eye_array(other) for other in sides]
            factors[axis] = differences(side, 1)
            product: Any = sparse.eye_array(1)
            for factor in factors:
                product = sparse.kron(product, factor)
            parts.append(sparse.csr_array(product))
    if not parts:
        raise InvalidInputError(f"total_variation needs two neighbours, but the shape is {shape!r}.")
    return L1(lam) @ sparse.vstack(parts)


def trend_filter(dim: int, lam: float = 1.0, order: int = 1) -> Regularizer:
    """Return g(x) = lam times the sum of the absolute differences of order ``order + 1`` of x_1, ..., x_dim.

    It favours piecewise polynomial x of degree `order` with few pieces.

    Parameters
    ----------
    dim : int
        Greater than ``order + 1``.
    lam : float, default 1.0
        Nonnegative and finite.
    order : int, default 1
        0 is `total_variation`, 1 favours piecewise linear and 2 piecewise quadratic trends.

    Returns
    -------
    LinearImage
        ``L1(lam) @ D`` with the sparse matrix D of the differences.

    Raises
    ------
    InvalidInputError
        If a number is out of range.

    References
    ----------
    Kim, Koh, Boyd and Gorinevsky, l1 trend filtering, SIAM Review 51 (2009), doi:10.1137/070690274.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cut.trend_filter(5).value(np.array([0.0, 1.0, 2.0, 2.0, 2.0]))
    1.0
    """
    order = as_count("order", order, low=0)
    return L1(lam) @ differences(as_count("dim", dim, low=order + 2), order + 1)


def differences(dim: int, order: int) -> sparse.csr_array:
    """Return the matrix of the differences of this order of `dim` numbers, shape (dim - order, dim)."""
    matrix: Any = sparse.eye_array(dim, format="csr")
    for _ in range(order):
        matrix = matrix[1:] - matrix[:-1]
    return sparse.csr_array(matrix)
