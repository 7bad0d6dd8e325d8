"""The size of the costs of a model, and the unit of which all its energies are multiples, if there is one."""

from __future__ import annotations

import math

import numpy as np

from cutplane.graphical.factor_graph import FactorGraph
from cutplane.pieces.validation import Array

_FINEST = 1e-6
_MANY = 2**14
_PENALTY, _SMALL = 1e3, 0.1
"""Normally distributed costs are up to 40 times as large as a tenth of them are at most."""


def largest_cost(model: FactorGraph) -> float:
    """Return the largest absolute value of a finite cost, 0 if there is none."""
    costs = np.abs(np.concatenate([model.unaries, model.tables]))
    return float(costs.max(where=costs < np.inf, initial=0.0))


def typical_cost(model: FactorGraph) -> float:
    """Return the median absolute value of the finite nonzero costs; a few penalties do not move it."""
    costs = _sizes(model)
    return float(np.median(costs)) if costs.size else 0.0


def has_penalties(model: FactorGraph) -> bool:
    """Tell whether some costs are so much larger than others that they may be there to forbid states."""
    costs = _sizes(model)
    return bool(costs.size and costs.max() > _PENALTY * np.quantile(costs, _SMALL))


def _sizes(model: FactorGraph) -> Array:
    costs = np.abs(np.concatenate([model.unaries, model.tables]))
    return costs[(costs > 0.0) & (costs < np.inf)]


def energy_unit(model: FactorGraph) -> float:
    """Return the largest number of which all finite costs of a model are multiples, in exact arithmetic.

    Parameters
    ----------
    model : GraphicalModel

    Returns
    -------
    float
        0 if there is none of use: if it is less than a millionth of the largest cost.

    Examples
    --------
    >>> from cutplane.graphical import GraphicalModel
    >>> energy_unit(GraphicalModel([2, 2], [((0, 1), [[0, 1.5], [3, float("inf")]])]))
    1.5
    """
    if any(np.unique(costs[: 4 * _MANY]).size > 2 * _MANY + 2 for costs in (model.unaries, model.tables)):
        return 0.0  # more than _MANY absolute values: no need to sort the rest
    costs = np.unique(np.abs(np.concatenate([[model.constant], model.unaries, model.tables])))
    costs = costs[(costs > 0.0) & (costs < np.inf)]
    if costs.size == 0 or costs.size > _MANY or costs[0] < _FINEST * costs[-1]:
        return 0.0
    ratios = [cost.as_integer_ratio() for cost in costs.tolist()]
    denominator = max(below for _, below in ratios)
    unit, least = 0, _FINEST * costs[-1] * denominator
    for above, below in ratios:
        unit = math.gcd(unit, above * (denominator // below))
        if unit < least:
            return 0.0
    return unit / denominator


def rounded_up(bound: float, unit: float) -> float:
    """Return the least multiple of `unit` that is at least `bound`; the bound itself if `unit` is 0."""
    return math.ceil(bound / unit) * unit if unit > 0.0 and math.isfinite(bound) else bound
