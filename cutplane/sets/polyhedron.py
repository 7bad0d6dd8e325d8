"""Polyhedra, given by linear inequalities and equations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.pieces.algebra import check_dimension
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.parameters import as_matrix, read_only, set_fields, short_repr
from cutplane.pieces.validation import Array, as_vector
from cutplane.sets.base import LinearSet, beyond_rounding
from cutplane.sets.intersection import restore_by_rows

if TYPE_CHECKING:
    from fractions import Fraction

    from cutplane.pieces.capabilities import ExactTerms


@dataclass(frozen=True, eq=False)
class Polyhedron(LinearSet):
    """{x : A x <= b, A_eq x = b_eq}.

    Parameters
    ----------
    A : array_like or scipy sparse matrix of shape (n_rows, dim), optional
        A sparse matrix remains sparse, and a float64 array is not copied. By default no inequality.
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
                side = read_only(as_vector(f"Polyhedron.{right}", vector, rows.shape[0]).copy())
                set_fields(self, **{left: rows, right: side})
        if self.A is None:
            set_fields(self, A=sparse.csr_array((0, dim)), b=np.empty(0))
        set_fields(self, dim=dim)

    def formula(self, x: str = "x") -> str:
        rows = [rf"A {x} \le b"] if len(self.b) else []
        return r",\; ".join(rows if self.A_eq is None else [*rows, f"A_= {x} = b_="])

    def violation(self, x: Array) -> float:
        worst = _worst(self.A, self.A @ x - self.b, self.b, x)
        if self.A_eq is None:
            return worst
        return max(worst, _worst(self.A_eq, np.abs(self.A_eq @ x - self.b_eq), self.b_eq, x))

    def restore(self, x: Array) -> Array:
        return restore_by_rows(self.linear_form(x.size), x)

    def resolve(self, dim: int) -> Polyhedron:
        check_dimension(self, dim)
        return self

    def form_of(self, dim: int) -> LinearForm:
        self.resolve(dim)
        rows, low, high = sparse.csr_array(self.A), np.full(self.b.shape[0], -np.inf), self.b
        if self.A_eq is not None:
            rows = sparse.csr_array(sparse.vstack([rows, sparse.csr_array(self.A_eq)]))
            low, high = np.concatenate([low, self.b_eq]), np.concatenate([high, self.b_eq])
        return LinearForm(np.zeros(dim), np.full(dim, -np.inf), np.full(dim, np.inf), rows, low, high)

    def declare(self, found: ExactTerms, factor: Fraction) -> None:
        found.rows(self.A, self.b, self.A_eq, self.b_eq)

    def in_unit(self, unit: float) -> Polyhedron:
        b_eq = None if self.b_eq is None else self.b_eq / unit
        return replace(self, b=self.b / unit, b_eq=b_eq)


def _worst(rows: Any, excess: Array, sides: Array, x: Array) -> float:
    over = np.flatnonzero(excess > 0.0)
    terms = abs(rows[over]) @ np.abs(x) + np.abs(sides[over]) if over.size else np.zeros(0)
    return beyond_rounding(excess[over], terms)
