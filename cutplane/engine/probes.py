"""A few questions to a black box at the end of a solve, before the word OPTIMAL is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.engine.jitter import compare
from cutplane.engine.oracle_checks import allowed, contradiction, name_of, show
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


def probe(run: Run) -> int:
    """Search for a contradiction in the answers of a black box, old ones and a few new ones.

    The oracle is called again at the best point, where it must give the same value; ten times as far from it
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
    evaluate = run.evaluator.point
    known = _Known(run)
    count = max(_FEWEST, run.evaluator.calls // _SHARE)
    known.add(_again(run, run.best))
    known.add(evaluate(known.far() if run.problem.simple_set.bounded else known.between(_STEP)))
    flat = ~known.steep()
    if flat.any():  # a slope that the oracle forgets leaves x where it is
        known.add(evaluate(run.problem.into_simple_set(np.where(flat, known.elsewhere(), run.best.x))))
    while known.calls < count:
        end, share = known.elsewhere(), known.rng.uniform(0.2, 0.8)
        for t in (share, share + _STEP):
            known.add(evaluate(run.best.x + t * (end - run.best.x)))
    compare(run, known.compare, run.anchor)
    return known.calls


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


class _Known:
    """Cuts and values that must agree: no cut of a block lies above a value of that block.

    Parameters
    ----------
    run : Run
        Its last cuts are taken, those of its proof first.
    """

    def __init__(self, run: Run):
        bundle = run.bundle
        assert run.best is not None
        self.run, self.centre = run, run.best.x
        self.rng = np.random.default_rng(0)
        self.calls = 0
        cuts = np.flatnonzero((bundle.blocks != HALF_SPACE) & np.isin(bundle.queries, list(bundle.points)))
        used = np.isin(bundle.ids[cuts], run.proof.ids[run.proof.multipliers > 0.0])
        self.cuts = cuts = np.concatenate([cuts[~used], cuts[used]])[-_MOST:]
        queries, self.places = np.unique(bundle.queries[cuts], return_inverse=True)
        self.points = bundle.points.only(queries.tolist()).numbered()
        self.first = queries.size
        self.new: list[Point] = []
        self.reach = self._reach()

    def add(self, point: Point) -> None:
        """Take an answer, if the objective is finite there."""
        self.calls += 1
        if np.isfinite(point.objective):
            self.new.append(point)

    def steep(self) -> Array:
        """Return the coordinates in which some slope is not zero, as a mask."""
        mask = np.zeros(self.centre.size, dtype=bool)
        for point in self.new:
            mask |= (self.run.slopes(point) != 0.0).any(axis=0)
        slopes: Any = self.run.bundle.slopes
        for cut in () if mask.all() else self.cuts.tolist():
            row = slopes[[cut]].toarray()[0] if sparse.issparse(slopes) else slopes[cut]
            mask |= row != 0.0
        return mask

    def far(self) -> Array:
        """Return a point of a bounded set where the run has not been: what is not convex shows from afar."""
        way = self.rng.standard_normal(self.centre.size)
        step = REACH * self.reach / np.abs(way).max() * way
        ends = [self.run.problem.into_simple_set(self.centre + sign * step) for sign in (1.0, -1.0)]
        end = max(ends, key=lambda end: np.abs(end - self.centre).max())
        return self.centre + self.rng.uniform(0.5, 1.0) * (end - self.centre)

    def between(self, share: float) -> Array:
        """Return a point on the way to one elsewhere."""
        return self.centre + share * (self.elsewhere() - self.centre)

    def elsewhere(self) -> Array:
        """Draw a point of the simple set, as far from the best one as the run has been."""
        step = self.reach * self.rng.standard_normal(self.centre.size)
        there, back = (self.run.problem.into_simple_set(self.centre + sign * step) for sign in (1.0, -1.0))
        return _THERE * there + (1.0 - _THERE) * back

    def _reach(self) -> float:
        """Return how far from the best point the run has been; the size of the set if it has seen none."""
        centre, reach = self.centre, float(np.abs(self.centre).max())
        for begin in range(0, centre.size, _WIDTH) if len(self.points) else ():
            part = centre[begin : begin + _WIDTH]
            columns = self.points.columns(begin, begin + _WIDTH)
            reach = max(reach, float((columns - part).max()), float((part - columns).max()))
        if reach == 0.0 or len(self.points) <= _FEW:
            whole = scale_of(self.run.problem.simple_set, self.run.problem.dim, 0.0)
            reach = whole if reach <= _NOWHERE * whole else reach
        return reach or 1.0

    def compare(self, noise: float) -> None:
        """Raise `OracleError` if a cut lies above a value; `noise` is the size of terms that may cancel."""
        run, bundle, count = self.run, self.run.bundle, self.first
        found = [run.evaluator.cut(point) for point in self.new]
        points = self.points.copy()
        points |= {count + k: point.x for k, point in enumerate(self.new)}
        own = np.concatenate([slopes for slopes, _ in found]) if found else np.empty((0, self.centre.size))
        heights, sizes = (
            np.zeros((self.cuts.size + len(own), len(points))),
            np.zeros(self.cuts.size + len(own)),
        )
        for begin in range(0, self.centre.size, _WIDTH):
            end = begin + _WIDTH
            some: Any = bundle.slopes[self.cuts, begin:end]
            rows = np.concatenate([some.toarray() if sparse.issparse(some) else some, own[:, begin:end]])
            columns = points.columns(begin, end)
            heights += rows @ columns.T
            sizes = sizes + np.abs(rows) @ np.abs(columns).max(axis=0)
        n_blocks = run.problem.risk.n_blocks
        offsets = np.concatenate([bundle.offsets[self.cuts], *(offsets for _, offsets in found)])
        blocks = np.concatenate([bundle.blocks[self.cuts], np.tile(np.arange(n_blocks), len(found))])
        places = np.concatenate([self.places, count + np.repeat(np.arange(len(found)), n_blocks)])
        heights += offsets[:, np.newaxis]
        values = np.full((len(points), n_blocks), np.inf)
        if not offers(run.problem.risk, Capability.PIECES):  # their cuts may lie below the value at the query
            values[places, blocks] = heights[np.arange(offsets.size), places]
        for k, point in enumerate(self.new):
            values[count + k] = point.values
        wanted = values.T[blocks]
        suspects = np.argwhere(heights - wanted > ORACLE * np.abs(wanted))
        for row, place in suspects.tolist():
            value = wanted[row, place]
            scale = abs(value) + abs(offsets[row]) + sizes[row]
            if heights[row, place] - value > allowed(scale, noise):
                excess = float(heights[row, place] - value)
                raise contradiction(run.problem, points[places[row]], points[place], excess)
