"""Rounding errors of float64, each function a bound and never an estimate.

A sum of n products in any order is off by at most gamma(n) times the sum of the absolute products (Higham,
Accuracy and Stability of Numerical Algorithms, 2002, section 3.1, doi:10.1137/1.9780898718027).
"""

from __future__ import annotations

UNIT = 2.0**-53
"""The relative error of one operation."""
EPS = 2.0 * UNIT
"""One bit of a number of size 1."""
ROUNDING = 1e-12
"""Bounds hold up to this share of the objective: what a few thousand roundings of its terms add up to. A
rounding error that may be larger is charged to the bound."""
CANCELLED = 16.0 * EPS
"""What rounding leaves of a sum whose terms cancel, relative to the terms: the last bits of a few of them."""
ORACLE = 1e-7
"""Relative error that an oracle's answer may have, such as that of an inner solve at cvxpy's tolerances;
answers that differ by more contradict one another."""
RECOMPUTED = 1e-9
"""How well an answer asked for again agrees with the recorded one, relative to its terms: the order of the
terms of a sum may differ, and inner iterations may start elsewhere."""
FEASIBLE = 1e-9
"""How far a point of a simple set may be outside, relative to the point: projections, and masters that are
asked for as much, leave no more."""
INSIDE = 1e-7
"""How far outside, relative to itself, a point counts as one of a set without a projection: what cone solvers
leave. Farther out its objective is no upper bound."""
NEAR = 1e-6
"""How far outside, relative to the point, an answer of a solver may be that is not projected but corrected
along the rows it violates."""
LEFT = 1e-6
"""What a solver may leave of an aggregate slope that should be 0, relative to the slopes in use."""
FLAT = 1e-13
"""An entry of a slope below this share of the largest one is rounding: both are sums of many terms, of which
the small one may be what cancellation leaves. What it is worth is charged all the same."""
REACH = 10.0
"""How much farther out than the best point, in its largest coordinate, a residual slope of the size of the
last bits of slopes is charged."""
ABOVE = 1.0 + 1e-9
"""Factor of an upper bound, because it is the difference of two rounded values."""
OVERFLOWS = 1e280
"""A value above this counts as infinite: its subgradient, a sum of such numbers times those of the data,
would overflow."""


def gamma(n: int) -> float:
    """Return a bound of the relative error of a sum of n products, or of n operations in a row."""
    return n * UNIT / (1.0 - n * UNIT)
