"""Block-coordinate ascent for linear chains, compiled; see `chain_ascent`.

Each sequence has a convex combination of labellings: slot k holds labels[k, start:end] with the share
shares[k, i], and counts[i] slots are in use. The weights, `emissions` of shape (n, S) and `transitions`,
follow from these. A visit moves share from one labelling to a better one.
"""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import SUMS, routine
from cutplane.structured.chain_passes import decode

_KEPT = 10
"""Epochs for which a labelling without a share is kept, as published."""


@routine(fastmath=SUMS)
def state_score(rows, t, s, emissions):
    """Return the score of state s at a position."""
    X, data, indices, indptr = rows
    total = 0.0
    if indptr.shape[0] == 0:
        for j in range(X.shape[1]):
            total += X[t, j] * emissions[j, s]
    else:
        for p in range(indptr[t], indptr[t + 1]):
            total += data[p] * emissions[indices[p], s]
    return total


@routine
def add_state(rows, t, factor, s, out):
    """Add a multiple of a row to the column s of `out`, shape (n, S)."""
    X, data, indices, indptr = rows
    if indptr.shape[0] == 0:
        for j in range(X.shape[1]):
            if X[t, j] != 0.0:
                out[j, s] += factor * X[t, j]
    else:
        for p in range(indptr[t], indptr[t + 1]):
            out[indices[p], s] += factor * data[p]


@routine
def move_state(rows, t, s, step, late, change, weights, early):
    """Move the weights of state s by a step along `change`, which is cleared, wherever a row is not zero."""
    X, _, indices, indptr = rows
    if indptr.shape[0] == 0:
        for j in range(X.shape[1]):
            if X[t, j] != 0.0:
                amount = step * change[j, s]
                weights[j, s] -= amount
                early[j, s] -= late * amount
                change[j, s] = 0.0
    else:
        for p in range(indptr[t], indptr[t + 1]):
            j = indices[p]
            amount = step * change[j, s]
            weights[j, s] -= amount
            early[j, s] -= late * amount
            change[j, s] = 0.0


@routine
def heights_of(rows, start, end, labels, count, truth, cost, emissions, transitions, values, out):
    """Set out[k] to the loss and the score of the labelling in slot k, less those of slot 0.

    Where all labellings agree, nothing is computed. Return how many rows were read for one state.
    """
    reads = 0
    for k in range(count):
        out[k] = 0.0
    for t in range(start, end):
        own = labels[0, t]
        differs = False
        for k in range(1, count):
            differs = differs or labels[k, t] != own
        if differs:
            values[0] = state_score(rows, t, own, emissions)
            reads += 1
            for k in range(1, count):
                s = labels[k, t]
                same = 0
                while labels[same, t] != s:
                    same += 1
                if same == k:
                    values[k] = state_score(rows, t, s, emissions)
                    reads += 1
                else:
                    values[k] = values[same]
                out[k] += values[k] - values[0]
                if s != own:
                    out[k] += cost * (np.float64(s != truth[t]) - np.float64(own != truth[t]))
        if t > start:
            for k in range(1, count):
                if labels[k, t] != own or labels[k, t - 1] != labels[0, t - 1]:
                    known = transitions[labels[0, t - 1], own]
                    out[k] += transitions[labels[k, t - 1], labels[k, t]] - known
    return reads


@routine
def move(
    rows, start, end, labels, best, worst, height, most, scale, lam, late,
    emissions, transitions, early_emissions, early_transitions, change, pairs,
):  # fmt: skip
    """Move share from the slot `worst` to the slot `best`, as much as is best, at most `most`.

    `height` is by what the score of the best is higher; `scale` the weight of the sequence. `change` and
    `pairs`, of the shapes of the weights, are zero before and after.

    Returns
    -------
    far, rise, work
        The share moved, by what the lower bound rose, and how many rows were read for one state.
    """
    reads = 0
    for t in range(start, end):
        a, b = labels[worst, t], labels[best, t]
        if a != b:
            add_state(rows, t, 1.0, b, change)
            add_state(rows, t, -1.0, a, change)
            reads += 6
        if t > start and (a != b or labels[worst, t - 1] != labels[best, t - 1]):
            pairs[labels[best, t - 1], b] += 1.0
            pairs[labels[worst, t - 1], a] -= 1.0
    square = 0.0
    for t in range(start, end):
        a, b = labels[worst, t], labels[best, t]
        if a != b:
            square += state_score(rows, t, b, change) - state_score(rows, t, a, change)
        if t > start and (a != b or labels[worst, t - 1] != labels[best, t - 1]):
            square += pairs[labels[best, t - 1], b] - pairs[labels[worst, t - 1], a]
    far = most
    if square * scale * most > lam * height:
        far = lam * height / (square * scale)
    step = far * scale / lam
    for t in range(start, end):
        a, b = labels[worst, t], labels[best, t]
        if a != b:
            move_state(rows, t, a, step, late, change, emissions, early_emissions)
            move_state(rows, t, b, step, late, change, emissions, early_emissions)
        if t > start and (a != b or labels[worst, t - 1] != labels[best, t - 1]):
            move_pair(labels[worst, t - 1], a, step, late, pairs, transitions, early_transitions)
            move_pair(labels[best, t - 1], b, step, late, pairs, transitions, early_transitions)
    return far, step * (lam * height - 0.5 * step * lam * square), reads


