"""Compiled passes over columns of the data, for coordinate descent; see `coordinate_descent`.

`columns` is a tuple: an array whose rows are the columns of the data, or data, indices and indptr of CSC.
Columns are named by a list `which`, in which -1 stands for a column of ones. Coordinate k of the list has the
value x_k and a term costs_k |x_k| + weights_k (x_k - centre_k)^2 / 2 on [low_k, high_k] of its own; the rest
is a quadratic model sum_i r_i^2 / (2 d_i), whose r moves by d_i X_ik times a step on x_k.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import overload

from cutplane.runtime.compiling import SUMS, routine

BATCH = 5
"""Sweeps between two extrapolations, as published."""
MOST = 200
"""Batches of one call, after which the caller looks at the clock."""
_RIDGE = 1e-14
"""Steps that depend on one another leave their products singular but for rounding."""
_INLINE: Any = {"error_model": "numpy", "fastmath": set(SUMS), "forceinline": True}


def size(columns, j, r):
    """Return the number of entries of a column."""
    if j < 0 or len(columns) == 1:
        return r.shape[0]
    return int(columns[2][j + 1] - columns[2][j])


def dot(columns, j, r):
    """Return the product of a column and r."""
    if j < 0:
        return r.sum()
    if len(columns) == 1:
        return columns[0][j] @ r
    data, indices, indptr = columns
    part = slice(indptr[j], indptr[j + 1])
    return data[part] @ r[indices[part]]


def dot_squares(columns, j, d):
    """Return the product of the squares of a column and d."""
    if j < 0:
        return d.sum()
    if len(columns) == 1:
        return np.square(columns[0][j], dtype=np.float64) @ d
    data, indices, indptr = columns
    part = slice(indptr[j], indptr[j + 1])
    return np.square(data[part], dtype=np.float64) @ d[indices[part]]


def add(columns, j, step, d, r):
    """Add a column times step and d to r."""
    if j < 0:
        r += step * d
    elif len(columns) == 1:
        r += step * d * columns[0][j]
    else:
        data, indices, indptr = columns
        part = slice(indptr[j], indptr[j + 1])
        r[indices[part]] += step * d[indices[part]] * data[part]


def put(source, target):
    """Copy a vector; numba takes seconds to compile the assignment to a slice."""
    target[:] = source


@overload(put, _INLINE)
def _put(source, target):
    def do(source, target):
        for i in range(target.shape[0]):
            target[i] = source[i]

    return do


@overload(size, _INLINE)
def _size(columns, j, r):
    if len(columns) == 1:
        return lambda columns, j, r: r.shape[0]
    return lambda columns, j, r: r.shape[0] if j < 0 else np.int64(columns[2][j + 1] - columns[2][j])


@overload(dot, _INLINE)
def _dot(columns, j, r):
    def dense(columns, j, r):
        total = 0.0
        if j < 0:
            for i in range(r.shape[0]):
                total += r[i]
        else:
            column = columns[0][j]
            for i in range(r.shape[0]):
                total += column[i] * r[i]
        return total

    def compressed(columns, j, r):
        data, indices, indptr = columns
        total = 0.0
        if j < 0:
            for i in range(r.shape[0]):
                total += r[i]
        else:
            for p in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
                total += data[p] * r[indices[p]]
        return total

    return dense if len(columns) == 1 else compressed


@overload(dot_squares, _INLINE)
def _dot_squares(columns, j, d):
    def dense(columns, j, d):
        total = 0.0
        if j < 0:
            for i in range(d.shape[0]):
                total += d[i]
        else:
            column = columns[0][j]
            for i in range(d.shape[0]):
                total += column[i] * d[i] * column[i]
        return total

    def compressed(columns, j, d):
        data, indices, indptr = columns
        total = 0.0
        if j < 0:
            for i in range(d.shape[0]):
                total += d[i]
        else:
            for p in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
                total += data[p] * d[indices[p]] * data[p]
        return total

    return dense if len(columns) == 1 else compressed


@overload(add, _INLINE)
def _add(columns, j, step, d, r):
    def dense(columns, j, step, d, r):
        if j < 0:
            for i in range(r.shape[0]):
                r[i] += step * d[i]
        else:
            column = columns[0][j]
            for i in range(r.shape[0]):
                r[i] += step * d[i] * column[i]

    def compressed(columns, j, step, d, r):
        data, indices, indptr = columns
        if j < 0:
            for i in range(r.shape[0]):
                r[i] += step * d[i]
        else:
            for p in range(np.uint64(indptr[j]), np.uint64(indptr[j + 1])):
                r[indices[p]] += step * d[indices[p]] * data[p]

    return dense if len(columns) == 1 else compressed


@routine(fastmath=SUMS)
def slopes_and_bends(columns, which, d, r, slopes, bends):
    """Set the products of the columns with r, and, where there is room, of their squares with d."""
    for k in range(which.shape[0]):
        slopes[k] = dot(columns, which[k], r)
    if bends.shape[0]:
        for k in range(which.shape[0]):
            bends[k] = dot_squares(columns, which[k], d)


@routine(fastmath=SUMS)
def add_columns(columns, which, steps, ones, z):
    """Add the columns, times the steps, to z; `ones` are as many ones as z has entries."""
    for k in range(which.shape[0]):
        if steps[k] != 0.0:
            add(columns, which[k], steps[k], ones, z)


@routine(fastmath=SUMS)
def sweep(columns, which, places, x, terms, bends, d, r):
    """Minimise over one coordinate after the other.

    Return the fall of the objective, which is at least that, and the entries of the data visited.
    """
    costs, weights, centre, low, high = terms
    fall = 0.0
    visited = 0
    for place in range(places.shape[0]):
        k = places[place]
        j = which[k]
        bend, cost = bends[k], costs[k]
        visited += size(columns, j, r)
        total = bend + weights[k]
        if total <= 0.0 and cost <= 0.0:
            continue
        v = bend * x[k] - dot(columns, j, r) + weights[k] * centre[k]
        new = 0.0
        if abs(v) > cost:
            new = (v - cost if v > 0.0 else v + cost) / total
        new = low[k] if new < low[k] else high[k] if new > high[k] else new
        step = new - x[k]
        if step != 0.0:
            x[k] = new
            fall += 0.5 * total * step * step
            visited += size(columns, j, r)
            add(columns, j, step, d, r)
    return fall, visited


@routine(fastmath=SUMS)
def model(x, terms, d, r):
    """Return the objective of the model, but for a constant."""
    costs, weights, centre, _, _ = terms
    total = 0.0
    for k in range(x.shape[0]):
        offset = x[k] - centre[k]
        total += costs[k] * abs(x[k]) + 0.5 * weights[k] * offset * offset
    for i in range(r.shape[0]):
        if d[i] > 0.0:
            total += 0.5 * r[i] * r[i] / d[i]
    return total


@routine(fastmath=SUMS)
def solve(A, b):
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
def combination(xs, rs, x, r):
    """Return the affine combination of iterates whose steps cancel best [1]_, and its residual; or x and r.

    References
    ----------
    .. [1] Q. Bertrand, M. Massias, "Anderson acceleration of coordinate descent", AISTATS 2021,
       arXiv:2011.10065.
    """
    count = xs.shape[0] - 1
    products = np.zeros((count, count))
    for a in range(count):
        for b in range(a + 1):
            total = 0.0
            for k in range(x.shape[0]):
                total += (xs[a + 1, k] - xs[a, k]) * (xs[b + 1, k] - xs[b, k])
            products[a, b] = products[b, a] = total
    trace = 0.0
    for a in range(count):
        trace += products[a, a]
    if not trace > 0.0:
        return x, r
    for a in range(count):
        products[a, a] += _RIDGE * trace
    shares = np.ones(count)
    solve(products, shares)
    shares /= shares.sum()
    ahead, residual = np.zeros(x.shape[0]), np.zeros(r.shape[0])
    for a in range(count):
        for k in range(x.shape[0]):
            ahead[k] += shares[a] * xs[a + 1, k]
        for i in range(r.shape[0]):
            residual[i] += shares[a] * rs[a + 1, i]
    return ahead, residual


@routine(fastmath=SUMS)
def extrapolate(xs, rs, x, terms, d, r, value):
    """Go to the combination of iterates, if the model is lower there; return the value where that ends."""
    ahead, residual = combination(xs, rs, x, r)
    for k in range(x.shape[0]):
        if not terms[3][k] <= ahead[k] <= terms[4][k]:
            return value
    other = model(ahead, terms, d, residual)
    if not other < value:
        return value
    put(ahead, x)
    put(residual, r)
    return other


@routine(fastmath=SUMS)
def descend(columns, which, x, terms, bends, d, r, goal, share, budget):
    """Sweep over all coordinates, then in batches over those that are free to move; x and r are updated.

    It ends when a sweep over all coordinates lowers the model by less than the goal, or by less than a share
    of what the first one did. The falls in batches tell how many more are needed: it ends also when more
    entries of the data would be visited than the budget.

    Returns
    -------
    visited : float
        Entries of the data that were read.
    fall : float
        That of the last sweep over all coordinates; inf beyond the budget.
    """
    costs, _, _, low, high = terms
    everywhere = np.arange(which.shape[0])
    active = np.empty(which.shape[0], np.int64)
    xs, rs = np.empty((BATCH + 1, x.shape[0])), np.empty((BATCH + 1, r.shape[0]))
    visited = 0.0
    batches = 0
    while batches < MOST:
        fall, seen = sweep(columns, which, everywhere, x, terms, bends, d, r)
        visited += seen
        if fall <= goal:
            return visited, fall
        if share > 0.0:
            goal, share = max(goal, share * fall), 0.0
        count = 0
        for k in range(which.shape[0]):
            if (x[k] != 0.0 or costs[k] == 0.0) and low[k] < x[k] < high[k]:
                active[count] = k
                count += 1
        places = active[:count]
        value = model(x, terms, d, r)
        before = 0.0
        while batches < MOST:
            batches += 1
            start, began = value, visited
            put(x, xs[0])
            put(r, rs[0])
            for s in range(BATCH):
                fall, seen = sweep(columns, which, places, x, terms, bends, d, r)
                visited += seen
                put(x, xs[s + 1])
                put(r, rs[s + 1])
            value = extrapolate(xs, rs, x, terms, d, r, model(x, terms, d, r))
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
