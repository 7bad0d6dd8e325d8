"""The solution of a problem in some of its coordinates, by sweeps and Newton steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cutplane.linear.columns import Columns
from cutplane.linear.examples import Examples
from cutplane.linear.terms import Terms
from cutplane.pieces.validation import Array
from cutplane.runtime.deadline import check_time

_PER_PRODUCT, _PER_CUBE, _CALLS = 0.15, 0.1, 1e6
"""What a product of a Gram matrix, a cubed unknown of a linear system, and the calls around them cost, in
entries of the data visited by a sweep."""
_ARMIJO = 0.01
_HALVINGS = 30
_ATTEMPTS = 5
_PIVOTS = 5
_RIDGE = 1e-12
_MOST_UNKNOWNS = 2000
"""A Gram matrix of 32 MB."""
_ROUNDS = 200


@dataclass(eq=False)
class Position:
    """A point, its predictions, and what has been spent on the way.

    Attributes
    ----------
    x : ndarray of shape (dim,)
    z : ndarray of shape (m,)
    visited : float
        Entries of the data.
    damping : float
        The share of the largest second derivative that the model of a loss has at least.
    """

    x: Array
    z: Array
    visited: float = 0.0
    damping: float = 1.0
    sharpness: float = 0.1
    patience: float = 1.0


class WorkingSet:
    """min over some coordinates of the sum of the losses and their terms; the others stay where they are.

    A round makes a quadratic model of the losses, which are replaced by it where they have no constant
    second derivative, and either sweeps over the coordinates of the model, or takes a Newton step in those
    that are free to move. Sweeps are as fast as their falls tell; where they are expected to cost more than
    the Newton step, it is taken.
    """

    def __init__(self, examples: Examples, terms: Terms, columns: Columns, which: Array, position: Position):
        self.examples = examples
        self.terms = terms
        self.columns = columns
        self.which = which
        self.position = position
        self.x = position.x[which]

    def solve(self, tolerance: float) -> bool:
        """Do rounds until the gap of these coordinates is within the tolerance; tell whether x moved."""
        position, columns, moved = self.position, self.columns, False
        newton, done, gap = False, False, math.inf
        position.sharpness = min(0.1, 10.0 * position.sharpness)
        examples, free = self.examples, np.flatnonzero(self.terms.free)
        for _ in range(_ROUNDS):
            check_time()
            r, d = examples.slopes(position.z), examples.bends(position.z, position.damping)
            slopes, bends = columns.slopes(d, r)
            position.visited += columns.entries
            factor, gap = self.terms.outlook(self.x, slopes, free)
            gap += examples.excess(factor, position.z, r, d) + self._left(slopes, bends)
            if gap <= tolerance:
                break
            if done:
                position.sharpness *= 0.1
            moving = np.flatnonzero(self.terms.moves(self.x))
            step = self._newton(moving, slopes, d) if newton else None
            if step is None:
                x = self.x.copy()
                position.patience = max(1.0, position.patience)
                budget = position.patience * self._cost_of_newton(moving)
                goal = position.sharpness * (tolerance if examples.quadratic else max(tolerance, 0.1 * gap))
                visited, done = columns.descend(x, self.terms.arrays, bends, d, r, goal, budget)
                position.visited += visited
                newton = not done
                step = x - self.x
                if not self._advance(step, slopes, 0 if examples.quadratic else _HALVINGS):
                    break
                moved = True
            else:
                newton = done = False
                worked = self._advance(step, slopes, _ATTEMPTS)
                moved |= worked
                position.patience *= 0.5 if worked else 4.0
        position.x[self.which] = self.x
        return moved

    def _left(self, slopes: Array, bends: Array) -> float:
        """Return what free coordinates may still gain."""
        free = self.terms.free
        if not free.any():
            return 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = np.where(slopes[free] == 0.0, 0.0, 0.5 * slopes[free] ** 2 / bends[free])
        return float(gains.sum())

    def _cost_of_newton(self, moving: Array) -> float:
        if not 0 < moving.size <= _MOST_UNKNOWNS:
            return math.inf
        products = self.columns.cost_of_gram(moving)
        return _CALLS + _PER_PRODUCT * products + _PER_CUBE * moving.size**3

    def _newton(self, moving: Array, slopes: Array, d: Array) -> Array | None:
        """Minimise the model over the coordinates that can move, dropping those that come to a kink."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        self.position.visited += self._cost_of_newton(moving)
        terms, x, g = self.terms.on(moving), self.x[moving], slopes[moving]
        hessian = self.columns.gram(moving, d)
        diagonal = np.einsum("jj->j", hessian)
        diagonal += terms.weights
        diagonal += _RIDGE * diagonal.max(initial=0.0)
        rest = np.arange(moving.size)
        for _ in range(_PIVOTS):
            part = terms.on(rest)
            gradient = g[rest] + part.slope(x[rest])
            try:
                factor = cho_factor(hessian[np.ix_(rest, rest)], lower=True, check_finite=False)
            except LinAlgError:
                break
            step = -cho_solve(factor, gradient, check_finite=False)
            ahead, whole = to_kink(x[rest], step, part, -float(step @ gradient))
            change = hessian[:, rest] @ (ahead - x[rest])
            change[rest] -= part.weights * (ahead - x[rest])
            g += change
            x[rest] = ahead
            rest = rest[part.moves(ahead)]
            if whole or not rest.size:
                break
        else:
            self.position.patience *= 4.0
        step = np.zeros_like(self.x)
        step[moving] = x - self.x[moving]
        return step if step.any() else None

    def _advance(self, step: Array, slopes: Array, halvings: int) -> bool:
        """Go along the step as far as the objective falls; tell whether it does."""
        position, value, terms = self.position, self.examples.value, self.terms
        move = np.zeros_like(position.z)
        self.columns.add(step, move)
        if not halvings:
            position.z = position.z + move
            self.x = self.x + step
            return bool(step.any())
        own = terms(self.x)
        start = value(position.z)
        t = 1.0
        for _ in range(halvings):
            x = self.x + t * step if t < 1.0 else self.x + step
            z = position.z + t * move
            expected = t * float(slopes @ step) + terms(x) - own
            change = value(z) - start + terms(x) - own
            if change <= _ARMIJO * min(expected, 0.0):
                break
            t *= 0.5
            position.damping = min(1.0, 8.0 * position.damping)
        else:
            return False
        if t == 1.0:
            position.damping /= 8.0
        position.z = z
        self.x = np.where(self.x + step == 0.0, 0.0, x) if t == 1.0 else x
        return bool(step.any())


