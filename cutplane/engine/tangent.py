"""The cut at a point and where over X0 it is least: the gradient and the vertex of a Frank-Wolfe step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.evaluator import Point
from cutplane.engine.oracle_checks import name_of
from cutplane.exceptions import CutplaneError, OracleError
from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.engine.run import Run


def minimise_cut(run: Run, point: Point) -> tuple[Array, Array]:
    """Add the cut of the risk at an evaluated point, and the lower bound that it gives alone.

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
    weights = np.zeros(len(run.bundle))
    for block, (slope, offset) in enumerate(zip(slopes, offsets, strict=True)):
        row = run.bundle.find(slope, float(offset), block)
        assert row is not None
        weights[row] = 1.0
    minimiser = _certified(run, weights)
    if minimiser is None:
        raise OracleError(f"minimise_linear of {run.problem.simple_set!r} returned infs or nans.")
    return slopes.sum(axis=0), minimiser


def _certified(run: Run, weights: Array) -> Array | None:
    try:
        return run.timed(run.certify, weights).minimiser
    except CutplaneError:
        raise
    except Exception as error:
        name = name_of(run.problem.simple_set)
        raise OracleError(f"{name} raised {type(error).__name__}: {error}") from error
