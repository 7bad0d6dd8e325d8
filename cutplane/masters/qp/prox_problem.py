"""The reduced problem with a diagonal quadratic g and a prox term, solved through its dual."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutplane.masters.base import MasterStatus, Rows
from cutplane.masters.qp import active_set
from cutplane.masters.qp.dual_qp import DualQP
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

_REFINEMENTS = 50
_FAR = 1e3
_EXACT = 1e-13
_ROUNDING = 1e-12
_CREDIBLE = 1e-7
_RESOLUTION = 1e-16


class Answer(NamedTuple):
    """How a solve ended, and the minimiser."""

    status: MasterStatus
    x: Array | None = None
    message: str = ""
    ray: Array | None = None
    """Multipliers of half-spaces that exclude each other, if that is why there is no minimiser."""


class ProxProblem:
    """Minimise the model + g(x) + weight/2 ||x - centre||^2, for a growing model and any centre and weight.

    The metric M = diag(weights of g + weight) is 1/t times a pattern that is part of the dual's Gram matrix,
    so that a change of t alone costs nothing. Coordinates that g does not weigh, if it weighs others, are
    `loose`.

    Parameters
    ----------
    n_blocks : int
    quadratic : DiagonalQuadratic
    split : bool, default True
        Whether loose coordinates have a Gram matrix of their own, so that their weight can differ cheaply.
    """

    def __init__(self, n_blocks: int, quadratic: DiagonalQuadratic, split: bool = True):
        self.quadratic = quadratic
        weighted = quadratic.weights > 0.0
        positive = quadratic.weights[weighted]
        self.weight = float(positive[0]) if positive.size else 0.0
        equal = bool((positive == self.weight).all())
        self.uniform = equal and (split or positive.size in (0, weighted.size))
        self.loose = np.flatnonzero(~weighted) if positive.size and split else np.empty(0, np.int64)
        pattern = weighted.astype(np.float64) if self.loose.size else None
        self.dual = DualQP(n_blocks, pattern, None if pattern is None else 1.0 - pattern)
        self._known: tuple[Array, Array] | None = None
        self._metric_of: float | None = None

    def forget_values(self) -> None:
        """Forget what is known per row, because rows were deleted."""
        self._known = None

    def values(self, rows: Rows, x: Array) -> Array:
        """Return the value of every row at x; if x is that of the last call, only new rows are multiplied."""
        if not x.any():
            return rows.offsets
        slopes, known = rows.slopes, 0
        if self._known is None or not np.array_equal(x, self._known[0]):
            products = slopes @ x
        else:
            known = self._known[1].shape[0]
            products = np.concatenate([self._known[1], slopes[known:] @ x])
        if known < products.shape[0]:
            self._known = (x.copy(), products)
        return products + rows.offsets

    def contains(self, x: Array) -> bool:
        """Tell whether x is in the domain, whatever the half-spaces."""
        return True

    def free_part(self, step: Array) -> Array:
        """Return the part of a step in x that the domain leaves free, at the last solution."""
        return step

    def step_size(self, rows: Rows, weight: float) -> float:
        """Set the metric to the weights of g + `weight`, and return t."""
        if self.uniform:
            t = 1.0 / (self.weight + weight)
        else:
            t = 1.0
            if weight != self._metric_of:
                metric = 1.0 / (self.quadratic.weights + weight)
                metric[self.loose] = 0.0
                self.dual.set_metric(metric, rows.slopes)
                self._metric_of = weight
        if self.loose.size and weight > 0.0:
            self.dual.set_kappa(1.0 / (t * weight))
        return t

    def plain(self, rows: Rows, accuracy: float) -> Answer:
        """Solve without a prox term; g has no zero weight."""
        return self.minimise(rows, self.quadratic.centre, self.step_size(rows, 0.0), accuracy)

    def with_prox(self, rows: Rows, centre: Array, weight: float, accuracy: float) -> Answer:
        """Solve with a prox term of positive weight."""
        t = self.step_size(rows, weight)
        if self.weight == 0.0:
            return self.minimise(rows, centre, t, accuracy)
        weights = self.quadratic.weights
        middle = (weights * self.quadratic.centre + weight * centre) / (weights + weight)
        return self.minimise(rows, middle, t, accuracy)

    def minimise(self, rows: Rows, middle: Array, t: float, accuracy: float) -> Answer:
        """Minimise the model + 1/2 ||x - middle||_M^2."""
        return self.minimise_from(rows, middle, self.values(rows, middle), t, accuracy)

    def minimise_from(self, rows: Rows, middle: Array, values: Array, t: float, accuracy: float) -> Answer:
        """Minimise the model + 1/2 ||x - middle||_M^2, given the values of the rows at `middle`."""
        dual = self.dual
        q, tol = values / t, accuracy / t
        if not np.isfinite(q.sum()):
            return Answer(MasterStatus.FAILED, message="an offset or the prox centre is not finite")
        size = np.abs(q) + np.abs(rows.offsets) / t
        status, gap, error = dual.maximise(q, size, tol)
        if status == active_set.UNBOUNDED:
            return self._infeasible(rows, q)
        x = middle - t * dual.in_metric(dual.aggregate(dual.multipliers, rows.slopes))
        exact = error <= tol or error <= _EXACT * dual.size(rows.offsets / t)
        if status != active_set.SOLVED or not exact or self.outside(rows, x, _ROUNDING):
            base = np.abs(rows.offsets) / t + _RESOLUTION * (size + dual.curvatures())
            status, gap, x = self._refine(rows, x, base, t, tol)
            tol = max(tol, _CREDIBLE * dual.size(base))
        if status == active_set.NOT_FINITE or not np.isfinite(x.sum()):
            dual.restart()
            return Answer(MasterStatus.FAILED, message="the answer is not finite")
        if status != active_set.SOLVED and not gap <= tol:
            dual.restart()
            return Answer(MasterStatus.FAILED, message=f"the active set stopped at a gap of {t * gap:.2g}")
        return Answer(MasterStatus.SOLVED, x)

    def outside(self, rows: Rows, x: Array, tolerance: float) -> bool:
        """Tell whether x violates a half-space or an equation, relative to the terms it is the sum of."""
        chosen = self.dual.constraints
        if not chosen.size:
            return False
        slopes, offsets = rows.slopes[chosen], rows.offsets[chosen]
        sizes = np.abs(slopes) @ np.abs(x) + np.abs(offsets)
        return bool(np.any(violations(rows.blocks[chosen], slopes @ x + offsets) > tolerance * sizes))

    def _refine(self, rows: Rows, x: Array, base: Array, t: float, tol: float) -> tuple[int, float, Array]:
        """Solve on from gradients computed at x, more exact than those computed from the Gram matrix."""
        dual = self.dual
        status, gap = active_set.STALLED, np.inf
        for _ in range(_REFINEMENTS):
            check_time()
            gradient = (rows.slopes @ x + rows.offsets) / t
            status, gap, _ = dual.refine(gradient, base, dual.length(x) / t, tol)
            changed = np.flatnonzero(dual.moved)
            if not changed.size:
                return status, gap, x
            x = x - t * dual.in_metric(dual.moved[changed] @ rows.slopes[changed])
        return active_set.STALLED, gap, x

    def _infeasible(self, rows: Rows, q: Array) -> Answer:
        """Check that the half-spaces of the ray, combined, exclude every point that is not very far away."""
        dual = self.dual
        free = dual.support
        ray = np.zeros(dual.count)
        ray[free] = np.where(rows.blocks[free] == active_set.EQUATION, dual.ray, np.maximum(dual.ray, 0.0))
        ray /= np.abs(ray).max()
        normal = np.linalg.norm(dual.in_metric(dual.aggregate(ray, rows.slopes)))
        lengths = np.sqrt(dual.hessian.diagonal()[free])
        distance = float(np.max(np.abs(q[free]) / lengths, initial=0.0, where=lengths > 0.0))
        if float(ray[free] @ q[free]) > _FAR * distance * normal:
            return Answer(MasterStatus.INFEASIBLE, None, "the half-spaces have no common point", ray)
        return Answer(MasterStatus.FAILED, None, "the half-spaces are too close to infeasible", ray)


def violations(blocks: Array, heights: Array) -> Array:
    """Return how far each half-space or equation is violated, given the rows' heights; -inf for cuts."""
    outside = np.where(blocks == active_set.EQUATION, np.abs(heights), heights)
    return np.where(blocks < 0, outside, -np.inf)
