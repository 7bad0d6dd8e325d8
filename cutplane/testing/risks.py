"""The checks of a risk: values, subgradients, and everything else that it offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cutplane.engine.evaluator import Evaluator
from cutplane.exceptions import InvalidInputError, OracleError
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.problem import Problem
from cutplane.risks.base import ImagedRisk, OnDemandRisk, Risk
from cutplane.sets.base import FeasibleSet
from cutplane.testing.estimates import EstimateProbe
from cutplane.testing.images import ImageProbe
from cutplane.testing.report import Counterexample, NotTested, Property, Report, examine
from cutplane.testing.sampling import CANCELLATION, STEP, TOLERANCE, Sampler, exceeds, worst

_SHAPES = (
    "Return (value, subgradient): a float and an array of shape (dim,), or one value and one row per block."
)
_CHANGED = "Work on a copy of x: the engine keeps the array it passes."
_REUSED = "Return new arrays: the engine keeps the answer to one query while it makes the next."
_RANDOM = (
    "The answer must depend on x alone: fix the random seed, use all the data, and drop what an earlier "
    "call left behind."
)
_CONVEX = "The function is not convex, or is computed wrongly: no subgradient can mend this."
_SLOPE = (
    "If it is convex on segments, the subgradient is wrong: look for a sign, a missing factor such as 1/m, "
    "or a term left out."
)
_MINIMISER = (
    "minimise_with(quadratic) must return the minimiser of f(x) + 1/2 sum_j weights_j (x_j - centre_j)^2, or "
    "None."
)
_FEW = 5
_PIECES = (
    "pieces must return values, subgradients and blocks of functions; each block is the largest of its own."
)
_INFIMA = "Lower `infima` to values that hold for all x, or drop them."


def check_risk(
    risk: Risk,
    feasible_set: FeasibleSet | None = None,
    *,
    rng: int | np.random.Generator = 0,
    n_points: int = 20,
    scale: float = 1.0,
    raise_on_failure: bool = True,
) -> Report:
    """Look for a mistake in a risk: a wrong subgradient, a nonconvex function, an answer that changes.

    Tests, at random points of X and at points near to them, whether ``f(z) >= f(x) + <s, z - x>`` for every
    cut, whether f is convex on segments and along single coordinates predicted by its subgradient, whether
    answers have the right shape, are finite, the same twice, respect `infima`, leave x alone and are not
    overwritten; for a risk with images, whether image, line and kinks agree with the oracle. Nonsmooth
    functions give no false alarms: only inequalities are tested.

    Parameters
    ----------
    risk : Risk
    feasible_set : FeasibleSet, optional
        Where the risk is defined; default: everywhere.
    rng : int or numpy.random.Generator, default 0
        Seed of the random points.
    n_points : int, default 20
        Number of points, at least 2; the oracle is asked up to 15 times as often.
    scale : float, default 1.0
        Size of the entries of the random points: that of a typical solution.
    raise_on_failure : bool, default True
        Whether a failed check is an error.

    Returns
    -------
    Report
        Lists every check; ``bool(report)`` is whether all passed.

    Raises
    ------
    OracleError
        If a check failed; the message shows the points, the numbers, and what to do.

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
    probe = _RiskProbe(Problem(risk, feasible_set=feasible_set), rng, n_points, scale)
    return examine(repr(risk), probe.properties(), OracleError if raise_on_failure else None)


