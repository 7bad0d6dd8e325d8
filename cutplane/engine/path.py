"""The regularisation path."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from cutplane.exceptions import InvalidInputError, MissingCapabilityError, MissingExtraError
from cutplane.methods.base import Follower, FollowsPath, HasFollower, Method, Step
from cutplane.pieces.capabilities import Capability, ask, users_parts
from cutplane.pieces.validation import Array, as_positive, as_scalar, as_vector
from cutplane.regularizers.base import Regularizer
from cutplane.regularizers.separable import L1, L2
from cutplane.result import Result
from cutplane.runtime.extras import require_extra
from cutplane.runtime.threads import one_blas_thread
from cutplane.sets.base import FeasibleSet
from cutplane.status import Status, relative_gap
from cutplane.stopping import stopping_rules

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from scipy import sparse

    from cutplane.engine.declaration import Declaration
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run


R = TypeVar("R", bound=Any)

_RULES = {"max_iter", "stop", "time_limit", "tol", "tol_abs"}
_SHOWN = {"callback", "log", "progress"}
_TAKEN = {*_RULES, *_SHOWN, "backend", "max_cuts", "method", "probes", "warm_start", "x0"}
_AIMS = 0.9, 0.05, 0.005
"""Shares of the tolerance that a follower must reach, in this order because its estimate of the gap is not a
proof, but the first share mostly suffices."""


class Results(Generic[R]):
    """A sequence of results; a subclass implements `results` and `to_frame`."""

    results: tuple[R, ...]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[R]:
        return iter(self.results)

    def __getitem__(self, index: int) -> R:
        return self.results[index]

    @property
    def objectives(self) -> Array:
        """The objective of each result, shape (n,)."""
        return np.array([result.objective for result in self.results])

    @property
    def oracle_calls(self) -> int:
        """Queries of the risk, over the whole path."""
        return sum(result.oracle_calls for result in self.results)

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per result."""

    def _repr_html_(self) -> str | None:
        try:
            return self.to_frame().to_html(max_rows=60)
        except MissingExtraError:
            return None


@dataclass(frozen=True, eq=False, repr=False)
class Path(Results[Result]):
    """The results along a path of regularizer weights.

    Attributes
    ----------
    lams : ndarray of shape (n,)
    results : tuple of Result
    """

    lams: Array
    results: tuple[Result, ...]

    @property
    def coefficients(self) -> Array:
        """The best point at each weight, shape (n, dim)."""
        return np.array([result.x for result in self.results])

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per weight (needs the extra ``tables``)."""
        pd = require_extra("pandas", "tables")

        return pd.DataFrame(
            {
                "lam": self.lams,
                "objective": self.objectives,
                "lower_bound": [result.lower_bound for result in self.results],
                "gap": [result.gap for result in self.results],
                "status": [str(result.status) for result in self.results],
                "iterations": [result.n_iter for result in self.results],
                "oracle_calls": [result.oracle_calls for result in self.results],
                "cuts": [len(result.certificate.offsets) for result in self.results],
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot every coordinate over the weight and return the axes (needs the extra ``plot``)."""
        from cutplane.report.plotting import plot_path

        return plot_path(self, ax=ax)

    def __repr__(self) -> str:
        return (
            f"Path({len(self)} weights from {self.lams[0]:.3g} to {self.lams[-1]:.3g}, "
            f"{self.oracle_calls} oracle calls, largest gap {max(result.gap for result in self.results):.2g})"
        )


def follow(problem: Any, lams: Sequence[float] | Array, method: Method, options: dict[str, Any]) -> Path:
    """Solve `problem` for each weight in turn; see `Problem.path`."""
    weights = as_vector("lams", lams)
    if weights.size == 0:
        raise InvalidInputError("lams is empty; pass at least one weight.")
    results: list[Result] = []
    with one_blas_thread():
        for result in followed(problem, weights, method, options):
            results.append(result)
            if result.status is Status.INTERRUPTED:
                break
    return Path(weights[: len(results)], tuple(results))


def followed(problem: Any, lams: Array, method: Method, options: dict[str, Any]) -> Iterator[Result]:
    """Yield the result for each weight.

    The method's follower, if there is one, proposes points and multipliers, whose bounds are proven here.
    Without a follower, or if the gap exceeds the tolerance, the problem is solved from the cuts of the
    previous weight.
    """
    begin = {name: options[name] for name in ("warm_start", "x0") if name in options}
    rest = {name: value for name, value in options.items() if name not in begin}
    lead = _leader(problem, method, options) if lams.size > 1 else None
    for lam in lams.tolist():
        step = problem.regularized_by(problem.regularizer.with_lam(lam))
        result = None if lead is None else lead(step)
        if result is None:
            result = step.solve(**begin, **rest)
        begin = {"warm_start": result}
        yield result


