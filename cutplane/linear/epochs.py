"""Epochs of dual coordinate ascent, compiled; see `coordinate_ascent`.

Example i has the prediction t_i = <x_i, w> + b and the multiplier u_i, a slope of its loss. A step on u_i
alone is a proximal step: with q_i the curvature of the quadratic part, the best u_i is that of `dual_prox` at
t_i + q_i u_i. The losses without an outline have copies with their own `dual_prox` and `is_settled`.
"""

from __future__ import annotations

import math

import numpy as np

from cutplane.losses.passes import dual_prox, is_settled
from cutplane.runtime.compiling import SUMS, routine


@routine
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


@routine(fastmath=SUMS)
def csr_epochs(
    data, indices, indptr,
    y, rates, bias_rates, q, loss, u, x, order, count, reach, epochs, seed,
):  # fmt: skip
    """Do some epochs over the first `count` examples of `order`; u, x and order are updated.

    An epoch over all of them comes as soon as those over some have visited as many again.

    Parameters
    ----------
    rates, bias_rates : ndarray of shape (m,)
        What x moves by along a row, and the bias, per unit of u_i; `bias_rates` is empty without a bias,
        which else is the last entry of x.
    reach : float
        An example whose u stays as it is is left out if its t is farther than this from every kink.

    Returns
    -------
    count, reach, entries, visits, seed
        How many examples are left, the reach for the next epoch, the entries of the data and the examples
        visited, and the seed for the next call.
    """
    biased = bias_rates.shape[0] > 0
    last = x.shape[0] - 1
    m = order.shape[0]
    entries = 0
    visits = 0
    whole = m
    for _ in range(epochs):
        if visits >= whole:
            count = m
        whole = visits + 2 * m if count == m else whole
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
            old = u[i]
            new = dual_prox(loss, t + q[i] * old, y[i], q[i], t)
            step = new - old
            if step == 0.0:
                if is_settled(loss, t, y[i], reach):
                    count -= 1
                    order[k], order[count] = order[count], i
                    continue
            else:
                largest = max(largest, abs(step) * q[i])
                u[i] = new
                if biased:
                    x[last] -= step * bias_rates[i]
                step *= rates[i]
                for p in range(begin, end):
                    x[indices[p]] -= step * data[p]
            k += 1
        reach = largest if largest > 0.0 else math.inf
    return count, reach, entries, visits, seed


@routine(fastmath=SUMS)
def dense_epochs(X, y, rates, bias_rates, q, loss, u, x, order, count, reach, epochs, seed):
    """Do the same over the rows of an array; see `csr_epochs`."""
    biased = bias_rates.shape[0] > 0
    n = X.shape[1]
    m = order.shape[0]
    entries = 0
    visits = 0
    whole = m
    for _ in range(epochs):
        if visits >= whole:
            count = m
        whole = visits + 2 * m if count == m else whole
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
            old = u[i]
            new = dual_prox(loss, t + q[i] * old, y[i], q[i], t)
            step = new - old
            if step == 0.0:
                if is_settled(loss, t, y[i], reach):
                    count -= 1
                    order[k], order[count] = order[count], i
                    continue
            else:
                largest = max(largest, abs(step) * q[i])
                u[i] = new
                if biased:
                    x[n] -= step * bias_rates[i]
                step *= rates[i]
                for j in range(n):
                    x[j] -= step * X[i, j]
            k += 1
        reach = largest if largest > 0.0 else math.inf
    return count, reach, entries, visits, seed
