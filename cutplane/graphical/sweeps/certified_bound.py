"""Costs recomputed from those of the model and the messages, with bounds on the rounding errors."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import NUMBERS, routine

_EPS = float(np.finfo(np.float64).eps)


@routine(fastmath=NUMBERS)
def lower(costs, sizes, places, starts, messages, relative):
    """Take the messages, each from its place on, from the costs, and `relative` of the sum of all sizes."""
    for link in range(places.size):
        begin, start = places[link], starts[link]
        for x in range(starts[link + 1] - start):
            costs[begin + x] -= messages[start + x]
            sizes[begin + x] += abs(messages[start + x])
    for x in range(costs.size):
        costs[x] = costs[x] - relative * sizes[x] if sizes[x] < np.inf else np.inf


@routine(fastmath=NUMBERS)
def lower_bound_of_sum(values):
    """Return a number that the sum does not fall below, by compensated summation (Neumaier 1974)."""
    total, lost, sizes = 0.0, 0.0, 0.0
    for value in values:
        if value == np.inf:
            return np.inf
        after = total + value
        lost += (total - after) + value if abs(total) >= abs(value) else (value - after) + total
        total = after
        sizes += abs(value)
    return (total + lost) - 2.0 * _EPS * abs(total + lost) - values.size * _EPS * _EPS * sizes
