"""Compiled visits of examples, for coordinate ascent on the dual of multiclass margins."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import SUMS, routine

_FAR = 1e6
"""Largest distance below the best class, because more distant classes have share 0."""


@routine(fastmath=SUMS)
def nearest_shares(t):
    """Project t, whose largest entry is 0, onto the simplex: subtract a number, and clip at 0."""
    count, total = t.shape[0], 0.0
    for k in range(t.shape[0]):
        total += t[k]
    above = (total - 1.0) / count
    while True:
        kept, rest = 0, 0.0
        for k in range(t.shape[0]):
            if t[k] > above:
                kept += 1
                rest += t[k]
        if kept >= count or kept == 0:
            break
        count = kept
        above = (rest - 1.0) / kept
    for k in range(t.shape[0]):
        t[k] = max(t[k] - above, 0.0)


@routine(fastmath=SUMS)
def improve(heights, shares, bend, new):
    """Maximise <p, heights> - bend/2 ||p - shares||^2 over shares p; return the gap and the increase."""
    top, mean = -np.inf, 0.0
    for k in range(heights.shape[0]):
        top = max(top, heights[k])
        mean += shares[k] * heights[k]
    gap = top - mean
    if gap <= 0.0:
        for k in range(heights.shape[0]):
            new[k] = shares[k]
        return 0.0, 0.0
    largest = 0.0
    for k in range(heights.shape[0]):
        below = heights[k] - top
        new[k] = shares[k] + (below / bend if below > -_FAR * bend else -_FAR if below < 0.0 else 0.0)
        largest = max(largest, new[k])
    for k in range(heights.shape[0]):
        new[k] -= largest
    nearest_shares(new)
    rise = 0.0
    for k in range(heights.shape[0]):
        step = new[k] - shares[k]
        rise += step * (heights[k] - top) - 0.5 * bend * step * step
    return gap, rise


@routine(fastmath=SUMS)
def visit_dense(X, order, y, weights, squares, margins, lam, bias, W, shares, active):
    """Visit examples in this order; return the sums of their gaps and of the increases of the dual.

    W, of shape (n + 1, p), and the shares are updated; `active` becomes a mask of the changed examples.
    """
    p = W.shape[1]
    n = X.shape[1]
    heights, new = np.empty(p), np.empty(p)
    total, rises = 0.0, 0.0
    for place in range(order.shape[0]):
        i = order[place]
        for k in range(p):
            heights[k] = margins[y[i], k] + bias * W[n, k]
        for j in range(n):
            entry = X[i, j]
            if entry != 0.0:
                for k in range(p):
                    heights[k] += entry * W[j, k]
        scale = weights[i] / lam
        gap, rise = improve(heights, shares[i], scale * squares[i], new)
        total += weights[i] * gap
        rises += weights[i] * rise
        active[i] = rise > 0.0
        if rise > 0.0:
            for k in range(p):
                heights[k] = scale * (shares[i, k] - new[k])
                shares[i, k] = new[k]
                W[n, k] += bias * heights[k]
            for j in range(n):
                entry = X[i, j]
                if entry != 0.0:
                    for k in range(p):
                        W[j, k] += entry * heights[k]
    return total, rises


@routine(fastmath=SUMS)
def visit_sparse(data, indices, indptr, order, y, weights, squares, margins, lam, bias, W, shares, active):
    """Do the same for rows in CSR."""
    p = W.shape[1]
    n = W.shape[0] - 1
    heights, new = np.empty(p), np.empty(p)
    total, rises = 0.0, 0.0
    for place in range(order.shape[0]):
        i = order[place]
        for k in range(p):
            heights[k] = margins[y[i], k] + bias * W[n, k]
        for at in range(indptr[i], indptr[i + 1]):
            for k in range(p):
                heights[k] += data[at] * W[indices[at], k]
        scale = weights[i] / lam
        gap, rise = improve(heights, shares[i], scale * squares[i], new)
        total += weights[i] * gap
        rises += weights[i] * rise
        active[i] = rise > 0.0
        if rise > 0.0:
            for k in range(p):
                heights[k] = scale * (shares[i, k] - new[k])
                shares[i, k] = new[k]
                W[n, k] += bias * heights[k]
            for at in range(indptr[i], indptr[i + 1]):
                for k in range(p):
                    W[indices[at], k] += data[at] * heights[k]
    return total, rises
