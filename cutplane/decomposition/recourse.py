"""Linear second stages in one HiGHS model, which goes from one to the next by the dual simplex method."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.decomposition.bases import KnownBases, charged
from cutplane.decomposition.stage import FEASIBLE, LinearStage, Solved
from cutplane.exceptions import OracleError
from cutplane.masters.base import MasterStatus
from cutplane.masters.highs import DUAL_SIMPLEX, living_model, rerun, set_costs
from cutplane.masters.units import unit_of
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.sets.base import HalfSpace


class LinearRecourse:
    """(stage, x) -> its solution at x, or a half-space that cuts x off.

    HiGHS is given costs of the size of 1: its tolerances are absolute.
    """

    def __init__(self) -> None:
        self._model: Any
        self._unit: float
        self._stage: LinearStage | None = None
        self._widened: tuple[Any, Any] = None, None
        self._bases: KnownBases | None = None

    def __call__(self, stage: LinearStage, x: Array) -> Solved | HalfSpace:
        """Solve; see `Stage.solver`."""
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
        last, self._stage = self._stage, stage  # that basis, not an old one of its own: new cuts say more
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

    def _solved(self, stage: LinearStage, form: LinearForm, x: Array) -> Solved:
        solution = self._model.getSolution()
        y, multipliers = np.array(solution.col_value), self._unit * np.array(solution.row_dual)
        return charged(stage, form, x, y, multipliers)

    def _cut_off(self, stage: LinearStage, form: LinearForm, x: Array) -> Solved | HalfSpace:
        """Return a half-space from the least sum of violations; or a solution, if that is rounding.

        The sum is minimised from scratch, so that the same x gives the same half-space.
        """
        crossing = float((stage.lower - stage.upper).max(initial=0.0))
        if crossing > 0.0:
            return HalfSpace(np.zeros(x.size), -crossing)
        if self._widened[0] is not stage.W:
            unit = sparse.eye_array(stage.W.shape[0], format="csr")
            self._widened = stage.W, sparse.csr_array(sparse.hstack([stage.W, unit, -unit]))
        elastic, recourse = stage.elastic(self._widened[1]), LinearRecourse()
        found = recourse(elastic, x)
        assert isinstance(found, Solved)
        slope, offset = elastic.cut(found.multipliers)
        if slope @ x + offset > FEASIBLE * stage.size:
            return HalfSpace(slope, -offset)
        moves = np.array(recourse._model.getSolution().col_value)[stage.cost.size :]
        below, above = np.split(2.0 * moves, 2)
        sides = form.row_lower - below, form.row_upper + above
        relaxed = LinearForm(form.cost, form.lower, form.upper, form.rows, *sides)
        status, message = self._solve(stage, relaxed)
        if status is not MasterStatus.SOLVED:
            raise OracleError(f"The second stage could not be solved where it barely has a y. {message}")
        return self._solved(stage, relaxed, x)
