"""Regularizers and boxes that are sums over blocks: coordinates, or groups of coordinates with a norm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cutplane.pieces.capabilities import Capability, ask
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.proof.rounding import EPS
from cutplane.regularizers.base import separable_form_of
from cutplane.sets.base import is_whole_space

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

_GROWTH = 2
"""Size of a working set relative to the number of blocks that change; 2, because this factor is published."""
_PART = 20
"""A working set has at least 1 / _PART of the blocks, because 20 sweeps of it cost no more than one pass over
all."""
_FEW = 10
"""Number of blocks of the smallest working set, because this number is published."""


@dataclass(frozen=True, eq=False)
class Terms:
    """The sum over coordinates of costs_j |x_j| + weights_j (x_j - centre_j)^2 / 2 on [low_j, high_j].

    With `labels`, which number the block of each coordinate, a block has the term costs_j ||x|| instead, no
    weights and no bounds. Without labels, each coordinate is a block.
    """

    costs: Array
    weights: Array
    centre: Array
    low: Array
    high: Array
    labels: Array | None = None

    def on(self, index: Array) -> Terms:
        """Return the terms of some coordinates: all or none of a group, one group after another."""
        labels = None if self.labels is None else np.unique(self.labels[index], return_inverse=True)[1]
        return Terms(*(array[index] for array in self.arrays), labels=labels)

    @cached_property
    def arrays(self) -> tuple[Array, Array, Array, Array, Array]:
        """Costs, weights, centre, low and high, read-only so that numba compiles routines only once."""
        costs, weights, centre = map(read_only, (self.costs, self.weights, self.centre))
        return costs, weights, centre, read_only(self.low), read_only(self.high)

    @cached_property
    def starts(self) -> Array:
        """The position where each block starts, and the end of the last one, for blocks in order."""
        n = self.costs.size
        if self.labels is None:
            return np.arange(n + 1)
        return np.append(np.flatnonzero(np.diff(self.labels, prepend=-1)), n)

    @cached_property
    def free(self) -> Array:
        """A mask of the coordinates that have no term at all."""
        return (self.costs == 0.0) & (self.weights == 0.0) & np.isinf(self.low) & np.isinf(self.high)

    @cached_property
    def smooth(self) -> bool:
        """Whether the sum is a quadratic, without costs and bounds."""
        return not (self.costs.any() or np.isfinite(self.low).any() or np.isfinite(self.high).any())

    @property
    def scalable(self) -> bool:
        """Whether some factor of the multipliers makes the conjugates finite, except in free coordinates."""
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        return bool((self.free | (self.costs > 0.0) | (self.weights > 0.0) | bounded).all())

    @property
    def forced(self) -> bool:
        """Whether a coordinate without a cost has a weight, or the bounds exclude zero."""
        paid = self.costs > 0.0
        return bool(self.weights[~paid].any() or (self.low > 0.0).any() or (self.high < 0.0).any())

    @cached_property
    def _first(self) -> Array:
        return np.unique(np.asarray(self.labels), return_index=True)[1]

    def moves(self, x: Array) -> Array:
        """Return a mask of the coordinates where the sum is smooth at x, and x can change both ways."""
        return ((self._norms(x) != 0.0) | (self.costs == 0.0)) & (self.low < x) & (x < self.high)

    def __call__(self, x: Array) -> float:
        """Return the sum at a point within the bounds."""
        offset = x - self.centre
        return float(self.costs @ (self._units(x) * x) + 0.5 * (self.weights * offset) @ offset)

    def slope(self, x: Array) -> Array:
        """Return the derivatives where the sum is smooth."""
        return self.costs * self._units(x) + self.weights * (x - self.centre)

    def add_curvature(self, x: Array, hessian: Array) -> None:
        """Add the second derivatives where the sum is smooth."""
        np.einsum("jj->j", hessian)[:] += self.weights
        if self.labels is None:
            return
        norms, units = self._norms(x), self._units(x)
        for k in np.unique(self.labels[(self.costs > 0.0) & (norms > 0.0)]):
            block = np.flatnonzero(self.labels == k)
            bend = np.eye(block.size) - np.outer(units[block], units[block])
            hessian[np.ix_(block, block)] += self.costs[block[0]] / norms[block[0]] * bend

    def ratios(self, x: Array, g: Array) -> Array:
        """Return the slopes g of the risk divided by the slopes of the terms at x, at least 0."""
        g = g if self.labels is None else self._norms(g)
        held = self.costs + self.weights * np.abs(x - self.centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            down = np.where(np.isinf(self.high), -g / held, 0.0)
            up = np.where(np.isinf(self.low), g / held, 0.0)
        return np.where(held > 0.0, np.maximum(down, up), 0.0)

    def chosen(self, x: Array, g: Array) -> Array:
        """Return a working set: blocks that can change, and blocks with the largest slopes g of the risk."""
        slope, moving = g + self.weights * (x - self.centre), self.moves(x)
        slope = slope if self.labels is None else self._norms(slope)
        up = np.where(x < self.high, -slope - np.where(x >= 0.0, self.costs, -self.costs), -np.inf)
        down = np.where(x > self.low, slope - np.where(x <= 0.0, self.costs, -self.costs), -np.inf)
        size = self.costs + np.abs(slope)
        pulls = np.where(moving, np.inf, np.maximum(up, down) / np.where(size > 0.0, size, 1.0))
        if self.labels is None:
            return _strongest(pulls)
        groups = _strongest(pulls[self._first])
        ranks = np.full(pulls.size, -1)
        ranks[groups] = np.arange(groups.size)
        chosen = np.flatnonzero(ranks[self.labels] >= 0)
        return chosen[np.argsort(ranks[self.labels[chosen]], kind="stable")]

    def best_factor(self, x: Array, g: Array) -> tuple[float, float]:
        """Return the factor of the multipliers that gives the best bound, and the gap with it.

        The slopes of free coordinates count as zero. The gap does not include the losses.
        """
        from cutplane.linear.sweeps import best_factor

        if self.labels is None:
            return best_factor(x, g, self.arrays, self.free)
        excess, held = float(self.ratios(x, g).max(initial=0.0)), ~self.free
        factor = 1.0 / (excess * (1.0 + 4.0 * EPS)) if excess > 1.0 else 1.0
        return factor, max(0.0, self(x) + factor * float(g[held] @ x[held]))

    def _norms(self, v: Array) -> Array:
        return np.abs(v) if self.labels is None else np.sqrt(np.bincount(self.labels, v * v))[self.labels]

    def _units(self, x: Array) -> Array:
        """Return x divided by the norm of its block; 0 if the norm is 0."""
        if self.labels is None:
            return np.sign(x)
        norms = self._norms(x)
        return np.divide(x, norms, out=np.zeros_like(x), where=norms > 0.0)


def _strongest(pulls: Array) -> Array:
    """Return all blocks with an infinite entry in `pulls`, then those with the largest, in order."""
    size = max(_GROWTH * np.count_nonzero(pulls == np.inf), pulls.size // _PART, _FEW)
    which = np.argpartition(-pulls, size)[:size] if size < pulls.size else np.arange(pulls.size)
    return which[np.argsort(-pulls[which], kind="stable")]


def terms_of(problem: Declaration, groups: bool = False) -> Terms | None:
    """Return regularizer and set as terms, with groups if `groups` is set; None if they have another form."""
    if problem.separators:
        return None
    n, g = problem.dim, problem.active_regularizer
    bounds, form = problem.simple_set.bounds(n), separable_form_of(g, n)
    if bounds is not None and form is not None:
        return Terms(form.costs, form.quadratic.weights, form.quadratic.centre, *bounds)
    form = ask(g, Capability.GROUPED, n) if groups and is_whole_space(problem.simple_set, n) else None
    if form is None:
        return None
    alone, zeros, ends = form.labels < 0, np.zeros(n), np.full(n, np.inf)
    labels = np.where(alone, form.costs.size - 1 + np.cumsum(alone), form.labels)
    costs = np.append(form.costs, 0.0)[form.labels]
    return Terms(costs, zeros, zeros, -ends, ends, np.unique(labels, return_inverse=True)[1])
