"""The line or plane that is drawn, and the part of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.exceptions import CutplaneError, InvalidInputError
from cutplane.pieces.capabilities import Capability, ability
from cutplane.pieces.validation import Array
from cutplane.runtime.clock import clock

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration
    from cutplane.report.explore.recording import Recording

_POINTS = {1: (401, 41), 2: (57, 15)}
"""Points of a grid on each axis of a line and of a plane: at most, and at least."""
_SECONDS = 4.0
"""What the values on the grid may cost, if the least grid does not cost more."""
_KEPT = 0.9
"""Share of the queries that the window holds if the set does not say how far it goes."""
_WIDE = 8.0
"""A box so much wider than the path is not shown whole."""
_STILL = 1e-9
"""A path so much shorter than a bounded set is a point, and the set is shown whole."""
_INDEPENDENT = 1e-9
_INSIDE = 1e-7


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
        Of the axes.
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
        """Whether all variables are drawn, as they are."""
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
        """Return the coordinates of a grid, shape (count ** k, k), the last one running fastest."""
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
    """Return one or two orthonormal directions: the given ones, or the principal ones of the path."""
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
    """Return every point that a method was at: queries, best points and what it marked."""
    best = [frame.x for frame in found.frames if frame.x is not None]
    queries = [origin for origin in found.origins if origin is not None]
    return [
        *queries,
        *best,
        *(point for frame in found.frames for mark in frame.marks for point in mark.points),
    ]


def _window(view: View, recordings: list[Recording], x: Array) -> Array:
    """Return the window: around the set if it is of the size of the path, else where most queries are."""
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
    """Return how far the box goes from x against and along each direction, shape (2, k).

    A side that is infinite goes as far as the largest finite one.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = np.array([(side - x) / view.directions for side in box])
    ends = np.where(np.abs(view.directions) > _INDEPENDENT, sides, np.nan)
    reach = np.array([np.nanmax(ends.min(axis=0), axis=1), np.nanmin(ends.max(axis=0), axis=1)])
    largest = np.abs(reach[np.isfinite(reach)]).max(initial=0.0) or 1.0
    return np.clip(reach, -largest, largest)


def _box(problem: Declaration) -> tuple[Array, Array] | None:
    """Return the smallest box around the simple set, where it is easily known and bounded."""
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

    The grid is as fine as a few seconds of the oracle allow.
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
    """Return a value, nan where there is none: oracles may be asked outside their domain here."""
    try:
        with np.errstate(all="ignore"):
            value = float(function(x))
    except (CutplaneError, ArithmeticError, ValueError):
        return np.nan
    return value if np.isfinite(value) else np.nan


def outline(problem: Declaration, view: View, inside: Array) -> Array | None:
    """Return the boundary of the part of X in the window, shape (n, k), from a feasible point; None for all.

    Rays from the point are cut off where X ends; more of them are sent where the boundary bends. The oracles
    are asked alone, so that any set has a picture.
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
        """Return how far the ray goes, by bisection."""
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
    """Return points on the boundary by rays, closer to each other where the boundary bends."""
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
    """Return the outline of a set without an inside in the view, such as a segment, from projections."""
    project = ability(problem.simple_set, Capability.PROJECTION)
    if project is None or problem.dim > view.k or problem.separators:
        return ring
    angles = np.linspace(0.0, 2.0 * np.pi, 64, endpoint=False)
    far = view.window.mean(axis=1) + 10.0 * size * np.column_stack([np.cos(angles), np.sin(angles)])
    return np.array([view.coordinates(project(view.at(u))) for u in far])
