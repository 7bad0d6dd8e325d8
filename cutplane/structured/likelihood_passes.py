"""Compiled sums over all labellings of linear chains: forward and backward passes in logarithms."""

from __future__ import annotations

import math

import numpy as np

from cutplane.losses.inlined import exp
from cutplane.runtime.compiling import SUMS, routine
from cutplane.structured.forest_passes import row_scores, score_of

_TINY, _HUGE = 1e-280, 1e280
"""Range in which sums of exponentials are used, because sums outside lose digits; those are computed again
relative to their largest term."""


@routine
def shares_of(known, out):
    """Fill `out` with exp(known - max(known)), and return the maximum."""
    n_states = known.shape[0]
    largest = known[0]
    for s in range(n_states):
        largest = max(largest, known[s])
    for s in range(n_states):
        out[s] = exp(known[s] - largest)
    return largest


@routine
def log_sums(known, shares, largest, weights, powers, top, out):
    """Set out[s] to log sum_a exp(known[a] + weights[a, s]); `powers` is exp(weights - top)."""
    n_states = known.shape[0]
    for s in range(n_states):
        out[s] = 0.0
    for a in range(n_states):
        for s in range(n_states):
            out[s] += shares[a] * powers[a, s]
    for s in range(n_states):
        if out[s] > _TINY:
            out[s] = math.log(out[s]) + largest + top
        else:
            best = -np.inf
            for a in range(n_states):
                best = max(best, known[a] + weights[a, s])
            total = 0.0
            for a in range(n_states):
                total += math.exp(known[a] + weights[a, s] - best)
            out[s] = best + math.log(total)


@routine(fastmath=SUMS)
def add_shares(rows, t, shares, out):
    """Add shares[s] times row t to each column s of `out`, shape (n, S); zeros of the row are skipped."""
    X, data, indices, indptr = rows
    n_states = shares.shape[0]
    if indptr.shape[0] == 0:
        for j in range(X.shape[1]):
            x = np.float64(X[t, j])
            if x != 0.0:
                for s in range(n_states):
                    out[j, s] += x * shares[s]
    else:
        for p in range(indptr[t], indptr[t + 1]):
            x, j = np.float64(data[p]), indices[p]
            for s in range(n_states):
                out[j, s] += x * shares[s]


@routine
def add_pairs(before, left, ahead, right, excess, transitions, powers, total, weight, out):
    """Add weight times the probabilities of the pairs of states at two positions to `out`, shape (S, S).

    `before` contains the log-sums up to the first position, `ahead` the log-sums from the second position on,
    and `left` and `right` are exp(log-sums - maximum). `excess` is the sum of both maxima and of the largest
    transition, minus `total`.
    """
    n_states = ahead.shape[0]
    factor = math.exp(min(excess, 700.0))
    if factor < _HUGE:
        for a in range(n_states):
            share = weight * factor * left[a]
            for s in range(n_states):
                out[a, s] += share * powers[a, s] * right[s]
    else:
        for a in range(n_states):
            for s in range(n_states):
                out[a, s] += weight * math.exp(before[a] + transitions[a, s] + ahead[s] - total)


@routine
def forward_sums(rows, start, length, emissions, transitions, powers, top, scores, forward, left, largest):
    """Fill the tables of a sequence: scores, log-sums up to each position, and their `shares_of` results.

    Return the logarithm of the sum of exp(score) over all labellings.
    """
    for t in range(length):
        row_scores(rows, start + t, emissions, scores[t])
        if t == 0:
            for s in range(scores.shape[1]):
                forward[0, s] = scores[0, s]
        else:
            log_sums(forward[t - 1], left[t - 1], largest[t - 1], transitions, powers, top, forward[t])
            for s in range(scores.shape[1]):
                forward[t, s] += scores[t, s]
        largest[t] = shares_of(forward[t], left[t])
    total = 0.0
    for s in range(scores.shape[1]):
        total += left[length - 1, s]
    return largest[length - 1] + math.log(total)


@routine
def expectations(
    rows, starts, low, high, labels, weights, emissions, transitions, powers, turned, turned_powers, top,
    scores, forward, left, largest, room, emission_sums, transition_sums,
):  # fmt: skip
    """Add the weighted expected minus true features of the sequences low <= i < high to the sums.

    `powers` is exp(transitions - top), where `top` is the largest transition; `turned` and `turned_powers`
    are the transposes. Return the sum of weight times (log of the sum of exp(score) - score of the labels).
    """
    value = 0.0
    n_states = transitions.shape[0]
    backward, ahead, right = room[0], room[1], room[2]
    for i in range(low, high):
        start, length, weight = starts[i], starts[i + 1] - starts[i], weights[i]
        if weight == 0.0:
            continue
        total = forward_sums(
            rows, start, length, emissions, transitions, powers, top, scores, forward, left, largest
        )
        value += weight * (total - score_of(scores[:length], transitions, labels, start))
        for s in range(n_states):
            backward[s] = 0.0
        for t in range(length - 1, -1, -1):
            for s in range(n_states):
                ahead[s] = scores[t, s] + backward[s]
                right[s] = weight * exp(forward[t, s] + backward[s] - total)
            right[labels[start + t]] -= weight
            add_shares(rows, start + t, right, emission_sums)
            if t > 0:
                transition_sums[labels[start + t - 1], labels[start + t]] -= weight
                most = shares_of(ahead, right)
                add_pairs(
                    forward[t - 1], left[t - 1], ahead, right, largest[t - 1] + most + top - total,
                    transitions, powers, total, weight, transition_sums,
                )  # fmt: skip
                log_sums(ahead, right, most, turned, turned_powers, top, backward)
    return value


@routine
def marginals(
    rows, starts, low, high, emissions, transitions, powers, turned, turned_powers, top,
    scores, forward, left, largest, room, out,
):  # fmt: skip
    """Fill `out`, shape (N, S), with the probabilities of the states of the sequences low <= i < high."""
    n_states = transitions.shape[0]
    backward, ahead, right = room[0], room[1], room[2]
    for i in range(low, high):
        start, length = starts[i], starts[i + 1] - starts[i]
        total = forward_sums(
            rows, start, length, emissions, transitions, powers, top, scores, forward, left, largest
        )
        for s in range(n_states):
            backward[s] = 0.0
        for t in range(length - 1, -1, -1):
            for s in range(n_states):
                out[start + t, s] = exp(forward[t, s] + backward[s] - total)
                ahead[s] = scores[t, s] + backward[s]
            if t > 0:
                most = shares_of(ahead, right)
                log_sums(ahead, right, most, turned, turned_powers, top, backward)
