"""One run of a method on a problem: all operations that methods may call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import norm

from cutplane.engine.bounds import Bounds, Contradiction, check_cuts, check_separation, hidden_terms
from cutplane.engine.bundle import Bundle, Proof
from cutplane.engine.dual import DualSearch, has_flat_combination
from cutplane.engine.evaluator import Evaluator, Point
from cutplane.engine.half_spaces import infeasible_end, into_half_spaces, point_towards, pull_back
from cutplane.engine.history import Mark
from cutplane.engine.line_search import minimise_on_line
from cutplane.engine.solver import ReducedSolver
from cutplane.exceptions import CutplaneError, OracleError
from cutplane.masters.base import HALF_SPACE, Least, MasterSolution, MasterStatus, Prox, Stabilization
from cutplane.masters.select import Backend
from cutplane.pieces.answers import name_of, show
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array
from cutplane.proof.dual import DualValue
from cutplane.proof.evidence import TRIVIAL
from cutplane.proof.rounding import CANCELLED, EPS, FLAT, INSIDE, REACH, ROUNDING
from cutplane.runtime.clock import clock
from cutplane.sets.base import HalfSpaces, Separator
from cutplane.status import Status, least_size
from cutplane.stopping import Ended

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.methods.base import Method

_RETREATS, _PATIENCE = 200, 10
"""Largest number of moves to a finite point, and of equal moves, because only near points may be finite."""
_SHARE = 0.1
"""Error allowed in an on-demand answer, relative to the gap, because a larger error makes the cut useless."""
_CALLS, _FLAT = 3, 0.2
"""Largest number of calls on a ray, and share of the first slope at which they end, because each costs as
much as an iteration."""
_NOISE = 1e-13
"""Relative increase of the objective, or of a row at a point, that counts as no progress, because it may be a
rounding error."""
_NEARLY = 0.9
"""Share of the tolerance within which a point may close the gap, because the bound is rounded down."""
_JUMP = 1e-3
"""Largest jump, relative to the computed terms, that may be a rounding error, because functions that are not
convex jump more."""
_DIVERGED = 1e15
"""Multiple of the first objective; a problem whose objective is lower than minus this counts as unbounded,
because all digits are then lost."""


@dataclass(eq=False)
class Reduced:
    """The solution of a reduced problem."""

    x: Array  # the minimiser, in X0
    objective: float  # f_t(x) + g(x), without the stabilisation
    models: Array  # the blocks of f_t(x), shape (n_blocks,)


class Tangent(NamedTuple):
    """The cut at a point: its slope, summed over blocks, its minimiser over X0, and the ids of its rows."""

    slope: Array
    minimiser: Array
    ids: Array


class Run(Bounds):
    """The state of one solve: methods evaluate points and add cuts through it; the driver reads the bounds.

    `tol` and `tol_abs` are the relative and the absolute tolerance. `last` is the solution of the last
    reduced problem, with the multipliers `set_multipliers` of the simple set's rows, if the master returns
    them. With `exact`, reduced problems are solved as exactly as possible, because the last iteration changed
    nothing. `moved` tells whether this iteration changed a bound, or the model at its minimiser.
    """

    first: Point

    def __init__(
        self,
        problem: Declaration,
        method: Method,
        backend: Backend,
        *,
        max_cuts: int | None = None,
        tol: float = 1e-4,
        tol_abs: float = 0.0,
    ):
        method.check(problem)
        super().__init__(problem.risk.exact)
        self.problem, self.method = problem, method
        self.tol, self.tol_abs = tol, tol_abs
        self.evaluator = Evaluator(problem)
        self.bundle = Bundle(problem.dim, problem.risk.n_blocks, max_cuts)
        self.solver = ReducedSolver(problem.reduced, backend, method.stabilizations)
        self.dual = DualSearch(problem)
        self.inner: Point | None = None  # the first feasible point, which may be interior
        self._farthest = problem.reduced.scale
        self._projects = offers(problem.simple_set, Capability.PROJECTION)
        self._extent = 0.0  # the largest coordinate of the points that were cut off
        self.queries = 0
        self.moved = self.exact = False
        self.marks: list[Mark] = []  # of the current iteration
        self.last: Reduced | None = None
        self.set_multipliers: Array | None = None
        self._guard, self._can_be_flat = 0.0, not self.dual.free.size
        infima = problem.risk.infima
        if np.isfinite(infima).all():
            if method.needs_infima(problem):
                slopes = np.zeros((infima.size, problem.dim))
                self.bundle.add(TRIVIAL, None, slopes, infima, range(infima.size))
            self.offer_known(self.dual.at_infima(), self.bundle.infima(infima))

    @property
    def _accuracy(self) -> float:
        return 0.0 if self.exact else _SHARE * (self.upper - self.lower)

    @property
    def closed(self) -> bool:
        """Whether the gap is within the tolerance, so that no further cut is needed."""
        return self.upper < math.inf and self.upper - self.lower <= self.tolerance(self.upper)

    def tolerance(self, objective: float) -> float:
        """Return the largest absolute gap within the tolerance at this objective."""
        size = max(abs(objective), least_size(self.scale))
        return max(max(self.tol, EPS) * size, self.tol_abs)

    def evaluate_best_again(self) -> None:
        """Evaluate the best point again if its image was combined, because this adds rounding errors."""
        best = self.best
        if best is not None and best.image is not None and best.drift > EPS:
            self.replace_best(self.evaluator.point(best.x))

    def natural_weight(self, point: Point) -> float:
        """Return a prox weight in the units of the problem: norm of the slope divided by norm of the point.

        The divisor is at least 1, or the size of the simple set if that is smaller.
        """
        steepness = float(norm(self.evaluator.slopes(point).sum(axis=0))) or 1.0
        return steepness / max(float(norm(point.x)), min(1.0, self.problem.reduced.largest or 1.0))

    def reduced(self, stabilization: Stabilization = None, max_age: int | None = None) -> Reduced:
        """Solve the reduced problem; its multipliers give a lower bound for any stabilisation.

        A weak prox term is added if the problem is unbounded below, or bounded only by the infima of the
        blocks. Half-spaces whose multipliers have been zero for more than `max_age` solves are dropped.
        """
        if not self.bundle.has_cuts():
            raise Ended(Status.STALLED, "no block of the risk could be evaluated at any point")
        status, multipliers = MasterStatus.UNBOUNDED, None
        if stabilization is None and not self._can_be_flat:
            self._can_be_flat = has_flat_combination(self.bundle.slopes, self.bundle.blocks, self.dual.free)
        if stabilization or self._can_be_flat:
            status, multipliers = self._solve(stabilization)
        if status is MasterStatus.UNBOUNDED and stabilization is None:
            self._guard = 0.5 * self._guard if self._guard else self.natural_weight(self.anchor)
            stabilization = Prox(self.anchor.x, self._guard)
            status, multipliers = self._solve(stabilization)
        if status is MasterStatus.INFEASIBLE:
            rows = None if self.best else self.bundle
            raise Ended(*infeasible_end(self.problem, rows, stabilization is not None))
        if multipliers is None:
            if math.isfinite(self.lower):
                raise Ended(Status.STALLED, "masters call a reduced problem unbounded that has a lower bound")
            raise Ended(Status.UNBOUNDED, "the reduced problem is unbounded below")
        self.certify(multipliers, self.set_multipliers, self.lower)
        found = self.last
        assert found is not None
        if isinstance(stabilization, Prox):
            self.mark("prox", stabilization.centre, found.x, value=stabilization.weight)
        elif stabilization is not None:
            self.mark("level", stabilization.centre, found.x, value=stabilization.level)
        else:
            self.mark("model", found.x)
        if max_age is not None and self.moved:  # otherwise the same rows could be dropped and added for ever
            self.proof = self.bundle.pinned(self.proof)
            self.bundle.drop_idle(max_age)
        return found

    def _solve(self, stabilization: Stabilization) -> tuple[MasterStatus, Array | None]:
        """Solve the reduced problem by the masters; reject a minimiser far above the best point."""
        problem, bundle, gap = self.problem, self.bundle, self.upper - self.lower
        share = 1e-2 if stabilization is None else 1e-6  # a stabilised step gains less than the gap
        accuracy = share * gap if math.isfinite(gap) and not self.exact else 0.0

        def complaint(solution: MasterSolution) -> str | None:
            x = problem.into_simple_set(np.asarray(solution.x))
            if bundle.has_half_spaces:
                x = into_half_spaces(problem, bundle, x)
            models = bundle.block_models(x)
            total = models.item() if models.size == 1 else float(models.sum())
            self.last = Reduced(x, total + problem.regularizer.value(x), models)
            self.set_multipliers = solution.set_multipliers
            if stabilization is not None or not math.isfinite(self.upper):
                return None
            size = max(abs(self.upper), self.scale)
            allowed = max(gap, 1e-3 * abs(self.upper)) if math.isfinite(gap) else size
            if self.last.objective - self.upper <= allowed:
                return None
            return (
                f"its minimiser of the model has the value {self.last.objective:.3g}, above the objective "
                f"{self.upper:.3g} already reached"
            )

        self.solver.measure(self.anchor.extent, bundle.steepest)
        solution = self.solver.solve(bundle, stabilization, accuracy, complaint)
        return solution.status, solution.multipliers

    def certify(
        self, multipliers: Array, set_multipliers: Array | None = None, known: float = -math.inf
    ) -> DualValue:
        """Raise the lower bound to L(multipliers) if that is better; return L(multipliers).

        `set_multipliers`, of the rows of the simple set, can save a solve. A value of L of at most `known`
        may be returned as -inf.
        """
        reach = 0.0
        if hasattr(self, "first"):
            last = 0.0 if self.last is None else float(np.abs(self.last.x).max())
            reach = REACH * max(self.anchor.extent, last)  # the next best point may be the minimiser
        rows = self.bundle, multipliers, self.upper, set_multipliers, reach, known
        evaluate = self.dual.evaluate
        dual = self.timed(evaluate, *rows, master=True) if self.dual.calls_solver else evaluate(*rows)
        self.bundle.weigh(dual.multipliers)
        proof = Proof(self.bundle.ids.copy(), dual.multipliers)
        self.moved |= self.offer_bound(dual.value, dual.magnitude, proof)
        return dual

    @property
    def anchor(self) -> Point:
        """The best point, or the first point if no feasible point was found yet."""
        return self.best if self.best is not None else self.first

    def query(self, x: Array) -> Point:
        """Evaluate at x and add the cut."""
        point = self.evaluate(x)
        self.add_cut(point)
        return point

    def evaluate(self, x: Array, accuracy: float = math.inf) -> Point:
        """Evaluate the objective at x, or nearer to the best point if x is cut off or outside the domain.

        Half-spaces that cut x off are added. The point is infeasible only if no feasible point was found yet.
        A risk with on-demand accuracy is evaluated to `accuracy`, or more accurately if the gap requires it.
        """
        if self.problem.separators and (found := self.cut_off(x)):
            nearby = self.evaluator.nearby(x)
            if nearby is None and self.best is None:
                return replace(self._finite(x, accuracy), feasible=False)
            if nearby is None and self.evaluator.knows_nearby:
                return self.anchor
            x = pull_back(self.cut_off, x, self.anchor.x, found) if nearby is None else nearby
        return self._evaluated(x, accuracy)

    def _evaluated(self, x: Array, accuracy: float = math.inf) -> Point:
        point = self._finite(x, accuracy)
        last = self.last
        if last is not None and point.x is last.x and (last.models > point.values).any():
            if self.problem.risk.exact:
                rows = self.bundle.slopes, self.bundle.offsets, self.bundle.blocks
                known = self.problem, rows, self.bundle.origin, point.x, point.values
                self.compare(lambda noise: check_cuts(*known, noise))
        inside = self._projects or self.problem.in_simple_set(point.x, INSIDE)
        return self.offer(point if inside else replace(point, feasible=False))

    def cut_off(self, x: Array, separators: Sequence[Separator] | None = None) -> HalfSpaces:
        """Call the given separation oracles at x, by default all, and add the half-spaces that cut x off."""
        half_spaces = self.evaluator.separate(x, separators)
        if half_spaces:
            self.add_half_spaces(x, half_spaces)
        return half_spaces

    def evaluate_relaxed(self, reduced: Reduced) -> Point | None:
        """Evaluate the minimiser of a relaxation; if it is cut off, evaluate a nearby point and return None.

        The nearby point gives an upper bound. If no oracle proposes one, it is chosen on the segment to the
        first feasible point, and evaluated only if it can close the gap, or halve it.
        """
        if not (found := self.cut_off(reduced.x)):
            return self._evaluated(reduced.x)
        x = self.evaluator.nearby(reduced.x)
        if x is None and self.inner is not None and not self.evaluator.knows_nearby:
            losses = _NEARLY * self.tolerance(self.upper), 0.5 * (self.upper - reduced.objective)
            height = self.inner.objective - reduced.objective
            x = point_towards(reduced.x, self.inner.x, height, found, losses)
            x = None if x is None or self.cut_off(x) else x
        if x is not None:
            self._evaluated(x)
        return None

    def visit(self, x: Array, accuracy: float | None = None) -> Point:
        """Evaluate at a point x of X, even if the objective is inf there."""
        return self.offer(self.evaluator.point(x, self._accuracy if accuracy is None else accuracy))

    def between(self, start: Point, end: Point, t: float) -> Point:
        """Return the evaluated point start + t (end - start); it is feasible if both are."""
        return self.offer(self.evaluator.between(start, end, t, self._accuracy))

    def line_search(self, start: Point, end: Point) -> Point:
        """Return the best point on the ray from start through end (the segment, if X is not the whole space).

        A risk with images needs no pass over the data. If the risk has no images, or its lines are costly, it
        is evaluated at a few points of the segment, and every answer is kept as a cut.
        """
        found = self._on_line(start, end, math.inf if self.problem.is_unconstrained else 1.0)
        if found is None:
            _, visited = self._by_calls(start, end, _FLAT, _CALLS)
            for t, point in visited.items():
                if t > 0.0 and math.isfinite(point.objective):
                    self.add_cut(point)
            best = min(visited.values(), key=lambda point: point.objective)
        else:
            best = found[1] if found[1].objective <= start.objective else start
        self.mark("search", start.x, end.x, best.x)
        return best

    def search_segment(
        self, start: Point, end: Point, flat: float, accuracy: float | None = None
    ) -> tuple[float, Point]:
        """Return t in [0, 1] and the evaluated point start + t (end - start) with the least objective.

        If the risk has no images, or its lines are costly, the search ends at the first point whose objective
        is at most the objective at the start, and whose slope is at most `flat` times the first slope.
        `accuracy` is passed to a risk with on-demand accuracy.
        """
        if (found := self._on_line(start, end, 1.0)) is not None:
            return found
        t, visited = self._by_calls(start, end, flat, accuracy=accuracy)
        return t, visited[t]

    def _on_line(self, start: Point, end: Point, limit: float) -> tuple[float, Point] | None:
        """Return t in [0, limit] and the best point, from the images of both ends; None if this is costly."""
        line = self.evaluator.line(start, end) if self.evaluator.imaged else None
        if line is None or line.costly:
            return None
        t = self.timed(minimise_on_line, line, limit)
        return t, start if t == 0.0 else end if t == 1.0 else self.between(start, end, t)

    def _by_calls(
        self, start: Point, end: Point, flat: float, calls: float = math.inf, accuracy: float | None = None
    ) -> tuple[float, dict[float, Point]]:
        """Return t in [0, 1], and all evaluated points; end if the slope is flat or after `calls` calls."""
        direction = end.x - start.x
        regularizer = self.problem.regularizer.line(start.x, end.x)
        highest = start.objective + _NOISE * abs(start.objective)
        visited = {1.0: end, 0.0: start}

        def slope_at(t: float) -> float:
            if not math.isfinite(visited[t].objective):
                return math.inf
            return float(self.slopes(visited[t]).sum(axis=0) @ direction) + regularizer(t)[1]

        first = slope_at(0.0)

        def evaluate(t: float) -> tuple[float, float]:
            if t == 0.0:
                return start.objective, first
            if t not in visited:
                x = start.x + t * direction
                visited[t] = self.between(start, end, t) if accuracy is None else self.visit(x, accuracy)
            slope = slope_at(t)
            enough = abs(slope) <= flat * abs(first) and visited[t].objective <= highest
            if enough or len(visited) >= 2 + calls:
                return 0.0, 0.0  # the search ends, because there is no slope
            return visited[t].objective, slope

        return minimise_on_line(Line(evaluate), 1.0), visited

    def mark(self, kind: str, *points: Array, value: float | None = None) -> None:
        """Add a `Mark` to be drawn for this iteration; operations of the run add their marks themselves."""
        self.marks.append(Mark(kind, points, value))

    def add_cut(self, point: Point) -> list[int]:
        """Add the cuts of the risk at an evaluated point: one per block, or one per piece if there is room.

        Return for each block the row of the bundle with the highest of them at the point.
        """
        every = self.bundle.max_cuts is None and self.problem.risk.exact
        slopes, offsets, blocks = self.evaluator.cuts(point, every)
        best = self.best
        if best is not None and self.problem.risk.exact:
            if (slopes @ best.x + offsets > best.values[blocks]).any():
                known = self.problem, (slopes, offsets, blocks), lambda _: point.x, best.x, best.values
                self.compare(lambda noise: check_cuts(*known, noise))
        elif best is not None:
            self.raise_best(slopes, offsets)
            self.offer(point)
        origin = point.x if point.multipliers is None else None
        rows = self._extend(origin, slopes, offsets, blocks, point.multipliers, point.solutions)
        if len(rows) == self.problem.risk.n_blocks:
            return rows
        heights = slopes @ point.x + offsets
        order = np.lexsort((-heights, np.asarray(blocks)))
        firsts = np.unique(np.asarray(blocks)[order], return_index=True)[1]
        return [rows[place] for place in order[firsts].tolist()]

    def minimise_cut(self, point: Point, share: float = 1.0) -> Tangent:
        """Add the cut at an evaluated point, and its lower bound; return its slope and its minimiser over X0.

        With a `share` below 1, the bound combines this share of the cut with the infimum of the risk. The set
        is called once for both the bound and the minimiser; its time counts as the oracle's.
        """
        rows = self.add_cut(point)
        known = self.bundle.queries == TRIVIAL
        share = share if known.any() else 1.0
        weights = np.where(known, 1.0 - share, 0.0)
        weights[rows] = share
        simple_set = self.problem.simple_set
        minimiser = self.call(simple_set, self.certify, weights).minimiser
        if minimiser is None:
            raise OracleError(f"minimise_linear of {simple_set!r} returned infs or nans.")
        self.mark("vertex", point.x, minimiser)
        return Tangent(self.slopes(point).sum(axis=0), minimiser, self.bundle.ids[rows])

    def known_multipliers(self) -> Array | None:
        """Return the multipliers of the examples, shape (m,), of the last dual cut."""
        return self.bundle.duals[max(self.bundle.duals)] if self.bundle.duals else None

    @property
    def n_cuts(self) -> int:
        """The number of cuts kept."""
        return len(self.bundle)

    def slopes(self, point: Point) -> Array:
        """Return one subgradient of the risk per block at an evaluated point, shape (n_blocks, dim)."""
        return self.evaluator.slopes(point)

    def timed(self, function: Any, *arguments: Any, queries: int = 0, master: bool = False) -> Any:
        """Call a function; count its time as the oracle's, with a number of queries, or as the master's."""
        began = clock()
        self.evaluator.calls += queries
        try:
            return function(*arguments)
        finally:
            (self.solver if master else self.evaluator).seconds += clock() - began

    def call(self, piece: Any, function: Any, *arguments: Any, queries: int = 0) -> Any:
        """Call a function of a user's piece as an oracle; its errors name the piece."""
        try:
            return self.timed(function, *arguments, queries=queries)
        except CutplaneError:
            raise
        except Exception as error:
            raise OracleError(f"{name_of(piece)} raised {type(error).__name__}: {error}") from error

    def proceed(self) -> None:
        """Count this iteration as progress, even if no bound changed."""
        self.moved = True

    def add_dual_cut(
        self, multipliers: Array, cut: tuple[Array, Array] | None = None, least: Least | None = None
    ) -> float:
        """Add the cuts, one per block, that multipliers of the examples define, and their lower bound.

        A cut that is not flat in a free coordinate gives no bound alone; the reduced problem is then solved.
        Return the bound. `cut` (slopes, offsets) and `least` (inner minimum) may be given if already
        computed.
        """
        multipliers = np.array(multipliers)
        extent = 0.0 if self.best is None else self.best.extent
        highest = float(np.abs(self.bundle.offsets).max(initial=0.0))
        sizes = extent, self.bundle.steepest, highest
        slopes, offsets = cut or self.evaluator.dual_cut(multipliers, *sizes)
        blocks = range(self.problem.risk.n_blocks)
        best = self.best
        if best is not None and not (slopes @ best.x + offsets <= best.values).all():
            cuts = slopes, offsets, blocks
            check_cuts(self.problem, cuts, lambda _: best.x, best.x, best.values, self.terms())
        rows = self._extend(None, slopes, offsets, blocks, multipliers)
        free = self.dual.free
        if free.size and np.abs(slopes[:, free]).max() > FLAT * np.abs(slopes).max():
            self.reduced()
            return self.lower
        mine = np.zeros(len(self.bundle))
        mine[rows] = 1.0
        self.dual.known = least
        return self.certify(mine).value

    def add_half_spaces(self, x: Array, half_spaces: HalfSpaces) -> None:
        """Add half-spaces that a separation oracle returned at x."""
        self._extent = max(self._extent, float(np.abs(x).max()))
        if self.best is not None:
            check_separation(half_spaces, x, self.best.x, self._extent, self.problem.reduced.scale)
        self._extend(x, half_spaces.normals, -half_spaces.offsets, [HALF_SPACE] * len(half_spaces))

    def terms(self) -> float:
        """Return the size of the terms of answers, which may cancel at one point but not at others.

        It includes rounding errors of constants as large as the steepest slope times the distance covered so
        far.
        """
        reach = min(1.0, self.problem.reduced.widest) + CANCELLED / ROUNDING * self._farthest
        return self.scale + self.evaluator.hidden + self.bundle.steepest * reach

    def slack(self) -> float:
        """Return the size of terms whose relative error is a set's tolerance, if points are not projected."""
        projected = self._projects and not self.problem.separators
        return 0.0 if projected else self.bundle.steepest * self._farthest

    def compare(self, check: Callable[[float], None]) -> None:
        """Compare answers; if cancellation in a black box explains a contradiction, lower every cut.

        `check` is called with the size of terms that may have cancelled.
        """
        try:
            check(self.terms())
            return
        except Contradiction as error:
            hidden, before = hidden_terms(self.evaluator, error), self.evaluator.hidden
            terms = self.terms() - before
            if not hidden > before or EPS * hidden > _JUMP * terms > 0.0:
                raise
        check(terms + hidden)
        self.evaluator.hidden = hidden
        self.bundle.lower(CANCELLED * hidden)

    def _finite(self, x: Array, accuracy: float) -> Point:
        """Evaluate at x; while the objective is inf, move x halfway, later farther, to a finite point."""
        accuracy = min(accuracy, self._accuracy)
        point = self.evaluator.point(x, accuracy)
        if math.isfinite(point.objective):
            return point
        anchor = self.best.x if self.best is not None else getattr(self, "first", point).x
        for retreat in range(1 if anchor is x else _RETREATS):
            if math.isfinite(point.objective):
                return point
            x = anchor + 0.5 ** (1 + retreat // _PATIENCE) * (x - anchor)
            point = self.evaluator.point(x, accuracy)
        raise OracleError(
            f"The objective is {point.objective} at x = {show(x)}; start where it is finite (x0=...)."
        )

    def _extend(
        self,
        x: Array | None,
        slopes: Any,
        offsets: Array,
        blocks: Sequence[int],
        multipliers: Array | None = None,
        solutions: tuple[Any, ...] | None = None,
    ) -> list[int]:
        if self.bundle.is_full(len(offsets)):
            self.proof = self.bundle.pinned(self.proof)
            self.bundle.make_room(len(offsets))
        before = len(self.bundle)
        rows = self.bundle.add(self.queries, x, slopes, offsets, blocks, solutions)
        if multipliers is not None and len(self.bundle) > before:
            self.bundle.duals[self.queries] = multipliers
        self.queries += 1
        if not self.moved and len(self.bundle) > before:
            self.moved = self._raises_model(slice(before, len(self.bundle)))
        return rows

    def _raises_model(self, new: slice) -> bool:
        """Tell whether new rows lie above the last model at its minimiser, if there is a last model."""
        if self.last is None:
            return True
        products, offsets = self.bundle.slopes[new] @ self.last.x, self.bundle.offsets[new]
        rise = products + offsets - np.append(self.last.models, 0.0)[self.bundle.blocks[new]]
        return bool((rise > _NOISE * (np.abs(offsets) + np.abs(products))).any())

    def offer(self, point: Point) -> Point:
        """Keep an evaluated point if it is the best one; return it."""
        self._farthest = max(self._farthest, point.extent)
        if self.inner is None and point.feasible:
            self.inner = point
        self.moved |= self.offer_point(point)
        bounded = self.upper >= 0.0 or math.isfinite(self.lower) or self.problem.simple_set.bounded
        if not bounded and hasattr(self, "first"):
            steepness = np.abs(self.evaluator.slopes(self.first)).sum() * max(1.0, self.first.extent)
            if self.upper < -_DIVERGED * max(abs(self.first.objective), float(steepness)):
                raise Ended(Status.UNBOUNDED, f"the objective fell to {point.objective:.3g}")
        return point