def _leader(
    problem: Declaration, method: Method, options: dict[str, Any]
) -> Callable[[Declaration], Result | None] | None:
    """Return a function that solves the next weight by the method's follower, or returns None on failure.

    Return None if the method has no follower for the problem, or the options exclude it.
    """
    from cutplane.engine.driver import Driver
    from cutplane.engine.method_process import MethodProcess
    from cutplane.engine.run import Run
    from cutplane.engine.standard import standardized
    from cutplane.masters.select import Backend

    asked = users_parts(problem.simple_set, FeasibleSet) + users_parts(problem.regularizer, Regularizer)
    held = options.get("warm_start") or options.get("max_cuts") or options.get("backend", "auto") != "auto"
    if asked or held or options.keys() - _TAKEN or not isinstance(method, HasFollower):
        return None
    x0 = None if options.get("x0") is None else as_vector("x0", options["x0"], problem.dim)
    stated, change = standardized(problem) or (problem, None)
    if change is not None and x0 is not None:
        x0 = change.inward(x0)
    follower = method.follower(stated, x0)
    if follower is None:
        return None
    following = _Following(follower, method)
    shown = {name: options[name] for name in _SHOWN & options.keys()}
    rules = {name: options[name] for name in _RULES & options.keys()}
    gap = {name: rules[name] for name in ("tol", "tol_abs") if name in rules}
    stopping = stopping_rules(**rules)
    best: Point | None = None

    def solve(problem: Declaration) -> Result | None:
        nonlocal best
        stated, own = standardized(problem) or (problem, None)
        if own is not change:
            return None
        first: Array | Point = follower.x.copy()
        if best is not None and np.array_equal(best.x, first):
            objective = float(best.values.sum()) + stated.regularizer.value(best.x)
            first = replace(best, objective=objective)
        run = Run(stated, following, Backend(), **gap)
        process = MethodProcess(run, first, user=problem, change=change)
        result = Driver(process, stopping).run(**shown)
        best = run.best
        ended = Status.STALLED, Status.INVALID_ORACLE, Status.UNBOUNDED
        return None if result.status in ended else result

    return solve


@dataclass(frozen=True, eq=False, repr=False)
class _Following(Method):
    """A method that evaluates the solutions of a follower, and adds the cuts of its multipliers."""

    follower: Follower
    leader: Method
    stabilizations = ()
    first_cut = False

    def needs_infima(self, problem: Declaration) -> bool:
        return False

    def describe(self, state: Any) -> str:
        return f"{self.leader!r}, along the path"

    def step(self, run: Run, state: int | None) -> Step:
        """Let the follower solve the problem, with increasing accuracy, and prove its bounds."""
        attempts = state or 0
        aim = _AIMS[attempts]
        found = self.follower.solve(run.problem, lambda objective: aim * run.tolerance(objective))
        if found is not None and run.problem.in_simple_set(found[0]):
            run.visit(found[0])
            run.add_dual_cut(found[1])
        given_up = found is None or attempts + 1 == len(_AIMS)
        return Step("path", attempts + 1, "the follower gave no proof" if given_up else None)


