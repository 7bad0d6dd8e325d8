"""The scenarios of a parametrised cvxpy problem as second stages: its canonical form, split at x."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.decomposition.conic import ConicStage
from cutplane.decomposition.stage import LinearStage, Stage
from cutplane.exceptions import InvalidInputError, NotConvexError
from cutplane.pieces.cvxpy_tools import as_variables
from cutplane.pieces.validation import Array


def stages_of(problem: Any, variable: Any, scenarios: Sequence[Mapping[Any, Any]]) -> list[Stage]:
    """Return a stage for each scenario; arrays in which scenarios agree are one object.

    Raises
    ------
    InvalidInputError
        If the problem is no convex minimisation in which the variable occurs, or a scenario does not fit.
    """
    _check(problem, variable, scenarios)
    before = {parameter: parameter.value for parameter in problem.parameters()}
    found: list[Stage] = []
    try:
        for number, scenario in enumerate(scenarios):
            _assign(scenario, number)
            unset = [parameter.name() for parameter in problem.parameters() if parameter.value is None]
            if unset:
                raise InvalidInputError(
                    f"The parameters {unset} have no value in scenario {number}: name them there."
                )
            stage = _stage(problem, variable)
            found.append(_sharing(stage, found[0]) if found else stage)
    finally:
        for parameter, value in before.items():
            parameter.value = value
    return found


def _check(problem: Any, variable: Any, scenarios: Sequence[Any]) -> None:
    if not isinstance(problem, cp.Problem):
        raise InvalidInputError(f"ValueFunction needs a cvxpy.Problem, got {type(problem).__name__}.")
    as_variables("ValueFunction", variable)
    if not isinstance(problem.objective, cp.Minimize):
        raise InvalidInputError("ValueFunction needs a problem that minimises; minimise the negative.")
    if not problem.is_dcp():
        raise NotConvexError("The problem of a ValueFunction must be convex by cvxpy's rules, in x too.")
    if not any(found is variable for found in problem.variables()):
        raise InvalidInputError(f"The variable {variable.name()} does not occur in the problem.")
    if problem.is_mixed_integer():
        raise InvalidInputError("The problem of a ValueFunction must have continuous variables only.")
    if not scenarios:
        raise InvalidInputError("ValueFunction needs at least one scenario; [{}] is one without parameters.")


def _assign(scenario: Mapping[Any, Any], number: int) -> None:
    for parameter, value in scenario.items():
        if not isinstance(parameter, cp.Parameter):
            raise InvalidInputError(f"Scenario {number} must map cvxpy parameters to values: {parameter!r}.")
        try:
            parameter.value = value
        except ValueError as error:
            raise InvalidInputError(f"Scenario {number}, parameter {parameter.name()}: {error}") from error


def _stage(problem: Any, variable: Any) -> Stage:
    """Return the cone programme min 1/2 u'P u + c'u + d with A u + s = b, s in K, split at x."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about parameters that compile slowly
        data, _, inverse = problem.get_problem_data(cp.CLARABEL)
    start = data["param_prob"].var_id_to_col[variable.id]
    mine = start + np.arange(variable.size).reshape(variable.shape, order="F").ravel()  # row after row
    others = np.delete(np.arange(data["c"].size), mine)
    A, b, dims, P = sparse.csc_array(data["A"]), data["b"], data["dims"], data.get("P")
    constant = float(inverse[-1]["offset"])
    cones = [dims.soc, dims.psd, dims.exp, dims.p3d, dims.pnd]
    if any(cones) or (P is not None and P.nnz):
        quadratic = sparse.csc_array((data["c"].size,) * 2) if P is None else sparse.csc_array(P)
        full = sparse.csc_array(quadratic + sparse.triu(quadratic, 1).T)
        return ConicStage(A, b, data["c"], full, dims, mine, others, constant)
    T, W = sparse.csr_array(A[:, mine]), sparse.csr_array(A[:, others])
    return _linear(T, W, b, dims.zero, data["c"][mine], data["c"][others], constant)


def _linear(T: Any, W: Any, b: Array, equations: int, first_cost: Array, cost: Array, constant: float):
    """Return a linear stage: rows with a single y and no x are bounds."""
    lower, upper = np.full(cost.size, -np.inf), np.full(cost.size, np.inf)
    bounds = (np.diff(W.indptr) == 1) & (np.diff(T.indptr) == 0)
    bounds[:equations] = False
    bounds[bounds] = W.data[W.indptr[:-1][bounds]] != 0.0
    single = W[np.flatnonzero(bounds)].tocoo()
    sides = b[bounds][single.row] / single.data
    columns = single.col
    above = single.data > 0.0
    np.minimum.at(upper, columns[above], sides[above])
    np.maximum.at(lower, columns[~above], sides[~above])
    row_lower = np.where(np.arange(b.size) < equations, b, -np.inf)
    kept = np.flatnonzero(~bounds)
    return LinearStage(T[kept], W[kept], row_lower[kept], b[kept], cost, lower, upper, first_cost, constant)


def _sharing(stage: Any, first: Any) -> Any:
    """Return a stage that holds the arrays of the first one where they are equal."""
    from dataclasses import fields, replace

    if type(stage) is not type(first):
        return stage
    same = {
        field.name: getattr(first, field.name)
        for field in fields(stage)
        if _equal(getattr(stage, field.name), getattr(first, field.name))
    }
    return replace(stage, **same)


def _equal(a: Any, b: Any) -> bool:
    if sparse.issparse(a):
        parts = ("indptr", "indices", "data")
        return a.shape == b.shape and all(np.array_equal(getattr(a, p), getattr(b, p)) for p in parts)
    return isinstance(a, np.ndarray) and np.array_equal(a, b)
