"""The solution of a problem in some of its coordinates, by sweeps and Newton steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutplane.linear.columns import Columns
from cutplane.linear.examples import Examples
from cutplane.linear.terms import Terms
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import CANCELLED
from cutplane.runtime.deadline import check_time

PER_PRODUCT, PER_CUBE, _CALLS = 0.15, 0.25, 1e6
"""What a product of a Gram matrix, a cubed unknown of some linear systems, and the calls around them cost, in
entries of the data visited by a sweep."""
MOST_UNKNOWNS = 2000
"""A Gram matrix of 32 MB."""
RIDGE = 1e-12
"""Columns that depend on one another leave a Gram matrix singular but for rounding."""
_PIVOTS = 5
"""Coordinates that are dropped on the way of a Newton step, before sweeps tell others that move."""
_ROUNDS = 200
"""Many times what was ever seen."""
ARMIJO = 0.01
"""The share of the expected fall that a step is accepted with, as in reference [3] of `CoordinateDescent`."""
HALVINGS, _ATTEMPTS = 30, 5
"""Of a step of sweeps, to the last digits; and of a Newton step, which is given up sooner."""
_ROUGH = 0.1
"""The fall of the last sweep, as a share of the first one, where a quadratic model is not the risk."""
_SHARP = 0.1
"""The fall of a sweep, as a share of the gap, that usually goes with a gap that small."""


@dataclass(eq=False)
class Position:
    """A point, its predictions, and what has been learned on the way.

    Attributes
    ----------
    x : ndarray of shape (dim,)
    z : ndarray of shape (m,)
    visited : float
        Entries of the data.
    damping : float
        The share of the largest second derivative that the model of a loss has at least.
    sharpness : float
        The fall of a sweep at which a gap is closed, as a share of the gap.
    patience : float
        How many times the cost of a Newton step sweeps may cost: more, where such steps failed.
    """

    x: Array
    z: Array
    visited: float = 0.0
    damping: float = 1.0
    sharpness: float = _SHARP
    patience: float = 1.0


class WorkingSet:
    """min over some coordinates of the sum of the losses and their terms; the others stay where they are.

    A round makes a quadratic model of the losses, and either sweeps over the coordinates of the model, or
    takes a Newton step in those that are free to move. Sweeps are as fast as their falls tell; where they are
    expected to cost more than the Newton step, it is taken.
    """

    def __init__(self, examples: Examples, terms: Any, columns: Columns, which: Array, position: Position):
        self.examples = examples
        self.terms = terms
        self.columns = columns
        self.which = which
        self.position = position
        self.x = position.x[which]

    def solve(self, tolerance: float) -> bool:
        """Do rounds until the gap of these coordinates is within the tolerance; tell whether x moved."""
        position, columns, examples = self.position, self.columns, self.examples
        position.sharpness = min(_SHARP, 10.0 * position.sharpness)
        free = np.flatnonzero(self.terms.free)
        newton = settled = moved = False
        for _ in range(_ROUNDS):
            check_time()
            r, d = examples.slopes(position.z), examples.bends(position.z, position.damping)
            slopes, bends = columns.slopes(d, r)
            position.visited += columns.entries
            factor, gap = self.terms.outlook(self.x, slopes)
            gap += examples.excess(factor, position.z, r, d) + gain(slopes[free], bends[free])
            if gap <= tolerance:
                break
            if settled:
                position.sharpness *= 0.1
            moving = np.flatnonzero(self.terms.moves(self.x))
            step = self._newton(moving, slopes, d) if newton else None
            if step is not None:
                newton = settled = False
                if worked := self._advance(step, slopes, _ATTEMPTS):
                    position.patience = max(1.0, 0.5 * position.patience)
                else:
                    position.patience *= 4.0
                moved |= worked
                continue
            x = self.x.copy()
            goal, share = position.sharpness * tolerance, 0.0 if examples.quadratic else _ROUGH
            budget = position.patience * self._cost_of_newton(moving)
            visited, fall = self._sweep(x, bends, d, r, goal, share, budget)
            position.visited += visited
            newton, settled = fall == math.inf, fall <= goal
            if not self._advance(x - self.x, slopes, 0 if examples.quadratic else HALVINGS):
                break
            moved = True
        position.x[self.which] = self.x
        return moved

    def _sweep(self, x: Array, bends: Array, *model: Any) -> tuple[float, float]:
        return self.columns.descend(x, self.terms.arrays, bends, *model)

    def _cost_of_newton(self, moving: Array) -> float:
        if not 0 < moving.size <= MOST_UNKNOWNS:
            return math.inf
        products = self.columns.cost_of_gram(moving)
        return _CALLS + PER_PRODUCT * products + PER_CUBE * moving.size**3

    def _newton(self, moving: Array, slopes: Array, d: Array) -> Array | None:
        """Minimise the model over the coordinates that can move, dropping those that come to a kink."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        self.position.visited += self._cost_of_newton(moving)
        terms, x, g = self.terms.on(moving), self.x[moving], slopes[moving]
        hessian = self.columns.gram(moving, d)
        diagonal = np.einsum("jj->j", hessian)
        diagonal += terms.weights
        diagonal += RIDGE * diagonal.max(initial=0.0)
        rest = np.arange(moving.size)
        for _ in range(_PIVOTS):
            part = terms.on(rest)
            gradient = g[rest] + part.slope(x[rest])
            try:
                factor = cho_factor(hessian[np.ix_(rest, rest)], lower=True, check_finite=False)
            except LinAlgError:
                break
            direction = -cho_solve(factor, gradient, check_finite=False)
            ahead, whole = to_kink(x[rest], direction, part, -float(direction @ gradient))
            change = ahead - x[rest]
            g += hessian[:, rest] @ change
            g[rest] -= part.weights * change
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
        """Go along the step as far as the objective falls; tell whether it does.

        Without halvings the step is taken: it was made by a model that is the risk itself.
        """
        position, value, terms = self.position, self.examples.value, self.terms
        move = np.zeros_like(position.z)
        self.columns.add(step, move)
        if not halvings:
            position.z, self.x = position.z + move, self.x + step
            return bool(step.any())
        own, start, t = terms(self.x), value(position.z), 1.0
        noise = CANCELLED * (abs(own) + abs(start))
        for _ in range(halvings):
            x, z = self.x + t * step, position.z + t * move
            rise = terms(x) - own
            if value(z) - start + rise <= ARMIJO * min(t * float(slopes @ step) + rise, 0.0) + noise:
                position.damping *= 0.125 if t == 1.0 else 1.0
                position.z, self.x = z, x
                return bool(step.any())
            t *= 0.5
            position.damping = min(1.0, 8.0 * position.damping)
        return False


