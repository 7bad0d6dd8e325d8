"""Recordings of runs with a frame per iteration, and the line or plane in which they are drawn."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.bundle import AGGREGATE
from cutplane.engine.history import Mark, State
from cutplane.exceptions import CutplaneError, InvalidInputError
from cutplane.pieces.capabilities import Capability, ability
from cutplane.pieces.parameters import short_repr
from cutplane.pieces.validation import Array, as_count
from cutplane.proof.evidence import dense
from cutplane.runtime.clock import clock

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.engine.history import Record
    from cutplane.problem import Problem
    from cutplane.result import Result

MOST_FRAMES = 2000
"""Largest number of frames of a figure, because a page with more would be too large."""
_ITERATIONS = 200
"""Default for the largest number of iterations, because the page stores a frame for each."""
_USED = 1e-9
"""Least multiplier that is shown, relative to the largest, because interior-point methods give small positive
ones to inactive cuts."""
_POINTS = {1: (401, 41), 2: (57, 15)}
"""Largest and smallest number of grid points per axis, for a line (1) and for a plane (2)."""
_SECONDS = 4.0
"""Seconds for the values on the grid, few because a reader waits for them."""
_KEPT = 0.9
"""Share of the queries that the window contains if the set is unbounded, because the first queries may be far
away."""
_WIDE = 8.0
"""Width of a set, relative to the path, up to which the whole set is shown, because the path must be
visible."""
_STILL = 1e-9
"""Length of a path, relative to a bounded set, up to which it counts as a point, because it would be
invisible."""
_INDEPENDENT = 1e-9
"""Size of a component, relative to its vector, that counts as zero, because it may be a rounding error."""
_INSIDE = 1e-7
"""Violation relative to the window that counts as zero, because it is invisible."""


@dataclass(frozen=True, eq=False)
class Frame:
    """One iteration.

    Attributes
    ----------
    record : Record
    x : ndarray of shape (dim,) or None
        The best feasible point.
    marks : tuple of Mark
        The marks of the method.
    weights : dict of int to float
        The multipliers of the rows in use, in the reduced problem of this iteration.
    """

    record: Record
    x: Array | None = None
    marks: tuple[Mark, ...] = ()
    weights: dict[int, float] = field(default_factory=dict)


@dataclass(eq=False)
class Recording:
    """The rows and the frames of a run.

    Attributes
    ----------
    problem : Problem
    method : str
    slopes, offsets, blocks : list
        One entry per row, in the order in which the rows were added; block -1 is a half-space.
    born, died : list of int
        The first frame with the row, and the first later frame without it.
    origins : list of ndarray or None
        The query of each row.
    frames : list of Frame
    """

    problem: Declaration
    method: str
    slopes: list[Array] = field(default_factory=list)
    offsets: list[float] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    born: list[int] = field(default_factory=list)
    died: list[int | None] = field(default_factory=list)
    origins: list[Array | None] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)

    @property
    def x(self) -> Array | None:
        """The best point at the end."""
        return self.frames[-1].x

    def add(self, frame: int, slope: Any, offset: Any, block: Any, origin: Array | None) -> None:
        """Add a row, which is drawn from this frame on."""
        self.slopes.append(np.array(dense(slope)).ravel())
        self.offsets.append(float(offset))
        self.blocks.append(int(block))
        self.born.append(frame)
        self.died.append(None)
        self.origins.append(origin)

    def alive(self, frame: int) -> list[int]:
        """Return the rows that exist in a frame."""
        return [
            row
            for row, (born, died) in enumerate(zip(self.born, self.died, strict=True))
            if born <= frame and (died is None or frame < died)
        ]

    def model(self, frame: int, x: Array) -> float:
        """Return the model of the risk at x: the sum over the blocks of the largest cut."""
        largest = np.full(self.problem.risk.n_blocks, -np.inf)
        for row in self.alive(frame):
            if (block := self.blocks[row]) >= 0:
                largest[block] = max(largest[block], self.slopes[row] @ x + self.offsets[row])
        return float(largest.sum())


def record(problem: Problem, method: Any, options: dict[str, Any]) -> Recording:
    """Run a method, and record every iteration."""
    most = as_count("max_iter", options.pop("max_iter", _ITERATIONS))
    if most >= MOST_FRAMES:
        raise InvalidInputError(
            f"A picture has at most {MOST_FRAMES} frames: max_iter must be less, got {most}."
        )
    given = copy(problem)
    given.as_given = True  # because cuts are functions of the variables of the run
    driver = given.iterate(method, max_iter=most, **options)
    run = driver.process.run  # pyright: ignore[reportAttributeAccessIssue]
    found, rows = (
        Recording(problem, short_repr(run.method) if is_dataclass(run.method) else repr(run.method)),
        {},
    )
    for state in driver:
        _take(found, state, run.bundle, rows)
    return found


def _take(found: Recording, state: State, bundle: Any, rows: dict[int, int]) -> None:
    """Add a frame, with the changes of the rows since the last frame."""
    here, ids = len(found.frames), bundle.ids.tolist()
    for index in np.flatnonzero(bundle.ids > max(rows, default=-1)).tolist():
        rows[ids[index]] = len(found.slopes)
        query = int(bundle.queries[index])
        origin = None if query == AGGREGATE else bundle.points.get(query)
        found.add(here, bundle.slopes[[index]], bundle.offsets[index], bundle.blocks[index], origin)
    for lost in rows.keys() - set(ids):
        row = rows[lost]
        found.died[row] = here if found.died[row] is None else found.died[row]
    weights = bundle.weights
    used = np.flatnonzero(weights > _USED * weights.max(initial=0.0)).tolist()
    found.frames.append(
        Frame(state.record, state.x, state.marks, {rows[ids[k]]: float(weights[k]) for k in used})
    )


def replay(result: Result) -> Recording:
    """Return the recording of a result: its cuts, in order, the bounds, and the final multipliers."""
    certificate = result.certificate
    if certificate.problem is None:
        raise InvalidInputError("This result was loaded from a file: use cutplane.explore(problem).")
    records = list(result.history)
    spread = np.linspace(0, len(records) - 1, min(len(records), MOST_FRAMES)).astype(int)
    records = [records[k] for k in np.unique(spread).tolist()]
    found = Recording(certificate.problem, result.method)
    order = np.argsort(certificate.queries, kind="stable")
    born = np.searchsorted([one.n_cuts for one in records], np.arange(len(order)), side="right")
    for place, row in enumerate(order.tolist()):
        origin = certificate.points.get(int(certificate.queries[row]))
        frame = min(int(born[place]), len(records) - 1)
        found.add(frame, certificate.slopes[[row]], certificate.offsets[row], certificate.blocks[row], origin)
    weights = certificate.multipliers[order]
    last = {row: float(weights[row]) for row in np.flatnonzero(weights > 0.0).tolist()}
    found.frames = [Frame(one) for one in records[:-1]]
    found.frames.append(Frame(records[-1], result.x, (), last))
    return found


@dataclass(frozen=True, eq=False)
class View:
    """{origin + u D : u in window}, with orthonormal rows D.

    Attributes
    ----------
    origin : ndarray of shape (dim,)
    directions : ndarray of shape (k, dim)
        k is 1 or 2.
    window : ndarray of shape (k, 2)
    labels : tuple of str
        Labels of the axes.
    """

    origin: Array
    directions: Array
    window: Array
    labels: tuple[str, ...]

    @property
    def k(self) -> int:
        """1 for a line, 2 for a plane."""
        return len(self.directions)

    @property
    def is_whole(self) -> bool:
        """Whether the view is of all variables."""
        return self.k == self.origin.size and not self.origin.any()

    def coordinates(self, x: Array) -> Array:
        """Return the coordinates, shape (k,), of the point of the view that is closest to x."""
        return self.directions @ (x - self.origin)

    def at(self, u: Array) -> Array:
        """Return the point with these coordinates."""
        return self.origin + u @ self.directions

    def axes(self, count: int) -> list[Array]:
        """Return evenly spaced coordinates on each axis."""
        return [np.linspace(low, high, count) for low, high in self.window]

    def grid(self, count: int) -> Array:
        """Return the coordinates of a grid, shape (count ** k, k); the last coordinate changes fastest."""
        return np.stack(np.meshgrid(*self.axes(count), indexing="ij"), axis=-1).reshape(-1, self.k)


def choose_view(recordings: list[Recording], along: Any, region: Any) -> View:
    """Return the view that shows the path of the methods, or the given directions and region."""
    problem = recordings[0].problem
    best = min(
        (found.frames[-1] for found in recordings if found.x is not None),
        key=lambda frame: frame.record.upper_bound,
        default=None,
    )
    x = np.zeros(problem.dim) if best is None or best.x is None else best.x
    if along is None and problem.dim <= 2:
        origin, directions = np.zeros(problem.dim), np.eye(problem.dim)
        labels = ("x",) if problem.dim == 1 else ("x[0]", "x[1]")
    else:
        origin, directions = x, _directions(recordings, x, along)
        labels = ("distance from the best point along a direction", "along a second, orthogonal one")
    view = View(origin, directions, np.zeros((len(directions), 2)), labels[: len(directions)])
    window = _window(view, recordings, x) if region is None else _given(region, view.k)
    return View(origin, directions, window, view.labels)


def _directions(recordings: list[Recording], x: Array, along: Any) -> Array:
    """Return one or two orthonormal directions: the given ones, or the principal directions of the path."""
    if along is None:
        path = np.array([point - x for found in recordings for point in visited(found)])
        return np.linalg.svd(path.reshape(-1, x.size), full_matrices=True)[2][:2]
    given = np.atleast_2d(np.asarray(along, dtype=np.float64))
    if given.shape not in ((1, x.size), (2, x.size)) or not np.isfinite(given).all():
        raise InvalidInputError(
            f"along must be one or two finite vectors of length {x.size}, got shape {given.shape}."
        )
    q, r = np.linalg.qr(given.T)
    diagonal = np.diag(r)
    if (np.abs(diagonal) <= _INDEPENDENT * np.linalg.norm(given, axis=1)).any():
        raise InvalidInputError("along must be one nonzero vector, or two that are independent.")
    return (q * np.sign(diagonal)).T


def visited(found: Recording) -> list[Array]:
    """Return the queries, the best points and the marks of a method."""
    best = [frame.x for frame in found.frames if frame.x is not None]
    queries = [origin for origin in found.origins if origin is not None]
    return [
        *queries,
        *best,
        *(point for frame in found.frames for mark in frame.marks for point in mark.points),
    ]


def _window(view: View, recordings: list[Recording], x: Array) -> Array:
    """Return a window around the set, if it is not much larger than the path, or around most queries."""
    problem = recordings[0].problem
    path = np.array([view.coordinates(point) for found in recordings for point in visited(found)])
    path = path.reshape(-1, view.k)
    centre = view.coordinates(x)
    extent = float(np.abs(path - centre).max(initial=0.0))
    box = _box(problem)
    widths = np.zeros(0) if box is None else box[1] - box[0]
    if box is not None and extent <= _STILL * widths[np.isfinite(widths)].max(initial=0.0):
        low, high = centre + _reach(view, box, x)
    elif box is not None and view.is_whole and (widths <= _WIDE * extent).all():
        low, high = box
    else:
        reach = float(np.quantile(np.abs(path - centre).max(axis=1), _KEPT)) if len(path) else 0.0
        reach = np.full(view.k, reach or 1.0)
        near = np.abs(path - centre) <= 1.01 * reach
        shown = np.vstack([path[near.all(axis=1)], centre - 0.3 * reach, centre + 0.3 * reach])
        low, high = shown.min(axis=0), shown.max(axis=0)
    margin = 0.12 * np.where(high > low, high - low, 1.0)
    return np.column_stack([low - margin, high + margin])


def _reach(view: View, box: tuple[Array, Array], x: Array) -> Array:
    """Return the signed distances from x to the boundary of the box against and along each direction.

    The shape is (2, k). An infinite distance is replaced by the largest finite one.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = np.array([(side - x) / view.directions for side in box])
    ends = np.where(np.abs(view.directions) > _INDEPENDENT, sides, np.nan)
    reach = np.array([np.nanmax(ends.min(axis=0), axis=1), np.nanmin(ends.max(axis=0), axis=1)])
    largest = np.abs(reach[np.isfinite(reach)]).max(initial=0.0) or 1.0
    return np.clip(reach, -largest, largest)


