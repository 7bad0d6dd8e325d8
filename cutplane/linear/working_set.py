"""The minimiser of a problem over some of its coordinates, by sweeps and Newton steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cutplane.linear.columns import DataColumns, parts_of
from cutplane.linear.smoothing import Examples
from cutplane.linear.sweeps import descend
from cutplane.linear.terms import Terms
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import CANCELLED
from cutplane.runtime.deadline import check_time

PER_PRODUCT, _PER_CUBE, _CALLS = 0.15, 0.25, 1e6
"""Costs of a product in a Gram matrix, of a cubed unknown of a system, and of both calls, in visited entries
of the data, because sweeps are counted in these."""
_MOST_UNKNOWNS = 2000
"""Largest number of unknowns of a linear system, because their Gram matrix takes 32 MB."""
_RIDGE = 1e-12
"""Number added to the diagonal of a Gram matrix, relative to its largest entry, because dependent columns
make it singular."""
_PIVOTS = 5
"""Number of kinks after which a Newton step ends, because sweeps then find other coordinates that change."""
_ROUNDS = 200
"""Largest number of rounds at one working set, because much fewer suffice."""
_ARMIJO = 0.01
"""Share of the expected decrease at which a step is accepted, because reference [3] of `CoordinateDescent`
uses it."""
HALVINGS, _ATTEMPTS = 30, 5
"""Number of halvings of a step of sweeps, because 30 reach the last digits; and of a Newton step, fewer
because it fails sooner."""
_ROUGH = 0.1
"""Share of the first sweep's decrease at which sweeps may end, because the model is not the risk."""
_SHARP, _SHARPER = 0.1, 10
"""Decrease by a sweep, as a share of the gap to reach, at which sweeps end, because this usually closes the
gap; and the largest number of repetitions with smaller shares."""
_ABOVE = 1.0 + 1e-10
"""Factor of the largest eigenvalue, above 1 because the eigenvalue has a rounding error."""


@dataclass(eq=False)
class Position:
    """A point x, its predictions z, the entries of the data visited, and parameters of the next steps.

    Attributes
    ----------
    damping : float
        The least second derivative in the model of a loss, as a share of the largest one.
    sharpness : float
        The decrease by a sweep, as a share of the gap, at which the gap counts as closed.
    patience : float
        The cost of sweeps, in Newton steps, at which a Newton step is taken; larger after a Newton step
        failed.
    """

    x: Array
    z: Array
    visited: float = 0.0
    damping: float = 1.0
    sharpness: float = _SHARP
    patience: float = 1.0


class WorkingSet:
    """The minimum over some coordinates of the losses plus their terms; the other coordinates are fixed.

    A round makes a quadratic model of the losses. It sweeps over the blocks of the model. If the decreases
    predict that sweeps cost more than a Newton step, it takes a Newton step in the coordinates that can
    change both ways.
    """

    def __init__(
        self, examples: Examples, terms: Terms, columns: DataColumns, which: Array, position: Position
    ):
        self.examples = examples
        self.terms = terms
        self.columns = columns
        self.which = which
        self.position = position
        self.x = position.x[which]

    def solve(self, tolerance: float) -> bool:
        """Do rounds until the gap of these coordinates is within the tolerance; tell whether x changed."""
        position, columns, examples = self.position, self.columns, self.examples
        position.sharpness = min(_SHARP, 10.0 * position.sharpness)
        free = np.flatnonzero(self.terms.free)
        newton = settled = moved = False
        for _ in range(_ROUNDS):
            check_time()
            r, d = examples.slopes(position.z), examples.bends(position.z, position.damping)
            slopes, bends = columns.slopes(d, r)
            position.visited += columns.entries
            factor, gap = self.terms.best_factor(self.x, slopes)
            gap += examples.excess(factor, position.z, r, d) + _gain(slopes[free], bends[free])
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
            visited, fall = descend(
                columns.arrays, columns.which, self.terms.starts, x, self.terms.arrays,
                self._largest(bends, d), d, r, goal, share, budget,
            )  # fmt: skip
            position.visited += visited
            newton, settled = fall == math.inf, fall <= goal
            if not self._advance(x - self.x, slopes, 0 if examples.quadratic else HALVINGS):
                break
            moved = True
        position.x[self.which] = self.x
        return moved

    def _largest(self, bends: Array, d: Array) -> Array:
        """Return the largest eigenvalue of the model in each block."""
        if self.terms.labels is None:
            return bends
        blocks = [np.arange(start, end) for start, end in pairwise(self.terms.starts)]
        grams = [
            self.columns.gram(block, d) if block.size > 1 else bends[block, np.newaxis] for block in blocks
        ]
        return np.array([_ABOVE * np.linalg.eigvalsh(gram)[-1] for gram in grams])

    def _cost_of_newton(self, moving: Array) -> float:
        if not 0 < moving.size <= _MOST_UNKNOWNS:
            return math.inf
        products = self.columns.cost_of_gram(moving)
        return _CALLS + PER_PRODUCT * products + _PER_CUBE * moving.size**3

    def _newton(self, moving: Array, slopes: Array, d: Array) -> Array | None:
        """Minimise the model over the coordinates that can change, except those that reach a kink."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        self.position.visited += self._cost_of_newton(moving)
        terms, x, g = self.terms.on(moving), self.x[moving], slopes[moving]
        hessian = self.columns.gram(moving, d)
        terms.add_curvature(x, hessian)
        diagonal = np.einsum("jj->j", hessian)
        diagonal += _RIDGE * diagonal.max(initial=0.0)
        rest = np.arange(moving.size)
        for _ in range(_PIVOTS):
            part = terms.on(rest)
            gradient = g[rest] + part.slope(x[rest])
            try:
                factor = cho_factor(hessian[np.ix_(rest, rest)], lower=True, check_finite=False)
            except LinAlgError:
                break
            direction = -cho_solve(factor, gradient, check_finite=False)
            ahead, whole = _to_kink(x[rest], direction, part, -float(direction @ gradient))
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
        return step if step.any() and np.isfinite(step).all() else None

    def _advance(self, step: Array, slopes: Array, halvings: int) -> bool:
        """Take the step, or the first of its halvings that decreases the objective; tell whether x changed.

        Without halvings the whole step is taken, because the model is exact.
        """
        position, move = self.position, self.columns.times(step)
        t = 1.0
        if halvings:
            t, halved = search(self.examples, self.terms, self.x, position.z, step, move, slopes, halvings)
            position.damping *= 0.125 if halved == 0 else 8.0**halved
            position.damping = min(1.0, position.damping)
        if t == 0.0:
            return False
        position.z, self.x = position.z + t * move, self.x + t * step
        return bool(step.any())


def search(
    examples: Examples,
    terms: Terms,
    x: Array,
    z: Array,
    step: Array,
    move: Array,
    slopes: Array,
    halvings: int,
) -> tuple[float, int]:
    """Return the first of 1, 1/2, 1/4, ... that decreases the objective enough, or 0, and its index.

    `move` is the change of the predictions z along the step of x; `slopes` are the slopes of the losses at x.
    """
    own, start, slope, t = terms(x), examples.value(z), float(slopes @ step), 1.0
    noise = CANCELLED * (abs(own) + abs(start))
    for halved in range(halvings):
        rise = terms(x + t * step) - own
        if examples.value(z + t * move) - start + rise <= _ARMIJO * min(t * slope + rise, 0.0) + noise:
            return t, halved
        t *= 0.5
    return 0.0, halvings


def _gain(slopes: Array, bends: Array) -> float:
    """Return a bound of the decrease of the objective by coordinates without a term."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(slopes == 0.0, 0.0, 0.5 * slopes**2 / bends).sum())


