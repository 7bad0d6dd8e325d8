"""The lower bound that the multipliers of a linear programme prove, with its rounding errors taken off."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from cutplane.graphical.shifting import sum_rounded_down
from cutplane.masters.base import MasterStatus
from cutplane.masters.highs import PRIMAL_SIMPLEX, living_model, rerun
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array

_EPS = float(np.finfo(np.float64).eps)


def certified_minimum(
    form: LinearForm, cost: Array, normals: Any, offsets: Array, multipliers: Array, y: Array | None
) -> float:
    r"""Return a number that is not above the minimum of <cost, x> over a polyhedron within half-spaces.

    .. math:: \langle \mu, b \rangle + \langle y, r \rangle
              + \sum_j \min_{l_j \le x_j \le u_j} (c + G^\top \mu - R^\top y)_j x_j

    for the half-spaces ``G x + b <= 0``, the equations ``R x = r``, finite bounds, nonnegative multipliers mu
    and any y; where y is None, a linear programme is solved for it. The error of each reduced cost is at most
    the number of its terms times the rounding unit times the sum of their sizes.
    """
    used = np.flatnonzero(multipliers > 0.0)
    normals, offsets, multipliers = normals[used], offsets[used], multipliers[used]
    if y is None:
        y = _row_multipliers(form, cost + normals.T @ multipliers)
    y = np.where(np.isfinite(y), y, 0.0)
    rest, size, terms = cost.copy(), np.abs(cost), np.ones(cost.size)
    rows: Any = form.rows
    for matrix, weights in ((normals, multipliers), (rows, -y)):
        if weights.size:
            rest = rest + matrix.T @ weights
            size = size + abs(matrix).T @ np.abs(weights)
            terms = terms + (matrix != 0).T @ np.ones(weights.size)
    error = _EPS * (terms + 4.0) * size
    sides = np.minimum(form.lower * rest, form.upper * rest)
    lost = (error + 2.0 * _EPS * np.abs(rest)) * np.maximum(np.abs(form.lower), np.abs(form.upper))
    products = np.concatenate([multipliers * offsets, y * form.row_lower, sides])
    lost = np.concatenate([lost, _EPS * np.abs(products[: -sides.size or None])])
    value = sum_rounded_down([*products.tolist(), *(-lost).tolist()])
    return value if not math.isnan(value) else -math.inf


def _row_multipliers(form: LinearForm, cost: Array) -> Array:
    """Return the multipliers of the equations at a minimum of <cost, x>; 0 if none is found."""
    if not form.row_lower.size:
        return np.empty(0)
    scale = math.ldexp(1.0, -math.frexp(float(np.abs(cost).max(initial=0.0)))[1])
    model = living_model(replace(form, cost=scale * cost), PRIMAL_SIMPLEX)
    if rerun(model)[0] is not MasterStatus.SOLVED:
        return np.zeros(form.row_lower.size)
    return np.array(model.getSolution().row_dual) / scale
