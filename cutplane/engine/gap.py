"""The one definition of the gap."""

from __future__ import annotations

import math


def relative_gap(lower: float, upper: float) -> float:
    """(upper - lower) / max(1e-12, |upper|), inf if either bound is missing."""
    if not (math.isfinite(lower) and math.isfinite(upper)):
        return math.inf
    return max(0.0, upper - lower) / max(1e-12, abs(upper))