def _box(problem: Declaration) -> tuple[Array, Array] | None:
    """Return the smallest box around the simple set, if it is bounded and easily computed."""
    minimise = ability(problem.simple_set, Capability.LINEAR_MINIMISATION)
    bounds = problem.simple_set.bounds(problem.dim)
    if bounds is None and problem.simple_set.bounded and minimise is not None:
        ends = np.eye(problem.dim)
        low = np.array([minimise(end)[j] for j, end in enumerate(ends)])
        bounds = low, np.array([minimise(-end)[j] for j, end in enumerate(ends)])
    return bounds


def _given(region: Any, k: int) -> Array:
    window = np.asarray(region, dtype=np.float64).reshape(-1, 2) if np.size(region) == 2 * k else None
    if window is None or not (np.isfinite(window).all() and (window[:, 0] < window[:, 1]).all()):
        raise InvalidInputError(f"region must be {k} pairs (low, high) of finite numbers, got {region!r}.")
    return window


def sample(problem: Declaration, view: View) -> tuple[int, Array, Array]:
    """Return the points per axis, and f + g and g on the grid; nan where they are not defined.

    The grid is as fine as a few seconds of oracle calls allow.
    """
    most, least = _POINTS[view.k]
    regularizer = problem.active_regularizer

    def risk(x: Array) -> float:
        return float(np.sum(problem.risk.oracle(x)[0]))

    began, tries = clock(), view.grid(2)
    for u in tries:
        _number(risk, view.at(u))
    each = max((clock() - began) / len(tries), 1e-9)
    count = int(np.clip((_SECONDS / each) ** (1.0 / view.k), least, most))
    points = [view.at(u) for u in view.grid(count)]
    extra = np.array([_number(regularizer.value, x) for x in points])
    return count, np.array([_number(risk, x) for x in points]) + extra, extra


