"""Second stages: programmes whose right-hand sides depend on the first stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.sets.base import HalfSpace

REACH = 10.0
"""Bound of an unbounded y, relative to the largest number of its stage; the cut subtracts it times the
reduced cost, because solvers return reduced costs that are not exactly 0."""
FEASIBLE = 1e-7
"""Violation relative to the right-hand side up to which a stage counts as feasible, because solvers accept
violations of this size."""


class SolvedStage(NamedTuple):
    """The value Q(x) of a primal solution at x, and a dual solution for `Stage.cut`."""

    value: float
    multipliers: Array


Answer = SolvedStage | HalfSpace
"""A solution at x, or a half-space that separates an infeasible x."""


class Stage(Protocol):
    """Q(x), the minimum over y of a convex function of (x, y) under constraints on x and y."""

    @property
    def n_multipliers(self) -> int:
        """The number of entries of a dual solution."""
        ...

    def cut(self, multipliers: Array) -> tuple[Array, float]:
        """Return the slope and the offset of a cut of Q, which is valid for any multipliers."""
        ...

    def solver(self) -> Callable[[Any, Array], Answer]:
        """Return a function (stage, x) -> answer.

        The function is called for stages of the same structure in turn, and starts from the last solution.
        """
        ...


@dataclass(frozen=True, eq=False)
class LinearStage:
    """Q(x) = <first_cost, x> + constant + min <cost, y> with row_lower <= T x + W y <= row_upper, y in a box.

    Scenarios share their equal arrays, because a solver then changes only the arrays that differ.

    Parameters
    ----------
    T, W : csr_array of shape (rows, dim), (rows, columns)
    row_lower, row_upper : ndarray of shape (rows,)
    cost, lower, upper : ndarray of shape (columns,)
    first_cost : ndarray of shape (dim,)
    constant : float
    """

    T: Any
    W: Any
    row_lower: Array
    row_upper: Array
    cost: Array
    lower: Array
    upper: Array
    first_cost: Array
    constant: float = 0.0

    @property
    def n_multipliers(self) -> int:
        """One multiplier for each row."""
        return self.row_lower.size

    @cached_property
    def _transposed(self) -> tuple[Any, Any]:
        return self.T.T, self.W.T

    @cached_property
    def size(self) -> float:
        """The largest absolute finite bound of a row or of y, at least 1."""
        sides = np.abs(np.concatenate([self.row_lower, self.row_upper, self.lower, self.upper]))
        return max(1.0, float(sides[np.isfinite(sides)].max(initial=0.0)))

    def form(self, x: Array) -> LinearForm:
        """Return the linear programme in y at x."""
        shift = self.T @ x
        sides = self.row_lower - shift, self.row_upper - shift
        return LinearForm(self.cost, self.lower, self.upper, self.W, *sides)

    def solved(self, form: LinearForm, x: Array, y: Array, multipliers: Array) -> SolvedStage:
        """Return a solution; its value includes violations of y, weighted by multipliers or reduced costs."""
        reduced, rows = form.cost - form.rows.T @ multipliers, form.rows @ y
        outside = np.abs(y - np.clip(y, form.lower, form.upper))
        row_outside = np.abs(rows - np.clip(rows, form.row_lower, form.row_upper))
        charge = float(np.abs(reduced) @ outside) + float(np.abs(multipliers) @ row_outside)
        value = self.constant + float(self.first_cost @ x) + float(self.cost @ y)
        return SolvedStage(value + charge, multipliers)

    def cut(self, multipliers: Array) -> tuple[Array, float]:
        """Return the slope and the offset of a cut, which is valid for any multipliers of the rows.

        The cut is a sum over rows and columns. A row contributes its multiplier times (side - <T_i, x>). A
        column with the reduced cost r_j, where r = cost - W' multipliers, contributes r_j times the bound on
        which r_j is minimal. If this bound is infinite, the column contributes -10 |r_j| `size`, because r_j
        is an error of the solver.
        """
        up, down = multipliers > 0.0, multipliers < 0.0
        valid = (up & np.isfinite(self.row_lower)) | (down & np.isfinite(self.row_upper))
        weights = np.where(valid, multipliers, 0.0)
        sides = np.where(weights > 0.0, self.row_lower, np.where(weights < 0.0, self.row_upper, 0.0))
        in_first, in_second = self._transposed
        reduced = self.cost - in_second @ weights
        bounds = np.where(reduced > 0.0, self.lower, np.where(reduced < 0.0, self.upper, 0.0))
        finite = np.isfinite(bounds)
        charge = REACH * self.size * float(np.abs(reduced[~finite]).sum())
        offset = self.constant + float(weights @ sides) + float(reduced[finite] @ bounds[finite]) - charge
        return self.first_cost - in_first @ weights, offset

    def elastic(self, widened: Any) -> LinearStage:
        """Return the stage that minimises the sum of the violations of the rows: 0 if some y is feasible.

        `widened` is the matrix [W, I, -I].
        """
        more = widened.shape[1] - self.W.shape[1]
        return replace(
            self,
            W=widened,
            cost=np.concatenate([np.zeros(self.cost.size), np.ones(more)]),
            lower=np.concatenate([self.lower, np.zeros(more)]),
            upper=np.concatenate([self.upper, np.full(more, np.inf)]),
            first_cost=np.zeros_like(self.first_cost),
            constant=0.0,
        )

    def solver(self) -> Callable[[Any, Array], Answer]:
        """Return a solver that keeps one HiGHS model for all stages of this structure."""
        from cutplane.decomposition.recourse import LinearRecourse

        return LinearRecourse()
