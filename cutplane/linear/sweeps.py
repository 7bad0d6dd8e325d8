"""Block coordinate descent on a quadratic model of the losses, compiled; see `CoordinateDescent`.

Block k consists of the positions starts_k <= c < starts_{k+1} in a list `which` of columns, in which -1
stands for a column of ones. Position c has the value x_c and the term costs_c |x_c| + weights_c (x_c -
centre_c)^2 / 2 on [low_c, high_c]; a block of several positions has the term costs_c ||x||, no weights and no
bounds. The model of the losses is sum_i r_i^2 / (2 d_i), where r_i changes by d_i X_ic times a step on x_c.
The largest eigenvalue of the model in block k is bends_k.
"""

from __future__ import annotations

import math

import numpy as np

from cutplane.linear.columns import add, dot, put, size
from cutplane.runtime.compiling import SUMS, routine

_BATCH = 5
"""Number of sweeps between two extrapolations, because this number is published."""
_MOST = 200
"""Largest number of batches in one call, because the caller then checks the time."""
_RIDGE = 1e-14
"""Number added to the diagonal of the products of steps, relative to their trace, because dependent steps
make them singular."""
_ABOVE = 1.0 + 4.0 * 2.0**-52
"""Factor of the largest ratio, above 1 because the ratio has a rounding error."""


@routine(fastmath=SUMS)
def _group_step(columns, which, start, end, x, cost, steep, d, r):
    """Take a proximal gradient step in a group; return the decrease of the objective and entries visited."""
    new = np.empty(end - start)
    fall = square = 0.0
    visited = 0
    for c in range(start, end):
        visited += size(columns, which[c], r)
        new[c - start] = x[c] - dot(columns, which[c], r) / steep
        square += new[c - start] * new[c - start]
    norm, held = math.sqrt(square), cost / steep
    share = 1.0 - held / norm if norm > held else 0.0
    for c in range(start, end):
        step = share * new[c - start] - x[c]
        if step != 0.0:
            x[c] = x[c] + step if share > 0.0 else 0.0
            fall += 0.5 * steep * step * step
            visited += size(columns, which[c], r)
            add(columns, which[c], step, d, r)
    return fall, visited


@routine(fastmath=SUMS)
def _sweep(columns, which, blocks, starts, x, terms, bends, d, r):
    """Minimise over one block after the other; return a bound of the decrease, and the entries visited."""
    costs, weights, centre, low, high = terms
    fall = 0.0
    visited = 0
    for place in range(blocks.shape[0]):
        k = blocks[place]
        c, end, bend = starts[k], starts[k + 1], bends[k]
        if end - c > 1:
            if bend > 0.0:
                more, seen = _group_step(columns, which, c, end, x, costs[c], bend, d, r)
                fall += more
                visited += seen
            continue
        j, cost = which[c], costs[c]
        visited += size(columns, j, r)
        total = bend + weights[c]
        if total <= 0.0 and cost <= 0.0:
            continue
        v = bend * x[c] - dot(columns, j, r) + weights[c] * centre[c]
        new = 0.0
        if abs(v) > cost:
            new = (v - cost if v > 0.0 else v + cost) / total
        new = low[c] if new < low[c] else high[c] if new > high[c] else new
        step = new - x[c]
        if step != 0.0:
            x[c] = new
            fall += 0.5 * total * step * step
            visited += size(columns, j, r)
            add(columns, j, step, d, r)
    return fall, visited


@routine(fastmath=SUMS)
def _model(starts, x, terms, d, r):
    """Return the objective of the model up to a constant."""
    costs, weights, centre, _, _ = terms
    total = 0.0
    for k in range(starts.shape[0] - 1):
        c, end = starts[k], starts[k + 1]
        if end - c > 1:
            square = 0.0
            for e in range(c, end):
                square += x[e] * x[e]
            total += costs[c] * math.sqrt(square)
        else:
            offset = x[c] - centre[c]
            total += costs[c] * abs(x[c]) + 0.5 * weights[c] * offset * offset
    for i in range(r.shape[0]):
        if d[i] > 0.0:
            total += 0.5 * r[i] * r[i] / d[i]
    return total


@routine(fastmath=SUMS)
def _solve(A, b):
    """Solve A x = b in place, A positive definite; numba takes seconds to compile `np.linalg.solve`."""
    n = b.shape[0]
    for i in range(n):
        for j in range(i + 1, n):
            ratio = A[j, i] / A[i, i]
            b[j] -= ratio * b[i]
            for k in range(i + 1, n):
                A[j, k] -= ratio * A[i, k]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            b[i] -= A[i, k] * b[k]
        b[i] /= A[i, i]


