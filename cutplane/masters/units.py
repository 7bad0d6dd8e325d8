"""Units of x and f for masters, because tolerances of backends are absolute, about 1e-9."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from scipy import sparse

from cutplane.masters.base import (
    HALF_SPACE,
    Level,
    MasterSolution,
    Prox,
    ReducedProblem,
    Rows,
    Stabilization,
)
from cutplane.masters.rows import RowCopies, scaled
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import DiagonalQuadratic, LinearForm, SeparableForm
from cutplane.pieces.validation import Array

_LARGE, _SMALL = 1e6, 1e-3
"""Largest and smallest size of a solution, in units, before the unit changes, because large numbers have
errors above the tolerance of 1e-9, and small ones lose digits by it."""
_SPREAD = 1e3
"""Ratio of a solution to the unit beyond which the unit changes, because each factor of 10 loses a digit."""
_NOTHING = 1e-6
"""Size relative to the unit below which a solution may be zero, because tolerances are of a similar size."""
_FORMS = Capability.LINEAR_FORM, Capability.QUADRATIC, Capability.SEPARABLE, Capability.CVXPY
_ATTRIBUTES = "lam", "dim", "bounded", "nonnegative"
"""Attributes of regularizers and sets that are the same in every unit."""
_LAST_POWER = 256
"""Largest exponent of a unit, because weights are multiplied by its square, and 2**1024 overflows."""


def unit_of(size: float) -> float:
    """Return the power of two next to a size, limited so that its square is finite and positive."""
    return math.ldexp(1.0, max(-_LAST_POWER, min(math.frexp(size)[1], _LAST_POWER)))


def far_from_unit(size: float, unit: float) -> bool:
    """Tell whether another unit would give a more accurate solution of this size."""
    return _NOTHING * unit < size < unit / _SPREAD or _SPREAD * unit < size < unit / _NOTHING**2


@dataclass(frozen=True)
class Unit:
    """Scales a problem by powers of two, x = size * u and f = height * phi, and scales solutions back."""

    size: float = 1.0
    height: float = 1.0

    def fits(self, size: float, height: float) -> bool:
        """Tell whether numbers of these sizes are close to the units; zero always fits."""
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
        if stabilization is None or self.is_one:
            return stabilization
        centre = stabilization.centre / self.size
        if isinstance(stabilization, Prox):
            return Prox(centre, stabilization.weight * self.size * (self.size / self.height))
        return Level(centre, stabilization.level / self.height)

    def back(self, solution: MasterSolution, rows: Rows) -> MasterSolution:
        """Return the solution in x and f."""
        if self.is_one or solution.x is None or solution.multipliers is None:
            return solution
        own, rate = solution.set_multipliers, self.height / self.size
        return replace(
            solution,
            x=self.size * solution.x,
            multipliers=np.where(rows.blocks == HALF_SPACE, rate, 1.0) * solution.multipliers,
            set_multipliers=None if own is None else own * rate,
        )

    @property
    def is_one(self) -> bool:
        """Whether both units are 1."""
        return self.size == self.height == 1.0


class StatedRows:
    """The rows of a pool in other units; dense rows are copied once, because copying takes time."""

    def __init__(self, unit: Unit):
        self.unit = unit
        self._copies: RowCopies | None = None

    def of(self, rows: Rows) -> Rows:
        """Return the rows in u and phi."""
        if self.unit.is_one:
            return rows
        if sparse.issparse(rows.slopes) or self.unit.size == self.unit.height:
            slopes, offsets = self._stated(rows.slopes, rows.offsets, rows.blocks)
            return cast(
                Rows, SimpleNamespace(slopes=slopes, offsets=offsets, blocks=rows.blocks, ids=rows.ids)
            )
        if self._copies is None:
            nothing = np.empty((0, rows.slopes.shape[1])), np.empty(0), np.empty(0, dtype=np.int64)
            self._copies = RowCopies(*nothing, self._stated)
        return self._copies.of(rows)

    def _stated(self, slopes: Any, offsets: Array, blocks: Array) -> tuple[Any, Array]:
        size, height = self.unit.size, self.unit.height
        half_spaces = blocks == HALF_SPACE
        if size != height:
            slopes = scaled(slopes, np.where(half_spaces, 1.0, size / height))
        return slopes, offsets / np.where(half_spaces, size, height)


def piece_in_unit(piece: Any, unit: float) -> Any:
    """Return the piece u -> piece(unit * u), for a regularizer or a set."""
    if unit == 1.0:
        return piece
    if offers(piece, Capability.UNIT):
        return piece.in_unit(unit)
    return PieceInUnit(piece, unit)


class PieceInUnit:
    """A regularizer u -> g(unit * u), or a set {u : unit * u is in X}, given by its forms.

    Other capabilities are withheld.
    """

    def __init__(self, piece: Any, unit: float):
        self._piece, self._unit = piece, unit
        self.withheld = tuple(kind for kind in Capability if kind not in _FORMS or not offers(piece, kind))
        for name in _ATTRIBUTES:
            if hasattr(piece, name):
                setattr(self, name, getattr(piece, name))

    def with_lam(self, lam: float) -> PieceInUnit:
        """Return the same regularizer with another weight."""
        return PieceInUnit(self._piece.with_lam(lam), self._unit)

    def value(self, x: Array) -> float:
        """Return the value at x."""
        return self._piece.value(self._unit * x)

    def violation(self, x: Array) -> float:
        """Return the violation at x."""
        return self._piece.violation(self._unit * x) / self._unit

    def bounds(self, dim: int) -> tuple[Array, Array] | None:
        """Return the bounds of the coordinates."""
        bounds = self._piece.bounds(dim)
        return None if bounds is None else (bounds[0] / self._unit, bounds[1] / self._unit)

    def cvxpy_form(self, u: Any) -> Any:
        return self._piece.cvxpy_form(self._unit * u)

    def linear_form(self, dim: int) -> LinearForm | None:
        return self._in_unit(self._piece.linear_form(dim))

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        return self._in_unit(self._piece.quadratic(dim))

    def separable_form(self, dim: int) -> SeparableForm | None:
        return self._in_unit(self._piece.separable_form(dim))

    def _in_unit(self, form: Any) -> Any:
        return None if form is None else form.in_unit(self._unit)
