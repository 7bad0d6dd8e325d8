"""Cuts at the points of a gradient method: where over X0 one is least, and the bound of their mean."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.evaluator import Point
from cutplane.exceptions import CutplaneError, OracleError
from cutplane.pieces.answers import name_of
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import TRIVIAL

if TYPE_CHECKING:
    from cutplane.engine.run import Run

_SPACING = 20
"""A bound of the mean follows each time that the cuts are 1/20 more: its cost grows with their number."""


def minimise_cut(run: Run, point: Point, share: float = 1.0) -> tuple[Array, Array]:
    """Add the cut of the risk at an evaluated point, and the lower bound that it gives alone.

    With a `share` below 1, the bound is that of this share of the cut and the rest of the known infimum.

    The set is asked once, for the bound and for the minimiser; its time counts as an oracle's.

    Returns
    -------
    slope : ndarray of shape (dim,)
        Of the cut, summed over the blocks.
    minimiser : ndarray of shape (dim,)
        Where over X0 the cut plus the regularizer is least.

    Raises
    ------
    OracleError
        If the set raises an exception or does not return a point.
    """
    slopes, offsets = run.evaluator.cut(point)
    run.add_cut(replace(point, slopes=slopes))
    known = run.bundle.queries == TRIVIAL
    share = share if known.any() else 1.0
    weights = np.where(known, 1.0 - share, 0.0)
    for block, (slope, offset) in enumerate(zip(slopes, offsets, strict=True)):
        weights[_row(run, point, slope, float(offset), block)] = share
    minimiser = _certified(run, weights)
    if minimiser is None:
        raise OracleError(f"minimise_linear of {run.problem.simple_set!r} returned infs or nans.")
    run.mark("vertex", point.x, minimiser)
    return slopes.sum(axis=0), minimiser


def _row(run: Run, point: Point, slope: Array, offset: float, block: int) -> int:
    """Return the row of a cut; where a risk with several pieces gave other bits, the highest there."""
    bundle = run.bundle
    row = bundle.find(slope, offset, block)
    if row is not None:
        return row
    return int(np.where(bundle.blocks == block, bundle.slopes @ point.x + bundle.offsets, -np.inf).argmax())


def _certified(run: Run, weights: Array) -> Array | None:
    try:
        return run.timed(run.certify, weights).minimiser
    except CutplaneError:
        raise
    except Exception as error:
        name = name_of(run.problem.simple_set)
        raise OracleError(f"{name} raised {type(error).__name__}: {error}") from error


@dataclass(eq=False)
class WeightedCuts:
    """Cuts of the bundle, each with a weight a_i; divided by their total, these are multipliers.

    Attributes
    ----------
    slope : ndarray of shape (dim,)
        The sum of a_i times the slope of cut i.
    total : float
        The sum of the a_i.
    """

    slope: Array
    total: float = 0.0
    _ids: list[int] = field(default_factory=list)
    _weights: list[float] = field(default_factory=list)
    _count: int = 0
    _next: int = 1

    def add(self, run: Run, point: Point, weight: float) -> None:
        """Add the cut at an evaluated point, which the bundle holds."""
        slopes, offsets = run.evaluator.cut(point)
        for block, (slope, offset) in enumerate(zip(slopes, offsets, strict=True)):
            row = _row(run, point, slope, float(offset), block)
            self._ids.append(int(run.bundle.ids[row]))
            self._weights.append(weight)
        self.total += weight
        self.slope += weight * slopes.sum(axis=0)
        self._count += 1

    def certify(self, run: Run) -> None:
        """Take the lower bound from the mean of the cuts, once in a while, if the bundle holds them all."""
        if self._count < self._next:
            return
        self._next = self._count + max(1, self._count // _SPACING)
        rows = np.searchsorted(run.bundle.ids, self._ids)
        if rows[-1] == len(run.bundle) or not np.array_equal(run.bundle.ids[rows], self._ids):
            return
        multipliers = np.bincount(rows, self._weights, minlength=len(run.bundle))
        run.timed(run.certify, multipliers / self.total)