class _RiskProbe:
    def __init__(self, problem: Problem, rng: int | np.random.Generator, n_points: int, scale: float):
        self.problem = problem
        self.risk = problem.risk
        self.evaluator = Evaluator(problem)
        self.sampler = Sampler(problem.dim, rng, n_points, scale)
        self.X = np.array([problem.into_simple_set(x) for x in self.sampler.points()])
        self.values: list[Array] = []
        self.slopes: list[Array] = []

    def properties(self) -> Iterator[Property]:
        yield Property(
            "value and subgradient have the right shape and are finite", self._answers, _SHAPES, True
        )
        yield Property("x is left as it is", self._leaves_x, _CHANGED)
        yield Property("an answer survives the next query", self._keeps_answers, _REUSED)
        yield Property("the same x gives the same answer", self._repeats, _RANDOM)
        yield Property("the value is convex on segments", self._convex, _CONVEX)
        yield Property("f(z) >= f(x) + <s, z - x> for points far apart", self._far, _SLOPE)
        yield Property("f(z) >= f(x) + <s, z - x> for points nearby", self._near, _SLOPE)
        yield Property("no value lies below its infimum", self._infima, _INFIMA)
        yield Property("minimise_with gives the minimiser", self._minimiser, _MINIMISER)
        yield Property("the largest piece of a block is its value", self._pieces, _PIECES)
        if isinstance(self.risk, ImagedRisk):
            yield from ImageProbe(self.risk, self.sampler, self.X, self.values, self.slopes).properties()
        if isinstance(self.risk, OnDemandRisk):
            yield from EstimateProbe(self.risk, self.X, self.values).properties()

    def ask(self, x: Array) -> tuple[Array, Array]:
        """Return copies of the values and the subgradients at x; those of an infinite value are zero."""
        point = self.evaluator.point(x.copy())
        if not np.isfinite(point.values).all():
            return point.values.copy(), np.zeros((self.risk.n_blocks, self.problem.dim))
        return point.values.copy(), np.array(self.evaluator.slopes(point))

    def _answers(self) -> str:
        for x in self.X:
            values, slopes = self.ask(x)
            self.values.append(values)
            self.slopes.append(slopes)
        finite = int(np.isfinite(self.values).all(axis=1).sum())
        if finite == 0:
            raise Counterexample(
                "the value is inf at every point tried; pass feasible_set or another scale", x=self.X[0]
            )
        return f"{len(self.X)} points" + (
            f", the value is inf at {len(self.X) - finite}" if finite < len(self.X) else ""
        )

    def _leaves_x(self) -> str:
        for x in self.X[:3]:
            given = x.copy()
            self.risk.oracle(given)
            if not np.array_equal(given, x):
                raise Counterexample("the oracle wrote to x", x=x, afterwards=given)
        return f"{len(self.X[:3])} points"

    def _keeps_answers(self) -> str:
        answer = self.risk.oracle(self.X[-1].copy())
        before = [np.array(part) for part in answer]
        self.risk.oracle(self.X[-2].copy())
        for name, old, now in zip(("value", "subgradient"), before, answer, strict=True):
            if not np.array_equal(old, now):
                raise Counterexample(
                    f"the {name} at x is overwritten by the query at z", x=self.X[-1], z=self.X[-2]
                )
        return "2 points"

    def _repeats(self) -> str:
        for x, values, slopes in list(zip(self.X, self.values, self.slopes, strict=True))[:5]:
            for name, first, again in zip(
                ("value", "subgradient"), (values, slopes), self.ask(x), strict=True
            ):
                size = np.abs(first, where=np.isfinite(first), out=np.zeros_like(first)).max()
                if not np.allclose(first, again, rtol=0.0, atol=TOLERANCE * size):
                    raise Counterexample(
                        f"the {name} was {_brief(first)} at first, and {_brief(again)} when x was asked "
                        "for again",
                        x=x,
                    )
        return f"{min(5, len(self.X))} points"

    def _convex(self) -> str:
        pairs, shares = self.sampler.pairs(), self.sampler.shares()
        values = np.array(self.values)
        starts, ends, t = values[pairs[:, 0]], values[pairs[:, 1]], shares[:, np.newaxis]
        X = (1.0 - t) * self.X[pairs[:, 0]] + t * self.X[pairs[:, 1]]
        inside = np.array([self.ask(x)[0] for x in X])
        found = worst(exceeds(inside - (1.0 - t) * starts - t * ends, starts, ends))
        if found is not None:
            k, block = found
            raise Counterexample(
                f"f{self._of(block)} is {inside[found]:.8g} at x + {shares[k]:.3g} (z - x), above the "
                f"{(1.0 - shares[k]) * starts[found] + shares[k] * ends[found]:.8g} interpolated between "
                f"{starts[found]:.8g} at x and {ends[found]:.8g} at z",
                x=self.X[pairs[k, 0]],
                z=self.X[pairs[k, 1]],
            )
        return f"{len(pairs)} segments"

    def _far(self) -> str:
        values = np.array(self.values)
        for i, (x, slopes) in enumerate(zip(self.X, self.slopes, strict=True)):
            found = worst(_excess(x, values[i], slopes, self.X, values))
            if found is not None:
                k, block = found
                raise self._below(x, values[i], slopes, self.X[k], values[k], block)
        return f"{len(self.X) * (len(self.X) - 1)} pairs"

    def _near(self) -> str:
        length = STEP * self.sampler.scale
        coordinates = self.sampler.coordinates()
        for k, j in enumerate(coordinates):
            step = np.zeros(self.problem.dim)
            step[j] = length
            self._neighbours(k % len(self.X), step)
        for i, direction in enumerate(self.sampler.directions(len(self.X))):
            self._neighbours(i, length * direction)
        return f"{4 * (len(coordinates) + len(self.X))} pairs, {length:g} apart in each coordinate or in one"

    def _neighbours(self, i: int, step: Array) -> None:
        x, values, slopes = self.X[i], self.values[i], self.slopes[i]
        for shift in (step, -step):
            z = self.problem.into_simple_set(x + shift)
            z_values, z_slopes = self.ask(z)
            for start, end in (((x, values, slopes), (z, z_values)), ((z, z_values, z_slopes), (x, values))):
                found = worst(_excess(*start, end[0][np.newaxis], end[1][np.newaxis]))
                if found is not None:
                    raise self._below(*start, *end, found[1])

    def _below(
        self, x: Array, values: Array, slopes: Array, z: Array, z_values: Array, block: int
    ) -> Counterexample:
        predicted = float(slopes[block] @ (z - x))
        moved = np.flatnonzero(z - x)
        along = ""
        if moved.size == 1:
            rate = (z_values[block] - values[block]) / (z - x)[moved[0]]
            slope = slopes[block, moved[0]]
            along = (
                f"; along coordinate {moved[0]} f changes at the rate {rate:.6g}, but s is {slope:.6g} there"
            )
        return Counterexample(
            f"f{self._of(block)}(z) = {z_values[block]:.8g}, below f(x) + <s, z - x> = {values[block]:.8g} "
            f"+ {predicted:.8g}{along}",
            x=x,
            z=z,
            s=slopes[block],
        )

    def _of(self, block: int) -> str:
        return f"_{block}" if self.risk.n_blocks > 1 else ""

    def _infima(self) -> str:
        infima = np.asarray(self.risk.infima, dtype=np.float64)
        if infima.shape != (self.risk.n_blocks,) or np.isnan(infima).any():
            raise Counterexample(
                f"infima must be numbers in an array of shape ({self.risk.n_blocks},), got {infima!r}"
            )
        if np.isneginf(infima).all():
            return "none is known"
        values = np.array(self.values)
        found = worst(exceeds(infima - values, values, infima))
        if found is not None:
            k, block = found
            raise Counterexample(
                f"f{self._of(block)}(x) = {values[found]:.8g}, below the infimum {infima[block]:.8g}",
                x=self.X[k],
            )
        return f"{len(values)} points"

    def _pieces(self) -> str:
        if not offers(self.risk, Capability.PIECES):
            raise NotTested(f"there is no method {Capability.PIECES.value}")
        everywhere = np.array(self.values)
        for x, values in zip(self.X, self.values, strict=True):
            slopes, offsets, blocks = self.evaluator.cuts(self.evaluator.point(x.copy()))
            heights = slopes @ self.X.T + offsets[:, np.newaxis]
            largest = np.full(self.risk.n_blocks, -np.inf)
            np.maximum.at(largest, blocks, slopes @ x + offsets)
            if worst(exceeds(np.abs(largest - values), values)) is not None:
                raise Counterexample(f"the largest pieces are {_brief(largest)}, not {_brief(values)}", x=x)
            found = worst(exceeds(heights - everywhere.T[blocks], everywhere.T[blocks], heights))
            if found is not None:
                row, place = found
                raise Counterexample(
                    f"piece {row} of x has a cut of the height {heights[found]:.8g} at z, above "
                    f"f{self._of(blocks[row])}(z) = {everywhere[place, blocks[row]]:.8g}",
                    x=x,
                    z=self.X[place],
                )
        return f"{len(self.X)} points"

    def _minimiser(self) -> str:
        if not offers(self.risk, Capability.MINIMISER):
            raise NotTested(f"there is no method {Capability.MINIMISER.value}")
        rng, dim = self.sampler.rng, self.problem.dim
        for _ in range(_FEW):
            weights, centre = rng.uniform(0.5, 2.0, dim), self.sampler.scale * rng.standard_normal(dim)
            least = self.evaluator.minimiser(DiagonalQuadratic(weights, centre))
            if least is None:
                raise NotTested(f"{Capability.MINIMISER.value} returns None")
            steps = (
                STEP
                * self.sampler.scale
                * np.vstack([np.eye(dim), -np.eye(dim), rng.standard_normal((dim, dim))])
            )
            others = np.vstack([self.X, least + steps])
            values = np.array([self.ask(x)[0].sum() for x in [least, *others]])
            values += 0.5 * np.square([least, *others] - centre) @ weights
            k = int(np.argmin(values[1:]))
            if values[0] - values[1 + k] > TOLERANCE * abs(values[0]):
                raise Counterexample(
                    f"f + quadratic is {values[0]:.8g} at the minimiser and {values[1 + k]:.8g} at x",
                    minimiser=least,
                    x=others[k],
                    weights=weights,
                    centre=centre,
                )
        return f"{_FEW} quadratics"


def _excess(x: Array, values: Array, slopes: Array, Z: Array, z_values: Array) -> Array:
    """Return by how much each cut at x exceeds each value at Z, shape (len(Z), n_blocks)."""
    rise = (Z - x) @ slopes.T
    cancelled = CANCELLATION * (np.abs(Z - x) @ np.abs(slopes).T)
    return exceeds(values + rise - z_values, values, rise, z_values, cancelled)


def _brief(answer: Any) -> str:
    array = np.ravel(answer)
    return f"{array[0]:.8g}" if array.size == 1 else np.array2string(array, precision=6, threshold=6)
