"""The check of a result of multiple kernel learning from the kernels alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cutplane.engine.bound import DualFunction
from cutplane.engine.certificate import Verification
from cutplane.mkl.smooth import SmoothedDual
from cutplane.mkl.solve import risk_of
from cutplane.pieces.validation import Array
from cutplane.status import Status

if TYPE_CHECKING:
    from cutplane.mkl.problem import MKL
    from cutplane.mkl.result import MKLResult

_AGREEMENT = 1e-9
_EPS = float(np.finfo(np.float64).eps)
"""Predictions K a have errors of this times |K| |a|, which count by the slopes of the losses."""
_FEASIBLE = 1e-7
"""What a projection or a solver may leave of a violation, relative to weights of norm 1."""


def verify(result: MKLResult, mkl: MKL) -> Verification:
    """Do what `MKLResult.verify` says."""
    problems: list[str] = []
    machine, weights, a = mkl.machine, result.weights, result.coefficients
    if weights.shape != (mkl.bank.n_kernels,) or a.shape != (mkl.bank.n_samples,):
        problems.append(f"the result is not one of {mkl!r}")
        return Verification(False, -math.inf, math.inf, 0, tuple(problems))
    violation = mkl.problem.simple_set.violation(weights)
    if violation > _FEASIBLE or (weights < 0.0).any():
        problems.append(f"the weights violate {mkl.problem.simple_set!r} by {violation:.3g}")
    kernel = mkl.bank.weighted_sum(weights)
    predictions = kernel @ a
    half_norm = 0.5 * float(a @ predictions)
    losses = machine.form.losses(machine.y - predictions - result.intercept)
    entropy = mkl.problem.regularizer.value(weights)
    upper = half_norm + losses + entropy
    size = abs(half_norm) + abs(losses) + abs(entropy) + float(np.abs(machine.y) @ np.abs(a))
    box = np.maximum(-machine.form.lower, machine.form.upper)
    steepness = np.where(np.isfinite(box), box, np.abs(a))
    slack = _AGREEMENT * size + _EPS * machine.form.losses(machine.y)  # of f = 0
    slack += _EPS * (a.size + 16) * float(steepness @ (np.abs(kernel) @ np.abs(a)))
    if abs(upper - result.objective) > slack:
        problems.append(f"the objective is {upper:.10g}, not {result.objective:.10g}")
    if not machine.feasible(a):
        problems.append("the coefficients are not feasible in the dual")
    lower, checked = _dual_value(mkl, a, upper), 1
    if lower < result.lower_bound - slack:
        found, count = _certified(result, mkl, upper, problems)
        lower, checked = max(lower, found), checked + count
    if result.lower_bound - lower > slack:
        problems.append(f"only the lower bound {lower:.10g} could be proven, not {result.lower_bound:.10g}")
    if result.lower_bound > result.objective:
        problems.append("the lower bound is above the objective")
    if result.status is Status.OPTIMAL and not math.isfinite(lower):
        problems.append("OPTIMAL is claimed without a lower bound")
    return Verification(not problems, lower, upper, checked, tuple(problems))


def _dual_value(mkl: MKL, a: Array, upper: float) -> float:
    """Return the lower bound that coefficients give; -inf if they are not feasible."""
    slopes, offsets = risk_of(mkl).dual_cut(a)
    if not np.isfinite(offsets).all():
        return -math.inf
    return DualFunction(mkl.problem)(slopes, offsets, np.zeros(1, np.int64), np.ones(1), upper).value


def _certified(result: MKLResult, mkl: MKL, upper: float, problems: list[str]) -> tuple[float, int]:
    """Return the lower bound of the certificate, and how many cuts were computed for it."""
    certificate = result.certificate
    if certificate.problem is not None and isinstance(certificate.problem.risk, SmoothedDual):
        assert certificate.x is not None
        return _dual_value(mkl, mkl.machine.y * certificate.x, upper), 1
    found = replace(certificate, x=None, upper_bound=math.inf).verify(
        mkl.problem
    )  # its point is not that of the result
    problems += found.problems
    return found.lower_bound, found.n_checked
