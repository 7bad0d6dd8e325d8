"""The scenarios of a cvxpy problem, as second stages (its canonical form split at x) or as one problem."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import cvxpy as cp
import numpy as np
from scipy import sparse

from cutplane.decomposition.conic import ConicStage
from cutplane.decomposition.stage import LinearStage, Stage
from cutplane.exceptions import InvalidInputError, NotConvexError
from cutplane.pieces.cvxpy_tools import as_variables, substitute
from cutplane.pieces.validation import Array, as_numbers, as_sparse


def stages_of(problem: Any, variable: Any, scenarios: Sequence[Mapping[Any, Any]]) -> list[Stage]:
    """Return a stage for each scenario; equal arrays of scenarios are one object.

    Raises
    ------
    InvalidInputError
        If the problem is not a convex minimisation with this variable, or a scenario is invalid.
    """
    if not isinstance(problem, cp.Problem):
        raise InvalidInputError(f"ValueFunction needs a cvxpy.Problem, got {type(problem).__name__}.")
    as_variables("ValueFunction", variable)
    if not isinstance(problem.objective, cp.Minimize):
        raise InvalidInputError("ValueFunction needs a minimisation; minimise the negative objective.")
    if not problem.is_dcp():
        raise NotConvexError("The problem of a ValueFunction must be convex by cvxpy's rules, also in x.")
    if not any(found is variable for found in problem.variables()):
        raise InvalidInputError(f"The variable {variable.name()} does not occur in the problem.")
    if problem.is_mixed_integer():
        raise InvalidInputError("The problem of a ValueFunction must have continuous variables only.")
    if not scenarios:
        raise InvalidInputError("ValueFunction needs at least one scenario; [{}] is one without values.")
    before = {parameter: parameter.value for parameter in problem.parameters()}
    stages: list[Stage] = []
    split = None
    try:
        for number, scenario in enumerate(scenarios):
            _assign(scenario, number)
            unset = [parameter.name() for parameter in before if parameter.value is None]
            if unset:
                raise InvalidInputError(
                    f"The parameters {unset} have no value in scenario {number}; add their values to it."
                )
            split = split or _Split(problem, variable)
            stage = split.stage()
            stages.append(_sharing(stage, stages[0]) if stages else stage)
    finally:
        for parameter, value in before.items():
            parameter.value = value
    return stages


def _assign(scenario: Mapping[Any, Any], number: int) -> None:
    for parameter, value in scenario.items():
        if not isinstance(parameter, cp.Parameter):
            raise InvalidInputError(f"Scenario {number} must map cvxpy parameters to values: {parameter!r}.")
        name = f"Scenario {number}, parameter {parameter.name()}"
        given = as_sparse(name, value) if sparse.issparse(value) else as_numbers(name, value)
        try:
            parameter.value = given
        except ValueError as error:
            raise InvalidInputError(f"{name}: {error}") from error


class _Split:
    """The cone programme min 1/2 u'P u + c'u + d with A u + s = b, s in K, split at x, for any parameters.

    By cvxpy's rules for parameters (DPP), the data A, b, c and d are affine in the parameters. Therefore
    cvxpy compiles the problem once, and a product with the vector of the parameters gives the data of each
    scenario.
    """

    def __init__(self, problem: Any, variable: Any):
        self._problem = problem
        self._compile()
        self._affine = _Affine.of(problem, self._data)
        start = self._data["param_prob"].var_id_to_col[variable.id]
        self._mine = (
            start + np.arange(variable.size).reshape(variable.shape, order="F")
        ).ravel()  # row by row
        self._others = np.delete(np.arange(self._data["c"].size), self._mine)
        self._last: tuple[Array, _LinearRows] | None = None
        self._new = False

    def _compile(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cvxpy warns if parameters compile slowly
            self._data, _, inverse = self._problem.get_problem_data(cp.CLARABEL)
        self._offset = float(inverse[-1]["offset"])

    def stage(self) -> Stage:
        """Return the stage for the current values of the parameters."""
        if self._affine is not None:
            A, b, c, constant = self._affine.numbers()
        else:
            if self._new:
                self._compile()
            A, b, c, constant = self._data["A"], self._data["b"], self._data["c"], self._offset
        self._new = True
        mine, others, dims, P = self._mine, self._others, self._data["dims"], self._data.get("P")
        if any([dims.soc, dims.psd, dims.exp, dims.p3d, dims.pnd]) or (P is not None and P.nnz):
            quadratic = sparse.csc_array((c.size,) * 2) if P is None else sparse.csc_array(P)
            full = sparse.csc_array(quadratic + sparse.triu(quadratic, 1).T)
            return ConicStage(sparse.csc_array(A), b, c, full, dims, mine, others, constant)
        if self._last is None or self._last[0] is not A:
            self._last = A, _LinearRows(sparse.csc_array(A), mine, others, dims.zero)
        return self._last[1].stage(b, c[mine], c[others], constant)


class _Affine:
    """The data of a compiled problem, computed as a matrix of cvxpy times the vector of the parameters."""

    def __init__(self, programme: Any):
        self._programme = programme
        self._rows, self._costs = programme.reduced_A.reduced_mat, sparse.csr_array(programme.q)
        self._indices, self._indptr, self._shape = programme.reduced_A.problem_data_index
        self._last: tuple[Array, Any] | None = None

    @classmethod
    def of(cls, problem: Any, data: Any) -> _Affine | None:
        """Return None if cvxpy evaluates parameters first, or the quadratic form contains parameters."""
        programme = data["param_prob"]
        stated = {parameter.id for parameter in problem.parameters()}
        compiled = {parameter.id for parameter in getattr(programme, "parameters", [])}
        rows = getattr(programme, "reduced_A", None)
        if not stated or stated != compiled or getattr(rows, "problem_data_index", None) is None:
            return None
        if programme.P is not None and sparse.csc_array(programme.P)[:, :-1].nnz:
            return None
        self = cls(programme)
        A, b, c, _ = self.numbers()
        same = _equal(A, sparse.csc_array(data["A"])) and _equal(b, data["b"]) and _equal(c, data["c"])
        return self if same else None

    def numbers(self) -> tuple[Any, Array, Array, float]:
        """Return A, b, c and d for the current values; A is the same object until it changes."""
        vector = np.ones(self._rows.shape[1])
        for parameter in self._programme.parameters:
            start = self._programme.param_id_to_col[parameter.id]
            value = parameter.value
            value = value.toarray() if sparse.issparse(value) else np.asarray(value)
            vector[start : start + parameter.size] = value.ravel(order="F")
        values, costs = self._rows @ vector, self._costs @ vector
        split = self._indptr[-2]
        if self._last is None or not np.array_equal(values[:split], self._last[0]):
            shape = self._shape[0], self._shape[1] - 1
            parts = -values[:split], self._indices[:split], self._indptr[:-1]
            self._last = values[:split], sparse.csc_array(parts, shape=shape)
        b = np.zeros(self._shape[0])
        b[self._indices[split:]] = values[split:]
        return self._last[1], b, costs[:-1], float(costs[-1])


class _LinearRows:
    """The rows of a linear stage for any right-hand sides; rows with a single y and no x become bounds."""

    def __init__(self, A: Any, mine: Array, others: Array, equations: int):
        T, W = sparse.csr_array(A[:, mine]), sparse.csr_array(A[:, others])
        bounds = (np.diff(W.indptr) == 1) & (np.diff(T.indptr) == 0)
        bounds[:equations] = False
        bounds[bounds] = W.data[W.indptr[:-1][bounds]] != 0.0
        self._bounds, self._equations = bounds, equations
        self._single = W[np.flatnonzero(bounds)].tocoo()
        self._kept = np.flatnonzero(~bounds)
        self._T, self._W = T[self._kept], W[self._kept]

    def stage(self, b: Array, first_cost: Array, cost: Array, constant: float) -> LinearStage:
        """Return the stage with the given data."""
        lower, upper = np.full(cost.size, -np.inf), np.full(cost.size, np.inf)
        single, columns = self._single, self._single.col
        sides = b[self._bounds][single.row] / single.data
        above = single.data > 0.0
        np.minimum.at(upper, columns[above], sides[above])
        np.maximum.at(lower, columns[~above], sides[~above])
        row_lower = np.where(np.arange(b.size) < self._equations, b, -np.inf)[self._kept]
        sides = row_lower, b[self._kept]
        return LinearStage(self._T, self._W, *sides, cost, lower, upper, first_cost, constant)


def _sharing(stage: Any, first: Any) -> Any:
    """Return the stage with the arrays of the first stage in place of equal ones."""
    if type(stage) is not type(first):
        return stage
    pairs = [(field.name, getattr(first, field.name)) for field in fields(stage)]
    return replace(stage, **{name: mine for name, mine in pairs if _equal(getattr(stage, name), mine)})


def _equal(a: Any, b: Any) -> bool:
    if sparse.issparse(a):
        parts = ("indptr", "indices", "data")
        return a is b or (a.shape == b.shape and all(_equal(getattr(a, p), getattr(b, p)) for p in parts))
    return a is b or (isinstance(a, np.ndarray) and np.array_equal(a, b))


def written_out(problem: Any, variable: Any, scenarios: Sequence[Mapping[Any, Any]], weights: Array) -> Any:
    """Return the problem of all scenarios, with `variable` and a copy of the other variables for each."""
    objective, constraints = 0, []
    for scenario, weight in zip(scenarios, weights.tolist(), strict=True):
        values = {parameter: parameter.value for parameter in problem.parameters()} | dict(scenario)
        pairs: list[tuple[Any, Any]] = [
            (parameter, cp.Constant(value)) for parameter, value in values.items()
        ]
        for other in problem.variables():
            if other is not variable:
                attributes = {name: value for name, value in other.attributes.items() if value}
                pairs.append((other, cp.Variable(other.shape, **attributes)))
        pieces = [problem.objective.expr, *problem.constraints]
        for old, new in pairs:
            pieces = [substitute(piece, (old,), new) for piece in pieces]
        objective = objective + weight * pieces[0]
        constraints += pieces[1:]
    return cp.Problem(cp.Minimize(objective), constraints)


def linear_written_out(stages: Sequence[Any], weights: Array, x: Any = None) -> Any:
    """Return the problem of all linear stages, with x and a variable y for each stage."""
    x = cp.Variable(stages[0].first_cost.size, name="x") if x is None else x
    objective, constraints = 0, []
    for stage, weight in zip(stages, weights.tolist(), strict=True):
        y = cp.Variable(stage.cost.size)
        objective = objective + weight * (stage.first_cost @ x + stage.cost @ y + stage.constant)
        rows = stage.T @ x + stage.W @ y
        for body, low, high in ((rows, stage.row_lower, stage.row_upper), (y, stage.lower, stage.upper)):
            equal = low == high
            below, above = np.isfinite(low) & ~equal, np.isfinite(high) & ~equal
            constraints += [body[equal] == high[equal]] if equal.any() else []
            constraints += [body[below] >= low[below]] if below.any() else []
            constraints += [body[above] <= high[above]] if above.any() else []
    return cp.Problem(cp.Minimize(objective), constraints)
