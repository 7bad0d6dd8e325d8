"""The run of `PolynomialMKL.solve`: steps, exact evaluations in between, bounds, stopping."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from cutplane.callbacks import Callback, Log, progress_display
from cutplane.history import History, Record
from cutplane.mkl.polynomial.bound import FormNorm
from cutplane.mkl.polynomial.descent import Descent, Sampling
from cutplane.mkl.polynomial.result import PolynomialMKLResult
from cutplane.state import State
from cutplane.status import Status
from cutplane.stopping import AnyOf, MaxIter, RelativeGap, Stop, StoppingRule, TimeLimit
from cutplane.validation import Array

if TYPE_CHECKING:
    from cutplane.mkl.polynomial.problem import PolynomialMKL

_GROWTH = 2.0
_FLOOR = 1e-14


class Evaluation(NamedTuple):
    """Weights, their dual coefficients, the objective and a lower bound on the optimum."""

    indices: list[tuple[int, ...]]
    weights: Array
    coefficients: Array
    objective: float
    lower_bound: float
    dual: Array


def evaluate(
    problem: PolynomialMKL, indices: list[tuple[int, ...]], weights: Array, norm: FormNorm
) -> Evaluation:
    """Solve the ridge regression of these weights afresh; bound the optimum by its dual coefficients.

    The objective is that of the predictor as computed, so that it is an upper bound whatever the rounding;
    the lower bound, ``max over t of <t a, y> - ||t a||^2 / (2 C) - 1/2 ||q(t a)||_2``, holds for any a.
    """
    y, C = problem.y, problem.C
    kernel = problem.bases.weighted_sum(
        indices, weights / problem.rho[[len(index) for index in indices]] ** 2
    )
    system = kernel + np.eye(y.size) * (1.0 / C + _FLOOR * kernel.diagonal().max(initial=0.0))
    a = cho_solve(cho_factor(system, lower=True, overwrite_a=True), y)
    predictions = kernel @ a
    objective = 0.5 * C * float(((predictions - y) ** 2).sum()) + 0.5 * float(a @ predictions)
    return Evaluation(indices, weights, a, objective, dual_value(problem, a, norm), a)


def dual_value(problem: PolynomialMKL, a: Array, norm: FormNorm) -> float:
    """Return ``max over t of <t a, y> - ||t a||^2 / (2 C) - 1/2 ||q(t a)||_2``, at most the optimum."""
    size = float(a @ a) / problem.C + norm(a)
    return 0.5 * float(a @ problem.y) ** 2 / size if size > 0.0 else 0.0


def run(
    problem: PolynomialMKL,
    sampling: Sampling,
    seed: int,
    *,
    bound_work: float,
    tol: float,
    max_iter: int,
    time_limit: float | None,
    callback: Callback | None,
    progress: bool,
    log: bool,
) -> PolynomialMKLResult:
    """Step until a rule says stop; evaluate the average after a geometrically growing number of steps."""
    began = perf_counter()
    rules: list[StoppingRule] = [RelativeGap(tol), MaxIter(max_iter)]
    if time_limit is not None:
        rules.append(TimeLimit(time_limit))
    rule, deadline = AnyOf(tuple(rules)), began + (np.inf if time_limit is None else time_limit)
    norm = FormNorm(problem.bases, problem.rho, bound_work)
    descent = Descent(problem.bases, problem.y, problem.C, problem.rho, sampling, seed)
    best = evaluate(problem, [], np.empty(0), norm)
    records: list[Record] = []
    spent, stop, moves = 0.0, None, True

    def record(seconds: float, evaluating: float) -> State:
        records.append(
            Record(
                iteration=descent.count,
                lower_bound=best.lower_bound,
                upper_bound=best.objective,
                n_cuts=len(descent.weights.indices),
                step="average" if records else "start",
                oracle_calls=descent.count + len(records) + 1,
                separations=0,
                oracle_seconds=evaluating,
                master_seconds=seconds,
                other_seconds=0.0,
                elapsed=perf_counter() - began,
            )
        )
        return State(records[-1], None)

    with progress_display(progress) as display:
        watchers = [watcher for watcher in (callback, Log() if log else None, display) if watcher is not None]
        try:
            state, checkpoint = record(0.0, perf_counter() - began), 1
            while True:
                stop = rule(state)
                if any([watcher(state) is True for watcher in watchers]):
                    stop = Stop(Status.INTERRUPTED, "the callback asked to stop")
                elif stop is None and not moves:
                    stop = Stop(Status.STALLED, "the gradient is zero")
                if stop is not None:
                    break
                start = perf_counter()
                while moves and descent.count < min(checkpoint, max_iter) and perf_counter() < deadline:
                    moves = descent.step()
                spent = perf_counter()
                found = evaluate(problem, list(descent.weights.indices), descent.weights.average(), norm)
                proof = max(best, found, key=lambda one: one.lower_bound)
                best = (found if found.objective < best.objective else best)._replace(
                    lower_bound=proof.lower_bound, dual=proof.dual
                )
                state = record(spent - start, perf_counter() - spent)
                checkpoint = int(np.ceil(_GROWTH * checkpoint))
        except KeyboardInterrupt:
            if not records:
                raise
            stop = Stop(Status.INTERRUPTED, "interrupted from the keyboard")
    used = np.flatnonzero(best.weights).tolist()
    return PolynomialMKLResult(
        weights={best.indices[k]: float(best.weights[k]) for k in used},
        coefficients=best.coefficients,
        objective=best.objective,
        lower_bound=min(best.lower_bound, best.objective),
        exact_bound=norm.exact,
        status=stop.status,
        reason=stop.reason,
        history=History(records),
        bases=problem.bases,
        rho=problem.rho,
        dual=best.dual,
        bound_work=bound_work,
        problem=problem,
    )
