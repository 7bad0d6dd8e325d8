"""Optimal bases of linear second stages: a basis solves all scenarios whose sides leave it feasible."""

from __future__ import annotations

from typing import Any

import highspy
import numpy as np

from cutplane.decomposition.stage import LinearStage, Solved
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array

_ENTRIES = 50_000
"""Numbers of the dense inverses that are kept: a product with them takes a quarter of the time in which HiGHS
finds that there is nothing to do, 0.2 ms."""
_SHARE = 4
"""So one of so many attempts has to find a basis, but for the first ones."""
_FIRST = 100
_TIGHT = 1e-9
"""What a solution may violate: HiGHS's tolerance."""


class KnownBases:
    """The optimal bases found so far for stages with one W, costs and bounds.

    Whether a basis is optimal for other sides of the rows depends on their signs alone: it stays dual
    feasible, so that it is optimal where its solution is feasible. That takes a product with its inverse
    instead of a linear programme ("bunching" [1]_).

    References
    ----------
    .. [1] R. Wets, "Large scale linear programming techniques", in Yu. Ermoliev, R. Wets (eds.), "Numerical
       Techniques for Stochastic Optimization", Springer, 1988, doi:10.1007/978-3-642-61370-8_3.
    """

    def __init__(self, stage: LinearStage):
        self._shared = _shared(stage)
        rows, columns = stage.W.shape
        self._room = _ENTRIES // max(1, 2 * rows * columns)
        self._W = stage.W.toarray() if self._room else np.empty((0, 0))
        self._kinds = b""
        self._count, self._attempts, self._successes = 0, 0, 0
        self._maps, self._starts = np.empty((1, columns, 2 * rows)), np.empty((1, columns))
        self._multipliers: list[Array] = []

    @property
    def _worthwhile(self) -> bool:
        return self._room > 0 and self._attempts <= _FIRST + _SHARE * self._successes

    def fit(self, stage: LinearStage) -> bool:
        """Tell whether a stage has the same matrix, costs and bounds."""
        return all(mine is its for mine, its in zip(self._shared, _shared(stage), strict=True))

    def solve(self, stage: LinearStage, form: LinearForm, x: Array) -> Solved | None:
        """Return the solution at a known basis that is feasible; None if there is none."""
        count = len(self._multipliers)
        if not count or not self._worthwhile or _kinds(form) != self._kinds:
            return None
        self._attempts += 1
        ys = self._maps[:count] @ _finite_sides(form) + self._starts[:count]
        heights = ys @ self._W.T
        inside = np.abs(np.clip(ys, form.lower, form.upper) - ys).max(axis=1, initial=0.0) <= _TIGHT
        beside = np.abs(np.clip(heights, form.row_lower, form.row_upper) - heights)
        feasible = inside & (beside.max(axis=1, initial=0.0) <= _TIGHT)
        place = int(feasible.argmax())
        if not feasible[place]:
            return None
        self._successes += 1
        return charged(stage, form, x, ys[place], self._multipliers[place])

    def add(self, model: Any, form: LinearForm, multipliers: Array) -> None:
        """Take the basis at which HiGHS ended; of too many, the oldest is forgotten."""
        if not self._worthwhile:
            return
        kinds = _kinds(form)
        if kinds != self._kinds:
            self._kinds, self._count, self._multipliers = kinds, 0, []
        inverse = _inverse(model, form, self._W)
        if inverse is None:
            return
        place = self._count % self._room
        if place == len(self._starts):
            more = min(place, self._room - place)
            self._maps = np.concatenate([self._maps, self._maps[:more]])
            self._starts = np.concatenate([self._starts, self._starts[:more]])
        self._maps[place], self._starts[place] = inverse
        self._multipliers[place : place + 1] = [multipliers]
        self._count += 1


def charged(stage: LinearStage, form: LinearForm, x: Array, y: Array, multipliers: Array) -> Solved:
    """Return a solution; what its y violates is charged to the value at the multipliers."""
    reduced, rows = form.cost - form.rows.T @ multipliers, form.rows @ y
    outside = np.abs(y - np.clip(y, form.lower, form.upper))
    beside = np.abs(rows - np.clip(rows, form.row_lower, form.row_upper))
    charge = float(np.abs(reduced) @ outside) + float(np.abs(multipliers) @ beside)
    return Solved(stage.value(x, y) + charge, multipliers)


def _shared(stage: LinearStage) -> tuple[Any, ...]:
    return stage.W, stage.cost, stage.lower, stage.upper


def _kinds(form: LinearForm) -> bytes:
    """Return which rows are equations, and which have a side below, and above."""
    equations = form.row_lower == form.row_upper
    return np.stack([equations, np.isfinite(form.row_lower), np.isfinite(form.row_upper)]).tobytes()


def _finite_sides(form: LinearForm) -> Array:
    sides = np.concatenate([form.row_lower, form.row_upper])
    sides[np.isinf(sides)] = 0.0
    return sides


def _inverse(model: Any, form: LinearForm, W: Array) -> tuple[Array, Array] | None:
    """Return M and m such that M @ (lower sides, upper sides) + m is the y of the present basis."""
    status = highspy.HighsBasisStatus
    basis = model.getBasis()
    of_columns, of_rows = list(basis.col_status), list(basis.row_status)
    columns = [j for j, its in enumerate(of_columns) if its == status.kBasic]
    rows = [i for i, its in enumerate(of_rows) if its != status.kBasic]
    if len(columns) != len(rows):
        return None
    at_upper = np.array([its == status.kUpper for its in of_columns])
    y = np.where(at_upper, form.upper, np.where(np.isfinite(form.lower), form.lower, 0.0))
    y[columns] = 0.0
    try:
        inverse = np.linalg.inv(W[np.ix_(rows, columns)])
    except np.linalg.LinAlgError:
        return None
    places = [i + W.shape[0] * (of_rows[i] == status.kUpper) for i in rows]
    matrix = np.zeros((W.shape[1], 2 * W.shape[0]))
    matrix[np.ix_(columns, places)] = inverse
    y[columns] = -inverse @ (W[rows] @ y)
    return matrix, y
