"""The unit in which a backend is given a problem: its tolerances are absolute, about 1e-9 of the unit."""

from __future__ import annotations

import math
from typing import Any

from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import DiagonalQuadratic, LinearForm, SeparableForm
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import Regularizer
from cutplane.sets.base import FeasibleSet

_SPREAD = 1e3
_NOTHING = 1e-6
_LAST_POWER = 256
"""Weights of quadratics are multiplied by the square of a unit; 2**1023 is the largest number."""


def unit_of(size: float) -> float:
    """Return the power of two that is next to a size, of those whose squares are numbers, too."""
    return math.ldexp(1.0, max(-_LAST_POWER, min(math.frexp(size)[1], _LAST_POWER)))


def far_from_unit(size: float, unit: float) -> bool:
    """Tell whether a solution of this size would be more accurate in another unit.

    A solution 1e3 times larger or smaller than the unit has lost as many digits of the backend's; one below
    1e-6 may be zero.
    """
    return _NOTHING * unit < size < unit / _SPREAD or _SPREAD * unit < size < unit / _NOTHING**2


def piece_in_unit(piece: Any, unit: float) -> Any:
    """Return a regularizer or a set at x = unit * u, as one in u.

    One that states itself in the unit has numbers of its size in its cvxpy form, too.
    """
    if unit == 1.0:
        return piece
    if offers(piece, Capability.UNIT):
        return piece.in_unit(unit)
    return RegularizerInUnit(piece, unit) if isinstance(piece, Regularizer) else SetInUnit(piece, unit)


class _Restated:
    """The forms of a piece, in a unit; other capabilities are withheld."""

    def __init__(self, piece: Any, unit: float):
        self._piece, self._unit = piece, unit
        self.withheld = tuple(form for form in Capability if not offers(piece, form))

    def linear_form(self, dim: int) -> LinearForm | None:
        """Return the linear form."""
        form = self._piece.linear_form(dim)
        return None if form is None else form.in_unit(self._unit)

    def cvxpy_form(self, u: Any) -> Any:
        """Return the cvxpy form."""
        return self._piece.cvxpy_form(self._unit * u)


class RegularizerInUnit(_Restated, Regularizer):
    """u -> g(unit * u)."""

    def __init__(self, piece: Regularizer, unit: float):
        super().__init__(piece, unit)
        self.lam = piece.lam

    def with_lam(self, lam: float) -> RegularizerInUnit:
        """Return the same with another weight."""
        return RegularizerInUnit(self._piece.with_lam(lam), self._unit)

    def value(self, x: Array) -> float:
        """Return the value."""
        return self._piece.value(self._unit * x)

    def quadratic(self, dim: int) -> DiagonalQuadratic | None:
        """Return the diagonal quadratic form."""
        form = self._piece.quadratic(dim)
        if form is None:
            return None
        return form.in_unit(self._unit)

    def separable_form(self, dim: int) -> SeparableForm | None:
        """Return the separable form."""
        form = self._piece.separable_form(dim)
        if form is None:
            return None
        return SeparableForm(form.quadratic.in_unit(self._unit), self._unit * form.costs)


class SetInUnit(_Restated, FeasibleSet):
    """{u : unit * u is in X}."""

    def __init__(self, piece: FeasibleSet, unit: float):
        super().__init__(piece, unit)
        self.dim, self.bounded, self.nonnegative = piece.dim, piece.bounded, piece.nonnegative

    def violation(self, x: Array) -> float:
        """Return the violation."""
        return self._piece.violation(self._unit * x) / self._unit

    def bounds(self, dim: int) -> tuple[Array, Array] | None:
        """Return the bounds."""
        bounds = self._piece.bounds(dim)
        return None if bounds is None else (bounds[0] / self._unit, bounds[1] / self._unit)
