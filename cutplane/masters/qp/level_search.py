"""The projection on a level set of the model, as a prox term of the right weight."""

from __future__ import annotations

import math

import numpy as np

from cutplane.masters.base import MasterStatus, Rows
from cutplane.masters.qp.prox_problem import Answer, ProxProblem, violations
from cutplane.masters.rows import products
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

_ROUNDS = 100  # enough to bisect a bracket of the ratio 1e30 to the last digit
_PATIENCE = 10  # Newton steps from below that are trusted without a lower end of the bracket
_ROUNDING = 1e-14  # a level is met up to this, relative to the terms
_LEAP = 100.0  # the factor of tau while there is no upper end of the bracket
_DROP = 0.01  # the same while there is no lower end
_FAR = 1e9  # a level missed so far away, relative to the distance, is below the model
_STILL = 1e-12  # a speed this small, relative to the step's square, is rounding
_NEGLIGIBLE = 1e-14  # a prox term this stiff leaves no step but rounding
_BRACKET = 4e-16  # a bracket of neighbouring numbers


class LevelSearch:
    """The projection of a centre on {model(x) + g(x) <= level}, by a search for the level's multiplier tau.

    For a given tau, the minimiser x(tau) is that of the reduced problem with a prox term of weight 1 / tau.
    The height of the model + g there decreases in tau; with g = 0 it is piecewise linear, so that Newton
    steps, kept inside a bracket, end after finitely many.
    """

    def __init__(self, problem: ProxProblem):
        self._problem = problem
        self._tau = 0.0

    def solve(self, rows: Rows, centre: Array, level: float) -> tuple[Answer, float]:
        """Return the answer, and the factor from the dual's multipliers to those of the level constraint."""
        values = self._problem.values(rows, centre)
        if not (math.isfinite(level) and np.isfinite(values.sum())):
            return Answer(MasterStatus.FAILED, message="the level or the centre is not finite"), 0.0
        excess = self._problem.dual.model(values) + self._problem.regularizer(centre) - level
        tolerance = _ROUNDING * (abs(level) + float(np.abs(values).max()))
        inside = violations(rows.blocks, values).max() <= tolerance and self._problem.contains(centre)
        if inside and excess <= 0.0:
            return Answer(MasterStatus.SOLVED, centre.copy()), 0.0
        low, high, leaps = 0.0, math.inf, 0
        steepest = math.sqrt(max(float(row @ row) for row in rows.slopes))
        tau = self._tau or (abs(excess) / steepest**2 if excess and steepest else 1.0)
        for rounds in range(_ROUNDS):
            check_time()
            answer = self._problem.with_prox(rows, centre, 1.0 / tau, 0.0)
            if answer.x is None:
                return answer, 0.0
            distance = float(np.linalg.norm(answer.x - centre))
            excess, slope = self._excess(rows, answer.x, centre, tau, level)
            if abs(excess) <= tolerance or high <= low * (1.0 + _BRACKET):
                break
            trusted = slope < 0.0 and (low > 0.0 or excess > 0.0 or rounds < _PATIENCE)
            newton = tau - excess / slope if trusted else math.nan
            if excess < 0.0:
                high = tau
                if tau * steepest <= _NEGLIGIBLE * distance:
                    break
            else:
                low = tau
                leaps = 0 if newton < _LEAP * tau or high < math.inf else leaps + 1
                if leaps > 2 and excess * tau > _FAR * distance * (distance + float(np.linalg.norm(centre))):
                    return Answer(MasterStatus.INFEASIBLE, message="the model is above the level"), 0.0
            tau = _next(newton, tau, low, high)
        else:
            return Answer(MasterStatus.FAILED, message=f"the level is missed by {excess:.2g}"), 0.0
        self._tau = tau
        return answer, tau

    def _excess(self, rows: Rows, x: Array, centre: Array, tau: float, level: float) -> tuple[float, float]:
        """Return model(x) + g(x) - level at x = x(tau), and its derivative with respect to tau."""
        problem, dual = self._problem, self._problem.dual
        excess = dual.model(products(rows.slopes, x) + rows.offsets) + self._problem.regularizer(x) - level
        step = problem.free_part(x - centre)
        moved = products(rows.slopes, step)[dual.support]
        speed = float(step @ step) + float(moved @ dual.newton_step(-moved))
        if speed <= _STILL * float(step @ step):
            return excess, 0.0
        return excess, -speed / (tau * tau * (problem.weight * tau + 1.0))


def _next(newton: float, tau: float, low: float, high: float) -> float:
    if low < newton < high:
        return newton
    if high == math.inf:
        return _LEAP * tau
    return math.sqrt(low * high) if low > 0.0 else _DROP * high