def gain(slopes: Array, bends: Array) -> float:
    """Return what coordinates without a term may still gain."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(slopes == 0.0, 0.0, 0.5 * slopes**2 / bends).sum())


def to_kink(x: Array, step: Array, terms: Terms, bend: float) -> tuple[Array, bool]:
    """Go along a Newton step to the minimum of the model; tell whether that is its end.

    The derivative is -bend at its beginning and 0 at its end, but for the kinks on the way, where signs
    change, and the bounds, where it ends.
    """
    side = np.where(step > 0.0, terms.high, terms.low)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kinks = np.where((step != 0.0) & (terms.costs > 0.0), -x / step, math.inf)
        ends = np.where(np.isfinite(side) & (step != 0.0), (side - x) / step, math.inf)
    kinks[kinks <= 0.0] = math.inf
    slope, t = -bend, min(1.0, max(0.0, float(ends.min(initial=1.0))))
    for k in np.argsort(kinks):
        if not kinks[k] < min(t, -slope / bend if bend > 0.0 else math.inf):
            break
        slope += 2.0 * terms.costs[k] * abs(step[k])
        if slope + kinks[k] * bend >= 0.0:
            t = float(kinks[k])
            break
    t = min(t, max(0.0, -slope / bend)) if bend > 0.0 and t not in kinks else t
    ahead = np.where(kinks == t, 0.0, x + t * step)
    ahead = np.where(ends == t, side, ahead)
    return np.clip(ahead, terms.low, terms.high), t == 1.0
