"""The engine's tolerances, each relative to a size that is named, with the reason for its value."""

from __future__ import annotations

EPS = 2.0**-52
"""One bit of a number of size 1."""

ROUNDING = 1e-12
"""Bounds hold up to this share of the objective: what a few thousand roundings of its terms add up to. A
rounding error that may be larger is charged to the bound."""

CANCELLED = 16.0 * EPS
"""What rounding leaves of a sum whose terms cancel, relative to the terms: the last bits of a few of them."""

ORACLE = 1e-7
"""Relative error that an oracle's answer may have, such as that of an inner solve at cvxpy's tolerances;
answers that differ by more contradict one another."""

INNER = 1e-9
"""How far outside an oracle may call a point inside, relative to the numbers of the simple set: the tolerance
that separation oracles are usually written with, such as for the sign of an eigenvalue in a box of size 1."""

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

LEAST = 1e-12
"""An objective below this share of the largest one that was seen counts as zero in a relative gap."""

LEFT = 1e-6
"""What a solver may leave of an aggregate slope that should be 0, relative to the slopes in use."""

FLAT = 1e-13
"""An entry of a slope below this share of the largest one is rounding: both are sums of many terms, of which
the small one may be what cancellation leaves. What it is worth is charged all the same."""

REACH = 10.0
"""How much farther out than the best point, in its largest coordinate, a residual slope of the size of the
last bits of slopes is charged."""

DIVERGED = 1e15
"""An objective this many times the size of the first one below zero has no lower bound, unless one is known:
its digits are used up."""

OVERFLOWS = 1e280
"""A value above this counts as infinite: its subgradient, a sum of such numbers times those of the data,
would overflow."""

FAR = 2.0
"""The largest |t| to which an image is extrapolated, z0 + t (z1 - z0), before it is computed again."""

DRIFTED = 1e-12
"""The relative error of a combined image at which it is computed again."""
