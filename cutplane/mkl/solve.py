"""The solution of multiple kernel learning: method, warm start, the last machine, and the path over C."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from cutplane.exceptions import InvalidInputError
from cutplane.methods.base import Method
from cutplane.methods.level import LevelBundle
from cutplane.mkl.methods import ClosedFormWeights
from cutplane.mkl.result import MKLPath, MKLResult
from cutplane.mkl.risk import Machine, MKLRisk
from cutplane.pieces.validation import Array, as_vector
from cutplane.proof.certificate import Certificate
from cutplane.result import Result
from cutplane.risks.base import Estimate
from cutplane.status import Status, relative_gap
from cutplane.stopping import gap_reason

if TYPE_CHECKING:
    from cutplane.kernels.dual import DualForm
    from cutplane.mkl.problem import MKL

_KAPPA = 0.7
_NEGLIGIBLE = 1e-3
ENGINE_SHARE = 0.9
"""Of the tolerance; the rest is for the machine at the end."""


@runtime_checkable
class DualMethod(Protocol):
    """A method that solves the problem by its dual, without a process over the weights."""

    def solve_dual(self, mkl: MKL, warm_start: MKLResult | None, options: dict[str, Any]) -> MKLResult:
        """Return what `MKL.solve` returns."""
        ...


def solve(mkl: MKL, method: Any, warm_start: MKLResult | None, options: dict[str, Any]) -> MKLResult:
    """Minimise over the weights, and train a machine with the best ones; see `MKL.solve`."""
    chosen = automatic(mkl) if method == "auto" else method
    if isinstance(chosen, DualMethod):
        return chosen.solve_dual(mkl, warm_start, options)
    if not isinstance(chosen, Method):
        raise InvalidInputError(f"method must be LevelBundle(), SmoothMKL(), ... or 'auto', got {method!r}.")
    earlier, x0 = None, uniform(mkl)
    if warm_start is not None:
        earlier = transferred(warm_start, mkl)
    tol = options["tol"]
    result = mkl.problem.solve(chosen, x0=x0, warm_start=earlier, **{**options, "tol": ENGINE_SHARE * tol})
    assert result.x is not None
    weights, machine = train(mkl, result.x, result.objective, tol, _last_answer(mkl, result))
    return as_result(mkl, weights, machine, result.lower_bound, result, tol)


def automatic(mkl: MKL) -> Method:
    """Return the method of "auto"."""
    if mkl.norm > 1.0:
        return ClosedFormWeights()
    return LevelBundle(_KAPPA)


def uniform(mkl: MKL) -> Array:
    """Return equal weights on the boundary of the feasible set."""
    n = mkl.bank.n_kernels
    return np.full(n, 1.0 if math.isinf(mkl.norm) else n ** (-1.0 / mkl.norm))


def train(mkl: MKL, x: Array, objective: float, tol: float, start: Estimate | None) -> tuple[Array, Machine]:
    """Return weights, x without those that hardly matter, and a machine for them that is as good as x."""
    risk, size = mkl.risk, max(abs(objective), 1e-12)
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
    gap = relative_gap(lower_bound, objective)
    if status is Status.OPTIMAL and gap > tol:
        status, reason = Status.STALLED, "the last kernel machine could not be trained to the tolerance"
    elif status is Status.OPTIMAL:
        reason = gap_reason(gap, tol)  # because the engine ran to a part of tol
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
    return estimate_of(mkl.risk, duals[max(duals)]) if duals else None


def estimate_of(risk: MKLRisk, a: Array) -> Estimate:
    """Return coefficients as an answer of the risk."""
    return Estimate(np.empty(1), *risk.dual_cut(a), a)


def transferred(earlier: MKLResult, mkl: MKL) -> Result:
    """Return a result for `mkl` with the cuts of a result for another C, from which the engine can start.

    The coefficients a of each cut are multiplied by the number s that keeps them in the domain of the
    conjugates and makes the cut highest at the last weights; its slopes by s^2. Cuts whose coefficients
    cannot be scaled into the domain are left out.
    """
    known, machine = earlier.certificate, mkl.machine
    if earlier.mkl.bank is not mkl.bank or not np.array_equal(earlier.mkl.machine.y, machine.y):
        raise InvalidInputError(
            "warm_start must be a result for the same kernels and targets: make the problem with the same "
            "bank (and rho), or by with_C."
        )
    rows = [row for row in range(known.offsets.size) if int(known.queries[row]) in known.duals]
    slopes, offsets, queries, duals = [], [], [], {}
    for row in rows:
        a = known.duals[int(known.queries[row])]
        s = _best_scale(machine.form, a, -2.0 * float(known.slopes[row] @ earlier.weights))
        if s is None:
            continue
        scaled = np.clip(s * a, machine.form.lower, machine.form.upper)
        if not machine.feasible(scaled):
            continue
        queries.append(len(duals))
        duals[len(duals)] = scaled
        slopes.append(s * s * known.slopes[row])
        offsets.append(-machine.conjugate_sum(scaled))
    multipliers = np.zeros(len(offsets))
    multipliers[-1:] = 1.0
    certificate = Certificate(
        slopes=np.array(slopes).reshape(-1, mkl.bank.n_kernels),
        offsets=np.array(offsets),
        blocks=np.zeros(len(offsets), dtype=np.int64),
        queries=np.array(queries, dtype=np.int64),
        multipliers=multipliers,
        points={},
        duals=duals,
        x=earlier.weights,
        lower_bound=-np.inf,
        upper_bound=np.inf,
        risk_value=earlier.objective,
        problem=mkl.problem,
    )
    return Result(
        status=earlier.status,
        reason=earlier.reason,
        history=earlier.history,
        method=earlier.method,
        certificate=certificate,
        backend="none",
    )


def _best_scale(form: DualForm, a: Array, curvature: float) -> float | None:
    """Return the s > 0 for which ``-sum_i phi_i(s a_i) - s^2 curvature / 2`` is largest, if there is one."""
    gain = float(form.linear @ a - form.tube * np.abs(a).sum())
    bend = float((form.ridge * a) @ a) + curvature
    ends = np.where(a > 0.0, form.upper, form.lower)
    room = float((ends[a != 0.0] / a[a != 0.0]).min(initial=np.inf))
    s = min(gain / bend, room) if bend > 0.0 else room
    return s if 0.0 < s < np.inf else None


def follow(mkl: MKL, Cs: Any, options: Mapping[str, Any]) -> MKLPath:
    """Solve for each C in turn; see `MKL.path`."""
    values = as_vector("Cs", Cs)
    if values.size == 0 or not (values > 0.0).all():
        raise InvalidInputError(f"Cs must hold at least one number, all of them positive, got {Cs!r}.")
    previous: MKLResult | None = options.get("warm_start")
    rest = {name: value for name, value in options.items() if name != "warm_start"}
    results: list[MKLResult] = []
    for C in values.tolist():
        previous = mkl.with_C(C).solve(warm_start=previous, **rest)
        results.append(previous)
        if previous.status is Status.INTERRUPTED:
            break
    return MKLPath(values[: len(results)], tuple(results))
