"""The laws of regularizers and sets: optional methods agree with the value or the violation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError, NotConvexError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array, as_count
from cutplane.problem import Problem
from cutplane.regularizers.base import Regularizer
from cutplane.risks.sums import LinearObjective
from cutplane.sets.base import FeasibleSet
from cutplane.sets.box import WholeSpace
from cutplane.testing.laws import (
    TOLERANCE,
    UNITS,
    Counterexample,
    Laws,
    NotTested,
    Report,
    Sampler,
    described,
    examine,
    law,
    require_equal,
)
from cutplane.testing.oracles import SeparationLaws
from cutplane.testing.risks import FunctionLaws, check_lines

_PROJECT = "project must return the point of the set nearest to x, x itself if x is inside."
_BOUND = 1e-9
"""Relative accuracy of minima, because certified lower bounds are sums of them."""
_FEW = 5
"""Number of points at which a law is tested, because a wrong method fails at nearly all of them."""
_FAR = 1e9
"""Distance of far points, in units of the scale, because their projections are near if a set is bounded."""


@described(InvalidInputError, calls=15, scale="as large as a typical solution")
def check_regularizer(
    regularizer: Regularizer,
    dim: int,
    *,
    feasible_sets: Sequence[FeasibleSet] = (),
    rng: int | np.random.Generator = 0,
    n_points: int = 20,
    scale: float = 1.0,
    raise_on_failure: bool = True,
) -> Report:
    """Search for a mistake in a regularizer: in its value, and in every optional method that it has.

    It tests whether the value is convex and proportional to `lam`, and whether the optional methods agree
    with it: `subgradient`, lines, `quadratic`, `linear_form` and `cvxpy_form`. The minimum of
    `conjugate_minimiser` has to be a lower bound, and to be attained at its point.

    Parameters
    ----------
    regularizer : Regularizer
    dim : int
        Dimension of the test.
    feasible_sets : sequence of FeasibleSet, optional
        Sets for the conjugate, in addition to the whole space; points inside them are used in every test.

    Examples
    --------
    >>> import cutplane as cut
    >>> bool(cut.testing.check_regularizer(cut.L1(0.3), dim=4, feasible_sets=[cut.Box(-1, 1)]))
    True
    """
    if not isinstance(regularizer, Regularizer):
        raise InvalidInputError(
            f"check_regularizer needs a Regularizer, got {regularizer!r}; subclass Regularizer."
        )
    regularizer.check_dim(as_count("dim", dim))
    sets = [WholeSpace(dim), *(feasible_set.parts[0].resolve(dim) for feasible_set in feasible_sets)]
    laws = _RegularizerLaws(regularizer, sets, Sampler(dim, rng, n_points, scale))
    return examine(repr(regularizer), InvalidInputError if raise_on_failure else None, laws)


class _RegularizerLaws(FunctionLaws):
    def __init__(self, regularizer: Regularizer, sets: Sequence[FeasibleSet], sampler: Sampler):
        zero, drawn = LinearObjective(np.zeros(sampler.dim)), sampler.points()
        self.sets = tuple(sets)
        self.domains = {id(each): Problem(zero, regularizer, each) for each in sets}
        inside = [domain.into_simple_set(x) for domain in self.domains.values() for x in drawn]
        super().__init__(self.domains[id(sets[0])], regularizer, sampler, np.array([*inside, *np.abs(drawn)]))
        self.has_slopes = offers(regularizer, Capability.SUBGRADIENT)

    def ask(self, x: Array) -> tuple[Array, Array]:
        value = self.value(x)
        slope = np.zeros((1, len(x)))
        if np.isfinite(value).all():
            slope[:] = math.nan
            if self.has_slopes:
                found = np.asarray(self.piece.subgradient(x.copy()), dtype=np.float64)
                if found.shape != x.shape or not np.isfinite(found).all():
                    raise Counterexample(f"the subgradient at x is {found}, of shape {found.shape}", x=x)
                slope[0] = found
        return value, slope

    def value(self, x: Array) -> Array:
        value = float(self.piece.value(x.copy()))
        if math.isnan(value) or value == -math.inf:
            raise Counterexample(f"value(x) = {value}", x=x)
        return np.array([value])

    def call(self, x: Array) -> Any:
        return self.piece.value(x), self.has_slopes and self.piece.subgradient(x)

    @law(
        "value is proportional to lam",
        "value must be lam * omega(x), with lam a field of the dataclass and omega independent of it.",
    )
    def _proportional(self) -> str:
        try:
            unit = self.piece.with_lam(1.0)
        except InvalidInputError as refusal:
            raise NotTested(str(refusal)) from refusal
        for lam in (0.0, 2.0, self.piece.lam):
            weighted = self.piece if lam == self.piece.lam else self.piece.with_lam(lam)
            for x in self.X:
                one, many = unit.value(x), weighted.value(x)
                text = (
                    f"value is {{:.8g}} for lam = {lam:g}, not {{:.8g}}, the multiple of the one for lam = 1"
                )
                require_equal(text, many, lam * one, one, many, x=x)
        return f"{len(self.X)} points"

    @law(
        "line gives the value and a slope of it",
        "line(x0, x1) must return the value at x0 + t (x1 - x0) and its right derivative in t; its default "
        "does.",
    )
    def _lines(self) -> str:
        if type(self.piece).line is Regularizer.line:
            self.require(Capability.SUBGRADIENT)

        def lines() -> Iterator[Any]:
            for i, k in self.segments():
                x0, x1 = self.X[i], self.X[k]
                line = self.piece.line(x0.copy(), x1.copy())
                yield x0, x1, line, lambda t, x0=x0, x1=x1: self.piece.value(x0 + t * (x1 - x0))

        return check_lines(lines())

    @law(
        "{} gives the value",
        "The form must describe lam * omega(x) itself, lam included; return None, or drop the method, if "
        "there is none.",
        each=("quadratic", "separable_form", "grouped_form", "linear_form", "cvxpy_form"),
    )
    def _form(self, name: str) -> str:
        self.require(Capability(name))
        return self._agrees(name, lambda x: _form_value(self.piece, name, x))

    @law(
        "in_unit({:g}) gives the value",
        "in_unit(unit) must return u -> g(unit * u): a term of degree d in x has unit**d times its weight.",
        needs=Capability.UNIT,
        each=UNITS,
    )
    def _unit(self, unit: float) -> str:
        return self._agrees("in_unit", lambda x: float(self.piece.in_unit(unit).value(x / unit)))

    def _agrees(self, name: str, value: Any) -> str:
        chosen = self.sampler.rng.permutation(len(self.X))[:_FEW]
        for x, (expected,) in zip(self.X[chosen], self.values[chosen], strict=True):
            found = value(x)
            if not abs(found - expected) <= max(TOLERANCE, 1e-6 * max(1.0, abs(expected))):
                raise Counterexample(f"{name} gives {found:.8g} at x, value(x) is {expected:.8g}", x=x)
        return f"{len(chosen)} points"

    @law(
        "conjugate_minimiser is a bound and attained on {!r}",
        "conjugate_minimiser must return the least value of g(x) + <v, x> over the set (and, at most, over "
        "g <= budget), because each certified lower bound relies on it. Return None for a set without a "
        "closed form.",
        needs=Capability.CONJUGATE,
        each="sets",
    )
    def _conjugate(self, feasible_set: FeasibleSet) -> str:
        domain = self.domains[id(feasible_set)]
        inside = np.array([domain.into_simple_set(x) for x in self.X])
        values = np.array([self.piece.value(z) for z in inside])
        slopes = [np.zeros(self.sampler.dim), *self.sampler.directions()]
        if self.has_slopes:
            # z minimises g(x) + <v, x> for v = -s - (x - z), because x - z is normal to the set at z.
            slopes += [z - x - self.piece.subgradient(z.copy()) for x, z in zip(self.X, inside, strict=True)]
        for v in slopes:
            for budget in (math.inf, float(np.median(values))):
                minimum = self.piece.conjugate_minimiser(v, feasible_set, budget)
                if minimum is None:
                    raise NotTested("there is no closed form for this set")
                self._is_bound(minimum.value, v, budget, inside, values)
                if minimum.x is not None:
                    self._is_attained(minimum.value, minimum.x, v, feasible_set)
        return f"{len(slopes)} slopes against {len(inside)} points"

    def _is_bound(self, bound: float, v: Array, budget: float, inside: Array, values: Array) -> None:
        reached = np.where(values <= budget, values + inside @ v, math.inf)
        excess = bound - reached - _BOUND * (1.0 + np.abs(values) + np.abs(inside) @ np.abs(v))
        k = int(np.argmax(excess))
        if math.isnan(bound) or excess[k] > 0.0:
            raise Counterexample(
                f"the minimum is said to be {bound:.10g} (budget {budget:g}), but g(z) + <v, z> = "
                f"{values[k] + inside[k] @ v:.10g}",
                v=v,
                z=inside[k],
            )

    def _is_attained(self, bound: float, x: Array, v: Array, feasible_set: FeasibleSet) -> None:
        reached = self.piece.value(x) + float(v @ x)
        size = 1.0 + abs(self.piece.value(x)) + float(np.abs(v) @ np.abs(x))
        if not abs(reached - bound) <= _BOUND * size:
            raise Counterexample(
                f"the minimum is said to be {bound:.10g}, but {reached:.10g} is reached at x", v=v, x=x
            )
        violation = feasible_set.violation(x)
        if violation > TOLERANCE * max(1.0, float(np.abs(x).max())):
            raise Counterexample(f"the minimiser x violates {feasible_set!r} by {violation:.3g}", v=v, x=x)


@described(InvalidInputError, calls=15, scale="they should lie inside as well as outside")
def check_set(
    feasible_set: FeasibleSet,
    dim: int | None = None,
    *,
    rng: int | np.random.Generator = 0,
    n_points: int = 20,
    scale: float = 1.0,
    raise_on_failure: bool = True,
) -> Report:
    """Search for a mistake in a feasible set: in its violation, and in every optional method that it has.

    It tests whether the violation is zero inside and its level sets are convex; whether the projection is in
    the set, idempotent, nonexpansive and optimal; whether the minimisers of linear and entropic functions are
    at least as good as all points found; and whether bounds, linear form and cvxpy form describe the same
    set. Separation oracles in it are tested as by `check_separation`.

    Parameters
    ----------
    feasible_set : FeasibleSet
    dim : int, optional
        Dimension of the test; needed if the set fits any.

    Examples
    --------
    >>> import cutplane as cut
    >>> bool(cut.testing.check_set(cut.Simplex(), dim=3))
    True
    """
    if not isinstance(feasible_set, FeasibleSet):
        raise InvalidInputError(f"check_set needs a FeasibleSet, got {feasible_set!r}; subclass FeasibleSet.")
    size = feasible_set.dim if dim is None else as_count("dim", dim)
    if size is None:
        raise InvalidInputError(f"{feasible_set!r} fits any dimension: pass dim.")
    problem = Problem(LinearObjective(np.zeros(size)), feasible_set=feasible_set)
    sampler = Sampler(size, rng, n_points, scale)
    oracles = [SeparationLaws(each, sampler, np.empty((0, size))) for each in problem.separators]
    error = InvalidInputError if raise_on_failure else None
    return examine(repr(feasible_set), error, _SetLaws(problem, sampler), *oracles)


class _SetLaws(Laws):
    def __init__(self, problem: Problem, sampler: Sampler):
        self.problem, self.sampler = problem, sampler
        self.piece = problem.simple_set
        self.outside = sampler.points()
        self.inside = np.empty((0, sampler.dim))

    def tolerance(self, x: Array) -> float:
        return TOLERANCE * max(1.0, self.sampler.scale, float(np.abs(x).max()))

    def require_inside(self, found: Array, what: str, **points: Array) -> None:
        if np.shape(found) != (self.sampler.dim,):
            raise Counterexample(f"{what} has shape {np.shape(found)}", **points)
        violation = self.piece.violation(found)
        if not violation <= self.tolerance(found):
            raise Counterexample(f"{what} violates the set by {violation:.6g}", **points, found=found)

    @law(
        "points of the set are found, and have no violation",
        "violation(x) must return 0 inside and a positive float (or inf) outside.",
        essential=True,
    )
    def _membership(self) -> str:
        self.inside = np.array([self.problem.into_simple_set(x.copy()) for x in self.outside])
        for x, z in zip(self.outside, self.inside, strict=True):
            self.require_inside(z, "the projection of x", x=x)
        return f"{len(self.inside)} points"

    @law(
        "violation is a number, the same at each call, and does not change x",
        "violation(x) must return 0 inside and a positive float (or inf) outside, never NaN, the same at "
        "each call.",
    )
    def _violation(self) -> str:
        points = np.vstack([self.outside, self.inside, 0.5 * (self.inside[1:] + self.inside[:-1])])
        for x in points:
            given = x.copy()
            violation = self.piece.violation(given)
            if not violation >= 0.0:
                raise Counterexample(f"violation(x) = {violation}", x=x)
            if not np.array_equal(given, x):
                raise Counterexample("violation wrote to x", x=x, afterwards=given)
            if (again := self.piece.violation(x.copy())) != violation:
                raise Counterexample(
                    f"violation(x) was {violation:.17g} at first and {again:.17g} later", x=x
                )
        return f"{len(points)} points"

    @law(
        "the set, and each level set of the violation, is convex",
        "The set is not convex, or violation measures a function whose level sets are not.",
    )
    def _convex(self) -> str:
        X = np.vstack([self.outside, self.inside])
        pairs = [*self.sampler.pairs(len(X)), *self.sampler.pairs(len(self.inside)) + len(self.outside)]
        for i, k in pairs:
            t = self.sampler.share()
            between = X[i] + t * (X[k] - X[i])
            highest = max(self.piece.violation(X[i]), self.piece.violation(X[k]))
            violation = self.piece.violation(between)
            if violation > highest + self.tolerance(between) + TOLERANCE * highest:
                raise Counterexample(
                    f"the violation is {violation:.6g} at x + {t:.3g} (z - x), but at most {highest:.6g} "
                    "at x and z",
                    x=X[i],
                    z=X[k],
                )
        return f"{len(pairs)} segments"

    @law("project gives the nearest point", _PROJECT, needs=Capability.PROJECTION)
    def _nearest(self) -> str:
        for x in self.outside:
            nearest = self.piece.project(x.copy())
            candidates = self.inside
            if offers(self.piece, Capability.LINEAR_MINIMISATION):
                candidates = np.vstack([candidates, self.piece.minimise_linear(nearest - x)])
            steps, distance = candidates - nearest, float(np.linalg.norm(x - nearest))
            excess = steps @ (x - nearest) - self.tolerance(x) * (np.linalg.norm(steps, axis=1) + distance)
            k = int(np.argmax(excess))
            if excess[k] > 0.0:
                raise Counterexample(
                    f"the projection of x is at distance {distance:.8g}, but a step from it towards z, "
                    "which is in the set, is nearer",
                    x=x,
                    projection=nearest,
                    z=candidates[k],
                )
        return f"{len(self.outside)} points, each against {len(self.inside)} of the set"

    @law("project is idempotent and nonexpansive", _PROJECT, needs=Capability.PROJECTION)
    def _nonexpansive(self) -> str:
        for z in self.inside:
            again = self.piece.project(z.copy())
            if float(np.abs(again - z).max()) > self.tolerance(z):
                raise Counterexample(
                    "the projection of a point of the set is another point", x=z, projection=again
                )
        for i, k in self.sampler.pairs(len(self.outside)):
            x, z = self.outside[i], self.outside[k]
            images = float(np.linalg.norm(self.piece.project(x.copy()) - self.piece.project(z.copy())))
            apart = float(np.linalg.norm(x - z))
            if images > apart + self.tolerance(x) + self.tolerance(z):
                raise Counterexample(
                    f"the projections of x and z are {images:.8g} apart, x and z only {apart:.8g}", x=x, z=z
                )
        return f"{len(self.inside)} points and {len(self.outside)} pairs"

    @law(
        "minimise_linear gives the least <v, x>",
        "minimise_linear(v) must return a point of the set at which <v, x> is least.",
        needs=Capability.LINEAR_MINIMISATION,
    )
    def _least_linear(self) -> str:
        directions = [np.zeros(self.sampler.dim), *self.sampler.directions()]
        for v in directions:
            self._is_least(self.piece.minimise_linear(v.copy()), v, lambda X, v=v: X @ v)
        return f"{len(directions)} directions against {len(self.inside)} points"

    @law(
        "minimise_entropy gives the least value",
        "minimise_entropy(v, log_reference) must minimise "
        "<v, x> + sum_j x_j (ln x_j - log_reference_j) over the set.",
        needs=Capability.ENTROPIC_MINIMISATION,
    )
    def _least_entropy(self) -> str:
        for v in self.sampler.directions():
            reference = self.sampler.directions(1)[0]

            def value(X: Array, v: Array = v, reference: Array = reference) -> Array:
                X = np.maximum(X, 0.0)
                return np.sum(X * (v - reference + np.log(np.where(X > 0.0, X, 1.0))), axis=-1)

            self._is_least(self.piece.minimise_entropy(v.copy(), reference), v, value)
        return f"{self.sampler.n_points} directions against {len(self.inside)} points"

    def _is_least(self, least: Array, v: Array, value: Any) -> None:
        self.require_inside(least, "the minimiser", v=v)
        reached, others = float(value(least)), value(self.inside)
        better = int(np.argmin(others))
        rounding = TOLERANCE * max(1.0, self.sampler.scale, abs(reached)) * max(1.0, np.abs(v).sum())
        if others[better] < reached - rounding:
            raise Counterexample(
                f"the value is {reached:.8g} at the minimiser and {others[better]:.8g} at x, which is in the "
                "set",
                v=v,
                minimiser=least,
                x=self.inside[better],
            )

    @law(
        "a set called bounded is bounded",
        "Set bounded = False, or None if it is not known: a wrong True lets unbounded problems through.",
    )
    def _bounded(self) -> str:
        if self.piece.bounded is not True:
            raise NotTested(f"bounded is {self.piece.bounded}")
        self.require(Capability.PROJECTION)
        for direction in self.sampler.directions():
            near, far = (
                float(np.linalg.norm(self.piece.project(distance * self.sampler.scale * direction)))
                for distance in (_FAR, 1e3 * _FAR)
            )
            if far > 100.0 * max(near, self.sampler.scale):
                raise Counterexample(
                    f"the set has points of norm {near:.3g} and {far:.3g} in one direction",
                    direction=direction,
                )
        return f"{self.sampler.n_points} directions"

    @law(
        "bounds describe the set",
        "bounds must be exactly the set, each of shape (dim,); return None if the set is not a box.",
    )
    def _bounds(self) -> str:
        bounds = self.piece.bounds(self.sampler.dim)
        if bounds is None:
            raise NotTested("the set is not said to be a box")
        lower, upper = bounds
        if np.shape(lower) != (self.sampler.dim,) or np.shape(upper) != (self.sampler.dim,):
            raise Counterexample(f"bounds have the shapes {np.shape(lower)} and {np.shape(upper)}")
        for z in self.inside:
            if np.maximum(lower - z, z - upper).max() > self.tolerance(z):
                raise Counterexample("a point of the set is outside its bounds", x=z)
        for x in self.outside:
            self.require_inside(np.clip(x, lower, upper), "x clipped to the bounds", x=x)
        return f"{len(self.inside) + len(self.outside)} points"

    @law(
        "{} describes the set",
        "The form must describe the same set as violation; return None, or drop the method, if there is "
        "none.",
        each=("linear_form", "cvxpy_form"),
    )
    def _form(self, name: str) -> str:
        self.require(Capability(name))
        return self._describes(name, lambda x: _form_value(self.piece, name, x) <= 1e2 * self.tolerance(x))

    @law(
        "in_unit({:g}) describes the set",
        "in_unit(unit) must return {u : unit * u is in the set}: sides and radii are divided by the unit.",
        needs=Capability.UNIT,
        each=UNITS,
    )
    def _unit(self, unit: float) -> str:
        def holds(x: Array) -> bool:
            return unit * self.piece.in_unit(unit).violation(x / unit) <= 1e2 * self.tolerance(x)

        return self._describes("in_unit", holds)

    def _describes(self, name: str, holds: Any) -> str:
        chosen = self.inside[:_FEW]
        for z in chosen:
            if not holds(z):
                raise Counterexample(f"{name} does not hold at x, which has no violation", x=z)
        barely_outside = 0
        for x, z in zip(self.outside, self.inside, strict=True):
            j = self.sampler.rng.choice(np.flatnonzero(x != z) if (x != z).any() else [0])
            moved = np.where(np.arange(len(x)) == j, x, z)
            violation = self.piece.violation(moved)
            if violation > 1e3 * self.tolerance(moved):
                barely_outside += 1
                if holds(moved):
                    raise Counterexample(
                        f"{name} holds at x, which violates the set by {violation:.6g}", x=moved
                    )
        return f"{len(chosen)} points inside, {barely_outside} outside"


def _form_value(piece: Any, name: str, x: Array) -> float:
    """Return the value of a regularizer's form at x; for the form of a set, its violation, or 0 or inf."""
    if name == "cvxpy_form":
        return _cvxpy_value(piece, x)
    form = getattr(piece, name)(len(x))
    if form is None:
        raise NotTested(f"{name} returns None")
    return _linear_value(form, x) if name == "linear_form" else form(x)


