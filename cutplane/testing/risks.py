"""The laws of convex functions, and of risks: images, lines, pieces and estimates agree with the oracle."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from cutplane.engine.evaluator import Evaluator
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.capabilities import Capability
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array
from cutplane.problem import Problem
from cutplane.risks.base import Estimate, ImagedRisk, OnDemandRisk, Risk
from cutplane.sets.base import FeasibleSet
from cutplane.testing.laws import (
    CANCELLATION,
    STEP,
    TOLERANCE,
    Counterexample,
    Laws,
    NotTested,
    Report,
    Sampler,
    described,
    examine,
    exceeds,
    law,
    require_below,
    require_equal,
    worst,
)

_SLOPE = (
    "If it is convex on segments, the subgradient is wrong: look for a sign, a missing factor such as 1/m or "
    "lam, or a missing term."
)
_FEW = 5
"""Number of points at which a law is tested, because a wrong method fails at nearly all of them."""
_INTERVALS = 20
"""Most intervals between kinks that are tested, because a wrong derivative fails in most of them."""
_GRID = np.array([0.0, STEP, 0.25, 0.5 - STEP, 0.5, 0.5 + STEP, 0.75, 1.0 - STEP, 1.0])
_QUARTERS = 0.25, 0.5, 0.75
"""Places in an interval, because the middle slope of an affine function is the mean of both other slopes."""
_SHARES = math.inf, 1.0, 0.1, 1e-3
"""Accuracies of estimates, relative to the value."""
_NEAR = 1e-7
"""Distance from t at which derivatives of a line are compared, because the line may have a kink at t."""


@described(OracleError, calls=15, scale="as large as a typical solution")
def check_risk(
    risk: Risk,
    feasible_set: FeasibleSet | None = None,
    *,
    rng: int | np.random.Generator = 0,
    n_points: int = 20,
    scale: float = 1.0,
    raise_on_failure: bool = True,
) -> Report:
    """Search for a mistake in a risk: a wrong subgradient, a nonconvex function, an answer that changes.

    The tests, at random points of X and at points near them, are whether

    * ``f(z) >= f(x) + <s, z - x>`` for every cut, also along single coordinates;
    * f is convex on segments;
    * answers have the right shape, are finite, are the same for the same x, and are not below `infima`;
    * calls do not change x, nor earlier answers;
    * image, line and kinks of a risk with images agree with the oracle.

    Nonsmooth functions give no false alarms, because only inequalities are tested.

    Parameters
    ----------
    risk : Risk
    feasible_set : FeasibleSet, optional
        The set where the risk is defined; default: everywhere.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> @cut.risk(dim=3)
    ... def distance(x):
    ...     return np.abs(x - 1).sum(), -np.sign(x - 1)
    >>> report = cut.testing.check_risk(distance, raise_on_failure=False)
    >>> bool(report), len(report.failures)
    (False, 2)
    """
    if not isinstance(risk, Risk):
        raise InvalidInputError(
            f"check_risk needs a Risk, got {risk!r}; decorate a function with @cutplane.risk(dim=...)."
        )
    problem = Problem(risk, feasible_set=feasible_set)
    f = _RiskLaws(problem, Sampler(problem.dim, rng, n_points, scale))
    tables: list[Laws] = [f]
    if isinstance(risk, ImagedRisk):
        tables.append(_ImageLaws(f))
    if isinstance(risk, OnDemandRisk):
        tables.append(_EstimateLaws(f))
    return examine(repr(risk), OracleError if raise_on_failure else None, *tables)


class FunctionLaws(Laws):
    """Laws of a convex function, or of the blocks of a sum, at the points X where they are finite."""

    def __init__(self, problem: Problem, piece: Any, sampler: Sampler, X: Array, n_blocks: int = 1):
        self.problem, self.piece, self.sampler = problem, piece, sampler
        self.X, self.n_blocks = X, n_blocks
        self.values = np.empty((0, n_blocks))
        self.slopes = np.empty((0, n_blocks, sampler.dim))

    def ask(self, x: Array) -> tuple[Array, Array]:
        """Return copies of the values and the subgradients at x, which are zero where a value is infinite."""
        raise NotImplementedError

    def value(self, x: Array) -> Array:
        """Return the values at x."""
        return self.ask(x)[0]

    def call(self, x: Array) -> Any:
        """Call the methods of the piece itself, without a copy of x or of the answer."""
        raise NotImplementedError

    def segments(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of points, each point twice."""
        yield from self.sampler.pairs(len(self.X))

    @law(
        "value and subgradient have the right shape and are finite",
        "Return (value, subgradient): a float, inf outside the domain, and an array of shape (dim,), or one "
        "value and one row per block.",
        essential=True,
    )
    def _answers(self) -> str:
        answers = [self.ask(x) for x in self.X]
        values, slopes = (np.array(part) for part in zip(*answers, strict=True))
        finite: Any = np.isfinite(values).all(axis=1)
        if not finite.any():
            raise Counterexample(
                "the value is inf at every point tried; pass a feasible set or another scale", x=self.X[0]
            )
        self.X, self.values, self.slopes = self.X[finite], values[finite], slopes[finite]
        outside = f", the value is inf at {(~finite).sum()}" if not finite.all() else ""
        return f"{len(finite)} points{outside}"

    @law("x is not changed", "Work on a copy of x, because the engine keeps the array it passes.")
    def _keeps_x(self) -> str:
        for x in self.X:
            given = x.copy()
            self.call(given)
            if not np.array_equal(given, x):
                raise Counterexample("the call wrote to x", x=x, afterwards=given)
        return f"{len(self.X)} points"

    @law(
        "the same x gives the same answer",
        "The answer must depend on x alone: fix the random seed, use all the data, and drop data of an "
        "earlier call.",
    )
    def _repeats(self) -> str:
        chosen = self.X[:_FEW]
        for x, *firsts in zip(chosen, self.values, self.slopes, strict=False):
            for name, first, again in zip(("value", "subgradient"), firsts, self.ask(x), strict=True):
                if not np.allclose(first, again, rtol=0.0, atol=TOLERANCE * np.abs(first).max()):
                    raise Counterexample(
                        f"the {name} was {_brief(first)} at first, and {_brief(again)} when x was evaluated "
                        "again",
                        x=x,
                    )
        return f"{len(chosen)} points"

    @law(
        "the value is convex on segments",
        "The function is not convex, or is computed wrongly: no subgradient can mend this.",
    )
    def _convex(self) -> str:
        for i, k in self.segments():
            t = self.sampler.share()
            inside = self.value((1.0 - t) * self.X[i] + t * self.X[k])
            between = (1.0 - t) * self.values[i] + t * self.values[k]
            text = (
                f"f{{block}} is {{:.8g}} at x + {t:.3g} (z - x), above the {{:.8g}} interpolated between "
                "{:.8g} at x and {:.8g} at z"
            )
            ends = self.values[i], self.values[k]
            require_below(text, inside, between, *ends, x=self.X[i], z=self.X[k])
        return f"{len(self.X)} segments"

    @law("f(z) >= f(x) + <s, z - x> for points far apart", _SLOPE)
    def _far(self) -> str:
        for x, values, slopes in zip(self.X, self.values, self.slopes, strict=True):
            self.supports(x, values, slopes, self.X, self.values)
        return f"{len(self.X) * (len(self.X) - 1)} pairs"

    @law("f(z) >= f(x) + <s, z - x> for points nearby", _SLOPE)
    def _near(self) -> str:
        length = STEP * self.sampler.scale
        coordinates = self.sampler.rng.permutation(self.sampler.dim)[: 5 * self.sampler.n_points]
        steps = [length * (np.arange(self.sampler.dim) == j) for j in coordinates]
        steps += list(length * self.sampler.directions(len(self.X)))
        for i, step in enumerate(steps):
            x, values, slopes = (part[i % len(self.X)] for part in (self.X, self.values, self.slopes))
            for shift in (step, -step):
                z = self.problem.into_simple_set(x + shift)
                there = self.ask(z)
                self.supports(x, values, slopes, z[np.newaxis], there[0][np.newaxis])
                self.supports(z, *there, x[np.newaxis], values[np.newaxis])
        return f"{4 * len(steps)} pairs, {length:g} apart in each coordinate or in one"

    def supports(self, x: Array, values: Array, slopes: Array, Z: Array, there: Array) -> None:
        """Test whether the cuts at x hold at the rows of Z, where the values are `there`."""
        rise = (Z - x) @ slopes.T
        cancelled = CANCELLATION * (np.abs(Z - x) @ np.abs(slopes).T)
        found = worst(values + rise - there, values, rise, there, cancelled)
        if found is None:
            return
        k, block = found
        changed = np.flatnonzero(Z[k] - x)
        of, along = f"_{block}" if len(values) > 1 else "", ""
        if changed.size == 1:
            j = changed[0]
            rate = (there[found] - values[block]) / (Z[k] - x)[j]
            along = (
                f"; along coordinate {j} f changes at the rate {rate:.6g}, but s is {slopes[block, j]:.6g}"
            )
        raise Counterexample(
            f"f{of}(z) = {there[found]:.8g}, below f(x) + <s, z - x> = {values[block]:.8g} "
            f"+ {rise[found]:.8g}{along}",
            x=x,
            z=Z[k],
            s=slopes[block],
        )


