"""Linear second stages, solved one after the other in one HiGHS model by the dual simplex method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import highspy
import numpy as np
from scipy import sparse

from cutplane.decomposition.stage import FEASIBLE, Answer, LinearStage, SolvedStage
from cutplane.exceptions import OracleError
from cutplane.masters.base import MasterStatus
from cutplane.masters.highs import DUAL_SIMPLEX, living_model, rerun, set_costs
from cutplane.masters.units import unit_of
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.sets.base import HalfSpace

_ENTRIES = 50_000
"""Largest number of entries of the stored dense inverses, because with more, testing a basis takes longer
than a quarter of the time in which HiGHS confirms it."""
_SHARE = 4
"""Largest number of attempts per success, because an attempt costs a quarter of a linear programme."""
_FIRST = 100
"""Number of attempts before this ratio is tested, because the first bases must be collected."""
_TIGHT = 1e-9
"""Violation of a solution that is accepted, because HiGHS has this tolerance."""


class LinearRecourse:
    """A function (stage, x) -> the solution at x, or a half-space that separates x.

    Costs are scaled to about 1 for HiGHS, because its tolerances are absolute.
    """

    def __init__(self) -> None:
        self._model: Any
        self._unit: float
        self._stage: LinearStage | None = None
        self._widened: tuple[Any, Any] = None, None
        self._bases: KnownBases | None = None

    def __call__(self, stage: LinearStage, x: Array) -> Answer:
        """Solve a stage at x; see `Stage.solver`."""
        form = stage.form(x)
        if self._bases is None or not self._bases.fit(stage):
            self._bases = KnownBases(stage)
        elif (known := self._bases.solve(stage, form, x)) is not None:
            return known
        status, message = self._solve(stage, form)
        if status is MasterStatus.SOLVED:
            found = self._solved(stage, form, x)
            self._bases.add(self._model, form, found.multipliers)
            return found
        if status is MasterStatus.INFEASIBLE:
            return self._cut_off(stage, form, x)
        raise OracleError(
            "The second stage is unbounded below: its optimal value is -inf."
            if status is MasterStatus.UNBOUNDED
            else f"The second stage could not be solved. {message}"
        )

    def _solve(self, stage: LinearStage, form: LinearForm) -> tuple[MasterStatus, str]:
        last, self._stage = self._stage, stage  # HiGHS starts from the last basis
        if last is None or stage.cost is not last.cost:
            self._unit = unit_of(float(np.abs(stage.cost).max(initial=0.0)))
        if last is None or stage.W is not last.W:
            self._model = living_model(replace(form, cost=form.cost / self._unit), DUAL_SIMPLEX)
            return rerun(self._model)
        rows, columns = (np.arange(size, dtype=np.int32) for size in stage.W.shape)
        self._model.changeRowsBounds(rows.size, rows, form.row_lower, form.row_upper)
        if stage.cost is not last.cost:
            set_costs(self._model, stage.cost / self._unit)
        if stage.lower is not last.lower or stage.upper is not last.upper:
            self._model.changeColsBounds(columns.size, columns, stage.lower, stage.upper)
        return rerun(self._model)

    def _solved(self, stage: LinearStage, form: LinearForm, x: Array) -> SolvedStage:
        solution = self._model.getSolution()
        return stage.solved(form, x, np.array(solution.col_value), self._unit * np.array(solution.row_dual))

    def _cut_off(self, stage: LinearStage, form: LinearForm, x: Array) -> Answer:
        """Return a half-space from the least sum of violations, or a solution if the sum is a rounding error.

        The sum is minimised in a new model, so that the same x gives the same half-space.
        """
        crossing = float((stage.lower - stage.upper).max(initial=0.0))
        if crossing > 0.0:
            return HalfSpace(np.zeros(x.size), -crossing)
        if self._widened[0] is not stage.W:
            unit = sparse.eye_array(stage.W.shape[0], format="csr")
            self._widened = stage.W, sparse.csr_array(sparse.hstack([stage.W, unit, -unit]))
        elastic, recourse = stage.elastic(self._widened[1]), LinearRecourse()
        found = recourse(elastic, x)
        assert isinstance(found, SolvedStage)
        slope, offset = elastic.cut(found.multipliers)
        if slope @ x + offset > FEASIBLE * stage.size:
            return HalfSpace(slope, -offset)
        moves = np.array(recourse._model.getSolution().col_value)[stage.cost.size :]
        below, above = np.split(2.0 * moves, 2)
        relaxed = replace(form, row_lower=form.row_lower - below, row_upper=form.row_upper + above)
        status, message = self._solve(stage, relaxed)
        if status is not MasterStatus.SOLVED:
            raise OracleError(f"The second stage could not be solved where it is barely feasible. {message}")
        return self._solved(stage, relaxed, x)


class KnownBases:
    """The optimal bases found so far for stages with the same W, costs and bounds.

    A basis stays dual feasible if only the sides of the rows change. Therefore it is optimal if its solution
    is feasible. Testing this takes a product with the inverse instead of a linear programme ("bunching"
    [1]_).

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
        """Return whether a stage has the matrix, costs and bounds of these bases."""
        return all(mine is its for mine, its in zip(self._shared, _shared(stage), strict=True))

    def solve(self, stage: LinearStage, form: LinearForm, x: Array) -> SolvedStage | None:
        """Return the solution of a stored basis that is feasible; None if there is none."""
        count = len(self._multipliers)
        if not count or not self._worthwhile or _row_kinds(form) != self._kinds:
            return None
        self._attempts += 1
        sides = np.concatenate([form.row_lower, form.row_upper])
        sides[np.isinf(sides)] = 0.0
        ys = self._maps[:count] @ sides + self._starts[:count]
        heights = ys @ self._W.T
        outside = np.abs(np.clip(ys, form.lower, form.upper) - ys).max(axis=1, initial=0.0)
        row_outside = np.abs(np.clip(heights, form.row_lower, form.row_upper) - heights)
        feasible = (outside <= _TIGHT) & (row_outside.max(axis=1, initial=0.0) <= _TIGHT)
        place = int(feasible.argmax())
        if not feasible[place]:
            return None
        self._successes += 1
        return stage.solved(form, x, ys[place], self._multipliers[place])

    def add(self, model: Any, form: LinearForm, multipliers: Array) -> None:
        """Store the last basis of HiGHS; if there are too many, it replaces the oldest one."""
        if not self._worthwhile:
            return
        kinds = _row_kinds(form)
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


def _shared(stage: LinearStage) -> tuple[Any, ...]:
    return stage.W, stage.cost, stage.lower, stage.upper


def _row_kinds(form: LinearForm) -> bytes:
    """Return which rows are equations, have a lower side, and have an upper side."""
    equations = form.row_lower == form.row_upper
    return np.stack([equations, np.isfinite(form.row_lower), np.isfinite(form.row_upper)]).tobytes()


def _inverse(model: Any, form: LinearForm, W: Array) -> tuple[Array, Array] | None:
    """Return M and m such that M @ (lower sides, upper sides) + m is the y of the current basis."""
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