def to_kink(x: Array, step: Array, terms: Terms, bend: float) -> tuple[Array, bool]:
    """Go along a Newton step to the minimum of the model; tell whether that is its end.

    The derivative is -bend at its beginning and 0 at its end, but for the kinks on the way, where signs
    change, and the bounds, where it ends.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kinks = np.where((step != 0.0) & (terms.costs > 0.0), -x / step, math.inf)
        side = np.where(step > 0.0, terms.high, terms.low)
        ends = np.where(np.isfinite(side) & (step != 0.0), (side - x) / step, math.inf)
    kinks[kinks <= 0.0] = math.inf
    last = float(ends.min(initial=1.0))
    slope = -bend
    t = min(1.0, last)
    for k in np.argsort(kinks):
        if not kinks[k] < t:
            break
        if slope + kinks[k] * bend >= 0.0:
            t = min(t, -slope / bend)
            break
        slope += 2.0 * terms.costs[k] * abs(step[k])
        if slope + kinks[k] * bend >= 0.0:
            t = float(kinks[k])
            break
    else:
        t = min(t, -slope / bend) if bend > 0.0 else t
    t = max(t, 0.0)
    ahead = np.clip(x + t * step, terms.low, terms.high)
    ahead[kinks == t] = 0.0
    if t == last:
        ahead[ends == t] = side[ends == t]
    return ahead, t == 1.0
