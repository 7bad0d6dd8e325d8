"""What iterations cost on linear data: nanoseconds on a usual machine, counted and not measured.

So a run can be repeated: the same data give the same moves, whatever else the machine does. The factors are
those of one core at about 2 GHz; only their ratios matter.
"""

from __future__ import annotations

OVERHEAD = 1e6
"""An iteration outside the data: master, bounds, records."""
BATCH = 4.0 * OVERHEAD
"""What a move does within an iteration, where its steps take less: a fifth of the time is overhead then."""
LOOK = 1e5
"""A look of a move at its own gap, outside the data."""
PER_EXAMPLE, PER_ENTRY = 10.0, 1.0
"""A pass there and back, with the line search, per example and per stored entry."""
PER_COEFFICIENT = 4.0
"""A coefficient of a cut in the bundle: the products of a new cut with the old ones."""
PER_PAIR = 60.0
"""A pair of cuts: steps of the active set on the reduced problem."""
NEWTON_EXAMPLE, NEWTON_ENTRY = 12.0, 1.5
"""The same pass with multipliers and bends of the smoothed losses."""
NEWTON = 1e5
"""A Newton step outside the data."""
PER_SQUARE, PER_DENSE_SQUARE, PER_CUBE = 0.5, 0.1, 0.05
"""A product in a Gram matrix of sparse rows, of dense ones, and a cubed feature in a Cholesky factor."""


def cost_of_pass(size: tuple[int, int, float]) -> float:
    """Return what an iteration costs for (examples, features, entries) without the bundle."""
    m, _, entries = size
    return OVERHEAD + PER_EXAMPLE * m + PER_ENTRY * entries


def cost_of_cut(size: tuple[int, int, float], n_cuts: int) -> float:
    """Return what an iteration with a new cut costs."""
    return cost_of_pass(size) + PER_COEFFICIENT * size[1] * n_cuts + PER_PAIR * n_cuts**2


def cost_of_newton(size: tuple[int, int, float], near: float) -> float:
    """Return what a Newton step costs with `near` examples near a kink of their loss, within an iteration."""
    m, n, entries = size
    squares = near * (entries / m) ** 2
    linear = NEWTON_EXAMPLE * m + NEWTON_ENTRY * entries
    per_square = PER_SQUARE if entries < m * n else PER_DENSE_SQUARE
    return NEWTON + linear + per_square * squares + PER_CUBE * n**3
