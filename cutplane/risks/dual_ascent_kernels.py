"""Epochs of dual coordinate ascent, compiled; see `cutplane.risks.dual_ascent`.

Example i has the prediction t_i = <x_i, w> + b, the argument s_i = signs_i t_i - shifts_i of its loss phi,
and the dual variable v_i, a slope of phi. A step on v_i alone is a proximal step: with q_i the curvature of
the quadratic part, the best v_i is ``dual_prox(s_i + q_i v_i, q_i)``.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from cutplane.losses.kernels import conjugate, dual_prox

_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}
_SUMS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}


@njit(**_OPTIONS)
def shuffle(order, count, seed):
    """Shuffle the first entries in place (Fisher and Yates, xorshift); return the next seed."""
    state = np.uint64(seed)
    for k in range(count - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        j = np.int64(state % np.uint64(k + 1))
        order[k], order[j] = order[j], order[k]
    return state


@njit(**_OPTIONS)
def is_settled(kind, knots, s, reach):
    """Tell whether s is farther than `reach` from every knot of a piecewise loss."""
    if kind != 0:
        return False
    for j in range(knots.shape[0]):
        if abs(s - knots[j]) <= reach:
            return False
    return True


@njit(**_OPTIONS)
def best_slopes(kind, knots, pieces, s, q, v):
    """Set v to the slopes that are best one by one, where a row of zeros (q = 0) leaves no other choice."""
    for i in range(v.shape[0]):
        v[i] = dual_prox(kind, knots, pieces, s[i], 0.0) if q[i] == 0.0 else 0.0


@njit(**_OPTIONS)
def conjugates(kind, knots, pieces, shifts, weights, v, t):
    """Return the weighted sum of the conjugates of the losses, as functions of the predictions, at t v."""
    total = 0.0
    for i in range(v.shape[0]):
        if weights[i] > 0.0:
            total += weights[i] * (conjugate(kind, knots, pieces, t * v[i]) + shifts[i] * t * v[i])
    return total


@njit(**_SUMS)
def csr_epochs(
    data, indices, indptr,
    signs, shifts, rates, bias_rates, q, loss, v, x, order, count, reach, epochs, seed,
):  # fmt: skip
    """Do some epochs over the first `count` examples of `order`; v, x and order are updated.

    Parameters
    ----------
    rates, bias_rates : ndarray of shape (m,)
        What x moves by along a row, and the bias, per unit of v_i; `bias_rates` is empty without a bias,
        which else is the last entry of x.
    reach : float
        An example whose v is at a bound is left out if s is farther than this from every knot.

    Returns
    -------
    count, reach, entries, visits, seed
        How many examples are left, the reach for the next epoch, the entries of the data and the examples
        visited, and the seed for the next call.
    """
    kind, knots, pieces = loss
    biased = bias_rates.shape[0] > 0
    last = x.shape[0] - 1
    entries = 0
    visits = 0
    for _ in range(epochs):
        seed = shuffle(order, count, seed)
        largest = 0.0
        k = 0
        while k < count:
            i = order[k]
            begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
            t = x[last] if biased else 0.0
            for p in range(begin, end):
                t += data[p] * x[indices[p]]
            entries += end - begin
            visits += 1
            s = signs[i] * t - shifts[i]
            old = v[i]
            new = dual_prox(kind, knots, pieces, s + q[i] * old, q[i])
            step = new - old
            if step == 0.0:
                if is_settled(kind, knots, s, reach):
                    count -= 1
                    order[k], order[count] = order[count], i
                    continue
            else:
                largest = max(largest, abs(step) * q[i])
                v[i] = new
                step *= signs[i]
                if biased:
                    x[last] -= step * bias_rates[i]
                step *= rates[i]
                for p in range(begin, end):
                    x[indices[p]] -= step * data[p]
            k += 1
        reach = largest if largest > 0.0 else math.inf
    return count, reach, entries, visits, seed


@njit(**_SUMS)
def dense_epochs(X, signs, shifts, rates, bias_rates, q, loss, v, x, order, count, reach, epochs, seed):
    """Do the same over the rows of an array; see `csr_epochs`."""
    kind, knots, pieces = loss
    biased = bias_rates.shape[0] > 0
    n = X.shape[1]
    entries = 0
    visits = 0
    for _ in range(epochs):
        seed = shuffle(order, count, seed)
        largest = 0.0
        k = 0
        while k < count:
            i = order[k]
            t = x[n] if biased else 0.0
            for j in range(n):
                t += X[i, j] * x[j]
            entries += n
            visits += 1
            s = signs[i] * t - shifts[i]
            old = v[i]
            new = dual_prox(kind, knots, pieces, s + q[i] * old, q[i])
            step = new - old
            if step == 0.0:
                if is_settled(kind, knots, s, reach):
                    count -= 1
                    order[k], order[count] = order[count], i
                    continue
            else:
                largest = max(largest, abs(step) * q[i])
                v[i] = new
                step *= signs[i]
                if biased:
                    x[n] -= step * bias_rates[i]
                step *= rates[i]
                for j in range(n):
                    x[j] -= step * X[i, j]
            k += 1
        reach = largest if largest > 0.0 else math.inf
    return count, reach, entries, visits, seed
