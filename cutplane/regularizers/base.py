"""The interface of a regularizer, a convex function that reduced problems contain exactly."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from cutplane.exceptions import MissingCapabilityError, OracleError
from cutplane.pieces.algebra import ConvexFunction, check_dimension
from cutplane.pieces.capabilities import Capability, ability, ask, offers
from cutplane.pieces.forms import DiagonalQuadratic, SeparableForm
from cutplane.pieces.latex import times
from cutplane.pieces.linear_maps import LinearMap, Selection
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array, as_nonnegative
from cutplane.sets.base import is_whole_space
from cutplane.sets.box import Box, box_corner

if TYPE_CHECKING:
    from cutplane.sets.base import FeasibleSet


class Minimum(NamedTuple):
    """The infimum of a function over a set, and a minimiser (None if there is none or it is not computed)."""

    value: float
    x: Array | None


class Regularizer(ConvexFunction):
    """g(x) = lam * omega(x), convex and simple.

    A subclass is a frozen dataclass with a field `lam`. It implements `value`, and any of the optional
    methods below; each is a capability that some methods and masters need. Regularizers can be combined:

    * ``0.1 * L1() + L2(0.1)`` is a sum, with nonnegative factors;
    * ``g @ D`` is x -> g(D x) for a dense or sparse matrix or a `scipy.sparse.linalg.LinearOperator`;
    * ``g.on(index)`` is x -> g(x[index]).

    Optional methods
    ----------------
    subgradient(x) -> ndarray of shape (dim,)
        A subgradient at x.
    conjugate_minimiser(v, feasible_set, budget) -> Minimum or None
        min over x in `feasible_set` of g(x) + <v, x>; None if there is no closed form for this set, which has
        no separation oracles. `budget` is an upper bound of g at the solution of the whole problem (inf if
        there is none), so that the minimum over {g <= budget} suffices. The value must be a lower bound up to
        rounding, because certificates depend on it.
    quadratic(dim) -> DiagonalQuadratic or None
        g as a diagonal quadratic form (`lam` included).
    separable_form(dim) -> SeparableForm or None
        g as a diagonal quadratic form plus absolute costs.
    grouped_form(dim) -> GroupedForm or None
        g as the sum of the norms of groups.
    unregularized(dim) -> ndarray of bool, shape (dim,)
        The coordinates that g does not depend on, such as a bias; by default the coordinates of weight zero
        in `quadratic`.
    linear_form(dim) -> LinearForm or None
        g as the value of a linear programme.
    log_reference(dim) -> ndarray of shape (dim,)
        For the entropy g(x) = lam sum_j x_j (ln x_j - log_reference_j) for x >= 0, else inf.
    cvxpy_form(x) -> cvxpy.Expression
        g as an expression in the cvxpy variable x.
    in_unit(unit) -> Regularizer
        u -> g(unit * u), to scale x to the size of 1 for backends with absolute tolerances.

    Attributes
    ----------
    domain : FeasibleSet or None
        The set where g is finite, if it is a box; None if it is the whole space, or not a box.
    dim : int or None
        The dimension of x; None if g fits any dimension.
    cvxpy_variables : tuple of cvxpy.Variable
        The variables whose entries are the coordinates of x, for `Result.value`; () if g was not given by
        cvxpy.
    """

    lam: float
    dim: int | None = None
    written = "g"

    @abstractmethod
    def value(self, x: Array) -> float:
        """Return g(x), `lam` included; inf outside the domain."""

    def formula(self, x: str = "x") -> str:
        """Return g(x) in LaTeX; by default its weight and its name."""
        return times(self.lam, super().formula(x))

    def check_dim(self, dim: int) -> None:
        """Raise `InvalidInputError` if this regularizer does not fit vectors of dimension `dim`."""
        check_dimension(self, dim)

    def resolve(self, dim: int) -> Regularizer:
        """Return the regularizer with its dimension fixed to `dim`, or raise `InvalidInputError`."""
        self.check_dim(dim)
        return self

    @property
    def summands(self) -> tuple[Regularizer, ...]:
        """The regularizers whose sum is g; a larger sum has these terms in place of g."""
        return (self,)

    def __add__(self, other: Any) -> Regularizer:
        from cutplane.regularizers.algebra import RegularizerSum

        if not isinstance(other, Regularizer):
            return NotImplemented
        return RegularizerSum((*self.summands, *other.summands))

    def __rmul__(self, factor: Any) -> Self:
        return self.with_lam(as_nonnegative("the factor of a regularizer", factor) * self.lam)

    __mul__ = __rmul__

    def composed(self, linear_map: LinearMap) -> Regularizer:
        """Return x -> g(A x)."""
        from cutplane.regularizers.algebra import LinearImage, Partial

        return (Partial if isinstance(linear_map, Selection) else LinearImage)(self, linear_map)

    def line(self, x0: Array, x1: Array) -> Line:
        """Return t -> g(x0 + t (x1 - x0)); the default evaluates `value` and `subgradient`."""
        direction = x1 - x0
        gradient = ability(self, Capability.SUBGRADIENT)
        if gradient is None:
            raise MissingCapabilityError(
                f"A line needs the slope of {self!r}: give it a method subgradient(x)."
            )

        def evaluate(t: float) -> tuple[float, float]:
            x = x0 + t * direction
            return self.value(x), float(gradient(x) @ direction)

        return Line(evaluate)

    def with_lam(self, lam: float) -> Self:
        """Return the same regularizer with another weight."""
        return replace(self, lam=as_nonnegative("lam", lam))  # type: ignore[type-var]


class FreeRegularizer(Regularizer):
    """A regularizer whose conjugate has a closed form only over the whole space."""

    @abstractmethod
    def free_minimum(self, v: Array, budget: float) -> Minimum | None:
        """Return the minimum of g(x) + <v, x> over all x, or over {g <= budget}; `lam` is positive."""

    def conjugate_minimiser(
        self, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
    ) -> Minimum | None:
        if self.lam == 0.0:
            return minimise_linear(v, feasible_set)
        return self.free_minimum(v, budget) if is_whole_space(feasible_set, v.shape[0]) else None


def has_slope(regularizer: Regularizer) -> bool:
    """Tell whether a regularizer implements `subgradient`, or overrides `line`."""
    overrides_line = type(regularizer).line is not Regularizer.line and offers(regularizer, Capability.LINE)
    return overrides_line or offers(regularizer, Capability.SUBGRADIENT)


def separable_form_of(regularizer: Regularizer, dim: int) -> SeparableForm | None:
    """Return a regularizer as a separable form, from its separable or quadratic form; None if it has none."""
    form = ask(regularizer, Capability.SEPARABLE, dim)
    if form is None and (quadratic := ask(regularizer, Capability.QUADRATIC, dim)) is not None:
        form = SeparableForm(quadratic, np.zeros(dim))
    return form


def unregularized_by(regularizer: Regularizer, dim: int) -> Array | None:
    """Return a mask of the coordinates that a regularizer does not depend on; None if it does not tell."""
    stated = ability(regularizer, Capability.UNREGULARIZED)
    if stated is not None:
        return stated(dim)
    form = ask(regularizer, Capability.QUADRATIC, dim)
    return None if form is None else form.weights == 0.0


def check_lam(lam: Any) -> float:
    """Return `lam` as a finite nonnegative float, or raise `InvalidInputError`."""
    return as_nonnegative("lam", lam)


UNBOUNDED = Minimum(-math.inf, None)


def minimum(value: Any, x: Array) -> Minimum:
    """Return a `Minimum`; `UNBOUNDED` if the value or x overflowed."""
    return Minimum(float(value), x) if np.isfinite(value) and np.isfinite(x).all() else UNBOUNDED


def minimise_linear(v: Array, feasible_set: FeasibleSet) -> Minimum | None:
    """Return the minimum of <v, x> over a box, or a set that implements `minimise_linear`; otherwise None."""
    bounds = feasible_set.bounds(v.shape[0])
    if bounds is not None:
        x = box_corner(v, *bounds)
    elif (minimise := ability(feasible_set, Capability.LINEAR_MINIMISATION)) is not None:
        x = minimise(v)
        if np.shape(x) != v.shape:
            raise OracleError(
                f"minimise_linear of {feasible_set!r} must return a point of shape {v.shape}, "
                f"got shape {np.shape(x)}."
            )
    else:
        return None
    return minimum(v @ x, x) if np.isfinite(x).all() else UNBOUNDED


def minimise_quadratic(form: DiagonalQuadratic, v: Array, feasible_set: FeasibleSet) -> Minimum | None:
    """Return the minimum of a quadratic plus <v, x> over a box, or by a projection if weights are equal."""
    if form.is_flat:
        return minimise_linear(v, feasible_set)  # because the constant of a flat form is zero
    bounds = feasible_set.bounds(v.shape[0])
    with np.errstate(all="ignore"):
        step = v / -form.weights
        if form.is_strict and is_whole_space(feasible_set, v.shape[0]):
            return minimum(0.5 * (v @ step) + v @ form.centre + form.constant, form.centre + step)
        free = form.centre + step
        if bounds is not None:
            x = np.clip(free, *bounds)
            if not form.is_strict:
                linear = box_corner(v, *bounds, rest=form.centre)
                x = np.where(form.weights > 0.0, x, linear)
        else:
            project = ability(feasible_set, Capability.PROJECTION)
            if np.ptp(form.weights) > 0.0 or project is None:
                return None
            if not np.isfinite(free).all():
                return UNBOUNDED
            x = project(free)
        offset = x - form.centre
        return minimum((0.5 * form.weights * offset) @ offset + v @ x + form.constant, x)


def joined(parts: Sequence[tuple[Array, Minimum | None]], dim: int) -> Minimum | None:
    """Return the minimum of a sum of functions of disjoint coordinates, given the minimum of each.

    A part is a pair (coordinates, minimum over them); together the parts have all coordinates. Return None if
    a minimum is None.
    """
    given = [(where, part) for where, part in parts if part is not None]
    if len(given) < len(parts):
        return None
    value = sum(part.value for _, part in given)
    if not math.isfinite(value):
        return UNBOUNDED
    x = np.empty(dim)
    for where, part in given:
        if part.x is None:
            return Minimum(value, None)
        x[where] = part.x
    return Minimum(value, x)


def minimise_separable(
    form: SeparableForm, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
) -> Minimum | None:
    """Return the minimum of the form plus <v, x>, over a box by soft thresholding and clipping.

    `budget` is an upper bound of the form at the solution; see `Regularizer.conjugate_minimiser`.
    """
    quadratic, costs = form.quadratic, form.costs
    weights, centre = quadratic.weights, quadratic.centre
    if form.is_smooth:
        return minimise_quadratic(quadratic, v, feasible_set)
    if quadratic.is_flat:
        return minimise_absolute(costs, v, feasible_set, budget)
    bounds = feasible_set.bounds(v.shape[0])
    if bounds is None:
        return minimise_quadratic(quadratic, v + costs, feasible_set) if feasible_set.nonnegative else None
    curved = weights > 0.0
    if not curved.all():
        flat = ~curved
        strict = SeparableForm(quadratic.on(curved), costs[curved])
        one = minimise_separable(strict, v[curved], Box(bounds[0][curved], bounds[1][curved]))
        other = minimise_absolute(costs[flat], v[flat], Box(bounds[0][flat], bounds[1][flat]), budget)
        return joined([(curved, one), (flat, other)], v.shape[0])
    with np.errstate(all="ignore"):
        slope = v - weights * centre
        x = np.clip(-np.sign(slope) * np.maximum(np.abs(slope) - costs, 0.0) / weights, *bounds)
        offset = x - centre
        value = v @ x + costs @ np.abs(x) + (0.5 * weights * offset) @ offset + quadratic.constant
        return minimum(value, x)


def minimise_absolute(
    costs: Array, v: Array, feasible_set: FeasibleSet, budget: float = math.inf
) -> Minimum | None:
    """Return the minimum of sum_j costs_j |x_j| + <v, x> over a box or a nonnegative set, or a lower bound.

    If the box has no bound in the direction in which x_j decreases the sum, the minimum is -inf for an
    infinite `budget`. A finite budget restricts such coordinates to the l1 ball sum_j costs_j |x_j| <=
    budget, and a vertex of the ball gives the bound.
    """
    if not costs.any():
        return minimise_linear(v, feasible_set)
    bounds = feasible_set.bounds(v.shape[0])
    if bounds is None:
        return minimise_linear(v + costs, feasible_set) if feasible_set.nonnegative else None
    x = np.where(v > costs, bounds[0], np.where(v < -costs, bounds[1], np.clip(0.0, *bounds)))
    unbounded = np.isinf(x)
    vertex = _ball_vertex(v, costs, unbounded, budget)
    finite = np.where(unbounded, 0.0, x)
    value = float(costs @ np.abs(finite) + v @ finite) + vertex.value
    whole_ball = _ball_vertex(v, costs, np.ones_like(unbounded), budget).value
    if value < whole_ball:
        return Minimum(whole_ball, None)
    if vertex.x is None:
        return UNBOUNDED
    x = finite + vertex.x
    inside = (x >= bounds[0]).all() and (x <= bounds[1]).all()
    return Minimum(value, x if inside else None)


def _ball_vertex(v: Array, costs: Array, among: Array, budget: float) -> Minimum:
    """Return the minimum of costs'|x| + <v, x> over costs'|x| <= budget, with x_j = 0 where not `among`."""
    x = np.zeros_like(v, dtype=np.float64)
    steep = np.flatnonzero(among & (np.abs(v) > costs))
    if not steep.size:
        return Minimum(0.0, x)
    if not costs[steep].all() or not math.isfinite(budget):
        return UNBOUNDED
    with np.errstate(all="ignore"):
        ratios = np.abs(v[steep]) / costs[steep]
        j = steep[np.argmax(ratios)]
        x[j] = -np.sign(v[j]) * budget / costs[j]
        return minimum(budget * (1.0 - ratios.max()), x)
