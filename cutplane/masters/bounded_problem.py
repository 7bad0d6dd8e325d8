"""The reduced problem over a box, solved by Newton's method on its dual."""

from __future__ import annotations

import numpy as np

from cutplane.forms import DiagonalQuadratic
from cutplane.masters import active_set
from cutplane.masters.base import MasterStatus, Rows
from cutplane.masters.prox_problem import Answer, ProxProblem
from cutplane.validation import Array

_ROUNDS = 15
_PATH = tuple(10.0**k for k in range(6, 0, -1))
_LAST_ROUNDS = 60
_EXACT = 1e-13
_ROUNDING = 1e-12
_CREDIBLE = 1e-9


class BoundedProblem(ProxProblem):
    """`ProxProblem` over lower <= x <= upper, with all weights positive once the prox term is added.

    For multipliers a, x(a) = clip(middle - inv(M) A'a). The dual is concave, once differentiable and piecewise quadratic. A Newton
    step solves it with the clipped coordinates fixed, by the active set; an exact line search in the dual makes the
    iteration ascend, so that it ends after finitely many. Where M is so weak that steps are short, the solution is followed from a
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
        self.dual.gram.metric = self._pattern

    def contains(self, x: Array) -> bool:
        """Tell whether x lies in the box."""
        return bool(np.all(x >= self._lower) and np.all(x <= self._upper))

    def free_part(self, step: Array) -> Array:
        """Return the step without the coordinates that are at a bound."""
        assert self.dual.gram.metric is not None
        return np.where(self.dual.gram.metric > 0.0, step, 0.0)

    def step_size(self, rows: Rows, weight: float) -> float:
        """Set the metric to the weights of g + `weight`, and return t."""
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
        dual, slopes, offsets = self.dual, rows.slopes, rows.offsets
        scale = t * self._pattern
        dual.begin(self.values(rows, middle) / t)
        a = dual.multipliers
        v = dual.aggregate(a, slopes)
        for _ in range(rounds):
            target = middle - scale * v
            x = np.clip(target, self._lower, self._upper)
            side = np.sign(x - target)
            fixed = side != 0.0
            anchor = np.where(fixed, x, middle)
            dual.set_metric(np.where(fixed, 0.0, self._pattern), slopes)
            answer = self.minimise_from(rows, anchor, slopes @ anchor + offsets, t, accuracy)
            if answer.x is None and answer.ray is None:
                return answer
            direction = dual.multipliers - a if answer.ray is None else answer.ray
            dv = direction @ slopes
            if answer.x is not None:
                target = np.where(fixed, middle - scale * (v + dv), answer.x)
                x = np.clip(target, self._lower, self._upper)
                gap, exact = self._gap(rows, x, a + direction)
                if gap <= max(accuracy, exact) or np.array_equal(np.sign(x - target), side):
                    return Answer(MasterStatus.SOLVED, x)
            limit = 1.0 if answer.ray is None else np.inf
            length = active_set.line_maximum(
                middle, scale, v, dv, self._lower, self._upper, float(direction @ offsets), limit
            )
            if length == np.inf:
                return Answer(MasterStatus.INFEASIBLE, message="the half-spaces and the set have no common point")
            if not length > 0.0:
                break
            a = a + length * direction
            v = v + length * dv
            if length != limit:
                dual.move_to(a)
        if answer.x is not None and gap <= _CREDIBLE / _EXACT * exact:
            return Answer(MasterStatus.SOLVED, x)
        return Answer(MasterStatus.FAILED, message="the search for the active bounds did not end")

    def _gap(self, rows: Rows, x: Array, multipliers: Array) -> tuple[float, float]:
        """Return the duality gap at x, inf if a half-space is violated, and what it may be by rounding."""
        values = rows.slopes @ x
        heights = values + rows.offsets
        outside = np.flatnonzero((rows.blocks < 0) & (heights > 0.0))
        if outside.size:
            size = np.abs(rows.slopes[outside]) @ np.abs(x) + np.abs(rows.offsets[outside])
            if np.any(heights[outside] > _ROUNDING * size):
                return np.inf, 0.0
        size = float(multipliers @ (np.abs(values) + np.abs(rows.offsets)))
        return self.dual.model(heights) - float(multipliers @ heights), _EXACT * size
