"""Positive semidefinite matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_count
from cutplane.sets.base import FeasibleSet, beyond_rounding


@dataclass(frozen=True, eq=False)
class PSDCone(FeasibleSet):
    """{x : the n x n matrix of the entries x is symmetric and positive semidefinite}.

    Parameters
    ----------
    n : int
        Number of rows: ``X = x.reshape(n, n)``. Vectors of matrices are row-major everywhere but in pieces of
        cvxpy's own; of a symmetric one the order is the same.

    Raises
    ------
    InvalidInputError
        If `n` is not a positive integer.

    Examples
    --------
    >>> import numpy as np, cutplane as cut
    >>> cone = cut.PSDCone(2)
    >>> (cone.project(np.array([1.0, 0.0, 0.0, -2.0])) + 0.0).tolist()
    [1.0, 0.0, 0.0, 0.0]
    >>> C = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> result = cut.Problem(cut.LinearObjective(C.ravel()), feasible_set=cut.Box(-1, 1) & cone).solve()
    >>> print(round(result.objective, 4), result.status)
    -2.0 OPTIMAL
    """

    n: int

    bounded = False

    def __post_init__(self) -> None:
        n = as_count("PSDCone.n", self.n)
        set_fields(self, n=n, dim=n * n)

    def formula(self, x: str = "x") -> str:
        """Return that x is in X, in LaTeX."""
        return rf"\mathrm{{mat}}({x}) \succeq 0"

    def violation(self, x: Array) -> float:
        """Return the size of the least eigenvalue, if it is negative, or of the asymmetry."""
        X = x.reshape(self.n, self.n)
        excess = max(float(np.abs(X - X.T).max()), -float(np.linalg.eigvalsh(0.5 * (X + X.T))[0]))
        return beyond_rounding(excess, self.n * float(np.abs(X).max()))

    def project(self, x: Array) -> Array:
        """Return the symmetric part without its negative eigenvalues."""
        X = x.reshape(self.n, self.n)
        sizes, vectors = np.linalg.eigh(0.5 * (X + X.T))
        kept = vectors * np.sqrt(np.maximum(sizes, 0.0))
        return (kept @ kept.T).ravel()

    def in_unit(self, unit: float) -> PSDCone:
        """Return {u : unit * u is in the set}, the same cone."""
        return self

    def cvxpy_form(self, x: Any) -> list[Any]:
        """Return that the matrix is symmetric and semidefinite."""
        import cvxpy as cp

        X = cp.reshape(x, (self.n, self.n), order="C")
        return [X == X.T, X >> 0]
