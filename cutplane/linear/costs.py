"""What iterations cost on linear data: nanoseconds on a usual machine, counted and not measured.

So a run can be repeated: the same data give the same moves, whatever else the machine does. The factors are
those of one core at about 2 GHz; only their ratios matter.
"""

from __future__ import annotations

OVERHEAD = 1e6
"""An iteration outside the data: master, bounds, records."""
BATCH = 4.0 * OVERHEAD
"""What a move does within an iteration, where its steps take less: a fifth of the time is overhead then."""
LOOK = 5e4
"""A look of a move at its own gap, outside the data."""
PER_EXAMPLE, PER_ENTRY, PER_DENSE_ENTRY = 20.0, 3.0, 1.0
"""A pass there and back, with the line search, per example and per stored entry."""
PER_COEFFICIENT = 4.0
"""A coefficient of a cut in the bundle: the products of a new cut with the old ones."""
PER_PAIR = 60.0
"""A pair of cuts: steps of the active set on the reduced problem."""
NEWTON, NEWTON_EXAMPLE = 2.5e5, 40.0
"""A Newton step outside the data, and per example: multipliers, and bends of the smoothed losses."""
PER_SQUARE, PER_DENSE_SQUARE, PER_CUBE = 1.0, 0.07, 0.03
"""A product in a Gram matrix of sparse rows, of dense ones, and a cubed feature in a Cholesky factor."""
EPOCH_EXAMPLE, EPOCH_ENTRY, EPOCH_DENSE_ENTRY, EPOCH_EQUATION = 60.0, 4.0, 1.2, 340.0
"""A step of coordinate ascent, per entry of its example, and what the equation of a loss without an outline
adds."""


def is_dense(size: tuple[int, int, float]) -> bool:
    """Tell whether (examples, features, entries) leave no entry out."""
    m, n, entries = size
    return entries >= m * n


def cost_of_pass(size: tuple[int, int, float]) -> float:
    """Return what an iteration costs for (examples, features, entries) without the bundle."""
    m, _, entries = size
    return OVERHEAD + PER_EXAMPLE * m + (PER_DENSE_ENTRY if is_dense(size) else PER_ENTRY) * entries


def cost_of_cut(size: tuple[int, int, float], n_cuts: int) -> float:
    """Return what an iteration with a new cut costs."""
    return cost_of_pass(size) + PER_COEFFICIENT * size[1] * n_cuts + PER_PAIR * n_cuts**2


def cost_of_newton(size: tuple[int, int, float], near: float) -> float:
    """Return what a Newton step costs with `near` examples near a kink of their loss, within an iteration."""
    m, n, entries = size
    per_entry, per_square = (PER_DENSE_ENTRY, PER_DENSE_SQUARE) if is_dense(size) else (PER_ENTRY, PER_SQUARE)
    linear = NEWTON_EXAMPLE * m + per_entry * entries
    return NEWTON + linear + per_square * near * (entries / m) ** 2 + PER_CUBE * n**3


def cost_of_epoch(size: tuple[int, int, float], equations: bool) -> float:
    """Return what an epoch of coordinate ascent costs, whose losses have no outline if `equations`."""
    m, _, entries = size
    return cost_of_visits(m, entries, is_dense(size), equations)


def cost_of_visits(count: float, entries: float, dense: bool, equations: bool) -> float:
    """Return what so many steps of coordinate ascent cost."""
    per_visit = EPOCH_EXAMPLE + (EPOCH_EQUATION if equations else 0.0)
    return per_visit * count + (EPOCH_DENSE_ENTRY if dense else EPOCH_ENTRY) * entries
