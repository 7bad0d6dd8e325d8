"""Compiled passes over groups of columns; see `sweeps`, whose arguments these have.

Group k holds the places from starts_k to starts_{k+1} of the list of columns; its term is costs_k times its
norm, and steep_k is the largest eigenvalue of the model in it.
"""

from __future__ import annotations

import math

import numpy as np

from cutplane.linear.sweeps import BATCH, MOST, add, combination, dot, put, size
from cutplane.runtime.compiling import SUMS, routine


@routine(fastmath=SUMS)
def sweep_groups(columns, which, groups, x, starts, costs, steep, d, r):
    """Take a proximal gradient step in one group after the other.

    Return how far the objective falls, at least, and the entries of the data visited.
    """
    fall = 0.0
    visited = 0
    for place in range(groups.shape[0]):
        k = groups[place]
        start, end = starts[k], starts[k + 1]
        if steep[k] <= 0.0:
            continue
        new = np.empty(end - start)
        square = 0.0
        for c in range(start, end):
            visited += size(columns, which[c], r)
            new[c - start] = x[c] - dot(columns, which[c], r) / steep[k]
            square += new[c - start] * new[c - start]
        norm = math.sqrt(square)
        held = costs[k] / steep[k]
        share = 1.0 - held / norm if norm > held else 0.0
        for c in range(start, end):
            step = share * new[c - start] - x[c]
            if step != 0.0:
                x[c] += step
                if share == 0.0:
                    x[c] = 0.0
                fall += 0.5 * steep[k] * step * step
                visited += size(columns, which[c], r)
                add(columns, which[c], step, d, r)
    return fall, visited


@routine(fastmath=SUMS)
def model_of_groups(x, starts, costs, d, r):
    """Return the objective of the model, but for a constant."""
    total = 0.0
    for k in range(costs.shape[0]):
        square = 0.0
        for c in range(starts[k], starts[k + 1]):
            square += x[c] * x[c]
        total += costs[k] * math.sqrt(square)
    for i in range(r.shape[0]):
        if d[i] > 0.0:
            total += 0.5 * r[i] * r[i] / d[i]
    return total


@routine(fastmath=SUMS)
def descend_groups(columns, which, x, starts, costs, steep, d, r, goal, share, budget):
    """Sweep over all groups, then in batches over those that are not zero; as `sweeps.descend` does."""
    everywhere = np.arange(costs.shape[0])
    active = np.empty(costs.shape[0], np.int64)
    xs, rs = np.empty((BATCH + 1, x.shape[0])), np.empty((BATCH + 1, r.shape[0]))
    visited = 0.0
    batches = 0
    while batches < MOST:
        fall, seen = sweep_groups(columns, which, everywhere, x, starts, costs, steep, d, r)
        visited += seen
        if fall <= goal:
            return visited, fall
        if share > 0.0:
            goal, share = max(goal, share * fall), 0.0
        count = 0
        for k in range(costs.shape[0]):
            moves = costs[k] == 0.0
            for c in range(starts[k], starts[k + 1]):
                moves = moves or x[c] != 0.0
            if moves:
                active[count] = k
                count += 1
        groups = active[:count]
        value = model_of_groups(x, starts, costs, d, r)
        before = 0.0
        while batches < MOST:
            batches += 1
            start, began = value, visited
            put(x, xs[0])
            put(r, rs[0])
            for s in range(BATCH):
                fall, seen = sweep_groups(columns, which, groups, x, starts, costs, steep, d, r)
                visited += seen
                put(x, xs[s + 1])
                put(r, rs[s + 1])
            value = model_of_groups(x, starts, costs, d, r)
            ahead, residual = combination(xs, rs, x, r)
            other = model_of_groups(ahead, starts, costs, d, residual)
            if other < value:
                value = other
                put(ahead, x)
                put(residual, r)
            fall = start - value
            if fall <= goal:
                break
            if fall < before:
                needed = math.log(goal * (before - fall) / (before * fall)) / math.log(fall / before)
                if needed * (visited - began) > budget:
                    return visited, math.inf
                if needed <= 1.0:
                    break
            before = fall
    return visited, math.inf
