"""A few questions to a black box at the end of a solve, before the word OPTIMAL is given."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from cutplane.engine.jitter import compare
from cutplane.engine.oracle_checks import allowed, contradiction, name_of, show
from cutplane.engine.points import Points
from cutplane.engine.slopes import dense
from cutplane.engine.tolerances import ORACLE, REACH
from cutplane.exceptions import OracleError
from cutplane.masters.base import HALF_SPACE
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array
from cutplane.sets.base import scale_of

if TYPE_CHECKING:
    from cutplane.engine.evaluator import Point
    from cutplane.engine.run import Run

_FEWEST = 4
_SHARE = 20
"""One probe for this many calls of the oracle, and the fewest at least."""
_MOST = 200
"""The most cuts, and the most points, of the bundle that are compared with one another."""
_STEP = 1e-3
"""The distance between the points of a pair, relative to where the run has been. Errors of slopes show that
are larger than the curvature over this distance and than the errors of values over it, 1e-4."""
_THERE = 0.7
"""Pairs lie on the way to a mixture of the projections of two opposite points: at a bound one of them leads
inside, so that every coordinate moves that can."""

_NOWHERE = 1e-6
_FEW = 2
"""A run that has seen no more than this share of the set, and no more points, is asked about the whole of it:
a slope of zero leaves a method where it is."""


_WIDTH = 4096
"""Coordinates of the cuts and points that are copied to be multiplied at a time."""


class _Known(NamedTuple):
    """Cuts and values that must agree: no cut of a block lies above a value of that block."""

    points: Points
    """By number, from 0 on."""
    values: Array
    slopes: list[Array]
    offsets: Array
    blocks: Array
    places: list[int]
    """The number of the point at which each cut was found."""


def probe(run: Run) -> int:
    """Look for a contradiction in the answers of a black box, old ones and a few new ones.

    The oracle is asked again at the best point, where it must give the same value; ten times as far from it
    as the run has been, if the set is bounded, else close to it; where all slopes are zero in some
    coordinates, at a point that differs in these alone; and at pairs of points close to one another: they
    decide whether slopes are difference quotients. The number of these calls is 1/20 of those of the run,
    but at least 4. Then every cut is compared with every value that is known.

    Returns
    -------
    int
        The number of calls.

    Raises
    ------
    OracleError
        If answers contradict one another.
    """
    if not run.problem.risk.black_box or not run.problem.risk.exact or run.best is None:
        return 0
    known = _from_bundle(run)
    count = max(_FEWEST, run.evaluator.calls // _SHARE)
    rng = np.random.default_rng(0)
    bounded = run.problem.simple_set.bounded
    answers = [_of(run, _again(run, run.best))]
    answers.append(_of(run, (_far if bounded else _neighbour)(run, known.points, rng)))
    steep = (slope != 0.0 for slope in known.slopes)
    flat = ~reduce(np.logical_or, steep, np.zeros(run.problem.dim, dtype=bool))
    if flat.any():  # a slope that the oracle forgets leaves x where it is
        answers.append(_of(run, run.evaluator.point(_along(run, flat, known.points, rng))))
    while len(answers) < count:
        answers += [_of(run, point) for point in _pair(run, known.points, rng)]
    known = _joined(known, [answer for answer in answers if answer is not None])
    compare(run, lambda noise: _compare(run, known, noise), run.anchor)
    return len(answers)


def _again(run: Run, point: Point) -> Point:
    again = run.evaluator.point(point.x)
    scale = np.abs(point.values) + np.abs(run.evaluator.slopes(point)) @ np.abs(point.x)
    if not (np.abs(again.values - point.values) <= allowed(scale, run.terms(point))).all():
        raise OracleError(
            f"{name_of(run.problem.risk)} gave the value {point.values.sum():.10g} at x = {show(point.x)}, "
            f"and {again.values.sum():.10g} when it was asked again: it must be a function of x alone. "
            "Check it with cutplane.testing.check_risk."
        )
    return again


def _neighbour(run: Run, points: Points, rng: np.random.Generator) -> Point:
    """Evaluate a point close to the best one."""
    assert run.best is not None
    x = run.best.x
    return run.evaluator.point(x + _STEP * (_elsewhere(run, points, rng) - x))


def _far(run: Run, points: Points, rng: np.random.Generator) -> Point:
    """Evaluate a point of a bounded set where the run has not been: what is not convex shows from afar."""
    assert run.best is not None
    centre = run.best.x
    way = rng.standard_normal(centre.size)
    step = REACH * _reach(run, points) / np.abs(way).max() * way
    ends = [run.problem.into_simple_set(centre + sign * step) for sign in (1.0, -1.0)]
    end = max(ends, key=lambda end: np.abs(end - centre).max())
    return run.evaluator.point(centre + rng.uniform(0.5, 1.0) * (end - centre))


def _along(run: Run, flat: Array, points: Points, rng: np.random.Generator) -> Array:
    """Return a point that differs from the best one where all slopes are zero, as far as the set allows."""
    assert run.best is not None
    return run.problem.into_simple_set(np.where(flat, _elsewhere(run, points, rng), run.best.x))


def _pair(run: Run, points: Points, rng: np.random.Generator) -> list[Point]:
    """Evaluate two points close to one another, somewhere in the simple set where the run has been."""
    assert run.best is not None
    way, share = _elsewhere(run, points, rng) - run.best.x, rng.uniform(0.2, 0.8)
    return [run.evaluator.point(run.best.x + t * way) for t in (share, share + _STEP)]


def _elsewhere(run: Run, points: Points, rng: np.random.Generator) -> Array:
    """Draw a point of the simple set, as far from the best one as the run has been."""
    assert run.best is not None
    centre = run.best.x
    step = _reach(run, points) * rng.standard_normal(centre.size)
    there, back = (run.problem.into_simple_set(centre + sign * step) for sign in (1.0, -1.0))
    return _THERE * there + (1.0 - _THERE) * back


def _reach(run: Run, points: Points) -> float:
    """Return how far from the best point the run has been; or the size of the set, if it has seen nothing."""
    assert run.best is not None
    centre = run.best.x
    reach = max(np.abs(centre).max(), *(np.abs(point - centre).max() for point in points.values()), 0.0)
    if reach == 0.0 or len(points) <= _FEW:
        whole = scale_of(run.problem.simple_set, run.problem.dim, 0.0)
        reach = whole if reach <= _NOWHERE * whole else reach
    return float(reach) or 1.0


def _from_bundle(run: Run) -> _Known:
    bundle = run.bundle
    cuts = np.flatnonzero((bundle.blocks != HALF_SPACE) & np.isin(bundle.queries, list(bundle.points)))
    used = np.isin(bundle.ids[cuts], run.proof.ids[run.proof.multipliers > 0.0])
    cuts = np.concatenate([cuts[~used], cuts[used]])[-_MOST:]
    queries = np.unique(bundle.queries[cuts])
    places = np.searchsorted(queries, bundle.queries[cuts])
    points = bundle.points.only(queries.tolist()).numbered()
    thin = sparse.issparse(bundle.slopes)
    slopes = list(dense(bundle.slopes[cuts])) if thin else [bundle.slopes[cut] for cut in cuts]
    offsets, blocks = bundle.offsets[cuts], bundle.blocks[cuts]
    values = np.full((queries.size, run.problem.risk.n_blocks), np.inf)
    if not offers(run.problem.risk, Capability.PIECES):  # their cuts may lie below the value at the query
        values[places, blocks] = [s @ points[k] for s, k in zip(slopes, places, strict=True)] + offsets
    return _Known(points, values, slopes, offsets, blocks, places.tolist())


def _of(run: Run, point: Point) -> _Known | None:
    """Return what a point says, if the objective is finite there."""
    if not np.isfinite(point.objective):
        return None
    slopes, offsets = run.evaluator.cut(point)
    here, blocks, places = Points({0: point.x}), np.arange(offsets.size), [0] * offsets.size
    return _Known(here, point.values[np.newaxis], list(slopes), offsets, blocks, places)


def _joined(first: _Known, others: list[_Known]) -> _Known:
    points, slopes, places = first.points.copy(), list(first.slopes), list(first.places)
    for other in others:
        count = len(points)
        places += [count + place for place in other.places]
        points |= {count + place: point for place, point in other.points.items()}
        slopes += other.slopes
    values, offsets, blocks = (
        np.concatenate([getattr(part, name) for part in (first, *others)])
        for name in ("values", "offsets", "blocks")
    )
    return _Known(points, values, slopes, offsets, blocks, places)


def _products(slopes: list[Array], points: Points) -> Array:
    """Return the product of each slope with each point."""
    products = np.zeros((len(slopes), len(points)))
    for begin in range(0, slopes[0].size if slopes else 0, _WIDTH):
        end = begin + _WIDTH
        products += np.array([slope[begin:end] for slope in slopes]) @ points.columns(begin, end).T
    return products


def _compare(run: Run, known: _Known, noise: float) -> None:
    heights = _products(known.slopes, known.points) + known.offsets[:, np.newaxis]
    values = known.values.T[known.blocks]
    suspects = np.argwhere(heights - values > ORACLE * np.abs(values))
    extent = reduce(np.maximum, (np.abs(point) for point in known.points.values()))
    for row, place in suspects.tolist():
        x, value = known.points[place], values[row, place]
        scale = abs(value) + abs(known.offsets[row]) + np.abs(known.slopes[row]) @ extent
        if heights[row, place] - value > allowed(scale, noise):
            origin = known.points[known.places[row]]
            raise contradiction(run.problem, origin, x, float(heights[row, place] - value))
