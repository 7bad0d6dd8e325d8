"""Estimated costs of methods in nanoseconds of one core at about 2 GHz, measured by `benchmarks/costs.py`.

Methods for linear data use these estimates instead of measured times, because the same data then always give
the same decisions.
"""

from __future__ import annotations

import math

USUAL_FALL = math.log(1e3)
"""Decrease of log(gap) in a solve, because a solve usually reduces its first gap to 1e-3 of it."""
OVERHEAD = 1e6
"""Cost of an iteration outside the data (master, bounds, records), constant because it hardly depends on the
data."""
BATCH = 4.0 * OVERHEAD
"""Least work of a `linear.Move` in an iteration, because the overhead is then at most a fifth of the time."""
GAP_CHECK = 5e4
"""Cost of computing a move's gap, without passes over the data, constant because it takes a few calls of
numpy."""
PER_EXAMPLE, PER_ENTRY, PER_DENSE_ENTRY = 20.0, 3.0, 1.0
"""Cost of a pass with the line search, per example, per stored entry, and per entry of a dense matrix, which
is less because dense entries have no indices."""
PER_COEFFICIENT, PER_PAIR = 4.0, 60.0
"""Cost per coefficient of each cut, because a new cut is multiplied by all cuts, and per pair of cuts,
because of the active-set method."""
NEWTON, NEWTON_EXAMPLE = 2.5e5, 40.0
"""Cost of a Newton step: constant, and per example, because multipliers and pieces of the smoothed losses are
computed."""
PER_SQUARE, PER_DENSE_SQUARE, PER_CUBE = 1.0, 0.07, 0.03
"""Cost per product in a Gram matrix of sparse and of dense rows, and per cubed number of features, because a
Cholesky factor is computed."""
EPOCH_EXAMPLE, EPOCH_ENTRY, EPOCH_DENSE_ENTRY, EPOCH_EQUATION = 60.0, 4.0, 1.2, 340.0
"""Cost of a step of coordinate ascent: per example, per stored entry, per dense entry, and for a loss without
an outline, because it solves an equation."""
ITERATION = 1.1e5
"""Cost of a cut iteration without oracle and master, constant because bounds and records hardly depend on the
data."""
QP, QP_PAIR, QP_SIDE, LEVEL = 4e4, 0.8, 20.0, 5.0
"""Cost of a reduced quadratic programme of the package: constant, per pair of rows, and per pair of a cut and
an entry of the set's rows; and the factor for a level, because its multiplier is searched."""
LP, LP_ENTRY, LP_PIVOT = 3e5, 20.0, 3.0
"""Cost of a reduced linear programme: constant, per entry of its cuts, and per entry of the set's rows and
pivot, because the first solve takes as many pivots as rows."""
CONE_ENTRY = 100.0
"""Cost per entry of the cuts of a reduced problem in cvxpy, large because cvxpy copies them several times."""
PROGRAMME, PROGRAMME_COLUMN, PROGRAMME_FLOP, PROGRAMME_CUBE = 2e6, 1e4, 20.0, 2.0
"""Cost of a quadratic programme by an interior-point method: constant, per column, per product in its normal
equations, and per cubed column of a dense factor, because it computes some 20 factors."""
COMPILED, COMPILED_ENTRY = 1e7, 100.0
"""Cost of compiling a cone programme by cvxpy: constant, and per entry, large because it is done in
Python."""
SEMIDEFINITE = 7.0
"""Cost per cubed number of entries of a semidefinite cone's matrix, because it computes 20 factors."""
DESCENT, DESCENT_ENTRY, KINKED, KINKED_ENTRY = 1.5e6, 10.0, 1.2e7, 100.0
"""Cost of coordinate descent, constant and per entry, for smooth and for smoothed losses; the latter cost
more because they need more epochs."""


def is_dense(size: tuple[int, int, float]) -> bool:
    """Tell whether a matrix with (examples, features, entries) is dense."""
    m, n, entries = size
    return entries >= m * n


def cost_of_pass(size: tuple[int, int, float]) -> float:
    """Return the cost of an iteration without the bundle, for a matrix with (examples, features, entries)."""
    m, _, entries = size
    return OVERHEAD + PER_EXAMPLE * m + (PER_DENSE_ENTRY if is_dense(size) else PER_ENTRY) * entries


def cost_of_cut(size: tuple[int, int, float], n_cuts: int) -> float:
    """Return the cost of an iteration with a new cut."""
    return cost_of_pass(size) + PER_COEFFICIENT * size[1] * n_cuts + PER_PAIR * n_cuts**2


def cost_of_newton(size: tuple[int, int, float], near: float) -> float:
    """Return the cost of a Newton step in which `near` examples are near a kink of their loss."""
    m, n, entries = size
    per_entry, per_square = (PER_DENSE_ENTRY, PER_DENSE_SQUARE) if is_dense(size) else (PER_ENTRY, PER_SQUARE)
    linear = NEWTON_EXAMPLE * m + per_entry * entries
    return NEWTON + linear + per_square * near * (entries / m) ** 2 + PER_CUBE * n**3


def cost_of_epoch(size: tuple[int, int, float], equations: bool) -> float:
    """Return the cost of an epoch of coordinate ascent; `equations` if the losses have no outline."""
    m, _, entries = size
    return cost_of_visits(m, entries, is_dense(size), equations)


def cost_of_visits(count: float, entries: float, dense: bool, equations: bool) -> float:
    """Return the cost of `count` steps of coordinate ascent."""
    per_visit = EPOCH_EXAMPLE + (EPOCH_EQUATION if equations else 0.0)
    return per_visit * count + (EPOCH_DENSE_ENTRY if dense else EPOCH_ENTRY) * entries


def cost_of_qp(n: float, rows: float) -> float:
    """Return the cost of a reduced problem that is a quadratic programme, with about 2 n active rows."""
    return QP + QP_PAIR * min(rows, 2.0 * n) * rows


def cost_of_programme(columns: float, rows: float, products: float) -> float:
    """Return the cost of a quadratic programme; `products` counts the products of two entries of a row.

    The factor is assumed as dense as the normal equations of columns, or of rows if these are fewer.
    """
    order = max(min(columns, rows), 1.0)
    filled = min(1.0, products / order**2) * order**3
    return (
        PROGRAMME + PROGRAMME_COLUMN * (columns + rows) + PROGRAMME_FLOP * products + PROGRAMME_CUBE * filled
    )


def cost_of_cones(
    columns: float, rows: float, more: float, entries: float, products: float, blocks: float
) -> float:
    """Return the cost of a cone programme through cvxpy.

    The atoms add `more` columns and `entries` entries; `blocks` is the cost of semidefinite cones.
    """
    compiled = PROGRAMME_COLUMN * more + COMPILED_ENTRY * entries
    return cost_of_programme(columns, rows, products) + compiled + blocks


def cost_of_semidefinite(order: int) -> float:
    """Return the cost of a semidefinite cone of this order."""
    return SEMIDEFINITE * (order * (order + 1) / 2) ** 3