def _linear_value(form: LinearForm, x: Array) -> float:
    """Return the least cost of a linear form whose first columns are fixed to x; inf if it is infeasible."""
    from scipy import optimize

    solver: Any = optimize
    matrix: Any = form.rows
    dim, columns = len(x), matrix.shape[1]
    sizes = {len(form.cost), len(form.lower), len(form.upper), columns}
    if len(sizes) > 1 or form.n_columns < dim:
        raise Counterexample(
            f"linear_form has {len(form.cost)} costs, {len(form.lower)} lower and {len(form.upper)} upper "
            f"bounds and {columns} columns; all must be one number, at least {dim}"
        )
    if ((x < form.lower[:dim] - 1e-9) | (x > form.upper[:dim] + 1e-9)).any():
        return math.inf
    if columns == dim:
        excess = np.maximum(form.row_lower - matrix @ x, matrix @ x - form.row_upper)
        return float(form.cost @ x) if (excess <= 1e-7).all() else math.inf
    bounds = solver.Bounds(np.append(x, form.lower[dim:]), np.append(x, form.upper[dim:]))
    rows = solver.LinearConstraint(matrix, form.row_lower, form.row_upper)
    answer = solver.milp(form.cost, bounds=bounds, constraints=[rows] * (len(form.row_lower) > 0))
    return answer.fun if answer.status == 0 else math.inf if answer.status == 2 else -math.inf


def _cvxpy_value(piece: Any, x: Array) -> float:
    """Return the value of a regularizer's cvxpy expression at x, or the largest violation of constraints."""
    import cvxpy as cp

    variable = cp.Variable(len(x))
    form: Any = piece.cvxpy_form(variable)
    constraints = form if isinstance(form, list | tuple) else [form <= 0.0]
    for each in constraints:
        if not each.is_dcp():
            raise NotConvexError(f"cvxpy_form gives {each}, which is not convex by cvxpy's rules (DCP).")
        if any(found is not variable for found in each.variables()):
            raise NotTested("cvxpy_form has other variables than x")
    variable.value = x
    if isinstance(form, list | tuple):
        return max((float(np.max(each.violation())) for each in constraints), default=0.0)
    return float(form.value)
