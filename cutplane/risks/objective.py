"""A linear objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.pieces.forms import ProgrammeForm
from cutplane.pieces.lines import Line, quadratic_line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_vector
from cutplane.risks.base import ImagedRisk

if TYPE_CHECKING:
    from fractions import Fraction

    from cutplane.pieces.capabilities import ExactTerms


@dataclass(frozen=True, eq=False)
class LinearObjective(ImagedRisk):
    """f(x) = <c, x>; its only cut is the function itself.

    Parameters
    ----------
    c : array_like of shape (dim,)
        Finite costs.

    Raises
    ------
    InvalidInputError
        If `c` is not a vector of finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.risks import LinearObjective
    >>> value, slope = LinearObjective([1.0, -2.0]).oracle(np.array([3.0, 1.0]))
    >>> float(value), slope.tolist()
    (1.0, [1.0, -2.0])
    """

    black_box = False
    linear = True
    c: Array

    def __post_init__(self) -> None:
        c = as_vector("LinearObjective.c", self.c)
        set_fields(self, c=c, dim=c.shape[0])

    def __repr__(self) -> str:
        return f"LinearObjective(dim={self.dim})"

    @property
    def infima(self) -> Array:
        return np.full(1, -np.inf if self.c.any() else 0.0)

    def image(self, x: Array) -> float:
        return float(self.c @ x)

    def formula(self, x: str = "x") -> str:
        return rf"\langle c, {x}\rangle"

    def values(self, z: float) -> float:
        return z

    def slopes(self, z: float) -> Array:
        return self.c

    def line(self, z0: float, z1: float) -> Line:
        return quadratic_line(z0, z1 - z0, 0.0)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        found.linear(self.c, factor)

    def cvxpy_form(self, x: Any) -> Any:
        return self.c @ x

    def programme_form(self) -> ProgrammeForm:
        from cutplane.risks.programmes import of_linear

        return of_linear(self.c)
