"""Random two-stage programmes and Lagrangian duals, against the same written out as one programme."""

from __future__ import annotations

import itertools
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog

import cutplane as cut
from cutplane.decomposition import LinearSubproblem
from cutplane.status import Status
from fuzz import checks
from fuzz.core import Refused, guarded, quiet
from fuzz.draws import Array, Rng, chance, dyadic, pick, positive, shares
from fuzz.outcome import Outcome

ACCURACY = 1e-6
"""What the solver of the whole is trusted with, relative to the sizes of the terms."""
STABLE = {"auto": 3.0, "proximal": 2.0}
METHODS = {**STABLE, "kelley": 1.0, "level": 1.0, "bmrm": 1.0}


def trial(rng: Rng) -> Outcome:
    """A value function or a Lagrangian dual."""
    kind = pick(rng, {_two_stages: 1, _columns: 1})
    method = str(pick(rng, METHODS if kind is _two_stages else STABLE))
    family = f"{'two stages' if kind is _two_stages else 'columns'}/{method}/auto"
    status, failures = "", []
    with quiet():
        try:
            status, failures = kind(rng, method)
        except Refused:
            status = "REFUSED"
        except Exception as error:
            status, failures = type(error).__name__, [checks.of_exception(error)]
    return Outcome(family, status, failures)


def _solve(problem: cut.Problem, method: str, tol: float) -> Any:
    return guarded(lambda: problem.solve(method, tol=tol, max_iter=200, time_limit=5.0), 5.0)


def _broken(result: Any, optimum: float, slack: float, tol: float) -> list[str]:
    failures = []
    if result.lower_bound > optimum + slack:
        failures.append(f"false bound: {result.lower_bound!r}, the optimum is {optimum!r}")
    if result.objective < optimum - slack:
        failures.append(f"false objective: {result.objective!r}, the optimum is {optimum!r}")
    if result.status in (Status.UNBOUNDED, Status.INFEASIBLE, Status.INVALID_ORACLE):
        failures.append(f"false {result.status}: {result.reason}")
    if result.status is Status.OPTIMAL:
        if result.gap > tol * (1.0 + 1e-9):
            failures.append(f"false OPTIMAL: gap {result.gap:.3g}, tol {tol:.1g}")
        verification = result.certificate.verify()
        if not verification.valid:
            failures.append(f"verify: {'; '.join(verification.problems)}")
    return failures


def _two_stages(rng: Rng, method: str) -> tuple[str, list[str]]:
    """W y >= h - T x with costs of y that are linear, or also squares or a norm; x in a box."""
    n, rows, columns, count = (int(rng.integers(1, most)) for most in (4, 5, 6, 5))
    unit = 10.0 ** int(rng.integers(-5, 6)) if chance(rng, 0.4) else 1.0
    inside, plan = dyadic(rng, n), positive(rng, columns, bits=3)
    W, T = dyadic(rng, rows, columns, bits=2), dyadic(rng, rows, n, bits=2)
    goals = [W @ plan + T @ inside - 0.5 * positive(rng, rows, bits=2) * (s > 0) for s in range(count)]
    costs = unit * positive(rng, columns)
    kind = str(pick(rng, {"linear": 3, "bounded": 1, "squares": 1, "norm": 1}))
    weights = shares(rng, count)
    c = unit * dyadic(rng, n)

    def stage(x: Any, y: Any, h: Any) -> tuple[Any, list[Any]]:
        extra = {"squares": 0.5 * unit * cp.sum_squares(y), "norm": unit * cp.norm(y)}.get(kind, 0.0)
        limits = [W @ y >= h - T @ x, y >= 0] + ([y <= 2.0 * plan + 1.0] if kind == "bounded" else [])
        return costs @ y + extra, limits

    x, y, h = cp.Variable(n), cp.Variable(columns), cp.Parameter(rows)
    cost, limits = stage(x, y, h)
    second = cp.Problem(cp.Minimize(cost), limits)
    Q = cut.ValueFunction(second, x, [{h: goal} for goal in goals], weights, n_groups=int(rng.integers(1, 5)))
    box = cut.Box(inside - positive(rng, n), inside + positive(rng, n))
    strength = float(pick(rng, {0.0: 2, unit: 1}))
    problem = cut.Problem(Q + cut.LinearObjective(c), cut.L2(strength) if strength else None, box)

    def whole(point: Any, sides: list[Any], slack: float) -> float:
        copies = [cp.Variable(columns) for _ in goals]
        stages = [stage(point, copy, goal - slack) for copy, goal in zip(copies, goals, strict=True)]
        total = c @ point + 0.5 * strength * cp.sum_squares(point)
        total += sum(p * cost for p, (cost, _) in zip(weights, stages, strict=True))
        sides = sides + [side for _, each in stages for side in each]
        solver = cp.CLARABEL if strength or kind in ("squares", "norm") else cp.HIGHS
        return float(cp.Problem(cp.Minimize(total / unit), sides).solve(solver=solver)) * unit

    try:
        optimum = whole(x, [x >= box.lower, x <= box.upper], 0.0)
    except (cp.SolverError, UserWarning):
        return "SKIPPED", []
    tol = float(pick(rng, {1e-3: 1, 1e-6: 1, 1e-8: 1}))
    result = _solve(problem, method, tol)
    size = unit * (1.0 + np.abs(c / unit) @ np.abs(inside)) + abs(optimum)
    failures = _broken(result, optimum, ACCURACY * size, tol)
    if result.x is not None:
        here = whole(np.asarray(result.x), [], 1e-6)
        if not abs(here - result.objective) <= 1e-4 * (size + abs(here)):
            failures.append(f"objective: {result.objective!r} at x, but there it is {here!r}")
    return str(result.status), [f"{failure} [{kind}; n={n}]" for failure in failures]


