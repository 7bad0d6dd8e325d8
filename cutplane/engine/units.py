"""A reduced problem in units of its own: masters, with absolute tolerances, meet numbers of the size of 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from scipy import sparse

from cutplane.engine.slopes import DenseSlopes
from cutplane.masters.base import (
    HALF_SPACE,
    Level,
    MasterSolution,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.rows import scaled, survivors
from cutplane.masters.units import piece_in_unit
from cutplane.pieces.validation import Array

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


class StatedRows:
    """The rows of a growing bundle in a unit; half-spaces keep their slopes.

    Those that it was given before are kept, since to state them all anew is a pass over the bundle.

    Parameters
    ----------
    unit : Unit
    """

    def __init__(self, unit: Unit):
        self.unit = unit
        self._known = np.empty(0, dtype=np.int64)
        self._slopes: DenseSlopes | None = None

    def of(self, rows: Rows) -> Rows:
        """Return the rows in u and phi."""
        if self.unit == Unit():
            return rows
        half_spaces = rows.blocks == HALF_SPACE
        slopes = self._stated(rows, np.where(half_spaces, 1.0, self.unit.size / self.unit.height))
        offsets = rows.offsets / np.where(half_spaces, self.unit.size, self.unit.height)
        return cast(Rows, SimpleNamespace(slopes=slopes, offsets=offsets, blocks=rows.blocks, ids=rows.ids))

    def _stated(self, rows: Rows, factors: Array) -> Any:
        if sparse.issparse(rows.slopes):
            return scaled(rows.slopes, factors)
        if (factors == 1.0).all():
            return rows.slopes
        kept = survivors(self._known, rows.ids)
        if self._slopes is None:
            self._slopes = DenseSlopes(rows.slopes.shape[1])
        elif not kept.all():
            self._slopes.keep(kept)
        for row in range(int(kept.sum()), rows.ids.size):
            self._slopes.append(rows.slopes[row] * factors[row])
        self._known = rows.ids.copy()
        return self._slopes.matrix
