"""The one definition of the gap."""

from __future__ import annotations

import math

from cutplane.engine.tolerances import LEAST


def relative_gap(lower: float, upper: float, scale: float = 1.0) -> float:
    """(upper - lower) / max(1e-12 min(1, scale), |upper|), inf if either bound is missing.

    `scale` is the size of the objective, the largest one seen.
    """
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return math.inf
    gap = max(0.0, upper - lower)
    size = max(least_size(scale), abs(upper))
    return gap / size if size > 0.0 else (0.0 if gap == 0.0 else math.inf)


def least_size(scale: float) -> float:
    """Return the least size of the objective that a relative gap refers to."""
    return LEAST * min(1.0, scale)