def _number(function: Callable[[Array], float], x: Array) -> float:
    """Return a value; nan if the oracle raises an exception, because points may be outside its domain."""
    try:
        with np.errstate(all="ignore"):
            value = float(function(x))
    except (CutplaneError, ArithmeticError, ValueError):
        return np.nan
    return value if np.isfinite(value) else np.nan


def outline(problem: Declaration, view: View, inside: Array) -> Array | None:
    """Return the boundary of the part of X in the window, shape (n, k), from a feasible point; None for all.

    The boundary is found along rays from the point, which are denser where it bends. Because this needs only
    the oracles of X, any set can be drawn.
    """
    if problem.is_unconstrained:
        return None
    centre = np.clip(view.coordinates(inside), *view.window.T)
    size = float((view.window[:, 1] - view.window[:, 0]).max())

    def holds(u: Array) -> bool:
        x = view.at(u)
        if problem.simple_set.violation(x) > _INSIDE * size:
            return False
        return not any(len(separator.separate(x.copy())) for separator in problem.separators)

    def end(direction: Array) -> Array:
        """Return the point where the ray ends in X, by bisection."""
        with np.errstate(divide="ignore", invalid="ignore"):
            sides = (
                np.where(direction > 0, view.window[:, 1] - centre, view.window[:, 0] - centre) / direction
            )
        low, high = 0.0, float(np.min(sides[direction != 0.0]))
        if holds(centre + high * direction):
            return centre + high * direction
        for _ in range(30):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if holds(centre + middle * direction) else (low, middle)
        return centre + low * direction

    if view.k == 1:
        return np.array([end(np.array([-1.0])), end(np.array([1.0]))])
    ring = _ring(lambda angle: end(np.array([np.cos(angle), np.sin(angle)])))
    if np.ptp(ring, axis=0).min() > 1e-3 * size:
        return ring
    return _projected(problem, view, size, ring)


