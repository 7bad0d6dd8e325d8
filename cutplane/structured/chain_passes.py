"""Linear chains in compiled loops: scores, the best labelling, sums of features.

A sequence has the positions start <= t < end. `emissions`, shape (n, S), and `transitions`, shape (S, S), are
the weights: a labelling s of a sequence scores the sum of <x_t, emissions[:, s_t]> over its positions, and of
transitions[s_{t-1}, s_t] over all but the first. `rows` is what `as_rows` returns.
"""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import NUMBERS, SUMS, routine


@routine(fastmath=SUMS)
def row_scores(rows, t, emissions, out):
    """Fill `out`, shape (S,), with the scores of the states at a position; zeros of the row cost nothing."""
    X, data, indices, indptr = rows
    n_states = out.shape[0]
    for s in range(n_states):
        out[s] = 0.0
    if indptr.shape[0] == 0:
        for j in range(X.shape[1]):
            x = np.float64(X[t, j])
            if x != 0.0:
                for s in range(n_states):
                    out[s] += x * emissions[j, s]
    else:
        for p in range(indptr[t], indptr[t + 1]):
            x, j = np.float64(data[p]), indices[p]
            for s in range(n_states):
                out[s] += x * emissions[j, s]


@routine(fastmath=SUMS)
def add_row(rows, t, factor, s, out):
    """Add a multiple of a row to the row s of `out`, shape (S, n)."""
    X, data, indices, indptr = rows
    if indptr.shape[0] == 0:
        for j in range(X.shape[1]):
            out[s, j] += factor * X[t, j]
    else:
        for p in range(indptr[t], indptr[t + 1]):
            out[s, indices[p]] += factor * data[p]


@routine(fastmath=NUMBERS)
def best_labelling(scores, transitions, reach, found):
    """Set `found` to a labelling with the largest score, of ties the first states.

    `reach`, of the shape of `scores`, (length, S), is set to the largest score of the positions so far that
    ends in each state.
    """
    length, n_states = scores.shape
    for s in range(n_states):
        reach[0, s] = scores[0, s]
    for t in range(1, length):
        for s in range(n_states):
            reach[t, s] = -np.inf
        for before in range(n_states):
            known = reach[t - 1, before]
            for s in range(n_states):
                value = known + transitions[before, s]
                reach[t, s] = value if value > reach[t, s] else reach[t, s]
        for s in range(n_states):
            reach[t, s] += scores[t, s]
    last = 0
    for s in range(1, n_states):
        if reach[length - 1, s] > reach[length - 1, last]:
            last = s
    found[length - 1] = last
    for t in range(length - 2, -1, -1):
        following, best = last, -np.inf
        for s in range(n_states):
            value = reach[t, s] + transitions[s, following]
            if value > best:
                best, last = value, s
        found[t] = last


@routine
def violation(scores, transitions, start, found, labels):
    """Return the score of a labelling of a sequence less that of the true one: exactly 0 if they agree."""
    total = 0.0
    for t in range(start, start + scores.shape[0]):
        s, own = found[t], labels[t]
        if s != own:
            total += scores[t - start, s] - scores[t - start, own]
        if t > start and (s != own or found[t - 1] != labels[t - 1]):
            total += transitions[found[t - 1], s] - transitions[labels[t - 1], own]
    return total


@routine
def score_of(scores, transitions, labels, start):
    """Return the score of the labelling labels[start], labels[start + 1], ... of a sequence."""
    total = scores[0, labels[start]]
    for t in range(1, scores.shape[0]):
        total += scores[t, labels[start + t]] + transitions[labels[start + t - 1], labels[start + t]]
    return total


@routine
def decode(rows, starts, low, high, emissions, transitions, labels, costs, weights, scores, reach, found):
    """Fill `found` with the best labellings of the sequences low <= i < high, the loss added.

    Parameters
    ----------
    labels : ndarray of shape (N,)
        The true ones.
    costs : ndarray of shape (m,)
        What a wrong label of each sequence costs.
    scores, reach : ndarray of shape (longest, S)
        Room for a sequence.

    Returns
    -------
    float
        The sum over the sequences of weight times (largest score, the loss added, - score of the true one).
    """
    total = 0.0
    for i in range(low, high):
        start, end = starts[i], starts[i + 1]
        table = scores[: end - start]
        for t in range(start, end):
            row_scores(rows, t, emissions, table[t - start])
            for s in range(table.shape[1]):
                if s != labels[t]:
                    table[t - start, s] += costs[i]
        best_labelling(table, transitions, reach, found[start:end])
        total += weights[i] * max(0.0, violation(table, transitions, start, found, labels))
    return total


@routine
def add_differences(rows, starts, low, high, found, labels, weights, emissions, transitions):
    """Add the features of the labellings found, less those of the true ones, to the sums.

    `emissions` has shape (S, n). Positions where both agree cost nothing.
    """
    for i in range(low, high):
        if weights[i] == 0.0:
            continue
        for t in range(starts[i], starts[i + 1]):
            if found[t] != labels[t]:
                add_row(rows, t, weights[i], found[t], emissions)
                add_row(rows, t, -weights[i], labels[t], emissions)
            if t > starts[i] and (found[t] != labels[t] or found[t - 1] != labels[t - 1]):
                transitions[found[t - 1], found[t]] += weights[i]
                transitions[labels[t - 1], labels[t]] -= weights[i]
