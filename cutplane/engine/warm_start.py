"""Starts a run from the cuts of an earlier one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.bundle import TRIVIAL
from cutplane.engine.slopes import dense
from cutplane.exceptions import InvalidInputError
from cutplane.masters.base import HALF_SPACE
from cutplane.validation import Array

if TYPE_CHECKING:
    from cutplane.certificate import Certificate
    from cutplane.engine.run import Run
    from cutplane.problem import Problem
    from cutplane.result import Result


def resume(run: Run, result: Result) -> None:
    """Add every cut of `result` that is valid for the run's problem, and start from its best point.

    Cuts of the risk hold for every regularizer and set. Half-spaces hold if the set is the same object, or
    else if its oracle returns them again at their query points. The first point is the best one, under the
    new objective, of those whose risk is known; the one query made there also checks that the cuts belong to
    this risk.

    Raises
    ------
    InvalidInputError
        If the result has another dimension or number of blocks, or comes from another risk.
    """
    earlier = result.certificate
    _check_shapes(run, earlier)
    multipliers = _transfer(run, earlier)
    start, known = _best_known(run, earlier)
    point = run.evaluate(start)
    if known is not None and point.offsets is None and point.feasible and np.array_equal(point.x, start):
        value = float(point.values.sum())
        if abs(value - known) > 1e-6 * max(1.0, abs(known)):
            raise InvalidInputError(
                f"warm_start comes from another risk: it recorded {known:.8g}, this risk is {value:.8g}. "
                "Cuts can be reused for another regularizer or set, not for another risk or other data."
            )
    run.first = point
    run.add_cut(point)
    if run.bundle.has_cuts():
        run.certify(np.append(multipliers, np.zeros(len(run.bundle) - len(multipliers))))


def _check_shapes(run: Run, earlier: Certificate) -> None:
    dim, n_blocks = run.problem.dim, run.problem.risk.n_blocks
    if earlier.slopes.shape[1] != dim:
        raise InvalidInputError(f"warm_start has dimension {earlier.slopes.shape[1]}, the problem has {dim}.")
    if earlier.blocks.max(initial=-1) >= n_blocks:
        raise InvalidInputError(
            f"warm_start has {earlier.blocks.max() + 1} blocks, the risk has {n_blocks}; use the same number."
        )


def _transfer(run: Run, earlier: Certificate) -> Array:
    """Copy the valid rows into the bundle; return the multipliers of the rows the bundle then holds."""
    weights = dict.fromkeys(range(len(run.bundle)), 0.0)
    for query in np.unique(earlier.queries).tolist():
        rows = np.flatnonzero(earlier.queries == query)
        if query == TRIVIAL:
            if len(run.bundle):
                for row in rows:
                    weights[int(earlier.blocks[row])] += float(earlier.multipliers[row])
            continue
        point, dual = earlier.points.get(query), earlier.duals.get(query)
        rows = _valid(run, earlier, rows, point)
        for row in rows:
            added = run.bundle.add(
                run.queries if query >= 0 else query,
                point,
                earlier.slopes[row : row + 1],
                earlier.offsets[row : row + 1],
                [int(earlier.blocks[row])],
            )
            if added:
                weights[len(run.bundle) - 1] = float(earlier.multipliers[row])
        if dual is not None:
            run.bundle.duals[run.queries] = dual
        run.queries += 1
    return np.array([weights[row] for row in range(len(run.bundle))])


def _valid(run: Run, earlier: Certificate, rows: Array, point: Array | None) -> Array:
    half_spaces = earlier.blocks[rows] == HALF_SPACE
    if not half_spaces.any():
        return rows
    same = earlier.problem is not None and earlier.problem.feasible_set is run.problem.feasible_set
    if same:
        return rows
    if point is None or not run.problem.separators:
        return rows[~half_spaces]
    found = run.evaluator.separate(point)
    again = [
        not half
        or any(
            np.allclose(half_space.normal, dense(earlier.slopes[[row]])[0])
            and np.isclose(-half_space.offset, earlier.offsets[row])
            for half_space in found
        )
        for row, half in zip(rows, half_spaces, strict=True)
    ]
    return rows[np.array(again)]


def _best_known(run: Run, earlier: Certificate) -> tuple[Array, float | None]:
    """Return the point with the least objective among those whose risk is known, and its risk."""
    problem = run.problem
    best, best_risk, best_objective = None, None, np.inf
    for query, x in earlier.points.items():
        rows = (earlier.queries == query) & (earlier.blocks != HALF_SPACE)
        if np.unique(earlier.blocks[rows]).size < problem.risk.n_blocks:
            continue
        risk = float((earlier.slopes[rows] @ x + earlier.offsets[rows]).sum())
        objective = risk + problem.regularizer.value(x)
        if objective < best_objective and _inside(problem, x):
            best, best_risk, best_objective = x, risk, objective
    if earlier.x is not None:
        objective = earlier.risk_value + problem.regularizer.value(earlier.x)
        if objective < best_objective and problem.simple_set.violation(earlier.x) <= 1e-9 * max(
            1.0, np.abs(earlier.x).max()
        ):
            return earlier.x, earlier.risk_value
    if best is None:
        return problem.starting_point(), None
    return best, best_risk


def _inside(problem: Problem, x: Array) -> bool:
    return problem.simple_set.violation(x) <= 1e-9 * max(1.0, float(np.abs(x).max()))
