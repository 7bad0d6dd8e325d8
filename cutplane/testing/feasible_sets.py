"""The checks of a feasible set: violation, projection, minimisers and forms describe the same convex set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array, as_count
from cutplane.problem import Problem
from cutplane.risks.objective import LinearObjective
from cutplane.sets.base import FeasibleSet
from cutplane.testing.forms import cvxpy_violation, linear_form_value
from cutplane.testing.report import Counterexample, NotTested, Property, Report, examine
from cutplane.testing.sampling import TOLERANCE, UNITS, Sampler
from cutplane.testing.separation import SeparationProbe

_VIOLATION = (
    "violation(x) must return 0 inside and a positive float (or inf) outside, never NaN, the same at each "
    "call."
)
_CONVEX = "The set is not convex, or violation measures something whose level sets are not."
_PROJECT = "project must return the point of the set nearest to x, x itself if x is inside."
_LINEAR = "minimise_linear(v) must return a point of the set at which <v, x> is least."
_ENTROPY = (
    "minimise_entropy(v, log_reference) must minimise <v, x> + sum_j x_j (ln x_j - log_reference_j) over "
    "the set."
)
_BOUNDS = "bounds must be exactly the set, each of shape (dim,); return None if the set is not a box."
_FORM = "The form must describe the same set as violation; return None, or drop the method, if there is none."
_BOUNDED = "Set bounded = False, or None if it is not known: a wrong True lets unbounded problems through."
_UNIT = "in_unit(unit) must return {u : unit * u is in the set}: sides and radii are divided by the unit."
_FEW = 5
_FAR = 1e9


def check_set(
    feasible_set: FeasibleSet,
    dim: int | None = None,
    *,
    rng: int | np.random.Generator = 0,
    n_points: int = 20,
    scale: float = 1.0,
    raise_on_failure: bool = True,
) -> Report:
    """Look for a mistake in a feasible set, in its violation and in every optional method it has.

    Tests whether the violation is zero inside and its level sets are convex; whether the projection is in the
    set, idempotent, nonexpansive and optimal; whether no point found has a smaller linear (or entropic)
    objective than the minimiser; and whether bounds, linear form and cvxpy form describe the same set.
    Separation oracles in it are examined as by `check_separation`.

    Parameters
    ----------
    feasible_set : FeasibleSet
    dim : int, optional
        Dimension to test it in; needed if the set fits any.
    rng : int or numpy.random.Generator, default 0
        Seed of the random points.
    n_points : int, default 20
        Number of points, at least 2.
    scale : float, default 1.0
        Size of the entries of the random points: they should lie inside as well as outside.
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
    properties = list(_SetProbe(problem, sampler).properties())
    for separator in problem.separators:
        properties += SeparationProbe(separator, sampler, np.empty((0, size))).properties()
    return examine(repr(feasible_set), properties, InvalidInputError if raise_on_failure else None)


