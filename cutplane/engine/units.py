"""A reduced problem in a unit of x: masters, with absolute tolerances, meet numbers of the size of 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import numpy as np

from cutplane.masters.base import (
    HALF_SPACE,
    Level,
    MasterSolution,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.changes import scaled
from cutplane.masters.units import piece_in_unit


@dataclass(frozen=True)
class Unit:
    """x = size * u: what is stated in x, stated in u, and answers in u, stated in x.

    Parameters
    ----------
    size : float
        A power of two, so that nothing is rounded.
    """

    size: float = 1.0

    def of_problem(self, reduced: ReducedProblem) -> ReducedProblem:
        """Return the reduced problem in u."""
        regularizer, simple_set = reduced.regularizer, reduced.simple_set
        return replace(
            reduced,
            regularizer=piece_in_unit(regularizer, self.size),
            simple_set=piece_in_unit(simple_set, self.size),
        )

    def of_rows(self, rows: Rows) -> Rows:
        """Return the rows in u; half-spaces keep their slopes."""
        if self.size == 1.0:
            return rows
        factors = np.where(rows.blocks == HALF_SPACE, 1.0, self.size)
        slopes, offsets = scaled(rows.slopes, factors), rows.offsets * (factors / self.size)
        stated = SimpleNamespace(slopes=slopes, offsets=offsets, blocks=rows.blocks, ids=rows.ids)
        return cast(Rows, stated)

    def of_stabilization(self, stabilization: Stabilization) -> Stabilization:
        """Return the prox term or the level in u."""
        if isinstance(stabilization, Prox):
            return Prox(stabilization.centre / self.size, stabilization.weight * self.size * self.size)
        if isinstance(stabilization, Level):
            return Level(stabilization.centre / self.size, stabilization.level)
        return None

    def back(self, solution: MasterSolution, rows: Rows) -> MasterSolution:
        """Return an answer in u as one in x."""
        if self.size == 1.0 or solution.x is None or solution.multipliers is None:
            return solution
        own = solution.set_multipliers
        return replace(
            solution,
            x=self.size * solution.x,
            multipliers=np.where(rows.blocks == HALF_SPACE, 1.0 / self.size, 1.0) * solution.multipliers,
            set_multipliers=None if own is None else own / self.size,
        )