def _columns(rng: Rng, method: str) -> tuple[str, list[str]]:
    """Integers in boxes with a knapsack; the optimum is that over their convex hulls."""
    m, count = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    unit = 10.0 ** int(rng.integers(-5, 6)) if chance(rng, 0.4) else 1.0
    points, subproblems, couplings, costs = [], [], [], []
    rhs = np.zeros(m)
    for _ in range(count):
        n, top = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        row, cost = positive(rng, n, bits=2), unit * dyadic(rng, n, bits=4)
        room = float(row.sum()) * float(pick(rng, {0.5: 1, 1.0: 1, 3.0: 1}))
        X = np.array(list(itertools.product(*[range(top + 1)] * n)), dtype=float)
        X = X[X @ row <= room]
        A = dyadic(rng, m, n, bits=2)
        rhs += A @ X[rng.integers(0, len(X), size=2)].mean(axis=0)
        integers = LinearSubproblem(np.zeros(n), row[np.newaxis], row_upper=room, upper=top, integrality=True)
        subproblems.append(_least_of(X) if chance(rng, 0.5) else integers)
        points.append(X)
        couplings.append(A)
        costs.append(cost)
    senses = [str(sense) for sense in rng.choice(["==", "<=", ">="], size=m)]
    rhs += np.array([{"==": 0.0, "<=": 1.0, ">=": -1.0}[sense] for sense in senses]) * positive(rng, m)
    dual = cut.LagrangianDual(subproblems, couplings, rhs, senses, costs)
    optimum = _over_hulls(points, couplings, costs, rhs, senses, unit)
    if optimum is None:
        return "SKIPPED", []
    tol = float(pick(rng, {1e-3: 1, 1e-6: 1, 1e-8: 1}))
    result = _solve(cut.Problem(dual), method, tol)
    size = unit + sum(float(np.abs(X @ cost).max()) for X, cost in zip(points, costs, strict=True))
    failures = _broken(result, -optimum, ACCURACY * size, tol)
    if result.status is Status.OPTIMAL and tol < 1e-5 and dual.infeasibility(result.primal) > 1e-3:
        failures.append(f"primal: infeasible by {dual.infeasibility(result.primal):.2g}")
    return str(result.status), [f"{failure} [columns; m={m}, {count} parts]" for failure in failures]


def _least_of(X: Array) -> Any:
    """The minimiser of a linear function over the rows of X, with or without its value."""
    return lambda prices: X[np.argmin(X @ prices)]


def _over_hulls(
    points: list[Array],
    couplings: list[Array],
    costs: list[Array],
    rhs: Array,
    senses: list[str],
    unit: float,
) -> float | None:
    """The least cost of convex combinations of the points that satisfy the coupling constraints."""
    numbers = np.repeat(np.arange(len(points)), [len(X) for X in points])
    rows = np.hstack([A @ X.T for A, X in zip(couplings, points, strict=True)])
    cost = np.concatenate([X @ c for X, c in zip(points, costs, strict=True)]) / unit
    equal = np.array([sense == "==" for sense in senses])
    signs = np.array([-1.0 if sense == ">=" else 1.0 for sense in senses])
    convex = (numbers == np.arange(len(points))[:, np.newaxis]).astype(float)
    answer = linprog(
        cost,
        A_ub=(signs[:, np.newaxis] * rows)[~equal],
        b_ub=(signs * rhs)[~equal],
        A_eq=np.vstack([convex, rows[equal]]),
        b_eq=np.append(np.ones(len(points)), rhs[equal]),
    )
    return None if answer.fun is None else float(answer.fun) * unit
