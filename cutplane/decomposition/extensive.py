"""A stochastic programme written out: a copy of the second stage for every scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

from cutplane.pieces.cvxpy_tools import substitute
from cutplane.pieces.validation import Array


def of_cvxpy(problem: Any, variable: Any, scenarios: Sequence[Mapping[Any, Any]], weights: Array) -> Any:
    """Return the problem of all scenarios in `variable` and copies of the other variables."""
    objective, constraints = 0, []
    for scenario, weight in zip(scenarios, weights.tolist(), strict=True):
        values = {parameter: parameter.value for parameter in problem.parameters()} | dict(scenario)
        others = [other for other in problem.variables() if other is not variable]
        pairs = [(parameter, cp.Constant(value)) for parameter, value in values.items()]
        pairs += [(other, cp.Variable(other.shape, **_attributes(other))) for other in others]
        pieces = [problem.objective.expr, *problem.constraints]
        for old, new in pairs:
            pieces = [substitute(piece, (old,), new) for piece in pieces]
        objective = objective + weight * pieces[0]
        constraints += pieces[1:]
    return cp.Problem(cp.Minimize(objective), constraints)


def of_linear(stages: Sequence[Any], weights: Array, x: Any = None) -> Any:
    """Return the problem of linear stages in x and a variable for each of them."""
    x = cp.Variable(stages[0].first_cost.size, name="x") if x is None else x
    objective, constraints = 0, []
    for stage, weight in zip(stages, weights.tolist(), strict=True):
        y = cp.Variable(stage.cost.size)
        objective = objective + weight * (stage.first_cost @ x + stage.cost @ y + stage.constant)
        constraints += _between(stage.T @ x + stage.W @ y, stage.row_lower, stage.row_upper)
        constraints += _between(y, stage.lower, stage.upper)
    return cp.Problem(cp.Minimize(objective), constraints)


def _between(expression: Any, lower: Array, upper: Array) -> list[Any]:
    equal = np.flatnonzero(lower == upper)
    below = np.flatnonzero(np.isfinite(lower) & (lower != upper))
    above = np.flatnonzero(np.isfinite(upper) & (lower != upper))
    found = [
        *([expression[equal] == upper[equal]] if equal.size else ()),
        *([expression[below] >= lower[below]] if below.size else ()),
        *([expression[above] <= upper[above]] if above.size else ()),
    ]
    return found


def _attributes(variable: Any) -> dict[str, Any]:
    return {name: value for name, value in variable.attributes.items() if value}
