"""The reduced problem with a diagonal quadratic g and a prox term, solved through its dual."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cutplane.masters import active_set
from cutplane.masters.base import MasterStatus, Rows
from cutplane.masters.dual_qp import DualQP, combined
from cutplane.masters.rows import products, sizes_at
from cutplane.pieces.forms import SeparableForm
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, routine
from cutplane.runtime.deadline import check_time

_REFINEMENTS = 50
"""Most solves from exact gradients, because each one adds correct digits and two or three usually suffice."""
_EXACT = 1e-13
"""Relative gap at which a solve ends, because rounding errors have this size."""
_ROUNDING = 1e-12
"""Relative violation of a constraint that counts as zero, because rounding errors have this size."""
_CREDIBLE = 1e-7
"""Relative gap accepted when the active set cannot change any more, because rounding errors may stop it
early."""
_CREDIBLE_IN_BOX = 1e-9
"""Relative gap and violation accepted after the last step in a box, because no better method follows."""
_RESOLUTION = 1e-16
"""Relative rounding error of a number, because float64 has 16 digits."""
_FAR = 1e3
"""Multiple of the half-spaces' largest distance within which they must have a common point, because rounding
errors hide a point farther away."""
_KEPT = 2**15
"""Entries of the rows above which their products with x are kept for the next call with the same x, because
comparing two x is then cheaper."""
_ROUNDS = 15
"""Newton steps from the last active bounds, because two or three usually suffice."""
_LAST_ROUNDS = 60
"""Largest number of Newton steps of the last solve, because no other method follows."""
_PATH = tuple(10.0**k for k in range(6, 0, -1))
"""Factors of M in a sequence of problems, decreasing because each solution is a close start for the next
problem."""
_ENDLESS = 1e100
"""Step length above which the dual counts as unbounded, because a bounded dual has its maximum before."""
_LEAP = 1e3
"""Largest ratio of two step lengths without a bracket, because nothing is known about the function there."""
_SUMMED = 2e-14
"""Relative rounding error of a sum, because the errors of some hundred terms add up."""
_BRACKET = 2.0**-50
"""Relative width of a bracket at which a search ends, because its ends are then nearly neighbouring
floats."""
_AT_LOWER, _AT_UPPER, _AT_ZERO = 2.0, 3.0, 4.0
"""Codes of coordinates that are fixed, above 1 because free coordinates have the codes -1, 0 and 1."""


class Answer(NamedTuple):
    """The status of a solve and the minimiser.

    `ray` has multipliers that prove half-spaces infeasible; `v` is A'a, if it was computed.
    """

    status: MasterStatus
    x: Array | None = None
    message: str = ""
    ray: Array | None = None
    v: Array | None = None


class ProxProblem:
    """Minimise the model + g(x) + weight/2 ||x - centre||^2, for a growing model and any centre and weight.

    With M = diag(weights of g + weight), the metric of the dual is inv(M) / t. If all weights are equal, a
    change of `weight` changes only t, which costs nothing. `unweighted` are the coordinates without a weight
    in g, if others have one.
    """

    def __init__(self, n_blocks: int, regularizer: SeparableForm):
        self.quadratic = regularizer.quadratic
        self.regularizer = regularizer if regularizer.costs.any() else self.quadratic
        weighted = self.quadratic.weights > 0.0
        positive = self.quadratic.weights[weighted]
        self.weight = float(positive[0]) if positive.size else 0.0
        self._equal = bool((positive == self.weight).all())
        same = self._equal and positive.size in (0, weighted.size)
        self._weights = self.weight if same else self.quadratic.weights
        self.unweighted = np.flatnonzero(~weighted) if positive.size else np.empty(0, np.int64)
        self.dual = DualQP(n_blocks)
        self._known: tuple[Array, Array] | None = None
        self._metric_of: tuple[float, float] | None = None

    def forget(self) -> None:
        """Discard the products with the rows."""
        self._known = None

    def values(self, rows: Rows, x: Array) -> Array:
        """Return the value of every row at x; only new rows are multiplied if x has not changed."""
        if not x.any():
            return rows.offsets
        slopes = rows.slopes
        if slopes.shape[0] * x.size < _KEPT:
            return slopes @ x + rows.offsets
        if self._known is not None and np.array_equal(x, self._known[0]):
            found = self._known[1]
            if found.shape[0] < slopes.shape[0]:
                found = np.concatenate([found, slopes[found.shape[0] :] @ x])
        else:
            found = products(slopes, x)
        self._known = (x.copy(), found)
        return found + rows.offsets

    def contains(self, x: Array) -> bool:
        """Tell whether x is in the box."""
        return True

    def free_part(self, step: Array) -> Array:
        """Return a step with zeros in the coordinates at a bound in the last solution."""
        return step

    def step_size(self, rows: Rows, weight: float, kappa: float = 0.0) -> float:
        """Set the metric for the weights of g + `weight`, or `kappa` for unweighted coordinates; return t."""
        t = 1.0 / (self.weight + weight) if self._equal else 1.0
        if (self.unweighted.size or not self._equal) and (weight, kappa) != self._metric_of:
            pattern = 1.0 / (self.quadratic.weights + weight) / t
            if kappa:
                pattern[self.unweighted] = kappa
            self.set_pattern(pattern, rows)
            self._metric_of = weight, kappa
        return t

    def set_pattern(self, pattern: Array, rows: Rows) -> None:
        """Set the metric of the dual."""
        self.dual.set_metric(pattern, rows.slopes)

    def solve(self, rows: Rows, centre: Array | None, weight: float, accuracy: float) -> Answer:
        """Minimise with a prox term of positive weight, or without one if all weights of g are positive."""
        t, middle = self.step_size(rows, weight), self.quadratic.centre
        if centre is not None:
            share = weight / (self._weights + weight)
            middle = centre if self.weight == 0.0 else middle + share * (centre - middle)
        return self.minimise(rows, middle, t, accuracy)

    def minimise(self, rows: Rows, middle: Array, t: float, accuracy: float) -> Answer:
        """Minimise the model + 1/2 ||x - middle||_M^2."""
        return self.minimise_from(rows, middle, self.values(rows, middle), t, accuracy)

    def minimise_from(self, rows: Rows, middle: Array, values: Array, t: float, accuracy: float) -> Answer:
        """Minimise the model + 1/2 ||x - middle||_M^2, given the values of the rows at `middle`."""
        dual, offsets, tol = self.dual, rows.offsets, accuracy / t
        status, gap, error = dual.maximise(values, offsets, t, tol)
        if status == active_set.UNBOUNDED:
            return self._infeasible(rows, values / t)
        v = dual.combination(rows.slopes)
        x = middle - t * dual.in_metric(v)
        exact = error <= tol or error <= _EXACT * dual.size(offsets / t)
        solved = status == active_set.SOLVED and exact and not self.outside(rows, x, _ROUNDING)
        if not solved and status != active_set.NOT_FINITE:
            size = (np.abs(values) + np.abs(offsets)) / t
            base = np.abs(offsets) / t + _RESOLUTION * (size + dual.curvatures())
            v, (status, gap, x) = None, self._refine(rows, x, base, t, tol)
            tol = max(tol, _CREDIBLE * dual.size(base))
        if status == active_set.NOT_FINITE or not math.isfinite(x.sum()):
            dual.restart()
            return Answer(MasterStatus.FAILED, message="an offset, the centre or the answer is not finite")
        if status != active_set.SOLVED and not gap <= tol:
            dual.restart()
            return Answer(MasterStatus.FAILED, message=f"the active set stopped at a gap of {t * gap:.2g}")
        return Answer(MasterStatus.SOLVED, x, v=v)

    def outside(self, rows: Rows, x: Array, tolerance: float) -> bool:
        """Tell whether x violates a half-space or an equation by more than `tolerance` times its terms."""
        if not self.dual.constraints.size:
            return False
        excess = violations(rows.blocks, products(rows.slopes, x) + rows.offsets)
        violated = np.flatnonzero(excess > 0.0)
        sizes = sizes_at(rows.slopes[violated], x) + np.abs(rows.offsets[violated])
        return bool(np.any(excess[violated] > tolerance * sizes))

    def _refine(self, rows: Rows, x: Array, base: Array, t: float, tol: float) -> tuple[int, float, Array]:
        """Continue from gradients computed at x, which are more exact than those of the Gram matrix."""
        dual = self.dual
        status, gap = active_set.STALLED, np.inf
        for _ in range(_REFINEMENTS):
            gradient = (products(rows.slopes, x) + rows.offsets) / t
            status, gap, _ = dual.refine(gradient, base, dual.length(x) / t, tol)
            moved = np.flatnonzero(dual.moved)
            if not moved.size:
                return status, gap, x
            x = x - t * dual.in_metric(combined(dual.moved, rows.slopes, moved))
        return active_set.STALLED, gap, x

    def _infeasible(self, rows: Rows, q: Array) -> Answer:
        """Check that the half-spaces, combined by the ray, exclude all points within a long distance."""
        dual = self.dual
        free = dual.support
        ray = np.zeros(dual.count)
        ray[free] = np.where(rows.blocks[free] == active_set.EQUATION, dual.ray, np.maximum(dual.ray, 0.0))
        ray /= np.abs(ray).max()
        normal = np.linalg.norm(dual.in_metric(combined(ray, rows.slopes, free)))
        lengths = np.sqrt(dual.hessian.diagonal()[free])
        distance = float(np.max(np.abs(q[free]) / lengths, initial=0.0, where=lengths > 0.0))
        if float(ray[free] @ q[free]) > _FAR * distance * normal:
            return Answer(MasterStatus.INFEASIBLE, None, "the half-spaces have no common point", ray)
        return Answer(MasterStatus.FAILED, None, "the half-spaces are too close to infeasible", ray)


def violations(blocks: Array, heights: Array) -> Array:
    """Return the violation of each half-space or equation, given the values of the rows; -inf for cuts."""
    outside = np.where(blocks == active_set.EQUATION, np.abs(heights), heights)
    return np.where(blocks < 0, outside, -np.inf)


class BoundedProblem(ProxProblem):
    """`ProxProblem` with <costs, |x|> added, over lower <= x <= upper; every weight of g + prox is positive.

    For multipliers a, the minimiser x(a) is middle - inv(M) A'a, soft-thresholded by inv(M) costs and clipped
    to the box. The dual is concave, once differentiable and piecewise quadratic. A Newton step is a solve of
    the active-set method that fixes the coordinates at a bound, and those at zero because of their cost. An
    exact line search increases the dual, so that finitely many steps suffice. If they do not converge,
    problems with a larger M are solved first, with M decreasing to its value.
    """

    def __init__(self, n_blocks: int, regularizer: SeparableForm, lower: Array, upper: Array):
        super().__init__(n_blocks, regularizer)
        self._costs, self._has_costs = regularizer.costs, bool(regularizer.costs.any())
        self._lower, self._upper = read_only(lower), read_only(upper)
        self._pattern = np.ones_like(lower)
        self._piece: Array | None = None
        """The sign of each free coordinate (0 without a cost), or _AT_LOWER, _AT_UPPER or _AT_ZERO."""
        self._at_bound = np.zeros_like(lower)
        self.dual.metric = self._pattern

    def contains(self, x: Array) -> bool:
        return bool(np.all(x >= self._lower) and np.all(x <= self._upper))

    def free_part(self, step: Array) -> Array:
        return step if self._piece is None else np.where(np.abs(self._piece) <= 1.0, step, 0.0)

    def set_pattern(self, pattern: Array, rows: Rows) -> None:
        self._pattern = pattern

    def minimise(self, rows: Rows, middle: Array, t: float, accuracy: float) -> Answer:
        if not np.isfinite(middle.sum()):
            return Answer(MasterStatus.FAILED, message="the centre of the prox term is not finite")
        answer = self._newton(rows, middle, t, accuracy, _ROUNDS)
        if answer.status is not MasterStatus.FAILED:
            return answer
        self.dual.restart()
        self._piece = None
        for stiffness in _PATH:
            self._newton(rows, middle, t / stiffness, accuracy, _ROUNDS)
        return self._newton(rows, middle, t, accuracy, _LAST_ROUNDS)

    def _newton(self, rows: Rows, middle: Array, t: float, accuracy: float, rounds: int) -> Answer:
        """Maximise the dual from the multipliers and the active bounds of the last solve."""
        dual, slopes = self.dual, rows.slopes
        scale = t * self._pattern
        shift = scale * self._costs
        a = x = None
        v = new = middle
        for number in range(rounds):
            check_time()
            guess = self._piece if number == 0 else None
            if guess is None and a is None:
                dual.begin(self.values(rows, middle) / t)
                a, v = dual.multipliers, dual.combination(slopes)
            piece = self._minimiser(middle - scale * v, shift)[1] if guess is None else guess
            free = np.abs(piece) <= 1.0
            target = middle - np.where(free, shift * piece, 0.0) if self._has_costs else middle
            answer = self._with_fixed(rows, target, piece, free, t, accuracy)
            if answer.x is None:
                if answer.ray is None:
                    return answer
                if guess is not None:
                    dual.restart()
                    continue
                step, dv = answer.ray, combined(answer.ray, slopes, np.flatnonzero(answer.ray))
                used = np.flatnonzero(step)
                dv[np.abs(dv) <= _ROUNDING * (np.abs(step[used]) @ np.abs(slopes[used]))] = 0.0
            else:
                new = dual.combination(slopes) if answer.v is None else answer.v
                reached = np.where(free, answer.x + middle - target, middle - scale * new)
                x, new_piece = self._minimiser(reached, shift)
                settled = np.array_equal(piece, new_piece) and not self.outside(rows, x, _CREDIBLE_IN_BOX)
                if settled or self._is_solution(rows, x, accuracy, False):
                    return Answer(MasterStatus.SOLVED, x)
                if guess is not None:
                    a, v = dual.multipliers, new
                    continue
                step, dv = dual.multipliers - a, new - v
            slope, limit = float(step @ rows.offsets), 1.0 if answer.ray is None else np.inf
            box = self._lower, self._upper
            length = line_maximum(read_only(middle), scale, shift, v, dv, *box, slope, limit)
            if length == np.inf:
                return Answer(MasterStatus.INFEASIBLE, message="the half-spaces exclude the feasible set")
            if length == 0.0:
                break
            if length == limit:
                a, v = dual.multipliers, new
                continue
            a, v = a + length * step, v + length * dv
            dual.set_multipliers(a)
        if x is not None and self._is_solution(rows, x, accuracy, True):
            return Answer(MasterStatus.SOLVED, x)
        return Answer(MasterStatus.FAILED, message="the search for the active bounds did not end")

    def _minimiser(self, target: Array, shift: Array) -> tuple[Array, Array]:
        """Return the target, soft-thresholded by `shift` and clipped, and its codes, as in `_piece`."""
        if not self._has_costs:
            x = np.minimum(np.maximum(target, self._lower), self._upper)
            return x, np.where(target > x, _AT_UPPER, np.where(target < x, _AT_LOWER, 0.0))
        moved = np.sign(target) * np.maximum(np.abs(target) - shift, 0.0)
        x = np.minimum(np.maximum(moved, self._lower), self._upper)
        fixed = np.where(moved > x, _AT_UPPER, np.where(moved < x, _AT_LOWER, _AT_ZERO))
        free = (moved == x) & ((moved != 0.0) | (shift == 0.0))
        return x, np.where(free, np.where(shift > 0.0, np.sign(x), 0.0), fixed)

    def _with_fixed(
        self, rows: Rows, target: Array, piece: Array, free: Array, t: float, accuracy: float
    ) -> Answer:
        """Minimise over the free coordinates; `target` is their minimiser if there are no rows."""
        if piece is not self._piece:
            at_upper = np.where(piece == _AT_UPPER, self._upper, 0.0)
            self._at_bound = np.where(piece == _AT_LOWER, self._lower, at_upper)
        self._piece = piece
        anchor = np.where(free, target, self._at_bound)
        self.dual.set_metric(np.where(free, self._pattern, 0.0), rows.slopes)
        return self.minimise_from(rows, anchor, products(rows.slopes, anchor) + rows.offsets, t, accuracy)

    def _is_solution(self, rows: Rows, x: Array, accuracy: float, at_the_end: bool) -> bool:
        """Tell whether x is feasible with a small gap; tolerances are larger `at_the_end`."""
        a, offsets = np.abs(self.dual.multipliers), np.abs(rows.offsets)
        heights = products(rows.slopes, x) + rows.offsets
        gap = abs(self.dual.model(heights) - float(self.dual.multipliers @ heights))
        if at_the_end:
            allowed = _CREDIBLE_IN_BOX * float(a @ (sizes_at(rows.slopes, x) + offsets))
        else:
            allowed = max(accuracy, _EXACT * float(a @ (np.abs(heights) + offsets)))
        return gap <= allowed and not self.outside(rows, x, _CREDIBLE_IN_BOX if at_the_end else _ROUNDING)


@routine(fastmath=SUMS)
def line_maximum(middle, scale, shift, v, dv, lower, upper, constant, limit):
    """Maximise over s in [0, limit] the concave function whose derivative is

        constant + <dv, x(s)>,  x(s) = middle - scale (v + s dv), soft-thresholded by shift and clipped,

    piecewise linear, by Newton's method on the derivative inside a bracket; inf if it is unbounded.
    """
    low = 0.0
    high = limit
    s = min(1.0, limit)
    for _ in range(200):
        value = constant
        descent = 0.0
        size = abs(constant)
        for j in range(v.shape[0]):
            x = middle[j] - scale[j] * (v[j] + s * dv[j])
            x = max(x - shift[j], 0.0) + min(x + shift[j], 0.0)
            if x < lower[j]:
                x = lower[j]
            elif x > upper[j]:
                x = upper[j]
            elif x != 0.0 or shift[j] == 0.0:
                descent += scale[j] * dv[j] * dv[j]
            value += dv[j] * x
            size += abs(dv[j] * x)
        if s == limit and value >= 0.0:
            return s
        if abs(value) <= _SUMMED * size:
            return s
        if value > 0.0:
            low = s
        else:
            high = s
        if high <= low * (1.0 + _BRACKET):
            return low
        newton = s + value / descent if descent > 0.0 else np.inf
        if low < newton < high:
            s = newton
        elif high < np.inf:
            s = 0.5 * (low + high)
        elif s > _ENDLESS:
            return np.inf
        else:
            s = min(_LEAP * s, newton)
    return low
