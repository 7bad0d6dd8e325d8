"""A stochastic programme written out: a copy of the second stage for every scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cvxpy as cp

from cutplane.pieces.cvxpy_tools import substitute
from cutplane.pieces.validation import Array


def extensive(problem: Any, variable: Any, scenarios: Sequence[Mapping[Any, Any]], weights: Array) -> Any:
    """Return the problem of all scenarios in `variable` and copies of the other variables."""
    objective, constraints = 0, []
    for scenario, weight in zip(scenarios, weights.tolist(), strict=True):
        values = {parameter: parameter.value for parameter in problem.parameters()} | dict(scenario)
        others = [other for other in problem.variables() if other is not variable]
        pairs = [(parameter, cp.Constant(value)) for parameter, value in values.items()]
        pairs += [(other, cp.Variable(other.shape, **_attributes(other))) for other in others]
        pieces = [problem.objective.expr, *problem.constraints]
        for old, new in pairs:
            pieces = [substitute(piece, old, cp.vec(new, order="F")) for piece in pieces]
        objective = objective + weight * pieces[0]
        constraints += pieces[1:]
    return cp.Problem(cp.Minimize(objective), constraints)


def _attributes(variable: Any) -> dict[str, Any]:
    return {name: value for name, value in variable.attributes.items() if value}
