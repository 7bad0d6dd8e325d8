"""A few questions to users' sets and regularizers at the end of a solve, before the word OPTIMAL is given."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import norm

from cutplane.engine.oracle_checks import show
from cutplane.engine.tolerances import FEASIBLE, INSIDE, ORACLE, RECOMPUTED, ROUNDING
from cutplane.exceptions import OracleError
from cutplane.pieces.capabilities import Capability, ability
from cutplane.pieces.users import users_parts
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Minimum, Regularizer
from cutplane.sets.base import FeasibleSet

if TYPE_CHECKING:
    from cutplane.engine.run import Run

_FEW = 4
"""Points, and directions of each kind, because a hundred questions in all cost about as much as a few
iterations."""
_SHORTEST = 12
"""Halvings of a step that leaves the set: a set that is too small by 1e-3 of its size shows."""
_DIFFERENCE = 1e-6
"""Step of a central difference, relative to the point, because the third root of a rounding error is best."""

_FAR = 1e6
"""Times as far as the run has been: a bounded set ends before that."""
_CHECK = "Check the set with cutplane.testing.check_set."


def probe_pieces(run: Run) -> None:
    """Look for a contradiction in the answers of a set or a regularizer that a user wrote.

    What a set says of its points is taken from `violation`, what a regularizer is from `value`. Points of the
    set are the best one, a few queries, projections of points outside, and the ends of steps from these that
    stay in the set. The projection must leave them where they are, and none of them may be nearer to a point
    than its projection. The least value of g(x) + <v, x> over the set, on which every lower bound relies, may
    not be above the value at one of them: for the slope v of the proof, and for the v that each of them
    minimises.

    Raises
    ------
    OracleError
        If answers contradict one another.
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
        rows, _ = run.proof.rows(run.bundle)
        self.v = np.asarray(rows.multipliers @ rows.slopes)
        queries = [run.bundle.points[query] for query in list(run.bundle.points)[-_FEW:]]
        self.known = [x, *(point for point in queries if self._is_inside(point, FEASIBLE))]
        self.reach = (
            max(float(np.abs(point - x).max()) for point in self.known) or float(np.abs(x).max()) or 1.0
        )

    def compare(self) -> None:
        """Ask for projections and least values, and compare them with points of the set."""
        self._check_inside(self.best, f"The best point {show(self.best)} of")
        least = self.dual.least(self.v)
        base = self.best if least.x is None or not self._is_inside(least.x, FEASIBLE) else least.x
        down = -(self.v + self._slope(base))
        length = float(np.abs(down).max())
        down = self.reach / length * down if length > 0.0 else down
        outside = [base + down, *(self.best + self.reach * way for way in self._drawn())]
        pairs = [(x, self._projected(x)) for x in outside] if self.project is not None else []
        self.known += [base, *(nearest for _, nearest in pairs)]
        ways = self._ways(base, down) if self._says_where_it_ends() else []
        pushed = [end for way in ways if (end := self._pushed(base, way)) is not None]
        for y in self.known + pushed:
            self._compare_projections(pairs, y)
        self._compare_least(self.v, least, pushed)
        for v in (-self._slope(y) for y in self.known[-_FEW:]):
            if v.any():
                self._compare_least(v, self.dual.least(v), pushed)

    def _says_where_it_ends(self) -> bool:
        """Tell whether `violation` is positive far outside a bounded set; some users return 0 everywhere."""
        return self.X0.bounded is not True or not self._is_inside(self.best + _FAR * self.reach, INSIDE)

    def _is_inside(self, x: Array, tolerance: float) -> bool:
        return self.X0.violation(x) <= tolerance * float(np.abs(x).max(initial=0.0))

    def _drawn(self) -> Array:
        return self.rng.standard_normal((_FEW, self.best.size))

    def _slope(self, x: Array) -> Array:
        """Return a subgradient of g at x, by differences if it has none."""
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
        """Return the projection of x, which must be inside."""
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
        """Return steps from a point: downhill, along single coordinates of that, to and from other points."""
        steepest = np.argsort(-np.abs(down))[:_FEW]
        axes = [np.where(np.arange(down.size) == j, down, 0.0) for j in steepest]
        apart = [point - base for point in self.known if (point != base).any()][-_FEW:]
        return [down, *axes, *apart, *(-way for way in apart), *(self.reach * way for way in self._drawn())]

    def _pushed(self, start: Array, way: Array) -> Array | None:
        """Return the end of the longest step along a way, up to 16 times it, that stays in the set."""
        if not way.any():
            return None
        share, ahead = 16.0, 0.5
        for _ in range(_SHORTEST + 4):
            if self._is_inside(start + share * way, ROUNDING):
                break
            share *= 0.5
        else:
            return None
        for _ in range(_FEW):  # towards the boundary
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
                if least.value - value > allowed * terms + self.dual.doubt:
                    raise OracleError(
                        f"The least g(x) + <v, x> over the set is {least.value:.10g} by the forms of "
                        f"{self.names}, but {value:.10g} at x = {show(y)} in the set, for v = {show(v)}. "
                        "Check them with cutplane.testing.check_regularizer and cutplane.testing.check_set."
                    )
