"""Polyhedra given by inequalities and equations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.parameters import as_matrix, read_only, set_fields, short_repr
from cutplane.pieces.validation import Array, as_vector
from cutplane.sets.base import FeasibleSet, beyond_rounding
from cutplane.sets.restoration import restore_by_rows

if TYPE_CHECKING:
    from fractions import Fraction

    from cutplane.pieces.capabilities import ExactTerms


@dataclass(frozen=True, eq=False)
class Polyhedron(FeasibleSet):
    """{x : A x <= b, A_eq x = b_eq}.

    Parameters
    ----------
    A : array_like or scipy sparse matrix of shape (n_rows, dim), optional
        Kept as it is: a sparse matrix stays sparse, a float64 array is not copied. Default: no inequality.
    b : array_like of shape (n_rows,), optional
    A_eq : array_like or scipy sparse matrix of shape (n_equations, dim), optional
    b_eq : array_like of shape (n_equations,), optional

    Raises
    ------
    InvalidInputError
        If the shapes do not agree, an entry is not finite, or neither A nor A_eq is given.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.sets import Polyhedron
    >>> Polyhedron([[1.0, 1.0]], [1.0]).violation(np.array([2.0, 0.5]))
    1.5
    >>> Polyhedron(A_eq=[[1.0, 1.0]], b_eq=[2.0]).violation(np.array([2.0, 0.5]))
    0.5
    """

    A: Any = None
    b: Any = None
    A_eq: Any = None
    b_eq: Any = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        if self.A is None and self.A_eq is None:
            raise InvalidInputError("Polyhedron needs inequalities or equations; use WholeSpace() for none.")
        dim = None
        for left, right in (("A", "b"), ("A_eq", "b_eq")):
            matrix, vector = getattr(self, left), getattr(self, right)
            if (matrix is None) != (vector is None):
                raise InvalidInputError(f"Polyhedron needs both {left} and {right}, or neither.")
            if matrix is not None:
                rows = as_matrix(f"Polyhedron.{left}", matrix, columns=dim)
                dim = rows.shape[1]
                object.__setattr__(self, left, rows)
                object.__setattr__(self, right, _right_side(right, vector, rows.shape[0]))
        if self.A is None:
            set_fields(self, A=sparse.csr_array((0, dim)), b=np.empty(0))
        object.__setattr__(self, "dim", dim)

    def formula(self, x: str = "x") -> str:
        """Return that x is in X, in LaTeX."""
        rows = [rf"A {x} \le b"] if len(self.b) else []
        return r",\; ".join(rows if self.A_eq is None else [*rows, f"A_= {x} = b_="])

    def violation(self, x: Array) -> float:
        """Return the largest entry of A x - b and |A_eq x - b_eq|, of those that are more than rounding."""
        worst = _worst(self.A, self.A @ x - self.b, self.b, x)
        if self.A_eq is None:
            return worst
        return max(worst, _worst(self.A_eq, np.abs(self.A_eq @ x - self.b_eq), self.b_eq, x))

    def restore(self, x: Array) -> Array:
        """Return x moved onto the rows that it violates by a solver's tolerance."""
        return restore_by_rows(self.linear_form(x.size), x)

    def linear_form(self, dim: int) -> LinearForm:
        """Return the rows."""
        self.resolve(dim)
        return self._form

    @cached_property
    def _form(self) -> LinearForm:
        dim = self.A.shape[1]
        rows, low, high = sparse.csr_array(self.A), np.full(self.b.shape[0], -np.inf), self.b
        if self.A_eq is not None:
            rows = sparse.csr_array(sparse.vstack([rows, sparse.csr_array(self.A_eq)]))
            low, high = np.concatenate([low, self.b_eq]), np.concatenate([high, self.b_eq])
        return LinearForm(np.zeros(dim), np.full(dim, -np.inf), np.full(dim, np.inf), rows, low, high)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        """State the rows; see `ExactTerms`."""
        found.rows(self.A, self.b, self.A_eq, self.b_eq)

    def in_unit(self, unit: float) -> Polyhedron:
        """Return {u : unit * u is in the set}."""
        b_eq = None if self.b_eq is None else self.b_eq / unit
        return replace(self, b=self.b / unit, b_eq=b_eq)

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return the inequalities and the equations."""
        constraints = [self.A @ x <= self.b] if self.b.size else []
        if self.A_eq is not None and self.b_eq.size:
            constraints.append(self.A_eq @ x == self.b_eq)
        return constraints


def _worst(rows: Any, excess: Array, sides: Array, x: Array) -> float:
    over = np.flatnonzero(excess > 0.0)
    terms = abs(rows[over]) @ np.abs(x) + np.abs(sides[over]) if over.size else np.zeros(0)
    return beyond_rounding(excess[over], terms)


def _right_side(name: str, value: Any, rows: int) -> Array:
    return read_only(as_vector(f"Polyhedron.{name}", value, rows).copy())
