"""The cut at a point of a gradient method: its rows in the bundle, its bound, and its minimiser over X0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.evaluator import Point
from cutplane.exceptions import CutplaneError, OracleError
from cutplane.pieces.answers import name_of
from cutplane.pieces.validation import Array
from cutplane.proof.evidence import TRIVIAL

if TYPE_CHECKING:
    from cutplane.engine.run import Run


def minimise_cut(run: Run, point: Point, share: float = 1.0) -> tuple[Array, Array]:
    """Add the cut of the risk at an evaluated point, and the lower bound that it gives alone.

    With a `share` below 1, the bound combines this share of the cut with the known infimum. The set is called
    once, for the bound and the minimiser; its time counts as an oracle's.

    Returns
    -------
    slope : ndarray of shape (dim,)
        The slope of the cut, summed over the blocks.
    minimiser : ndarray of shape (dim,)
        Where over X0 the cut plus the regularizer is least.

    Raises
    ------
    OracleError
        If the set raises an exception or does not return a point.
    """
    run.add_cut(point)
    cut = run.evaluator.cut(point)
    rows = run.bundle.rows(*cut, point.x)
    known = run.bundle.queries == TRIVIAL
    share = share if known.any() else 1.0
    weights = np.where(known, 1.0 - share, 0.0)
    weights[rows] = share
    simple_set = run.problem.simple_set
    try:
        minimiser = run.timed(run.certify, weights).minimiser
    except CutplaneError:
        raise
    except Exception as error:
        raise OracleError(f"{name_of(simple_set)} raised {type(error).__name__}: {error}") from error
    if minimiser is None:
        raise OracleError(f"minimise_linear of {simple_set!r} returned infs or nans.")
    run.mark("vertex", point.x, minimiser)
    return cut[0].sum(axis=0), minimiser
