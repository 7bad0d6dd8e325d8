"""Further calls of black boxes and of users' pieces before the status is OPTIMAL."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import norm

from cutplane.engine.bounds import allowed, check_cuts
from cutplane.exceptions import OracleError
from cutplane.masters.base import HALF_SPACE
from cutplane.pieces.answers import name_of, show
from cutplane.pieces.capabilities import Capability, ability, offers, users_parts
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import dense
from cutplane.proof.rounding import FEASIBLE, INSIDE, ORACLE, REACH, RECOMPUTED, ROUNDING
from cutplane.regularizers.base import Minimum, Regularizer
from cutplane.sets.base import FeasibleSet, scale_of

if TYPE_CHECKING:
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run

_FEWEST, _SHARE = 4, 20
"""Least number of probes, and calls of the oracle per additional probe, because probes should cost little."""
_MOST = 200
"""Largest number of cuts, and of points, of the bundle that are compared, because each pair is compared."""
_STEP = 1e-3
"""Distance of the two points of a pair, relative to the reach of the run, because rounding errors of values
are divided by it, and slopes change over it."""
_THERE = 0.7
"""Weight of the first of two opposite projected steps in a probed point; not 1/2, because opposite steps
would cancel inside the set."""
_NOWHERE, _FEW = 1e-6, 2
"""Share of the set, and number of points, up to which the whole set is probed, because a wrong slope of zero
ends a run at its first point."""
_COPIED = 2**22
"""Entries of cuts or points that are copied at a time, because a copy of all may not fit into memory."""
_WAYS = 4
"""Number of points, and of directions of each kind, because a hundred calls cost a few iterations."""
_SHORTEST = 12
"""Largest number of halvings of a step that leaves the set, because an error of 1e-3 of the set's size should
be detected."""
_DIFFERENCE = 1e-6
"""Step of a central difference, relative to the point, because the cube root of the rounding error is the
best size."""
_FAR = 1e6
"""Multiple of a run's reach that is outside of every bounded set, because a run covers a larger share of the
set."""
_CHECK = "Check the set with cutplane.testing.check_set."


def probe(run: Run) -> int:
    """Search for a contradiction between answers of a black box, recorded ones and a few new ones.

    The oracle is called at the best point again; at a point ten times as far from it as the run has been if
    the set is bounded, otherwise at a close one; at a point that differs only in coordinates in which all
    slopes are zero; and at pairs of close points, because slopes must agree with difference quotients. There
    are 1/20 as many calls as in the run, but at least 4. Then every cut is compared with every value.

    Return the number of calls; raise `OracleError` if answers contradict one another.
    """
    if not run.problem.risk.black_box or not run.problem.risk.exact or run.best is None:
        return 0
    evaluate = run.evaluator.point
    known = _ProbedPoints(run)
    count = max(_FEWEST, run.evaluator.calls // _SHARE)
    known.add(_again(run, run.best))
    bounded, best = run.problem.simple_set.bounded, run.best.x
    known.add(evaluate(known.far() if bounded else best + _STEP * (known.elsewhere() - best)))
    flat = ~known.steep()
    if flat.any():  # a run never changes a coordinate whose slopes are 0
        known.add(evaluate(run.problem.into_simple_set(np.where(flat, known.elsewhere(), run.best.x))))
    while known.calls < count:
        end, share = known.elsewhere(), known.rng.uniform(0.2, 0.8)
        for t in (share, share + _STEP):
            known.add(evaluate(run.best.x + t * (end - run.best.x)))
    run.compare(known.compare)
    return known.calls


def _again(run: Run, point: Point) -> Point:
    again = run.evaluator.point(point.x)
    scale = np.abs(point.values) + np.abs(run.evaluator.slopes(point)) @ np.abs(point.x)
    if not (np.abs(again.values - point.values) <= allowed(scale, run.terms())).all():
        raise OracleError(
            f"{name_of(run.problem.risk)} gave the value {point.values.sum():.10g} at x = {show(point.x)}, "
            f"and {again.values.sum():.10g} when it was asked again: it must be a function of x alone. "
            "Check it with cutplane.testing.check_risk."
        )
    return again


class _ProbedPoints:
    """Evaluated points (the last ones of a run, and new ones), and random points of the set."""

    def __init__(self, run: Run):
        assert run.best is not None
        self.run, self.centre = run, run.best.x
        self.rng = np.random.default_rng(0)
        self.calls = 0
        self.queries = [query for query in run.bundle.points if query not in run.bundle.duals][-_MOST:]
        self.new: list[Point] = []
        points = run.bundle.points
        far = [np.abs(points[query] - self.centre).max() for query in self.queries]
        reach = max([np.abs(self.centre).max(), *far])
        if reach == 0.0 or len(self.queries) <= _FEW:
            whole = scale_of(run.problem.simple_set, run.problem.dim, 0.0)
            reach = whole if reach <= _NOWHERE * whole else reach
        self.reach = float(reach) or 1.0

    def add(self, point: Point) -> None:
        """Count a call, and keep its answer if the objective is finite."""
        self.calls += 1
        if np.isfinite(point.objective):
            self.new.append(point)

    def steep(self) -> Array:
        """Return a mask of the coordinates in which some slope is not zero."""
        mask = np.zeros(self.centre.size, dtype=bool)
        for point in self.new:
            mask |= (self.run.slopes(point) != 0.0).any(axis=0)
        step = max(1, _COPIED // self.centre.size)
        cuts = np.flatnonzero(self.run.bundle.blocks != HALF_SPACE)
        for begin in range(0, cuts.size, step) if not mask.all() else ():
            mask |= (dense(self.run.bundle.slopes[cuts[begin : begin + step]]) != 0.0).any(axis=0)
        return mask

    def far(self) -> Array:
        """Return a point of a bounded set far from the run, because errors of convexity are large there."""
        way = self.rng.standard_normal(self.centre.size)
        step = REACH * self.reach / np.abs(way).max() * way
        ends = [self.run.problem.into_simple_set(self.centre + sign * step) for sign in (1.0, -1.0)]
        end = max(ends, key=lambda end: np.abs(end - self.centre).max())
        return self.centre + self.rng.uniform(0.5, 1.0) * (end - self.centre)

    def elsewhere(self) -> Array:
        """Draw a point of the simple set, about as far from the best point as the run has been."""
        step = self.reach * self.rng.standard_normal(self.centre.size)
        there, back = (self.run.problem.into_simple_set(self.centre + sign * step) for sign in (1.0, -1.0))
        return _THERE * there + (1.0 - _THERE) * back

    def compare(self, noise: float) -> None:
        """Raise `OracleError` if a cut lies above a value; `noise` is the size of terms that may cancel."""
        run, bundle, n_blocks = self.run, self.run.bundle, self.run.problem.risk.n_blocks
        rows, cuts = (bundle.slopes, bundle.offsets, bundle.blocks), bundle.blocks != HALF_SPACE
        found = [run.evaluator.cut(point) for point in self.new]
        slopes, offsets = (np.concatenate(parts) for parts in zip(*found, strict=True))
        own = slopes, offsets, np.tile(np.arange(n_blocks), len(found))

        def check(X: Array, values: Array) -> None:
            check_cuts(run.problem, rows, bundle.origin, X, values, noise)
            check_cuts(run.problem, own, lambda row: self.new[row // n_blocks].x, X, values, noise)

        check(np.array([point.x for point in self.new]), np.array([point.values for point in self.new]))
        if offers(run.problem.risk, Capability.PIECES):  # cuts of pieces may lie below the value
            return
        step = max(1, _COPIED // self.centre.size)
        for begin in range(0, len(self.queries), step):
            queries = np.array(self.queries[begin : begin + step])
            X, values = np.array([bundle.points[query] for query in queries]), []
            for query, heights in zip(queries, (bundle.slopes @ X.T).T + bundle.offsets, strict=True):
                mine = cuts & (bundle.queries == query)
                values.append(np.full(n_blocks, np.inf))
                values[-1][bundle.blocks[mine]] = heights[mine]
            check(X, np.array(values))


def probe_pieces(run: Run) -> None:
    """Search for a contradiction in the answers of a set or a regularizer that a user wrote.

    `violation` defines the set, and `value` the regularizer. They are tested at points of the set: the best
    point, a few queries, projections of points outside, and the ends of steps from these points that stay in
    the set. The projection must not change them, and the projection of a point must be nearer to it than all
    others. The minimum of g(x) + <v, x> over the set, on which lower bounds rely, must not exceed the value
    at any of them, for the slope v of the proof and for slopes v that each of them minimises.

    Raise `OracleError` if answers contradict one another.
    """
    problem = run.problem
    users = users_parts(problem.simple_set, FeasibleSet) + users_parts(
        problem.active_regularizer, Regularizer
    )
    if users and run.best is not None:
        _Probe(run, run.best.x, users).compare()


class _Probe:
    def __init__(self, run: Run, x: Array, users: list[Any]):
        self.g: Any = run.problem.active_regularizer
        self.X0 = run.problem.simple_set
        self.project = ability(self.X0, Capability.PROJECTION)
        self.dual = run.dual
        self.names = " and ".join(dict.fromkeys(repr(piece) for piece in users))
        self.best = x
        self.rng = np.random.default_rng(0)
        rows, _ = run.bundle.evidence(run.proof)
        self.v = np.asarray(rows.multipliers @ rows.slopes)
        queries = [run.bundle.points[query] for query in list(run.bundle.points)[-_WAYS:]]
        self.known = [x, *(point for point in queries if self._is_inside(point, FEASIBLE))]
        apart = max(float(np.abs(point - x).max()) for point in self.known)
        self.reach = apart or float(np.abs(x).max()) or 1.0

    def compare(self) -> None:
        """Compare projections and minima with points of the set."""
        self._check_inside(self.best, f"The best point {show(self.best)} of")
        least = self.dual.least(self.v)
        base = self.best if least.x is None or not self._is_inside(least.x, FEASIBLE) else least.x
        down = -(self.v + self._slope(base))
        length = float(np.abs(down).max())
        down = self.reach / length * down if length > 0.0 else down
        outside = [base + down, *(self.best + self.reach * way for way in self._drawn())]
        pairs = [(x, self._projected(x)) for x in outside] if self.project is not None else []
        self.known += [base, *(nearest for _, nearest in pairs)]
        ends = self.X0.bounded is not True or not self._is_inside(self.best + _FAR * self.reach, INSIDE)
        ways = self._ways(base, down) if ends else []  # a wrong `violation` may return 0 everywhere
        pushed = [end for way in ways if (end := self._pushed(base, way)) is not None]
        for y in self.known + pushed:
            self._compare_projections(pairs, y)
        self._compare_least(self.v, least, pushed)
        for v in (-self._slope(y) for y in self.known[-_WAYS:]):
            if v.any():
                self._compare_least(v, self.dual.least(v), pushed)

    def _is_inside(self, x: Array, tolerance: float) -> bool:
        return self.X0.violation(x) <= tolerance * float(np.abs(x).max(initial=0.0))

    def _drawn(self) -> Array:
        return self.rng.standard_normal((_WAYS, self.best.size))

    def _slope(self, x: Array) -> Array:
        """Return a subgradient of g at x, by differences if g has none."""
        gradient = ability(self.g, Capability.SUBGRADIENT)
        if gradient is not None:
            return np.asarray(gradient(x.copy()), dtype=np.float64)
        slope = np.zeros(x.size)
        step = _DIFFERENCE * (float(np.abs(x).max()) or 1.0)
        for j in range(x.size):
            ahead, behind = x.copy(), x.copy()
            ahead[j] += step
            behind[j] -= step
            slope[j] = (self.g.value(ahead) - self.g.value(behind)) / (ahead[j] - behind[j])
        return np.where(np.isfinite(slope), slope, 0.0)

    def _projected(self, x: Array) -> Array:
        """Return the projection of x; raise `OracleError` if it is not in the set."""
        assert self.project is not None
        nearest = np.array(self.project(x.copy()), dtype=np.float64)
        self._check_inside(nearest, f"The projection {show(nearest)} of x = {show(x)} on")
        return nearest

    def _check_inside(self, x: Array, what: str) -> None:
        if not self._is_inside(x, INSIDE):
            raise OracleError(
                f"{what} {self.X0!r} has the violation {self.X0.violation(x):.10g}, not 0. {_CHECK}"
            )

    def _ways(self, base: Array, down: Array) -> list[Array]:
        """Return steps from a point: downhill, along axes, to other points, backwards, and random ones."""
        steepest = np.argsort(-np.abs(down))[:_WAYS]
        axes = [np.where(np.arange(down.size) == j, down, 0.0) for j in steepest]
        apart = [point - base for point in self.known if (point != base).any()][-_WAYS:]
        return [down, *axes, *apart, *(-way for way in apart), *(self.reach * way for way in self._drawn())]

    def _pushed(self, start: Array, way: Array) -> Array | None:
        """Return the end of the longest step, at most 16 times `way`, that stays in the set; or None."""
        if not way.any():
            return None
        share, ahead = 16.0, 0.5
        for _ in range(_SHORTEST + 4):
            if self._is_inside(start + share * way, ROUNDING):
                break
            share *= 0.5
        else:
            return None
        for _ in range(_WAYS):  # towards the boundary
            if self._is_inside(start + share * (1.0 + ahead) * way, ROUNDING):
                share *= 1.0 + ahead
            ahead *= 0.5
        return start + share * way

    def _compare_projections(self, pairs: list[tuple[Array, Array]], y: Array) -> None:
        if self.project is None:
            return
        again = self._projected(y)
        size = float(np.abs(y).max())
        moved = float(np.abs(again - y).max())
        if moved > ORACLE * size:
            raise OracleError(
                f"{self.X0!r} says that x = {show(y)} is inside, with violation {self.X0.violation(y):.3g}, "
                f"but project moves it by {moved:.6g}, to {show(again)}, and should not move it. {_CHECK}"
            )
        for x, nearest in pairs:
            beyond = float((y - nearest) @ (x - nearest))
            size = max(float(np.abs(point).max()) for point in (x, y, nearest))
            if beyond > ORACLE * size * float(norm(y - nearest) + norm(x - nearest)):
                raise OracleError(
                    f"The projection of x = {show(x)} on {self.X0!r} is {show(nearest)}, at the distance "
                    f"{norm(x - nearest):.10g}, but a step from it towards the point {show(y)} of the set is "
                    f"nearer. {_CHECK}"
                )

    def _compare_least(self, v: Array, least: Minimum, pushed: list[Array]) -> None:
        if not least.value > -math.inf:
            return
        for tolerance, points in ((RECOMPUTED, self.known), (ORACLE, pushed)):
            for y in points:
                height = float(self.g.value(y))
                value = height + float(v @ y)
                terms = abs(least.value) + abs(height) + float(np.abs(v) @ np.abs(y))
                allowed = tolerance if self.X0.violation(y) == 0.0 else ORACLE
                if least.value - value > allowed * terms + self.dual.solver_gap:
                    raise OracleError(
                        f"The least g(x) + <v, x> over the set is {least.value:.10g} by the forms of "
                        f"{self.names}, but {value:.10g} at x = {show(y)} in the set, for v = {show(v)}. "
                        "Check them with cutplane.testing.check_regularizer and cutplane.testing.check_set."
                    )
