"""Solves multiple kernel learning: chooses the method, starts the engine, trains the last machine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cutplane.engine.gap import relative_gap
from cutplane.exceptions import InvalidInputError
from cutplane.methods.base import Method
from cutplane.methods.level import LevelBundle
from cutplane.mkl.closed_form import ClosedFormWeights
from cutplane.mkl.nesterov import SmoothMKL
from cutplane.mkl.result import MKLResult
from cutplane.mkl.risk import Machine, MKLRisk
from cutplane.pieces.validation import Array
from cutplane.risks.base import Estimate
from cutplane.status import Status

if TYPE_CHECKING:
    from cutplane.mkl.problem import MKL
    from cutplane.result import Result

_KAPPA = 0.7
_NEGLIGIBLE = 1e-3
ENGINE_SHARE = 0.9
"""Of the tolerance; the rest is for the machine at the end."""


def solve(mkl: MKL, method: Any, warm_start: MKLResult | None, options: dict[str, Any]) -> MKLResult:
    """Minimise over the weights, and train a machine with the best ones; see `MKL.solve`."""
    chosen = _automatic(mkl) if method == "auto" else method
    if isinstance(chosen, SmoothMKL):
        return chosen.solve(mkl, warm_start, options)
    if not isinstance(chosen, Method):
        raise InvalidInputError(f"method must be LevelBundle(), SmoothMKL(), ... or 'auto', got {method!r}.")
    earlier, x0 = None, uniform(mkl)
    if warm_start is not None:
        from cutplane.mkl.transfer import transferred

        earlier = transferred(warm_start, mkl)
    tol = options["tol"]
    result = mkl.problem.solve(chosen, x0=x0, warm_start=earlier, **{**options, "tol": ENGINE_SHARE * tol})
    assert result.x is not None
    weights, machine = train(mkl, result.x, result.objective, tol, _last_answer(mkl, result))
    return as_result(mkl, weights, machine, result.lower_bound, result, tol)


def _automatic(mkl: MKL) -> Method:
    if mkl.norm > 1.0:
        return ClosedFormWeights()
    return LevelBundle(_KAPPA)


def uniform(mkl: MKL) -> Array:
    """Return equal weights on the boundary of the feasible set."""
    n = mkl.bank.n_kernels
    return np.full(n, 1.0 if math.isinf(mkl.norm) else n ** (-1.0 / mkl.norm))


def train(mkl: MKL, x: Array, objective: float, tol: float, start: Estimate | None) -> tuple[Array, Machine]:
    """Return weights, x without those that hardly matter, and a machine for them that is as good as x."""
    risk, size = risk_of(mkl), max(abs(objective), 1e-12)
    accuracy = (1.0 - ENGINE_SHARE) * tol * size
    best: tuple[float, Array, Machine] | None = None
    for weights, share in ((_sparse(mkl, x), 1.0), (x, 0.5), (x, 0.1)):
        machine = risk.fit(weights, share * accuracy, start, share=0.0)
        value = machine.solution.primal_value + mkl.problem.regularizer.value(weights)
        if best is None or value < best[0]:
            best = value, weights, machine
        if value <= objective + share * accuracy:
            break
        start = estimate_of(risk, machine.solution.a)
    assert best is not None
    return best[1], best[2]


def as_result(
    mkl: MKL, weights: Array, machine: Machine, lower_bound: float, result: Result, tol: float
) -> MKLResult:
    """Return what `MKL.solve` returns, from a lower bound and a result of the engine."""
    objective = machine.solution.primal_value + mkl.problem.regularizer.value(weights)
    status, reason = result.status, result.reason
    if status is Status.OPTIMAL and relative_gap(lower_bound, objective) > tol:
        status, reason = Status.STALLED, "the last kernel machine could not be trained to the tolerance"
    return MKLResult(
        weights=weights,
        coefficients=machine.solution.a,
        intercept=machine.solution.intercept,
        objective=objective,
        lower_bound=min(lower_bound, objective),
        status=status,
        reason=reason,
        history=result.history,
        certificate=result.certificate,
        method=result.method,
        mkl=mkl,
    )


def _sparse(mkl: MKL, x: Array) -> Array:
    """Return x without weights that are tiny against the largest, scaled to the norm of x."""
    kept = np.where(x > _NEGLIGIBLE * x.max(initial=0.0), x, 0.0)
    if mkl.norm > 1.0 or mkl.entropy > 0.0 or not kept.any():
        return x
    return kept * (x.sum() / kept.sum())


def _last_answer(mkl: MKL, result: Result) -> Estimate | None:
    duals = result.certificate.duals
    return estimate_of(risk_of(mkl), duals[max(duals)]) if duals else None


def estimate_of(risk: MKLRisk, a: Array) -> Estimate:
    """Return coefficients as an answer of the risk."""
    return Estimate(np.empty(1), *risk.dual_cut(a), a)


def risk_of(mkl: MKL) -> MKLRisk:
    """Return the risk of the problem."""
    risk = mkl.problem.risk
    assert isinstance(risk, MKLRisk)
    return risk
