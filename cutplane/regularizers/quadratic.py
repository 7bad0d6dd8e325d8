"""Convex quadratic forms."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from cutplane.exceptions import InvalidInputError, NotConvexError
from cutplane.pieces.latex import times
from cutplane.pieces.lines import Line, quadratic_line
from cutplane.pieces.parameters import as_matrix, set_fields, short_repr
from cutplane.pieces.validation import Array, as_vector
from cutplane.regularizers.base import UNBOUNDED, FreeRegularizer, Minimum, check_lam, minimum

_EPS = float(np.finfo(np.float64).eps)

_NOT_PSD = (
    "QuadraticForm.Q is not positive semidefinite ({}). A regularizer must be convex: "
    "add a multiple of the identity, or drop the negative eigenvalues."
)

Solve = Callable[[Array], Array | None]
"""u -> a solution of Q x = u, or None if u is not in the range of Q."""


@dataclass(frozen=True, eq=False)
class QuadraticForm(FreeRegularizer):
    """g(x) = lam (1/2 x'Q x + c'x), with Q symmetric and positive semidefinite.

    Parameters
    ----------
    Q : array_like or scipy sparse matrix of shape (dim, dim)
        A sparse matrix remains sparse, and a float64 array is not copied.
    c : array_like of shape (dim,), optional
        By default zero.
    lam : float, default 1.0
        Nonnegative and finite.

    Raises
    ------
    InvalidInputError
        If Q is not square and symmetric.
    NotConvexError
        If Q has a negative eigenvalue beyond rounding errors.

    Notes
    -----
    Q is factorised once, when it is checked; `with_lam` shares the factor. The closed form of the conjugate
    needs a dense or a positive definite Q, because the null space of a sparse singular Q is not computed.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.regularizers import QuadraticForm
    >>> from cutplane.sets import WholeSpace
    >>> form = QuadraticForm([[2.0, 0.0], [0.0, 0.0]], lam=3.0)
    >>> form.value(np.array([1.0, 5.0]))
    3.0
    >>> round(form.conjugate_minimiser(np.array([6.0, 0.0]), WholeSpace()).value, 6)
    -3.0
    >>> form.conjugate_minimiser(np.array([6.0, 1.0]), WholeSpace()).value
    -inf
    """

    Q: Any
    c: Any = None
    lam: float = 1.0

    __repr__ = short_repr

    def __post_init__(self) -> None:
        Q = as_matrix("QuadraticForm.Q", self.Q)
        if Q.shape[0] != Q.shape[1]:
            raise InvalidInputError(f"QuadraticForm.Q must be square, got shape {Q.shape}.")
        c = None if self.c is None else as_vector("QuadraticForm.c", self.c, Q.shape[0]).copy()
        set_fields(self, Q=Q, c=c, lam=check_lam(self.lam), dim=Q.shape[0])
        asymmetry = float(abs(Q - Q.T).max())
        if asymmetry > 1e-12 * float(abs(Q).max()):
            raise InvalidInputError(
                f"QuadraticForm.Q is not symmetric (by {asymmetry:g}); pass (Q + Q.T) / 2, the same form."
            )
        _ = self._solve

    def formula(self, x: str = "x") -> str:
        linear = "" if self.c is None else rf" + \langle c, {x}\rangle"
        form = rf"\tfrac12 {x}^\top Q {x}{linear}"
        return times(self.lam, form if self.lam == 1.0 else rf"\left({form}\right)")

    def with_lam(self, lam: float) -> QuadraticForm:
        """Return the same form with another weight, and the same factor."""
        other = copy.copy(self)
        object.__setattr__(other, "lam", check_lam(lam))
        object.__setattr__(other, "_solve", self._solve)
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {name: entry for name, entry in self.__dict__.items() if name != "_solve"}

    def value(self, x: Array) -> float:
        return self.lam * float(x @ (0.5 * (self.Q @ x) + self._c))

    def subgradient(self, x: Array) -> Array:
        return self.lam * (self.Q @ x + self._c)

    def hessian(self) -> tuple[Any, Array]:
        """Return H and h of g(x) = 1/2 x'H x + h'x."""
        return self.lam * self.Q, self.lam * self._c

    def line(self, x0: Array, x1: Array) -> Line:
        direction = x1 - x0
        curvature = self.lam * float(direction @ (self.Q @ direction))
        return quadratic_line(self.value(x0), float(self.subgradient(x0) @ direction), curvature)

    def free_minimum(self, v: Array, budget: float) -> Minimum | None:
        """Return the minimum, -inf if v + lam c is not in the range of Q; None if Q has no factor."""
        if self._solve is None:
            return None
        slope = v + self.lam * self._c
        with np.errstate(all="ignore"):
            solution = self._solve(slope)
            if solution is None:
                return UNBOUNDED
            x = -solution / self.lam
            return minimum(0.5 * self.lam * (x @ (self.Q @ x)) + slope @ x, x)

    def in_unit(self, unit: float) -> QuadraticForm:
        c = None if self.c is None else self.c / unit
        return replace(self, c=c, lam=unit * unit * self.lam)

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        half = 0.5 * cp.quad_form(x, self.Q, assume_PSD=True)
        return self.lam * (half if self.c is None else half + self.c @ x)

    @property
    def _c(self) -> Array:
        return np.zeros(self.Q.shape[0]) if self.c is None else self.c

    @cached_property
    def _solve(self) -> Solve | None:
        return _sparse_solve(self.Q) if sparse.issparse(self.Q) else _dense_solve(self.Q)


def _dense_solve(Q: Array) -> Solve:
    """Check that Q is positive semidefinite; return a solver of Q x = u."""
    tolerance = Q.shape[0] * _EPS
    try:
        factor = linalg.cho_factor(Q, lower=True)
    except linalg.LinAlgError:
        factor = None
    if factor is not None and np.diag(factor[0]).min() ** 2 > tolerance * np.diag(Q).max():
        return lambda u: linalg.cho_solve(factor, u)
    eigenvalues, vectors = linalg.eigh(Q)
    if eigenvalues[0] < -tolerance * np.abs(eigenvalues).max():
        raise NotConvexError(_NOT_PSD.format(f"its least eigenvalue is {eigenvalues[0]:g}"))
    kept = eigenvalues > tolerance * eigenvalues[-1]
    basis, inverse = vectors[:, kept], 1.0 / eigenvalues[kept]

    def solve(u: Array) -> Array | None:
        inside = basis.T @ u
        outside = np.linalg.norm(u - basis @ inside)
        return basis @ (inverse * inside) if outside <= 10.0 * tolerance * np.linalg.norm(u) else None

    return solve


def _sparse_solve(Q: Any) -> Solve | None:
    """Check that Q is positive semidefinite; return a solver of Q x = u, or None if Q is singular."""
    least = 10.0 * Q.shape[0] * _EPS * float(abs(Q).max())
    factor = _definite_factor(Q)
    if factor is not None and factor.U.diagonal().min() > least:
        return factor.solve
    if least > 0.0 and _definite_factor(Q + least * sparse.eye_array(Q.shape[0])) is None:
        raise NotConvexError(_NOT_PSD.format("a pivot is not positive"))
    return None


def _definite_factor(Q: Any) -> Any:
    """Return a sparse LU factor with positive pivots on the diagonal; None if Q is not positive definite."""
    try:
        factor = splu(
            sparse.csc_array(Q),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
    except RuntimeError:
        return None
    positive = (factor.perm_r == factor.perm_c).all() and factor.U.diagonal().min() > 0.0
    return factor if positive else None