@routine
def move_pair(a, b, step, late, pairs, transitions, early):
    """Move the weight of a pair of states along `pairs`, which is cleared there."""
    amount = step * pairs[a, b]
    transitions[a, b] -= amount
    early[a, b] -= late * amount
    pairs[a, b] = 0.0


@routine
def epoch(
    rows, starts, order, truth, costs, weights, lam, exact, now,
    emissions, transitions, early_emissions, early_transitions, visits, late,
    labels, shares, used, counts, change, pairs, table, reach, room,
):  # fmt: skip
    """Visit the sequences in a given order.

    With `exact`, each is decoded, and the labelling found is kept in a slot, of which there must be one free;
    else the best of those kept is taken. A labelling without a share that was the best in none of the last
    `_KEPT` epochs is dropped.

    Parameters
    ----------
    truth : ndarray of shape (N,)
        The true labels.
    now : int
        The number of the epoch.
    early_emissions, early_transitions, visits, late
        The average of the iterates is the weights less `early` / `late`, where late, (k + 1) (k + 2) / 2
        after k visits, is also what the next change counts in `early`.
    used : ndarray of shape (K, m)
        The last epoch in which a labelling was the best.
    table, reach : ndarray of shape (longest, S)
    room : ndarray of shape (2, K)

    Returns
    -------
    gap, rise, work, visits, late
        The sum of the gaps met, by what the lower bound rose, and how many rows were read for one state.
    """
    total = rise = 0.0
    work = 0
    heights, values = room[0], room[1]
    for i in order:
        start, end = starts[i], starts[i + 1]
        if weights[i] == 0.0:
            continue
        if exact:
            found = labels[counts[i]]
            decode(rows, starts, i, i + 1, emissions, transitions, truth, costs, weights, table, reach, found)
            slot = 0
            while not _equal(labels, slot, counts[i], start, end):
                slot += 1
            if slot == counts[i]:
                shares[slot, i] = 0.0
                counts[i] += 1
            used[slot, i] = now
        count = counts[i]
        visits += 1
        if count > 1:
            work += heights_of(
                rows, start, end, labels, count, truth, costs[i], emissions, transitions, values, heights
            )
            best, worst, mean = 0, -1, 0.0
            for k in range(count):
                if heights[k] > heights[best]:
                    best = k
                if shares[k, i] > 0.0:
                    mean += shares[k, i] * heights[k]
                    if worst < 0 or heights[k] < heights[worst]:
                        worst = k
            used[best, i] = now
            total += weights[i] * max(0.0, heights[best] - mean)
            if heights[best] > heights[worst]:
                far, more, reads = move(
                    rows, start, end, labels, best, worst, heights[best] - heights[worst], shares[worst, i],
                    weights[i], lam, late, emissions, transitions, early_emissions, early_transitions,
                    change, pairs,
                )  # fmt: skip
                rise += more
                work += reads
                shares[best, i] += far
                shares[worst, i] = max(0.0, shares[worst, i] - far)
            for k in range(count - 1, 0, -1):
                if shares[k, i] == 0.0 and now - used[k, i] > _KEPT:
                    last = counts[i] - 1
                    for t in range(start, end):
                        labels[k, t] = labels[last, t]
                    shares[k, i], used[k, i] = shares[last, i], used[last, i]
                    shares[last, i] = 0.0
                    counts[i] = last
        late *= (visits + 2.0) / visits
    return total, rise, work, visits, late


@routine
def _equal(labels, one, other, start, end):
    for t in range(start, end):
        if labels[one, t] != labels[other, t]:
            return False
    return True
