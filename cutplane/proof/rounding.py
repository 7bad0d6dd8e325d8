"""Rounding errors of float64, each function a bound and never an estimate.

A sum of n products in any order is off by at most gamma(n) times the sum of the absolute products (Higham,
Accuracy and Stability of Numerical Algorithms, 2002, section 3.1, doi:10.1137/1.9780898718027).
"""

from __future__ import annotations

UNIT = 2.0**-53
"""Relative error of one operation, because float64 has 53 bits."""
EPS = 2.0 * UNIT
"""One bit of a number of size 1, because rounding changes it by at most half a bit."""
ROUNDING = 1e-12
"""Error of bounds relative to the objective, because a few thousand roundings of terms add up to it. Larger
rounding errors are subtracted from the bound."""
CANCELLED = 16.0 * EPS
"""Error of a sum whose terms cancel, relative to the terms, because the last bits of a few remain."""
ORACLE = 1e-7
"""Relative error of an oracle's answer, because inner solves have cvxpy's tolerances; answers that differ by
more contradict one another."""
RECOMPUTED = 1e-9
"""Difference of a recomputed answer from the recorded one, relative to its terms, because sums may have
another order, and inner iterations another start."""
FEASIBLE = 1e-9
"""Violation of a simple set, relative to the point, because projections and exact masters stay below it."""
INSIDE = 1e-7
"""Violation of a set without a projection, relative to the point, because cone solvers stay below it. Beyond
it the objective is no upper bound."""
NEAR = 1e-6
"""Violation, relative to the point, of a solver's answer that is corrected along the violated rows, because
farther points need a projection."""
RESIDUAL = 1e-6
"""Aggregate slope that should be 0, relative to the slopes in use, because solvers stay below it."""
FLAT = 1e-13
"""Slope entries below this share of the largest one are treated as rounding error, because cancellation
produces errors of that size. Their effect is still subtracted from the bound."""
REACH = 10.0
"""Distance over which a residual slope that is rounding error is charged, relative to the best point, because
better points may lie farther out."""
ABOVE = 1.0 + 1e-9
"""Factor of an upper bound, because it is the difference of two rounded values."""
OVERFLOWS = 1e280
"""Size from which a value counts as infinite, because its subgradient, a sum of products of such numbers and
the data, would overflow."""


def gamma(n: int) -> float:
    """Return a bound of the relative error of a sum of n products, or of n operations in a row."""
    return n * UNIT / (1.0 - n * UNIT)
