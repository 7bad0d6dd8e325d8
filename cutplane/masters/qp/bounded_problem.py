"""The reduced problem over a box, solved by Newton's method on its dual."""

from __future__ import annotations

import numpy as np

from cutplane.masters.base import MasterStatus, Rows
from cutplane.masters.qp import active_set
from cutplane.masters.qp.prox_problem import Answer, ProxProblem
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

_ROUNDS = 15
_LAST_ROUNDS = 60
_PATH = tuple(10.0**k for k in range(6, 0, -1))
_EXACT = 1e-13
_ROUNDING = 1e-12
_CREDIBLE = 1e-9


class BoundedProblem(ProxProblem):
    """`ProxProblem` over lower <= x <= upper; every weight of g + prox is positive.

    For multipliers a the minimiser is x(a) = clip(middle - inv(M) A'a, lower, upper), and the dual is
    concave, once differentiable and piecewise quadratic. A Newton step solves it by the active set with the
    clipped coordinates fixed; an exact line search in the dual makes the iteration ascend, so that it ends
    after finitely many. Where M is so weak that steps become short, the solution is followed from that of a
    stiffer M.

    Parameters
    ----------
    n_blocks : int
    quadratic : DiagonalQuadratic
    lower, upper : ndarray of shape (dim,)
    """

    def __init__(self, n_blocks: int, quadratic: DiagonalQuadratic, lower: Array, upper: Array):
        super().__init__(n_blocks, quadratic, split=False)
        self._lower, self._upper = lower, upper
        self._pattern = np.ones_like(lower)
        self._side: Array | None = None
        """1 where x is fixed at its lower bound, -1 where at its upper bound, else 0."""
        self.dual.gram.metric = self._pattern

    def contains(self, x: Array) -> bool:
        """Tell whether x lies in the box."""
        return bool(np.all(x >= self._lower) and np.all(x <= self._upper))

    def free_part(self, step: Array) -> Array:
        """Return the step without the coordinates that are at a bound."""
        return step if self._side is None else np.where(self._side == 0.0, step, 0.0)

    def step_size(self, rows: Rows, weight: float) -> float:
        """Return t, and set the pattern so that the metric is the pattern over t."""
        if self.uniform:
            return 1.0 / (self.weight + weight)
        self._pattern = 1.0 / (self.quadratic.weights + weight)
        return 1.0

    def minimise(self, rows: Rows, middle: Array, t: float, accuracy: float) -> Answer:
        """Minimise the model + 1/2 ||x - middle||_M^2 over the box."""
        if not np.isfinite(middle.sum()):
            return Answer(MasterStatus.FAILED, message="the centre of the prox term is not finite")
        answer = self._newton(rows, middle, t, accuracy, _ROUNDS)
        if answer.status is not MasterStatus.FAILED:
            return answer
        for stiffness in _PATH:
            self._newton(rows, middle, t / stiffness, accuracy, _ROUNDS)
        return self._newton(rows, middle, t, accuracy, _LAST_ROUNDS)

    def _newton(self, rows: Rows, middle: Array, t: float, accuracy: float, rounds: int) -> Answer:
        """Maximise the dual, starting from the multipliers and the active bounds of the last solve."""
        dual, slopes = self.dual, rows.slopes
        scale = t * self._pattern
        dual.begin(self.values(rows, middle) / t)
        a = dual.multipliers
        v = dual.aggregate(a, slopes)
        x = None
        for number in range(rounds):
            check_time()
            guessed = number == 0 and self._side is not None
            side = self._side if number == 0 else None
            if side is None:
                side = self._clip(middle - scale * v)[1]
            answer = self._with_fixed_bounds(rows, middle, side, t, accuracy)
            if answer.x is None and answer.ray is None:
                return answer
            step = dual.multipliers - a if answer.ray is None else answer.ray
            dv = step @ slopes
            if answer.ray is not None:
                dv[np.abs(dv) <= _ROUNDING * (np.abs(step) @ np.abs(slopes))] = 0.0
            if answer.x is not None:
                x, new_side = self._clip(np.where(side == 0.0, answer.x, middle - scale * (v + dv)))
                if self._is_solution(rows, x, dual.multipliers, accuracy, np.array_equal(side, new_side)):
                    return Answer(MasterStatus.SOLVED, x)
            limit = 1.0 if answer.ray is None else np.inf
            length = 1.0
            if not (guessed and answer.ray is None):
                slope = float(step @ rows.offsets)
                length = active_set.line_maximum(middle, scale, v, dv, self._lower, self._upper, slope, limit)
            if length == np.inf:
                return Answer(MasterStatus.INFEASIBLE, message="the half-spaces exclude the feasible set")
            if length == 0.0 and not guessed:
                break
            a = a + length * step
            v = v + length * dv
            if length < limit:
                dual.move_to(a)
        if x is not None and self._is_solution(rows, x, dual.multipliers, accuracy, True):
            return Answer(MasterStatus.SOLVED, x)
        return Answer(MasterStatus.FAILED, message="the search for the active bounds did not end")

    def _clip(self, target: Array) -> tuple[Array, Array]:
        x = np.clip(target, self._lower, self._upper)
        return x, np.sign(x - target)

    def _with_fixed_bounds(self, rows: Rows, middle: Array, side: Array, t: float, accuracy: float) -> Answer:
        """Minimise over the coordinates that are not at a bound."""
        self._side = side
        at_bound = np.where(side > 0.0, self._lower, self._upper)
        anchor = np.where(side == 0.0, middle, at_bound)
        self.dual.set_metric(np.where(side == 0.0, self._pattern, 0.0), rows.slopes)
        return self.minimise_from(rows, anchor, rows.slopes @ anchor + rows.offsets, t, accuracy)

    def _is_solution(self, rows: Rows, x: Array, a: Array, accuracy: float, settled: bool) -> bool:
        """Tell whether x = x(a) satisfies the constraints with a duality gap that is small enough.

        If the active bounds are settled, nothing but rounding can be wrong, and more of it is forgiven.
        """
        heights = rows.slopes @ x + rows.offsets
        gap = abs(self.dual.model(heights) - float(a @ heights))
        size = float(np.abs(a) @ (np.abs(heights) + np.abs(rows.offsets)))
        if gap <= max(accuracy, _EXACT * size) and not self.outside(rows, x, _ROUNDING):
            return True
        if not settled:
            return False
        size = float(np.abs(a) @ (np.abs(rows.slopes) @ np.abs(x) + np.abs(rows.offsets)))
        return gap <= _CREDIBLE * size and not self.outside(rows, x, _CREDIBLE)