def _ring(end: Callable[[float], Array]) -> Array:
    """Return points on the boundary by rays, which are denser where the boundary bends."""
    angles = np.linspace(-np.pi, np.pi, 49)[:-1] + 1e-3
    found = {float(angle): end(angle) for angle in angles}
    for _ in range(5):
        order = sorted(found)
        points = np.array([found[angle] for angle in order])
        steps = np.roll(points, -1, axis=0) - points
        turn = np.abs(np.angle(np.exp(1j * np.diff(np.arctan2(steps[:, 1], steps[:, 0]), append=np.nan))))
        bends = np.flatnonzero(turn > 0.1)
        for k in bends.tolist():
            for left in (k, k + 1):
                if left + 1 < len(order):
                    middle = 0.5 * (order[left] + order[left + 1])
                    found[middle] = end(middle)
        if not len(bends):
            break
    return np.array([found[angle] for angle in sorted(found)])


def _projected(problem: Declaration, view: View, size: float, ring: Array) -> Array:
    """Return the outline of a set without interior in the view, for example a segment, from projections."""
    project = ability(problem.simple_set, Capability.PROJECTION)
    if project is None or problem.dim > view.k or problem.separators:
        return ring
    angles = np.linspace(0.0, 2.0 * np.pi, 64, endpoint=False)
    far = view.window.mean(axis=1) + 10.0 * size * np.column_stack([np.cos(angles), np.sin(angles)])
    return np.array([view.coordinates(project(view.at(u))) for u in far])
