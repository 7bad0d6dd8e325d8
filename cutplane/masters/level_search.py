"""The projection on a level set of the model, as a prox term of the right weight."""

from __future__ import annotations

import math

import numpy as np

from cutplane.masters.base import Level, MasterStatus, Rows
from cutplane.masters.prox_problem import Answer, ProxProblem
from cutplane.validation import Array

_ROUNDS = 100
_ROUNDING = 1e-13
_FAR = 1e9
_STILL = 1e-12
_NEGLIGIBLE = 1e-14


class LevelSearch:
    """min 1/2 ||x - centre||^2 subject to model(x) + g(x) <= level: the multiplier tau of the level, by Newton's method.

    For a given tau, the minimiser x(tau) is that of the reduced problem with a prox term of weight 1 / tau. The height of the model + g
    there decreases in tau; with g = 0 it is piecewise linear, so that Newton steps, kept inside a bracket, end after finitely many.

    Parameters
    ----------
    problem : ProxProblem
    """

    def __init__(self, problem: ProxProblem):
        self._problem = problem
        self._tau = 0.0

    def solve(self, rows: Rows, centre: Array, level: float) -> tuple[Answer, float]:
        """Return the answer, and the factor that turns the multipliers of the dual into those of the level constraint."""
        values = self._problem.values(rows, centre)
        if not (math.isfinite(level) and np.isfinite(values.sum())):
            return Answer(
                MasterStatus.FAILED, message="the level, an offset or the centre is not finite"
            ), 0.0
        excess = self._problem.dual.model(values) + self._regularizer(centre) - level
        if excess <= 0.0 and values[rows.blocks < 0].max(initial=-np.inf) <= 0.0:
            return Answer(MasterStatus.SOLVED, centre.copy()), 0.0
        tolerance = _ROUNDING * (abs(level) + float(np.abs(values).max()))
        low, high = 0.0, math.inf
        steepest = math.sqrt(self._problem.dual.hessian.diagonal()[: values.shape[0]].max())
        tau = self._tau or (abs(excess) / steepest**2 if excess and steepest else 1.0)
        for _ in range(_ROUNDS):
            answer = self._problem.with_prox(rows, centre, 1.0 / tau, 0.0)
            if answer.x is None:
                return answer, 0.0
            distance = float(np.linalg.norm(answer.x - centre))
            excess, slope = self._excess(answer.x, distance, values, tau, level)
            if abs(excess) <= tolerance or high - low <= 4e-16 * high:
                break
            if excess < 0.0:
                high = tau
                if tau * steepest <= _NEGLIGIBLE * distance:
                    break
            else:
                low = tau
                size = distance + float(np.linalg.norm(centre))
                if slope == 0.0 and excess * tau > _FAR * distance * size:
                    return Answer(MasterStatus.INFEASIBLE, message="the model is above the level"), 0.0
            tau = _next(tau - excess / slope if slope < 0.0 else math.nan, tau, low, high)
        else:
            return Answer(MasterStatus.FAILED, message=f"the level is missed by {excess:.2g}"), 0.0
        self._tau = tau
        return answer, tau

    def _excess(
        self, x: Array, distance: float, values: Array, tau: float, level: float
    ) -> tuple[float, float]:
        """Return model(x) + g(x) - level at x = x(tau), and its derivative with respect to tau."""
        problem, dual = self._problem, self._problem.dual
        heights = dual.gradient / (problem.weight + 1.0 / tau)
        excess = dual.model(heights) + self._regularizer(x) - level
        moved = (heights - values)[dual.support]
        speed = distance**2 + float(moved @ dual.newton_step(-moved))
        if speed <= _STILL * distance**2:
            return excess, 0.0
        return excess, -speed / (tau * tau * (problem.weight * tau + 1.0))

    def _regularizer(self, x: Array) -> float:
        if self._problem.weight == 0.0:
            return 0.0
        offset = x - self._problem.quadratic.centre
        return 0.5 * self._problem.weight * float(offset @ offset)


def _next(newton: float, tau: float, low: float, high: float) -> float:
    if low < newton < high:
        return newton
    if high == math.inf:
        return 100.0 * tau
    return math.sqrt(low * high) if low > 0.0 else 0.01 * high
