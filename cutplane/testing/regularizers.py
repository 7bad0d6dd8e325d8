"""The checks of a regularizer: its value, and every optional method against the value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array, as_count
from cutplane.problem import Problem
from cutplane.regularizers.base import Minimum, Regularizer
from cutplane.risks.objective import LinearObjective
from cutplane.sets.base import FeasibleSet
from cutplane.sets.whole import WholeSpace
from cutplane.testing.forms import cvxpy_value, linear_form_value
from cutplane.testing.report import Counterexample, NotTested, Property, Report, examine
from cutplane.testing.sampling import STEP, TOLERANCE, UNITS, Sampler, exceeds, worst

_VALUE = "value(x) must return a float, inf outside the domain and never NaN or -inf, the same at each call."
_CONVEX = "The regularizer is not convex, or value is computed wrongly."
_SLOPE = "Look in subgradient for a sign, the factor lam, or a term left out."
_LAM = "value must be lam * omega(x), with lam a field of the dataclass and omega independent of it."
_LINE = (
    "line(x0, x1) must return the value at x0 + t (x1 - x0) and its right derivative in t; its default does."
)
_FORM = (
    "The form must describe lam * omega(x) itself, lam included; return None, or drop the method, if there "
    "is none."
)
_CONJUGATE = (
    "conjugate_minimiser must return the least value of g(x) + <v, x> over the set (and, at most, over g "
    "<= budget): "
    "each lower bound the engine certifies relies on it. Return None for a set without a closed form."
)
_UNIT = "in_unit(unit) must return u -> g(unit * u): a term of degree d in x has unit**d times its weight."
_BOUND = 1e-9
_FEW = 5


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
    """Look for a mistake in a regularizer, in its value and in every optional method it has.

    Tests whether the value is convex and proportional to `lam`, the subgradient supports it, lines follow it,
    `quadratic`, `linear_form` and `cvxpy_form` describe it, and `conjugate_minimiser` gives a true lower
    bound that is attained where it says so.

    Parameters
    ----------
    regularizer : Regularizer
    dim : int
        Dimension to test it in.
    feasible_sets : sequence of FeasibleSet, optional
        Sets for the conjugate, besides the whole space; points inside them are used in every test.
    rng : int or numpy.random.Generator, default 0
        Seed of the random points.
    n_points : int, default 20
        Number of points, at least 2.
    scale : float, default 1.0
        Size of the entries of the random points.
    raise_on_failure : bool, default True
        Whether a failed check is an error.

    Returns
    -------
    Report
        Lists every check; ``bool(report)`` is whether all passed.

    Raises
    ------
    InvalidInputError
        If a check failed; the message shows the points, the numbers, and what to do.

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
    probe = _RegularizerProbe(regularizer, sets, Sampler(dim, rng, n_points, scale))
    return examine(repr(regularizer), probe.properties(), InvalidInputError if raise_on_failure else None)