@dataclass(frozen=True, eq=False, repr=False)
class ExactPath:
    """The solutions for every weight in a range, a piecewise linear function.

    With an l1 norm they are piecewise linear in the weight; with a squared norm (`L2` or a kernel machine),
    in its inverse. ``path(lam)`` is the solution at a weight at or above the last knot.

    Attributes
    ----------
    knots : ndarray of shape (K,)
        The weights where the pieces meet, decreasing. The first one is the least weight at which all
        coordinates with a cost are zero, or above which no multiplier changes. If solutions are not unique,
        two knots may have the same weight.
    points : csr_array of shape (K, dim)
        The solution at each knot.
    events : tuple of str
        The event at each knot. With an l1 norm, coordinate 3 becomes nonzero at "joins 3" and zero at "leaves
        3", and the prediction of example 7 enters another piece of its loss at "crosses 7". With a squared
        norm, the prediction of example 3 reaches a kink of its loss at "joins 3" and departs from it at
        "leaves 3". At "ties" the path continues from a new solution, a little below a weight with many
        events.
    result : Result
        The solve that ended at the last knot, with its certificate.
    """

    knots: Array
    points: sparse.csr_array
    events: tuple[str, ...]
    result: Result
    _state: FollowsPath
    _end: float

    @property
    def coefficients(self) -> Array:
        """The solution at each knot, shape (K, dim)."""
        return self.points.toarray()

    @cached_property
    def gaps(self) -> Array:
        """The relative certified gap at each knot, shape (K,)."""
        return np.array([self._gap(lam / self._end, self._point(k)) for k, lam in enumerate(self.knots)])

    def __len__(self) -> int:
        return self.knots.size

    def __call__(self, lam: float) -> Array:
        """Return the solution at a weight, shape (dim,).

        Raises
        ------
        InvalidInputError
            If the weight is below the last knot, where the path ends.
        """
        lam = as_scalar("lam", lam, low=0.0)
        if lam < self.knots[-1]:
            raise InvalidInputError(
                f"lam = {lam:g} is beyond the end of the path, {self.knots[-1]:g}; follow it further: "
                f"problem.path({lam:g}, exact=True)."
            )
        after = int(np.searchsorted(-self.knots, -lam))
        x = self._point(after)
        known, low = self._state.knots, self.knots[after]
        if low == lam or (after == 0 and known.limit is None):
            return x
        if after == 0:
            share, before = 1.0 - low / lam, known.limit
        else:
            high, before = self.knots[after - 1], self._point(after - 1)
            share = (lam - low) / (high - low) * (high / lam if known.reciprocal else 1.0)
        return (1.0 - share) * x + share * before

    def bounds(self, lam: float) -> tuple[float, float]:
        """Return a certified lower bound at a weight, and the objective of the solution there."""
        return self._state.bounds(lam / self._end, self(lam))

    def gap(self, lam: float) -> float:
        """Return the relative certified gap of the solution at a weight."""
        return relative_gap(*self.bounds(lam))

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per knot (needs the extra ``tables``)."""
        pd = require_extra("pandas", "tables")

        nonzero = np.diff(self.points.indptr)
        columns = {"lam": self.knots, "event": self.events, "nonzero": nonzero, "gap": self.gaps}
        return pd.DataFrame(columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot every coordinate over the weight and return the axes (needs the extra ``plot``)."""
        from cutplane.report.plotting import plot_coordinates

        return plot_coordinates(self.knots, self.coefficients, ax=ax)

    def __repr__(self) -> str:
        return (
            f"ExactPath({len(self)} knots from {self.knots[0]:.4g} to {self.knots[-1]:.4g}, gap at the end "
            f"{self.result.gap:.2g})"
        )

    def _point(self, k: int) -> Array:
        points: Any = self.points
        x, stored = np.zeros(points.shape[1]), slice(*points.indptr[k : k + 2])
        x[points.indices[stored]] = points.data[stored]
        return x

    def _gap(self, weight: float, x: Array) -> float:
        return relative_gap(*self._state.bounds(weight, x))


def follow_exactly(problem: Any, method: Method, end: Any, options: Mapping[str, Any]) -> ExactPath:
    """Follow the path of `problem` down to the weight `end`; see `Problem.path`."""
    g = problem.regularizer
    lam = as_positive("the weight where an exact path ends", g.lam if end is None else end)
    if end is not None and end != g.lam:
        form = ask(g, Capability.SEPARABLE, problem.dim)
        if form is None or not g.lam > 0.0 or not (form.costs.any() and form.quadratic.weights.any()):
            g = g.with_lam(lam)
        else:
            g = L1(lam, form.costs / g.lam) + L2(1.0, form.quadratic.centre, form.quadratic.weights)
    shown = {name: options[name] for name in ("callback", "progress", "log") if name in options}
    rest = {name: value for name, value in options.items() if name not in shown}
    given = problem.regularized_by(g)
    given.as_given = True  # because the state has knots and bounds in the user's variables
    driver = given.iterate(method, **rest)
    result = driver.run(**shown)
    state = driver.method_state
    if not isinstance(state, FollowsPath):
        raise MissingCapabilityError(
            f"{method!r} follows no path: its state has no knots. Use cutplane.linear.PathTracking()."
        )
    knots = state.knots
    return ExactPath(
        lam * np.array(knots.weights), knots.matrix(problem.dim), tuple(knots.events), result, state, lam
    )