def check_lines(lines: Iterable[tuple[Array, Array, Line, Callable[[float], float]]]) -> str:
    """Compare lines from x0 to x1 with the function there, and their slopes with its differences."""
    count = 0
    for x0, x1, line, direct in lines:
        values, slopes = np.array([line(float(t)) for t in _GRID]).T
        expected = np.array([direct(float(t)) for t in _GRID])
        text = "the line has the value {:.8g}, the function {:.8g} at this t"
        require_equal(text, values, expected, expected, expected[0], expected[-1], Z=_GRID, x0=x0, x1=x1)
        start, rise = values[:, np.newaxis], slopes[:, np.newaxis] * (_GRID - _GRID[:, np.newaxis])
        text = "the value {2:.8g} of the line and its slope predict {0:.8g} where the line is {1:.8g}"
        require_below(text, start + rise, values, start, rise, values, Z=_GRID, x0=x0, x1=x1)
        count += 1
    return f"{count} lines at {len(_GRID)} points"


class _RiskLaws(FunctionLaws):
    def __init__(self, problem: Problem, sampler: Sampler):
        X = np.array([problem.into_simple_set(x) for x in sampler.points()])
        super().__init__(problem, problem.risk, sampler, X, problem.risk.n_blocks)
        self.evaluator = Evaluator(problem)

    def ask(self, x: Array) -> tuple[Array, Array]:
        point = self.evaluator.point(x.copy())
        if not np.isfinite(point.values).all():
            return point.values.copy(), np.zeros((self.n_blocks, self.problem.dim))
        return point.values.copy(), np.array(self.evaluator.slopes(point))

    def call(self, x: Array) -> Any:
        return self.piece.oracle(x)

    @law(
        "an answer survives the next query",
        "Return new arrays, because the engine keeps the answer to one query while it makes the next.",
    )
    def _keeps_answers(self) -> str:
        x, z = self.X[-1], self.X[len(self.X) // 2 - 1]
        answer = self.call(x.copy())
        before = [np.array(part) for part in answer]
        self.call(z.copy())
        for name, old, now in zip(("value", "subgradient"), before, answer, strict=False):
            if not np.array_equal(old, now):
                raise Counterexample(f"the {name} at x is overwritten by the query at z", x=x, z=z)
        return "2 points"

    @law("no value lies below its infimum", "Lower `infima` to values that hold for all x, or drop them.")
    def _infima(self) -> str:
        infima = np.asarray(self.piece.infima, dtype=np.float64)
        if infima.shape != (self.n_blocks,) or np.isnan(infima).any():
            raise Counterexample(
                f"infima must be numbers in an array of shape ({self.n_blocks},), got {infima!r}"
            )
        if np.isneginf(infima).all():
            return "none is declared"
        require_below("f{block}(z) = {1:.8g}, below the infimum {0:.8g}", infima, self.values, Z=self.X)
        return f"{len(self.values)} points"

    @law(
        "minimise_with gives the minimiser",
        "minimise_with(quadratic) must return the minimiser of "
        "f(x) + 1/2 sum_j weights_j (x_j - centre_j)^2, or None.",
        needs=Capability.MINIMISER,
    )
    def _minimiser(self) -> str:
        rng, dim, scale = self.sampler.rng, self.sampler.dim, self.sampler.scale
        for _ in range(_FEW):
            weights, centre = rng.uniform(0.5, 2.0, dim), scale * rng.standard_normal(dim)
            least = self.evaluator.minimiser(DiagonalQuadratic(weights, centre))
            if least is None:
                raise NotTested(f"{Capability.MINIMISER.value} returns None")
            steps = STEP * scale * np.vstack([np.eye(dim), -np.eye(dim), self.sampler.directions(dim)])
            points = np.vstack([least, self.X, least + steps])
            values = np.array([self.value(x).sum() for x in points])
            values += 0.5 * np.square(points - centre) @ weights
            k = int(np.argmin(values[1:])) + 1
            if values[0] - values[k] > TOLERANCE * abs(values[0]):
                raise Counterexample(
                    f"f + quadratic is {values[0]:.8g} at the minimiser and {values[k]:.8g} at x",
                    minimiser=least,
                    x=points[k],
                    weights=weights,
                    centre=centre,
                )
        return f"{_FEW} quadratics"

    @law(
        "the largest piece of a block is its value",
        "pieces must return values, subgradients and blocks of functions; each block is the largest of its "
        "pieces.",
        needs=Capability.PIECES,
    )
    def _pieces(self) -> str:
        for x, values in zip(self.X, self.values, strict=True):
            slopes, offsets, blocks = self.evaluator.cuts(self.evaluator.point(x.copy()))
            largest = np.full(self.n_blocks, -np.inf)
            np.maximum.at(largest, blocks, slopes @ x + offsets)
            require_equal("the largest piece of f{block} is {:.8g}, not {:.8g}", largest, values, x=x)
            heights, there = self.X @ slopes.T + offsets, self.values[:, blocks]
            text = "piece{block} of x has a cut of the height {:.8g} at z, above f(z) = {:.8g}"
            require_below(text, heights, there, there, heights, Z=self.X, x=x)
        return f"{len(self.X)} points"


class _ImageLaws(Laws):
    """Laws of a risk f(x) = h(M x) that keeps the image z = M x of a point."""

    def __init__(self, f: _RiskLaws):
        self.f, self.piece = f, f.piece

    def image(self, x: Array) -> Any:
        return self.piece.image(x.copy())

    def value(self, z: Any) -> Array:
        return np.array(self.piece.values(z), dtype=np.float64).reshape(self.f.n_blocks)

    def pairs(self) -> Iterator[tuple[Array, Array, Any, Any]]:
        for i, k in self.f.segments():
            x0, x1 = self.f.X[i], self.f.X[k]
            yield x0, x1, self.image(x0), self.image(x1)

    @law(
        "the oracle agrees with values and slopes of the image",
        "Define oracle(x) as values(image(x)) and slopes(image(x)), or do not override it.",
    )
    def _oracle(self) -> str:
        for x, values in zip(self.f.X, self.f.values, strict=True):
            direct = np.reshape(self.piece.oracle(x.copy())[0], values.shape)
            require_equal("oracle(x) has the value {:.8g}, values(image(x)) is {:.8g}", direct, values, x=x)
        return f"{len(self.f.X)} points"

    @law(
        "an image survives its uses",
        "image, combine, values, slopes and line must return new arrays, and not change the images they are "
        "given.",
    )
    def _keeps_images(self) -> str:
        x0, x1 = self.f.X[-1], self.f.X[len(self.f.X) // 2 - 1]
        z0 = self.image(x0)
        before = self.value(z0)
        z1 = self.image(x1)
        self.piece.combine(z0, z1, 0.5)
        self.piece.slopes(z0)
        self.piece.line(z0, z1)(0.5)
        if not np.array_equal(before, after := self.value(z0), equal_nan=True):
            raise Counterexample(f"the values of the image of x were {before}, later {after}", x=x0, z=x1)
        return "2 points"

    @law(
        "combine gives the image of the point between",
        "image must be linear in x (no constant term: put it into values), and combine must return "
        "z0 + t (z1 - z0).",
    )
    def _combines(self) -> str:
        for x0, x1, z0, z1 in self.pairs():
            t = self.f.sampler.share()
            x, z = x0 + t * (x1 - x0), self.piece.combine(z0, z1, t)
            values, direct = self.value(z), self.value(self.image(x))
            text = f"at x0 + {t:.3g} (x1 - x0) the combined image has the value {{:.8g}}, not {{:.8g}}"
            require_equal(text, values, direct, self.value(z0), self.value(z1), x0=x0, x1=x1)
            slopes = np.reshape(self.piece.slopes(z), (self.f.n_blocks, len(x)))
            self.f.supports(x, values, slopes, self.f.X, self.f.values)
        return f"{len(self.f.X)} segments"

    @law(
        "line gives the value and a slope of it",
        "line(z0, z1) must return the values at z0 + t (z1 - z0), summed over the blocks, and their right "
        "derivative in t.",
    )
    def _lines(self) -> str:
        def lines() -> Iterator[Any]:
            for x0, x1, z0, z1 in self.pairs():
                line = self.piece.line(z0, z1)
                yield x0, x1, line, lambda t, z=(z0, z1): self.value(self.piece.combine(*z, t)).sum()

        return check_lines(lines())

    @law(
        "the pieces between the kinks of a line are quadratic",
        "Line.kinks must hold every t >= 0 at which a linear or quadratic piece ends; pass None if they are "
        "not given.",
    )
    def _kinks(self) -> str:
        count = 0
        for x0, x1, z0, z1 in self.pairs():
            line = self.piece.line(z0, z1)
            kinks = line.all_kinks()
            if kinks is None:
                raise NotTested("the line has no kinks")
            starts = np.unique(np.append(kinks[kinks > 0.0], 0.0))
            ends = np.append(starts[1:], 2.0 * starts[-1] + 1.0)
            long = np.flatnonzero((ends - starts > 1e-9 * (1.0 + starts)) & (ends < 1e6))
            chosen = self.f.sampler.rng.permutation(long)[:_INTERVALS]
            extremes = [line(0.0)[1], line(float(ends[chosen].max(initial=0.0)))[1]]
            for start, end in zip(starts[chosen], ends[chosen], strict=True):
                left, middle, right = (line(float(start + share * (end - start)))[1] for share in _QUARTERS)
                if worst(abs(left - 2.0 * middle + right), left, middle, right, *extremes):
                    raise Counterexample(
                        f"between the kinks {start:.8g} and {end:.8g} the slope is {left:.8g}, "
                        f"{middle:.8g} and {right:.8g} at the quarters: it is not affine",
                        x0=x0,
                        x1=x1,
                    )
            count += len(chosen)
        return f"{count} intervals"

    @law(
        "the derivative that a line gives is true",
        "Line.derivative and Line.newton must add up to the derivative of the line, with every kink and the "
        "second derivative right; pass None if they are not given.",
    )
    def _derivative(self) -> str:
        for x0, x1, z0, z1 in self.pairs():
            line = self.piece.line(z0, z1)
            derivative, newton = line.derivative, line.newton
            if derivative is None and newton is None:
                raise NotTested("the line does not give its derivative")
            for low, t in pairwise([0.0, 0.2, 0.45, 0.7, 0.95]):
                given = sum(part(t)[0] for part in (derivative, newton) if part is not None)
                before, after = line(t - _NEAR)[1], line(t + _NEAR)[1]
                wrong = exceeds([before - given, given - after], before, given, after)
                if derivative is not None:
                    there, along = np.array(derivative(t)), np.array(derivative.between(low, t + STEP)(t))
                    sizes = np.abs(there).sum() + np.abs(along).sum()
                    wrong = np.append(wrong, exceeds(np.abs(along - there), sizes))
                if (wrong > 0.0).any():
                    raise Counterexample(
                        f"at t = {t:g} the slope is said to be {given:.8g}; nearby the line has "
                        f"{before:.8g} and {after:.8g}; between({low:g}, {t + STEP:g}) must say the same",
                        x0=x0,
                        x1=x1,
                    )
        return f"{len(self.f.X)} lines at 4 points"


class _EstimateLaws(Laws):
    """Laws of a risk with on-demand accuracy: rough answers lie on the right side of the exact ones."""

    def __init__(self, f: _RiskLaws):
        self.f, self.piece = f, f.piece

    def estimates(self) -> Iterator[tuple[Array, Array, float, Estimate]]:
        last = None
        for x, values in zip(self.f.X, self.f.values, strict=True):
            for share in _SHARES:
                accuracy = share * float(np.abs(values).sum()) if share < math.inf else share
                last = self.piece.estimate(x.copy(), accuracy, last)
                yield x, values, accuracy, last

    @law(
        "an estimate is as accurate as requested",
        "The cuts of estimate(x, accuracy) must lie below its values at x, by at most accuracy in total.",
    )
    def _accurate(self) -> str:
        for x, values, accuracy, found in self.estimates():
            error = np.sum(found.values - found.slopes @ x - found.offsets)
            text = "an estimate with accuracy {1:.3g} was requested, the error is {0:.3g}"
            require_below(text, error, accuracy, values.sum(), x=x)
        return f"{len(self.f.X)} points"

    @law(
        "estimates are on the right side of exact answers",
        "The values of an estimate must not be below f(x), its cuts nowhere above f.",
    )
    def _sides(self) -> str:
        exact = self.f.values
        for x, values, accuracy, found in self.estimates():
            text = f"f{{block}} is {{:.8g}}, its estimate with accuracy {accuracy:.3g} is {{:.8g}}"
            require_below(text, values, found.values, values, x=x)
            cuts = self.f.X @ found.slopes.T + found.offsets
            text = "the cut of an estimate at x is {:.8g} at z, where f is {:.8g}"
            require_below(text, cuts, exact, Z=self.f.X, x=x)
        return f"{len(self.f.X)} points"

    @law(
        "the multipliers of an estimate give its cuts",
        "dual_cut(estimate.multipliers) must return the slopes and the offsets of the estimate.",
    )
    def _dual(self) -> str:
        for x, _, _, found in self.estimates():
            slopes, offsets = self.piece.dual_cut(found.multipliers)
            text = "dual_cut gives another cut than the estimate: {:.8g}, not {:.8g}"
            require_equal(text, slopes, found.slopes, found.slopes, x=x)
            require_equal(text, offsets, found.offsets, found.offsets, x=x)
        return f"{len(self.f.X)} points"


def _brief(answer: Any) -> str:
    array = np.ravel(answer)
    return f"{array[0]:.8g}" if array.size == 1 else np.array2string(array, precision=6, threshold=6)
