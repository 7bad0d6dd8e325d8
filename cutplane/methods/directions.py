"""Where a Frank-Wolfe step goes, and how far."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cutplane.engine.evaluator import Point
from cutplane.engine.line_search import minimise_on_line
from cutplane.engine.ray import least_share
from cutplane.pieces.lines import Line
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.run import Run

_RETREATS = 60
_FLAT = 0.1
"""Share of its first slope along the direction at which the risk counts as flat."""
_NOISE = 1e-13


class Direction(NamedTuple):
    """A segment from a convex combination of atoms to another one.

    Attributes
    ----------
    kind : str
    weights : ndarray of shape (K,)
        At its far end.
    x : ndarray of shape (dim,)
        The far end.
    """

    kind: str
    weights: Array
    x: Array


def towards(atoms: Array, k: int) -> Direction:
    """Return the direction from the current point to atom k."""
    weights = np.zeros(len(atoms))
    weights[k] = 1.0
    return Direction("towards", weights, atoms[k].copy())


def towards_or_away(atoms: Array, weights: Array, k: int, products: Array) -> Direction:
    """Return the steeper one of the directions towards atom k and away from the worst atom.

    `products` are those of the atoms with the gradient; the worst atom is the one of the largest.
    """
    worst, here = _worst(weights, products), float(weights @ products)
    if np.count_nonzero(weights) > 1 and products[worst] - here > here - products[k]:
        return _away(atoms, weights, worst)
    return towards(atoms, k)


def pairwise(atoms: Array, weights: Array, k: int, products: Array) -> Direction:
    """Return the direction that moves the weight of the worst atom to atom k."""
    worst = _worst(weights, products)
    if worst == k:
        return towards(atoms, k)
    moved = weights.copy()
    moved[k] += moved[worst]
    moved[worst] = 0.0
    return Direction("pairwise", moved, moved @ atoms)


def _worst(weights: Array, products: Array) -> int:
    return int(np.argmax(np.where(weights > 0.0, products, -np.inf)))


def _away(atoms: Array, weights: Array, k: int) -> Direction:
    rest = weights.copy()
    rest[k] = 0.0
    rest /= rest.sum()
    return Direction("away", rest, rest @ atoms)


def walk(
    rule: str, run: Run, start: Point, direction: Direction, gradient: Array, count: int
) -> tuple[float, Point]:
    """Return how far the rule goes, as a share of the direction, and the point there, evaluated.

    The share is 0, and the point `start`, where rounding errors leave no step.

    Parameters
    ----------
    rule : {"short", "exact", "open_loop"}
    run : Run
    start : Point
        The current point.
    direction : Direction
    gradient : ndarray of shape (dim,)
        Of the risk, at the current point.
    count : int
        Number of iterations before this one.
    """
    change = direction.x - start.x
    if rule == "exact":
        if run.imaged:
            return _exact(run, start, run.visit(direction.x))
        return _exact_by_oracle(run, start, change, direction.x)
    if rule == "short":
        fall = -float(gradient @ change)
        curvature = run.curvature(start.x, change) if fall > 0.0 else math.inf
        t = 1.0 if fall >= curvature else max(0.0, fall / curvature)
    else:
        t = 2.0 / (count + 2.0)
    for _ in range(_RETREATS if t > 0.0 else 0):
        point = run.visit(direction.x if t == 1.0 else start.x + t * change)
        if math.isfinite(point.objective):
            return t, point
        t *= 0.5
    return 0.0, start


def _exact(run: Run, start: Point, end: Point) -> tuple[float, Point]:
    t = least_share(run, start, end)
    return t, start if t == 0.0 else end if t == 1.0 else run.between(start, end, t)


class _Found(Exception):
    """A point was found at which the risk is almost flat along the direction."""


def _exact_by_oracle(run: Run, start: Point, change: Array, x: Array) -> tuple[float, Point]:
    visited = {0.0: start}
    highest = start.objective + _NOISE * abs(start.objective)

    def evaluate(t: float) -> tuple[float, float]:
        if t not in visited:
            visited[t] = run.visit(x if t == 1.0 else start.x + t * change)
        point = visited[t]
        if not math.isfinite(point.objective):
            return math.inf, math.inf
        slope = float(run.slopes(point).sum(axis=0) @ change)
        if t > 0.0 and abs(slope) <= _FLAT * abs(evaluate(0.0)[1]) and point.objective <= highest:
            raise _Found(t)
        return point.objective, slope

    try:
        t = minimise_on_line(Line(evaluate), 1.0)
    except _Found as found:
        (t,) = found.args
    return t, visited[t]
