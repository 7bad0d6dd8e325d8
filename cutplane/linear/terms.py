"""Regularizers and boxes that are sums over the coordinates, and what is asked of them there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.regularizers.base import separable_form_of

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

_GROWTH = 2
"""How many times as large as the set of coordinates that move a working set is, as published."""
_PART = 20
"""A working set of this part of the coordinates is swept as often, within the cost of a pass over all."""
_FEW = 10
"""Coordinates of the smallest working set, as published."""


@dataclass(frozen=True, eq=False)
class Terms:
    """h_j(x_j) = costs_j |x_j| + weights_j (x_j - centre_j)^2 / 2 on [low_j, high_j], for each coordinate."""

    costs: Array
    weights: Array
    centre: Array
    low: Array
    high: Array

    def on(self, index: Array) -> Terms:
        """Return those of some coordinates."""
        return Terms(*(array[index] for array in self.arrays))

    @cached_property
    def arrays(self) -> tuple[Array, Array, Array, Array, Array]:
        """The five of them, in this order, read-only whatever they are: so a routine is compiled once."""
        costs, weights, centre = map(read_only, (self.costs, self.weights, self.centre))
        return costs, weights, centre, read_only(self.low), read_only(self.high)

    @cached_property
    def free(self) -> Array:
        """Which coordinates have no term at all."""
        return (self.costs == 0.0) & (self.weights == 0.0) & np.isinf(self.low) & np.isinf(self.high)

    @cached_property
    def smooth(self) -> bool:
        """Whether the sum is a quadratic, without costs and bounds."""
        return not (self.costs.any() or np.isfinite(self.low).any() or np.isfinite(self.high).any())

    @property
    def scalable(self) -> bool:
        """Whether the conjugates are finite after scaling, but for the free coordinates."""
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        return bool((self.free | (self.costs > 0.0) | (self.weights > 0.0) | bounded).all())

    @property
    def forced(self) -> bool:
        """Whether some coordinates without a cost have squares, or bounds keep some from zero."""
        paid = self.costs > 0.0
        return bool(self.weights[~paid].any() or (self.low > 0.0).any() or (self.high < 0.0).any())

    def moves(self, x: Array) -> Array:
        """Return where the sum is smooth at x, and x can go both ways."""
        return ((x != 0.0) | (self.costs == 0.0)) & (self.low < x) & (x < self.high)

    def __call__(self, x: Array) -> float:
        """Return the sum at a point within the bounds."""
        offset = x - self.centre
        return float(self.costs @ np.abs(x) + 0.5 * (self.weights * offset) @ offset)

    def slope(self, x: Array) -> Array:
        """Return the derivatives where the sum is smooth."""
        return self.costs * np.sign(x) + self.weights * (x - self.centre)

    def ratios(self, x: Array, g: Array) -> Array:
        """Return by which factor slopes g of the risk exceed what the terms hold at x."""
        held = self.costs + self.weights * np.abs(x - self.centre)
        with np.errstate(divide="ignore", invalid="ignore"):
            down = np.where(np.isinf(self.high), -g / held, 0.0)
            up = np.where(np.isinf(self.low), g / held, 0.0)
        return np.where(held > 0.0, np.maximum(down, up), 0.0)

    def pulls(self, x: Array, g: Array) -> Array:
        """Return how hard slopes g of the risk pull at coordinates: in (-1, 1], positive where they move."""
        slope = g + self.weights * (x - self.centre)
        up = np.where(x < self.high, -slope - np.where(x >= 0.0, self.costs, -self.costs), -np.inf)
        down = np.where(x > self.low, slope - np.where(x <= 0.0, self.costs, -self.costs), -np.inf)
        size = self.costs + np.abs(slope)
        return np.maximum(up, down) / np.where(size > 0.0, size, 1.0)

    def chosen(self, x: Array, g: Array) -> Array:
        """Return a working set: the coordinates that move, and those that are pulled most."""
        return strongest(self.pulls(x, g), self.moves(x))

    def outlook(self, x: Array, g: Array) -> tuple[float, float]:
        """Return the factor of the multipliers that gives the best bound, and the gap with it.

        Slopes of free coordinates count as zero, and what the factor costs the losses is not counted.
        """
        from cutplane.linear.terms_passes import outlook

        return outlook(x, g, self.arrays, self.free)


def strongest(pulls: Array, moving: Array) -> Array:
    """Return all that move, and those with the strongest pulls, strongest first."""
    pulls = np.where(moving, np.inf, pulls)
    size = max(_GROWTH * np.count_nonzero(moving), pulls.size // _PART, _FEW)
    which = np.argpartition(-pulls, size)[:size] if size < pulls.size else np.arange(pulls.size)
    return which[np.argsort(-pulls[which], kind="stable")]


def terms_of(problem: Declaration) -> Terms | None:
    """Return regularizer and set as terms of the coordinates; None if they are no such sum."""
    bounds = problem.simple_set.bounds(problem.dim)
    form = separable_form_of(problem.active_regularizer, problem.dim)
    if bounds is None or form is None or problem.separators:
        return None
    return Terms(form.costs, form.quadratic.weights, form.quadratic.centre, *bounds)