class _RegularizerProbe:
    def __init__(self, regularizer: Regularizer, sets: Sequence[FeasibleSet], sampler: Sampler):
        self.g: Any = regularizer
        self.sets = sets
        self.sampler = sampler
        drawn = sampler.points()
        self.projections = [_projection(regularizer, each, sampler.dim) for each in sets]
        inside = [project(x) for project in self.projections for x in drawn]
        self.X = np.array([*inside, *np.abs(drawn)])
        self.values = np.empty(0)

    def properties(self) -> Iterator[Property]:
        yield Property(
            "value is a number, the same at each call, and leaves x as it is", self._value, _VALUE, True
        )
        yield Property("value is convex on segments", self._convex, _CONVEX)
        yield Property("value is proportional to lam", self._proportional, _LAM)
        yield Property("g(z) >= g(x) + <s, z - x> for each subgradient", self._subgradient, _SLOPE)
        yield Property("line gives the value and a slope of it", self._lines, _LINE)
        yield Property(
            "quadratic gives the value", partial(self._form, Capability.QUADRATIC, self._quadratic), _FORM
        )
        yield Property(
            "separable_form gives the value",
            partial(self._form, Capability.SEPARABLE, self._separable),
            _FORM,
        )
        yield Property(
            "grouped_form gives the value", partial(self._form, Capability.GROUPED, self._grouped), _FORM
        )
        yield Property(
            "linear_form gives the value", partial(self._form, Capability.LINEAR_FORM, self._linear), _FORM
        )
        yield Property(
            "cvxpy_form gives the value", partial(self._form, Capability.CVXPY, self._cvxpy), _FORM
        )
        for unit in UNITS:
            test = partial(self._form, Capability.UNIT, partial(self._in_unit, unit))
            yield Property(f"in_unit({unit:g}) gives the value", test, _UNIT)
        for feasible_set, project in zip(self.sets, self.projections, strict=True):
            test = partial(self._conjugate, feasible_set, project)
            yield Property(
                f"conjugate_minimiser is a bound and attained on {feasible_set!r}", test, _CONJUGATE
            )

    def _value(self) -> str:
        values = []
        for x in self.X:
            given = x.copy()
            value = float(self.g.value(given))
            if not np.array_equal(given, x):
                raise Counterexample("value wrote to x", x=x, afterwards=given)
            if math.isnan(value) or value == -math.inf:
                raise Counterexample(f"value(x) = {value}", x=x)
            values.append(value)
        for x, value in zip(self.X, values, strict=True):
            if (again := float(self.g.value(x.copy()))) != value:
                raise Counterexample(f"value(x) was {value:.17g} at first and {again:.17g} later", x=x)
        self.values = np.array(values)
        finite = np.isfinite(self.values)
        if not finite.any():
            raise Counterexample(
                "the value is inf at every point tried; pass feasible_sets or another scale", x=self.X[0]
            )
        self.X, self.values = self.X[finite], self.values[finite]
        return f"{len(values)} points, {len(self.X)} in the domain"

    def _convex(self) -> str:
        order = self.sampler.rng.permutation(len(self.X))
        for i, k in zip(order, np.roll(order, 1), strict=True):
            t = self.sampler.rng.uniform(0.1, 0.9)
            value = self.g.value((1.0 - t) * self.X[i] + t * self.X[k])
            between = (1.0 - t) * self.values[i] + t * self.values[k]
            if worst(exceeds(np.atleast_1d(value - between), self.values[i], self.values[k])):
                raise Counterexample(
                    f"g is {value:.8g} at x + {t:.3g} (z - x), above the {between:.8g} interpolated between "
                    f"{self.values[i]:.8g} at x and {self.values[k]:.8g} at z",
                    x=self.X[i],
                    z=self.X[k],
                )
        return f"{len(self.X)} segments"

    def _proportional(self) -> str:
        try:
            unit = self.g.with_lam(1.0)
        except InvalidInputError as refusal:
            raise NotTested(str(refusal)) from refusal
        for lam in (0.0, 2.0, self.g.lam):
            weighted = self.g if lam == self.g.lam else self.g.with_lam(lam)
            for x in self.X:
                one, many = unit.value(x), weighted.value(x)
                if worst(exceeds(np.atleast_1d(abs(many - lam * one)), one, many)):
                    raise Counterexample(
                        f"value is {one:.8g} for lam = 1 and {many:.8g} for lam = {lam:g}", x=x
                    )
        return f"{len(self.X)} points"

    def _subgradient(self) -> str:
        if not offers(self.g, Capability.SUBGRADIENT):
            raise NotTested("there is no method subgradient")
        for i, x in enumerate(self.X):
            slope = np.asarray(self.g.subgradient(x.copy()), dtype=np.float64)
            if slope.shape != x.shape or not np.isfinite(slope).all():
                raise Counterexample(f"the subgradient at x is {slope}, of shape {slope.shape}", x=x)
            Z, values = self._around(x)
            rise = (Z - x) @ slope
            found = worst(exceeds(self.values[i] + rise - values, self.values[i], rise, values))
            if found is not None:
                raise Counterexample(
                    f"g(z) = {values[found]:.8g}, below g(x) + <s, z - x> = {self.values[i]:.8g} + "
                    f"{rise[found]:.8g}",
                    x=x,
                    z=Z[found[0]],
                    s=slope,
                )
        return f"{len(self.X)} points, each against {len(Z)} others"

    def _around(self, x: Array) -> tuple[Array, Array]:
        """Return points far from and near to x, and their values."""
        length = STEP * self.sampler.scale
        near = [sign * length * direction for direction in self.sampler.directions(3) for sign in (1.0, -1.0)]
        for j in self.sampler.coordinates()[:_FEW]:
            near += [length * (np.arange(len(x)) == j), -length * (np.arange(len(x)) == j)]
        Z = x + np.array(near)
        return np.vstack([self.X, Z]), np.append(self.values, [self.g.value(z) for z in Z])

    def _lines(self) -> str:
        if type(self.g).line is Regularizer.line and not offers(self.g, Capability.SUBGRADIENT):
            raise NotTested("there is neither a method line nor a subgradient")
        grid = np.array([0.0, STEP, 0.3, 0.5 - STEP, 0.5, 0.5 + STEP, 1.0])
        for i, k in self.sampler.rng.permutation(len(self.X))[: 2 * (len(self.X) // 2)].reshape(-1, 2):
            line = self.g.line(self.X[i].copy(), self.X[k].copy())
            values, slopes = np.array([line(float(t)) for t in grid]).T
            direct = np.array([self.g.value(self.X[i] + t * (self.X[k] - self.X[i])) for t in grid])
            found = worst(exceeds(np.abs(values - direct), direct, direct[0], direct[-1]))
            if found is not None:
                raise Counterexample(
                    f"at t = {grid[found]:g} the line has the value {values[found]:.8g}, g has "
                    f"{direct[found]:.8g}",
                    x0=self.X[i],
                    x1=self.X[k],
                )
            rise = slopes[:, np.newaxis] * (grid - grid[:, np.newaxis])
            found = worst(exceeds(direct[:, np.newaxis] + rise - direct, direct[:, np.newaxis], rise, direct))
            if found is not None:
                raise Counterexample(
                    f"the slope {slopes[found[0]]:.8g} of the line at t = {grid[found[0]]:g} predicts more "
                    "than g at "
                    f"t = {grid[found[1]]:g}",
                    x0=self.X[i],
                    x1=self.X[k],
                )
        return f"{len(self.X) // 2} lines"

    def _form(self, capability: Capability, value: Callable[[Array], float | None]) -> str:
        if not offers(self.g, capability):
            raise NotTested(f"there is no method {capability.value}")
        chosen = self.sampler.rng.permutation(len(self.X))[:_FEW]
        for x, expected in zip(self.X[chosen], self.values[chosen], strict=True):
            found = value(x)
            if found is None:
                raise NotTested(f"{capability.value} returns None")
            accuracy = max(TOLERANCE, 1e-6 * max(1.0, abs(expected)))
            if not abs(found - expected) <= accuracy:
                raise Counterexample(
                    f"{capability.value} gives {found:.8g} at x, value(x) is {expected:.8g}", x=x
                )
        return f"{len(chosen)} points"

    def _quadratic(self, x: Array) -> float | None:
        form = self.g.quadratic(len(x))
        return None if form is None else form(x)

    def _separable(self, x: Array) -> float | None:
        form = self.g.separable_form(len(x))
        return None if form is None else form(x)

    def _grouped(self, x: Array) -> float | None:
        form = self.g.grouped_form(len(x))
        return None if form is None else form(x)

    def _linear(self, x: Array) -> float | None:
        form = self.g.linear_form(len(x))
        return None if form is None else linear_form_value(form, x)

    def _cvxpy(self, x: Array) -> float:
        return cvxpy_value(self.g, x)

    def _in_unit(self, unit: float, x: Array) -> float:
        return float(self.g.in_unit(unit).value(x / unit))

    def _conjugate(self, feasible_set: FeasibleSet, project: Callable[[Array], Array]) -> str:
        if not offers(self.g, Capability.CONJUGATE):
            raise NotTested("there is no method conjugate_minimiser")
        inside = np.array([project(x) for x in self.X])
        values = np.array([self.g.value(z) for z in inside])
        slopes = [np.zeros(self.sampler.dim), *self.sampler.directions(self.sampler.n_points)]
        for v in [*slopes, *self._slopes_minimised_at(inside)]:
            for budget in (math.inf, float(np.median(values))):
                minimum = self.g.conjugate_minimiser(v, feasible_set, budget)
                if minimum is None:
                    raise NotTested("there is no closed form for this set")
                self._check_bound(minimum, v, budget, inside, values)
                self._check_attained(minimum, v, feasible_set)
        return f"{len(slopes) + len(inside)} slopes against {len(inside)} points"

    def _slopes_minimised_at(self, inside: Array) -> list[Array]:
        """Return for each z inside, the projection of x, a v such that z minimises g + <v, .> over the set.

        With s a subgradient at z it is v = -s - (x - z), as x - z is normal to the set at z.
        """
        if not offers(self.g, Capability.SUBGRADIENT):
            return []
        return [-self.g.subgradient(z.copy()) - (x - z) for x, z in zip(self.X, inside, strict=True)]

    def _check_bound(self, minimum: Minimum, v: Array, budget: float, inside: Array, values: Array) -> None:
        products = np.where(values <= budget, inside @ v, math.inf)
        excess = minimum.value - values - products
        found = worst(
            np.where(excess > _BOUND * (1.0 + np.abs(values) + np.abs(inside) @ np.abs(v)), excess, 0.0)
        )
        if math.isnan(minimum.value) or found is not None:
            z = inside[found[0]] if found is not None else inside[0]
            raise Counterexample(
                f"the minimum is said to be {minimum.value:.10g} (budget {budget:g}), but g(z) + <v, z> = "
                f"{self.g.value(z) + z @ v:.10g}",
                v=v,
                z=z,
            )

    def _check_attained(self, minimum: Minimum, v: Array, feasible_set: FeasibleSet) -> None:
        if minimum.x is None:
            return
        x = minimum.x
        reached = self.g.value(x) + float(v @ x)
        size = 1.0 + abs(self.g.value(x)) + float(np.abs(v) @ np.abs(x))
        if not abs(reached - minimum.value) <= _BOUND * size:
            raise Counterexample(
                f"the minimum is said to be {minimum.value:.10g}, but {reached:.10g} is reached at x",
                v=v,
                x=x,
            )
        violation = feasible_set.violation(x)
        if violation > TOLERANCE * max(1.0, float(np.abs(x).max())):
            raise Counterexample(f"the minimiser x violates {feasible_set!r} by {violation:.3g}", v=v, x=x)


def _projection(regularizer: Regularizer, feasible_set: FeasibleSet, dim: int) -> Callable[[Array], Array]:
    """Return the projection on the set and the domain of the regularizer."""
    problem = Problem(LinearObjective(np.zeros(dim)), regularizer, feasible_set)
    return problem.into_simple_set