def _to_kink(x: Array, step: Array, terms: Terms, bend: float) -> tuple[Array, bool]:
    """Step to the minimum of the model along a Newton step; tell whether it is the end of the step.

    The derivative is -bend at the start and 0 at the end, apart from jumps where a single coordinate changes
    its sign. At a bound, the step ends.
    """
    side = np.where(step > 0.0, terms.high, terms.low)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kinked = (step != 0.0) & (terms.costs > 0.0) & (terms.labels is None)
        kinks = np.where(kinked, -x / step, math.inf)
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


class Compressed:
    """The factor L of the Gram matrix of all columns, with bends d, for sweeps without examples."""

    def __init__(self, columns: DataColumns, d: Array):
        self._everywhere = np.arange(columns.which.size)
        self.columns, self.gram = columns, columns.gram(self._everywhere, d)
        self._bends = np.diag(self.gram).copy()
        raised = self.gram.copy()
        np.einsum("jj->j", raised)[:] += _RIDGE * self._bends.max(initial=0.0) + np.finfo(float).tiny
        self._factor = np.ascontiguousarray(np.linalg.cholesky(raised))

    def minimiser(
        self, x: Array, terms: Terms, g: Array, bend: float, tolerance: float
    ) -> tuple[Array, float]:
        """Return the minimiser of terms and the quadratic model with slopes g at x, and the entries visited.

        `bend` is the second derivative of the conjugate of the risk along its multipliers.
        """
        from scipy.linalg.lapack import dposv, dtrtrs  # pyright: ignore[reportAttributeAccessIssue]

        if terms.smooth:
            _, step, failed = dposv(self.gram + np.diag(terms.weights), -g - terms.slope(x), lower=1)
            return (x if failed else x + step), _PER_CUBE * float(x.size) ** 3
        x, ones, free = x.copy(), np.ones_like(x), np.flatnonzero(terms.free)
        r, _ = dtrtrs(self._factor.T, g, lower=0, trans=1)
        share = _SHARP * _SHARP
        goal, visited = share * tolerance, 0.0
        for _ in range(_SHARPER):
            check_time()
            model = terms.arrays, self._bends, ones, r, goal, 0.0, math.inf
            more, _ = descend(parts_of(self._factor), self._everywhere, terms.starts, x, *model)
            visited += more
            slopes = self._factor @ r
            factor, gap = terms.best_factor(x, slopes)
            gap += 0.5 * (1.0 - factor) ** 2 * bend + _gain(slopes[free], self._bends[free])
            if gap <= tolerance:
                break
            goal *= share
        return x, visited


def cost_of_compression(m: int, n: int) -> float:
    """Return the cost in entries of the data visited by a sweep; inf if there are too many coordinates."""
    return PER_PRODUCT * m * n**2 + _PER_CUBE * n**3 if n <= _MOST_UNKNOWNS else math.inf
