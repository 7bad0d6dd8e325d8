"""What the linear and the cvxpy form of a piece say at a point."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.exceptions import NotConvexError
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.testing.report import Counterexample, NotTested


def linear_form_value(form: LinearForm, x: Array) -> float:
    """Return the least cost of a linear form with its first columns fixed to x; inf if there is none."""
    from scipy.optimize import linprog

    dim = len(x)
    rows: Any = form.rows
    sizes = {len(form.cost), len(form.lower), len(form.upper), rows.shape[1]}
    if len(sizes) > 1 or form.n_columns < dim:
        raise Counterexample(
            f"linear_form has {len(form.cost)} costs, {len(form.lower)} lower and {len(form.upper)} upper "
            "bounds and "
            f"{rows.shape[1]} columns; all must be one number, at least {dim}"
        )
    if ((x < form.lower[:dim] - 1e-9) | (x > form.upper[:dim] + 1e-9)).any():
        return math.inf
    fixed, rows = rows[:, :dim] @ x, rows[:, dim:]
    low, high = form.row_lower - fixed, form.row_upper - fixed
    base = float(form.cost[:dim] @ x)
    if form.n_columns == dim:
        return base if (np.maximum(low, -high) <= 1e-7).all() else math.inf
    below, above = np.isfinite(low), np.isfinite(high)
    answer = linprog(
        form.cost[dim:],
        A_ub=_stack(rows[above], -rows[below]),
        b_ub=np.concatenate([high[above], -low[below]]),
        bounds=np.column_stack([form.lower[dim:], form.upper[dim:]]),
        method="highs",
    )
    return base + answer.fun if answer.status == 0 else math.inf if answer.status == 2 else -math.inf


def _stack(top: Any, bottom: Any) -> Any:
    return sparse.vstack([top, bottom])


def cvxpy_value(piece: Any, x: Array) -> float:
    """Return the value of the cvxpy expression of a regularizer at x."""
    import cvxpy as cp

    variable = cp.Variable(len(x))
    expression = piece.cvxpy_form(variable)
    if not expression.is_convex():
        raise NotConvexError(f"cvxpy_form gives {expression}, which is not convex by cvxpy's rules (DCP).")
    if len(expression.variables()) > 1:
        raise NotTested("the expression has other variables than x")
    variable.value = x
    return float(expression.value)


def cvxpy_violation(piece: Any, x: Array) -> float:
    """Return the largest violation at x of the cvxpy constraints of a set."""
    import cvxpy as cp

    variable = cp.Variable(len(x))
    constraints = piece.cvxpy_form(variable)
    if any(found is not variable for constraint in constraints for found in constraint.variables()):
        raise NotTested("the constraints have other variables than x")
    for constraint in constraints:
        if not constraint.is_dcp():
            raise NotConvexError(
                f"cvxpy_form gives {constraint}, which is not convex by cvxpy's rules (DCP)."
            )
    variable.value = x
    return max((float(np.max(constraint.violation())) for constraint in constraints), default=0.0)