class _SetProbe:
    def __init__(self, problem: Problem, sampler: Sampler):
        self.problem = problem
        self.X0: Any = problem.simple_set
        self.sampler = sampler
        self.outside = sampler.points()
        self.inside = np.empty((0, sampler.dim))

    def properties(self) -> Iterator[Property]:
        yield Property(
            "points of the set are found, and have no violation", self._membership, _VIOLATION, True
        )
        yield Property(
            "violation is a number, the same at each call, and leaves x as it is", self._violation, _VIOLATION
        )
        yield Property("the set, and each level set of the violation, is convex", self._convex, _CONVEX)
        yield Property("project gives the nearest point", self._nearest, _PROJECT)
        yield Property("project is idempotent and nonexpansive", self._nonexpansive, _PROJECT)
        yield Property("minimise_linear gives the least <v, x>", self._least_linear, _LINEAR)
        yield Property("minimise_entropy gives the least value", self._least_entropy, _ENTROPY)
        yield Property("a set called bounded is bounded", self._bounded, _BOUNDED)
        yield Property("bounds describe the set", self._bounds, _BOUNDS)
        yield Property(
            "linear_form describes the set",
            partial(self._form, Capability.LINEAR_FORM, self._in_linear),
            _FORM,
        )
        yield Property(
            "cvxpy_form describes the set", partial(self._form, Capability.CVXPY, self._in_cvxpy), _FORM
        )
        for unit in UNITS:
            yield Property(
                f"in_unit({unit:g}) describes the set",
                partial(self._form, Capability.UNIT, partial(self._in_unit, unit)),
                _UNIT,
            )

    def _tolerance(self, x: Array) -> float:
        return TOLERANCE * max(1.0, self.sampler.scale, float(np.abs(x).max()))

    def _require_inside(self, found: Array, what: str, **points: Array) -> None:
        if np.shape(found) != (self.sampler.dim,):
            raise Counterexample(f"{what} has shape {np.shape(found)}", **points)
        violation = self.X0.violation(found)
        if not violation <= self._tolerance(found):
            raise Counterexample(f"{what} violates the set by {violation:.6g}", **points, found=found)

    def _membership(self) -> str:
        inside = []
        for x in self.outside:
            z = self.problem.into_simple_set(x.copy())
            self._require_inside(z, "the projection of x", x=x)
            inside.append(z)
        self.inside = np.array(inside)
        return f"{len(inside)} points"

    def _violation(self) -> str:
        points = np.vstack([self.outside, self.inside, 0.5 * (self.inside[1:] + self.inside[:-1])])
        for x in points:
            given = x.copy()
            violation = self.X0.violation(given)
            if not violation >= 0.0:
                raise Counterexample(f"violation(x) = {violation}", x=x)
            if not np.array_equal(given, x):
                raise Counterexample("violation wrote to x", x=x, afterwards=given)
            if (again := self.X0.violation(x.copy())) != violation:
                raise Counterexample(
                    f"violation(x) was {violation:.17g} at first and {again:.17g} later", x=x
                )
        return f"{len(points)} points"

    def _convex(self) -> str:
        X = np.vstack([self.outside, self.inside])
        order = self.sampler.rng.permutation(len(X))
        pairs = [*zip(order, np.roll(order, 1), strict=True), *self.sampler.pairs() + len(self.outside)]
        for i, k in pairs:
            t = self.sampler.rng.uniform(0.1, 0.9)
            between = X[i] + t * (X[k] - X[i])
            highest = max(self.X0.violation(X[i]), self.X0.violation(X[k]))
            violation = self.X0.violation(between)
            if violation > highest + self._tolerance(between) + TOLERANCE * highest:
                raise Counterexample(
                    f"the violation is {violation:.6g} at x + {t:.3g} (z - x), but at most {highest:.6g} "
                    "at x and z",
                    x=X[i],
                    z=X[k],
                )
        return f"{len(pairs)} segments"

    def _require(self, capability: Capability) -> None:
        if not offers(self.X0, capability):
            raise NotTested(f"there is no method {capability.value}")

    def _nearest(self) -> str:
        self._require(Capability.PROJECTION)
        candidates = self.inside
        for x in self.outside:
            nearest = self.X0.project(x.copy())
            if offers(self.X0, Capability.LINEAR_MINIMISATION):
                candidates = np.vstack([self.inside, self.X0.minimise_linear(nearest - x)])
            sizes = np.linalg.norm(candidates - nearest, axis=1) + np.linalg.norm(x - nearest)
            excess = (candidates - nearest) @ (x - nearest) - self._tolerance(x) * sizes
            if (excess > 0.0).any():
                z = candidates[int(np.argmax(excess))]
                raise Counterexample(
                    f"the projection of x is at distance {np.linalg.norm(x - nearest):.8g}, but moving "
                    "from it towards z, "
                    "which is in the set, comes nearer",
                    x=x,
                    projection=nearest,
                    z=z,
                )
        return f"{len(self.outside)} points, each against {len(candidates)} of the set"

    def _nonexpansive(self) -> str:
        self._require(Capability.PROJECTION)
        for z in self.inside:
            again = self.X0.project(z.copy())
            if float(np.abs(again - z).max()) > self._tolerance(z):
                raise Counterexample(
                    "the projection of a point of the set is another point", x=z, projection=again
                )
        for i, k in self.sampler.pairs():
            x, z = self.outside[i], self.outside[k]
            moved = float(np.linalg.norm(self.X0.project(x.copy()) - self.X0.project(z.copy())))
            apart = float(np.linalg.norm(x - z))
            if moved > apart + self._tolerance(x) + self._tolerance(z):
                raise Counterexample(
                    f"the projections of x and z are {moved:.8g} apart, x and z only {apart:.8g}", x=x, z=z
                )
        return f"{len(self.inside)} points and {self.sampler.n_points} pairs"

    def _least_linear(self) -> str:
        self._require(Capability.LINEAR_MINIMISATION)
        directions = np.vstack(
            [np.zeros((1, self.sampler.dim)), self.sampler.directions(self.sampler.n_points)]
        )
        for v in directions:
            least = self.X0.minimise_linear(v.copy())
            self._require_inside(least, "the minimiser", v=v)
            self._compare(v @ least, self.inside @ v, np.abs(v).sum(), v=v, minimiser=least)
        return f"{len(directions)} directions against {len(self.inside)} points"

    def _least_entropy(self) -> str:
        self._require(Capability.ENTROPIC_MINIMISATION)
        for v in self.sampler.directions(self.sampler.n_points):
            log_reference = self.sampler.directions(1)[0]

            def value(x: Array, tilted: Array = v - log_reference) -> float:
                return float(x @ (tilted + np.log(np.where(x > 0.0, x, 1.0))))

            least = self.X0.minimise_entropy(v.copy(), log_reference)
            self._require_inside(least, "the minimiser", v=v)
            others = np.array([value(np.maximum(z, 0.0)) for z in self.inside])
            self._compare(value(least), others, np.abs(v).sum(), v=v, minimiser=least)
        return f"{self.sampler.n_points} directions against {len(self.inside)} points"

    def _compare(self, least: float, others: Array, size: float, **points: Array) -> None:
        better = int(np.argmin(others))
        if others[better] < least - TOLERANCE * max(1.0, self.sampler.scale, abs(least)) * max(1.0, size):
            raise Counterexample(
                f"the value is {least:.8g} at the minimiser and {others[better]:.8g} at x, which is in the "
                "set",
                **points,
                x=self.inside[better],
            )

    def _bounded(self) -> str:
        if self.X0.bounded is not True:
            raise NotTested(f"bounded is {self.X0.bounded}")
        self._require(Capability.PROJECTION)
        for direction in self.sampler.directions(self.sampler.n_points):
            near, far = (
                float(np.linalg.norm(self.X0.project(distance * self.sampler.scale * direction)))
                for distance in (_FAR, 1e3 * _FAR)
            )
            if far > 100.0 * max(near, self.sampler.scale):
                raise Counterexample(
                    f"the set has points of norm {near:.3g} and {far:.3g} in one direction",
                    direction=direction,
                )
        return f"{self.sampler.n_points} directions"

    def _bounds(self) -> str:
        bounds = self.X0.bounds(self.sampler.dim)
        if bounds is None:
            raise NotTested("the set is not said to be a box")
        lower, upper = bounds
        if np.shape(lower) != (self.sampler.dim,) or np.shape(upper) != (self.sampler.dim,):
            raise Counterexample(f"bounds have the shapes {np.shape(lower)} and {np.shape(upper)}")
        for z in self.inside:
            if np.maximum(lower - z, z - upper).max() > self._tolerance(z):
                raise Counterexample("a point of the set is outside its bounds", x=z)
        for x in self.outside:
            self._require_inside(np.clip(x, lower, upper), "x clipped to the bounds", x=x)
        return f"{len(self.inside) + len(self.outside)} points"

    def _form(self, capability: Capability, holds: Callable[[Array], bool | None]) -> str:
        self._require(capability)
        for z in self.inside[:_FEW]:
            if not (found := holds(z)):
                if found is None:
                    raise NotTested(f"{capability.value} returns None")
                raise Counterexample(f"{capability.value} does not hold at x, which has no violation", x=z)
        cut_off = self._barely_outside()
        for x in cut_off:
            if holds(x):
                raise Counterexample(
                    f"{capability.value} holds at x, which violates the set by {self.X0.violation(x):.6g}",
                    x=x,
                )
        return f"{len(self.inside[:_FEW])} points inside, {len(cut_off)} outside"

    def _barely_outside(self) -> list[Array]:
        """Return points that differ from one of the set in a single coordinate, and clearly violate it."""
        found = []
        for x, z in zip(self.outside, self.inside, strict=True):
            j = self.sampler.rng.choice(np.flatnonzero(x != z) if (x != z).any() else [0])
            moved = np.where(np.arange(len(x)) == j, x, z)
            if self.X0.violation(moved) > 1e3 * self._tolerance(moved):
                found.append(moved)
        return found

    def _in_linear(self, x: Array) -> bool | None:
        form = self.X0.linear_form(self.sampler.dim)
        return None if form is None else linear_form_value(form, x) < math.inf

    def _in_unit(self, unit: float, x: Array) -> bool:
        return unit * self.X0.in_unit(unit).violation(x / unit) <= 1e2 * self._tolerance(x)

    def _in_cvxpy(self, x: Array) -> bool:
        return cvxpy_violation(self.X0, x) <= 1e2 * self._tolerance(x)