@routine(fastmath=SUMS)
def _extrapolate(xs, rs, starts, x, terms, d, r, value):
    """Step to the affine combination of the iterates with the shortest step, if the model is lower there.

    This is Anderson acceleration, reference [2] of `CoordinateDescent`. Return the value of the model.
    """
    count = xs.shape[0] - 1
    products = np.zeros((count, count))
    for a in range(count):
        for b in range(a + 1):
            total = 0.0
            for c in range(x.shape[0]):
                total += (xs[a + 1, c] - xs[a, c]) * (xs[b + 1, c] - xs[b, c])
            products[a, b] = products[b, a] = total
    trace = 0.0
    for a in range(count):
        trace += products[a, a]
    if not trace > 0.0:
        return value
    for a in range(count):
        products[a, a] += _RIDGE * trace
    shares = np.ones(count)
    _solve(products, shares)
    shares /= shares.sum()
    ahead, residual = np.zeros(x.shape[0]), np.zeros(r.shape[0])
    for a in range(count):
        for c in range(x.shape[0]):
            ahead[c] += shares[a] * xs[a + 1, c]
        for i in range(r.shape[0]):
            residual[i] += shares[a] * rs[a + 1, i]
    for c in range(x.shape[0]):
        if not terms[3][c] <= ahead[c] <= terms[4][c]:
            return value
    other = _model(starts, ahead, terms, d, residual)
    if not other < value:
        return value
    put(ahead, x)
    put(residual, r)
    return other


@routine(fastmath=SUMS)
def descend(columns, which, starts, x, terms, bends, d, r, goal, share, budget):
    """Sweep over all blocks, then in batches over the blocks that can change both ways; update x and r.

    The function ends when a sweep over all blocks decreases the model by less than the goal, or by less than
    a share of the first decrease. It also ends if the decreases of batches predict that the remaining batches
    would visit more entries of the data than the budget.

    Returns
    -------
    visited : float
        Number of entries of the data that were visited.
    fall : float
        The decrease of the last sweep over all blocks; inf if the budget was reached.
    """
    costs, _, _, low, high = terms
    everywhere = np.arange(starts.shape[0] - 1)
    active = np.empty(everywhere.shape[0], np.int64)
    xs, rs = np.empty((_BATCH + 1, x.shape[0])), np.empty((_BATCH + 1, r.shape[0]))
    visited = 0.0
    batches = 0
    while batches < _MOST:
        fall, seen = _sweep(columns, which, everywhere, starts, x, terms, bends, d, r)
        visited += seen
        if fall <= goal:
            return visited, fall
        if share > 0.0:
            goal, share = max(goal, share * fall), 0.0
        count = 0
        for k in range(everywhere.shape[0]):
            for c in range(starts[k], starts[k + 1]):
                if (x[c] != 0.0 or costs[c] == 0.0) and low[c] < x[c] < high[c]:
                    active[count] = k
                    count += 1
                    break
        blocks = active[:count]
        value = _model(starts, x, terms, d, r)
        before = 0.0
        while batches < _MOST:
            batches += 1
            start, began = value, visited
            put(x, xs[0])
            put(r, rs[0])
            for s in range(_BATCH):
                fall, seen = _sweep(columns, which, blocks, starts, x, terms, bends, d, r)
                visited += seen
                put(x, xs[s + 1])
                put(r, rs[s + 1])
            value = _extrapolate(xs, rs, starts, x, terms, d, r, _model(starts, x, terms, d, r))
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


@routine
def best_factor(x, g, terms, free):
    """Return the factor of multipliers with slopes g that gives the best bound, and the gap with it.

    Each position is a block. The slopes of free positions count as zero.
    """
    costs, weights, centre, low, high = terms
    excess = 0.0
    curved = False
    for j in range(x.shape[0]):
        curved |= weights[j] > 0.0
        if costs[j] > 0.0:
            held = costs[j] + weights[j] * abs(x[j] - centre[j])
            if g[j] > 0.0 and low[j] == -math.inf:
                excess = max(excess, g[j] / held)
            if g[j] < 0.0 and high[j] == math.inf:
                excess = max(excess, -g[j] / held)
    factor = 1.0 / (excess * _ABOVE) if excess > 1.0 else 1.0
    gap, whole = 0.0, 0.0
    for j in range(x.shape[0]):
        for k in range(2 if curved and factor < 1.0 else 1):
            v = 0.0 if free[j] else g[j] * (factor if k == 0 else 1.0)
            cost, weight, away = costs[j], weights[j], x[j] - centre[j]
            best = 0.0
            if weight > 0.0:
                slope = v - weight * centre[j]
                if abs(slope) > cost:
                    best = (cost - slope if slope > 0.0 else -cost - slope) / weight
            elif abs(v) > cost:
                best = low[j] if v > 0.0 else high[j]
            best = min(max(best, low[j]), high[j])
            term = math.inf
            if abs(best) < math.inf:
                there = best - centre[j]
                term = cost * (abs(x[j]) - abs(best)) + v * (x[j] - best)
                term += 0.5 * weight * (away - there) * (away + there)
            if k == 0:
                gap += term
            else:
                whole += term
    if curved and factor < 1.0 and whole < gap:
        return 1.0, whole
    return factor, gap
