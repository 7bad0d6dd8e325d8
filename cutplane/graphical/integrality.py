"""The sizes of costs, and the unit of which all energies are multiples, if there is one."""

from __future__ import annotations

import math

import numpy as np

from cutplane.pieces.validation import Array

_FINEST = 1e-6
_MANY = 2**14
_PENALTY, _SMALL = 1e3, 0.1
"""Normally distributed costs are up to 40 times as large as a tenth of them are at most."""


def finite_sizes(*costs: Array) -> Array:
    """Return the absolute values of the finite nonzero costs."""
    sizes = np.abs(np.concatenate(costs))
    return sizes[(sizes > 0.0) & (sizes < np.inf)]


def has_penalties(sizes: Array) -> bool:
    """Tell whether some costs are so much larger than others that they may be there to forbid states."""
    return bool(sizes.size and sizes.max() > _PENALTY * np.quantile(sizes, _SMALL))


def common_unit(*costs: Array) -> float:
    """Return the largest number of which all finite costs are multiples, in exact arithmetic.

    0 if there is none of use: if it is less than a millionth of the largest cost.

    Examples
    --------
    >>> import numpy as np
    >>> common_unit(np.array([0, 1.5]), np.array([3, float("inf")]))
    1.5
    """
    if any(np.unique(part[: 4 * _MANY]).size > 2 * _MANY + 2 for part in costs):
        return 0.0  # more than _MANY absolute values: no need to sort the rest
    sizes = np.unique(finite_sizes(*costs))
    if sizes.size == 0 or sizes.size > _MANY or sizes[0] < _FINEST * sizes[-1]:
        return 0.0
    ratios = [size.as_integer_ratio() for size in sizes.tolist()]
    denominator = max(below for _, below in ratios)
    unit, least = 0, _FINEST * sizes[-1] * denominator
    for above, below in ratios:
        unit = math.gcd(unit, above * (denominator // below))
        if unit < least:
            return 0.0
    return unit / denominator


def rounded_up(bound: float, unit: float) -> float:
    """Return the least multiple of `unit` that is at least `bound`; the bound itself if `unit` is 0."""
    return math.ceil(bound / unit) * unit if unit > 0.0 and math.isfinite(bound) else bound
