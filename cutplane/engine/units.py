"""A reduced problem in units of its own: masters, with absolute tolerances, meet numbers of the size of 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

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
from cutplane.masters.rows import scaled
from cutplane.masters.units import piece_in_unit

_LARGE, _SMALL = 1e6, 1e-3
"""Numbers, in their unit, for which it is changed. Tolerances of masters, 1e-9 of the unit, are below the
rounding of large numbers, and small ones lose their digits."""


@dataclass(frozen=True)
class Unit:
    """x = size * u and f = height * phi: what is stated in x and f, stated in u and phi, and answers back.

    Parameters
    ----------
    size, height : float
        Powers of two, so that nothing is rounded.
    """

    size: float = 1.0
    height: float = 1.0

    def fits(self, size: float, height: float) -> bool:
        """Tell whether numbers of these sizes are not far from the units; a size of zero is not."""
        return all(
            mine * _SMALL <= number <= mine * _LARGE or not number
            for mine, number in ((self.size, size), (self.height, height))
        )

    def of_problem(self, reduced: ReducedProblem) -> ReducedProblem:
        """Return the reduced problem in u and phi."""
        regularizer: Any = piece_in_unit(reduced.regularizer, self.size)
        if self.height != 1.0 and regularizer.lam > 0.0:
            regularizer = regularizer.with_lam(regularizer.lam / self.height)
        return replace(
            reduced, regularizer=regularizer, simple_set=piece_in_unit(reduced.simple_set, self.size)
        )

    def of_rows(self, rows: Rows) -> Rows:
        """Return the rows in u and phi; half-spaces keep their slopes."""
        if self == Unit():
            return rows
        half_spaces = rows.blocks == HALF_SPACE
        slopes = scaled(rows.slopes, np.where(half_spaces, 1.0, self.size / self.height))
        offsets = rows.offsets / np.where(half_spaces, self.size, self.height)
        stated = SimpleNamespace(slopes=slopes, offsets=offsets, blocks=rows.blocks, ids=rows.ids)
        return cast(Rows, stated)

    def of_stabilization(self, stabilization: Stabilization) -> Stabilization:
        """Return the prox term or the level in u and phi."""
        if stabilization is None or self == Unit():
            return stabilization
        centre = stabilization.centre / self.size
        if isinstance(stabilization, Prox):
            return Prox(centre, stabilization.weight * self.size * (self.size / self.height))
        return Level(centre, stabilization.level / self.height)

    def back(self, solution: MasterSolution, rows: Rows) -> MasterSolution:
        """Return an answer in u and phi as one in x and f."""
        if self == Unit() or solution.x is None or solution.multipliers is None:
            return solution
        own, rate = solution.set_multipliers, self.height / self.size
        return replace(
            solution,
            x=self.size * solution.x,
            multipliers=np.where(rows.blocks == HALF_SPACE, rate, 1.0) * solution.multipliers,
            set_multipliers=None if own is None else own * rate,
        )
