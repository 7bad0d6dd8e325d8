"""The knots of a piecewise linear path of solutions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from scipy import sparse

from cutplane.pieces.validation import Array


@dataclass(eq=False)
class Knots:
    """The points where the linear pieces of a path meet, in the order in which they are found."""

    weights: list[float] = field(default_factory=list)  # falling multiples of the weight at the end
    points: list[tuple[Array, Array]] = field(default_factory=list)  # nonzero coordinates and their values
    events: list[str] = field(default_factory=list)  # at the end of the piece before, such as "joins 3"
    reciprocal: bool = False  # whether the solution is linear in 1 / weight between knots, not in the weight
    limit: Array | None = None  # the solution at an infinite weight; None if it is the first knot

    def add(self, weight: float, index: Array, values: Array, event: str) -> None:
        """Add a knot at the point with these coordinates; the others are zero."""
        self.weights.append(weight)
        self.points.append((index, values))
        self.events.append(event)

    def matrix(self, dim: int) -> sparse.csr_array:
        """Return the points as rows."""
        counts = [index.size for index, _ in self.points]
        columns, values = (np.concatenate(parts) for parts in zip(*self.points, strict=True))
        rows = sparse.csr_array((values, columns, np.cumsum([0, *counts])), shape=(len(counts), dim))
        rows.eliminate_zeros()
        rows.sort_indices()
        return rows


@runtime_checkable
class FollowsPath(Protocol):
    """The state of a method that follows the path down to the weight of its problem."""

    knots: Knots

    def bounds(self, weight: float, x: Array) -> tuple[float, float]:
        """Return a certified lower bound, and the objective at x, for a multiple of the weight at the end."""
        ...
