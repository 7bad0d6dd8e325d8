"""Bounds of the rounding errors of float64.

A sum of n products in any order is off by at most gamma(n) times the sum of the absolute products (Higham,
Accuracy and Stability of Numerical Algorithms, 2002, section 3.1, doi:10.1137/1.9780898718027).
"""

from __future__ import annotations

UNIT = 2.0**-53
"""Relative error of one operation, because float64 has 53 bits."""
EPS = 2.0 * UNIT
"""Distance of 1 to the next float, used because it covers the errors of two operations."""
ROUNDING = 1e-12
"""Relative error of bounds that is tolerated, because a few thousand roundings of terms add up to it. Larger
errors are subtracted from the bound."""
CANCELLED = 16.0 * EPS
"""Error of a sum relative to its terms, which may cancel, because a few last bits of the terms add up."""
ORACLE = 1e-7
"""Relative error of an oracle's answer, because inner solves have cvxpy's tolerances; a larger difference is
a contradiction."""
RECOMPUTED = 1e-9
"""Difference of a recomputed answer from the recorded one, relative to its terms, because the order of sums
and the start of inner iterations may differ."""
FEASIBLE = 1e-9
"""Violation of a simple set, relative to the point, because projections and exact masters have smaller
violations."""
INSIDE = 1e-7
"""Violation of a set without a projection, relative to the point, up to which a point gives an upper bound,
because cone solvers have smaller violations."""
NEAR = 1e-6
"""Violation, relative to the point, up to which a solver's answer is corrected along the violated rows,
because more distant points need a projection."""
RESIDUAL = 1e-6
"""Largest slope of a combination that should be 0, relative to the slopes in use, because solvers are more
accurate."""
FLAT = 1e-13
"""Slope entries below this share of the largest one are treated as rounding errors, because cancellation
produces them. Their effect is still subtracted from the bound."""
REACH = 10.0
"""Factor of the best point's norm over which a residual slope is subtracted from the bound, because better
points may be farther from zero."""
ABOVE = 1.0 + 1e-9
"""Factor that makes a computed value an upper bound, because the value is a difference of two rounded
numbers."""
OVERFLOWS = 1e280
"""Size from which a value counts as infinite, because its subgradient, a sum of products with the data, would
overflow."""


def gamma(n: int) -> float:
    """Return a bound of the relative error of a sum of n products, or of n operations in a row."""
    return n * UNIT / (1.0 - n * UNIT)
