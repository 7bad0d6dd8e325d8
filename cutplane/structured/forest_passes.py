"""Compiled passes for linear chains and forests: best labellings, sums of features, block-coordinate ascent.

`rows`, a result of `as_rows`, are the features of nodes, and `links` are the features of edges. The weights
of the states of nodes are `emissions`, shape (n, S). The weights of the pairs of states of edges are
`transitions`, shape (k, S S), or shape (S, S) for chains, whose edges have the feature 1. The nodes of
example i are starts[i] <= t < starts[i + 1], in the order of the chain if it is one.
"""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import NUMBERS, SUMS, routine
from cutplane.structured.ascent import KEPT


@routine(fastmath=SUMS)
def row_scores(rows, t, emissions, out):
    """Fill `out`, shape (S,), with the scores of the states at a position; zeros of the row are skipped."""
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
def add_row(rows, t, factor, out):
    """Add factor times row t to `out`, shape (n,)."""
    X, data, indices, indptr = rows
    if indptr.shape[0] == 0:
        for j in range(X.shape[1]):
            out[j] += factor * X[t, j]
    else:
        for p in range(indptr[t], indptr[t + 1]):
            out[indices[p]] += factor * data[p]


@routine
def score_of(scores, transitions, labels, start):
    """Return the score of the labelling labels[start], labels[start + 1], ... of a sequence."""
    total = scores[0, labels[start]]
    for t in range(1, scores.shape[0]):
        total += scores[t, labels[start + t]] + transitions[labels[start + t - 1], labels[start + t]]
    return total


@routine
def add_differences(rows, starts, low, high, found, labels, weights, emissions, transitions):
    """Add the features of labellings of chains minus the features of the true labellings to the sums."""
    for i in range(low, high):
        if weights[i] == 0.0:
            continue
        for t in range(starts[i], starts[i + 1]):
            if found[t] != labels[t]:
                add_row(rows, t, weights[i], emissions[found[t]])
                add_row(rows, t, -weights[i], emissions[labels[t]])
            if t > starts[i] and (found[t] != labels[t] or found[t - 1] != labels[t - 1]):
                transitions[found[t - 1], found[t]] += weights[i]
                transitions[labels[t - 1], labels[t]] -= weights[i]


@routine
def edge_range(starts, edge_starts, i):
    """Return the range of the edges of example i; an edge of a chain has the index of its second node."""
    if edge_starts.shape[0] == 0:
        return starts[i] + 1, starts[i + 1]
    return edge_starts[i], edge_starts[i + 1]


@routine
def edge_nodes(ends, e):
    """Return the two nodes of an edge."""
    if ends.shape[0] == 0:
        return e - 1, e
    return ends[e, 0], ends[e, 1]


@routine
def pair_index(labels, k, u, v, n_states):
    """Return the index of the pair of states of nodes u and v in slot k."""
    return np.int64(labels[k, u]) * n_states + labels[k, v]


@routine
def pair_score(links, e, pair, transitions):
    """Return the score of a pair of states of an edge."""
    row, total = e if links.shape[0] > 1 else 0, 0.0
    for j in range(links.shape[1]):
        total += links[row, j] * transitions[j, pair]
    return total


@routine
def add_pair(links, e, factor, pair, out):
    """Add factor times the features of edge e to the column of a pair of states."""
    row = e if links.shape[0] > 1 else 0
    for j in range(links.shape[1]):
        out[j, pair] += factor * links[row, j]


@routine
def move_pair(links, pair, step, late, change, weights, early):
    """Subtract step times `change` from the weights of a pair of states, and set `change` to 0."""
    for j in range(links.shape[1]):
        amount = step * change[j, pair]
        weights[j, pair] -= amount
        early[j, pair] -= late * amount
        change[j, pair] = 0.0


@routine(fastmath=NUMBERS)
def best_labellings(starts, edges, first_edge, low, high, unaries, pairs, message, found):
    """Fill `found` with labellings of largest score of the forests among the examples low <= i < high.

    Max-sum messages are passed from the leaves to the roots; then states are chosen from the roots to the
    leaves. This takes O(N S^2) operations.

    Parameters
    ----------
    edges : tuple of ndarray
        The index at which the edges of each example start; the edges, shape (E, 2); all nodes, with parents
        before children; the parent of each node, or -1; the index of the edge to the parent; and a mask of
        the examples that are forests. Or `CHAINS`.
    first_edge : int
        The first edge of example `low`.
    unaries : ndarray of shape (n, S)
        The scores of the states of these nodes; overwritten by the largest scores of their subtrees.
    pairs : ndarray of shape (k, S, S)
        Tables of scores, with the states of the first node as rows. Edge e uses the table (e - first_edge) %
        k.
    message : ndarray of shape (S,)
        Work space.
    found : ndarray of shape (n,)
        Ties are resolved from the roots to the leaves, with the first state.
    """
    _, ends, order, parents, links, forests = edges
    first, n_states, tables = starts[low], unaries.shape[1], pairs.shape[0]
    chain = order.shape[0] == 0  # the root is the last node
    for i in range(low, high):
        if not (chain or forests[i]):
            continue
        start, end = starts[i], starts[i + 1]
        for k in range(end - 1, start - 1, -1):
            u = start + end - 1 - k if chain else order[k]
            p = parents[u] if not chain else u + 1 if u + 1 < end else -1
            if p < 0:
                continue
            e = p if chain else links[u]
            ahead = chain or ends[e, 0] == u
            j = (e - first_edge) % tables if tables > 1 else 0
            if ahead:
                for above in range(n_states):
                    message[above] = -np.inf
                for s in range(n_states):
                    known = unaries[u - first, s]
                    for above in range(n_states):
                        value = known + pairs[j, s, above]
                        message[above] = value if value > message[above] else message[above]
            else:
                for above in range(n_states):
                    best = -np.inf
                    for s in range(n_states):
                        value = unaries[u - first, s] + pairs[j, above, s]
                        best = value if value > best else best
                    message[above] = best
            for above in range(n_states):
                unaries[p - first, above] += message[above]
        for k in range(start, end):
            u = start + end - 1 - k if chain else order[k]
            p = parents[u] if not chain else u + 1 if u + 1 < end else -1
            e = p if chain else links[u]
            ahead = chain or (p >= 0 and ends[e, 0] == u)
            j = (e - first_edge) % tables if tables > 1 else 0
            above = found[p - first] if p >= 0 else 0
            best, state = -np.inf, 0
            for s in range(n_states):
                value = unaries[u - first, s]
                if p >= 0:
                    value += pairs[j, s, above] if ahead else pairs[j, above, s]
                if value > best:
                    best, state = value, s
            found[u - first] = state


@routine
def decode(
    rows, links, starts, edges, low, high, emissions, transitions, truth, costs, weights,
    scores, reach, pairs, message, found,
):  # fmt: skip
    """Fill `found` with the best labellings of the examples low <= i < high for score plus loss.

    Parameters
    ----------
    truth : ndarray of shape (N,)
        The true labels.
    costs : ndarray of shape (m,)
        The cost of a wrong label in each example.
    scores, reach : ndarray of shape (longest, S) pairs : ndarray of shape (largest number of edges, or 1 if
    all edges have the same features, S S) message : ndarray of shape (S,)

    Returns
    -------
    float
        The sum over the examples of weight times (largest score plus loss - score of the true labelling).
    """
    total, n_states = 0.0, scores.shape[1]
    edge_starts, ends = edges[0], edges[1]
    for i in range(low, high):
        start, end = starts[i], starts[i + 1]
        first, last = edge_range(starts, edge_starts, i)
        for t in range(start, end):
            row_scores(rows, t, emissions, scores[t - start])
            for s in range(n_states):
                if s != truth[t]:
                    scores[t - start, s] += costs[i]
                reach[t - start, s] = scores[t - start, s]
        tables = transitions
        if links.size > 1 or links[0, 0] != 1.0:
            tables = pairs[: max(1, min(last - first, links.shape[0]))]
            for k in range(min(last - first, tables.shape[0])):
                for pair in range(n_states * n_states):
                    tables[k, pair] = pair_score(links, first + k, pair, transitions)
        square = tables.reshape(tables.shape[0], n_states, n_states)
        best_labellings(
            starts, edges, first, i, i + 1, reach[: end - start], square, message, found[start:end]
        )
        violation = 0.0
        for t in range(start, end):
            if found[t] != truth[t]:
                violation += scores[t - start, found[t]] - scores[t - start, truth[t]]
        for e in range(first, last):
            u, v = edge_nodes(ends, e)
            if found[u] != truth[u] or found[v] != truth[v]:
                k = (e - first) % square.shape[0]
                violation += square[k, found[u], found[v]] - square[k, truth[u], truth[v]]
        total += weights[i] * max(0.0, violation)
    return total


@routine(fastmath=SUMS)
def state_score(rows, t, s, emissions):
    """Return the score of state s at a node."""
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
    """Add factor times row t to column s of `out`, shape (n, S)."""
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
    """Subtract step times `change` from the weights of state s where row t is nonzero; set `change` to 0."""
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
def relative_scores(
    rows, links, starts, edges, i, labels, count, truth, cost, emissions, transitions, values, mixed, out
):  # fmt: skip
    """Set out[k] to the loss plus score of the labelling in slot k, minus this sum for slot 0.

    Nodes on which all labellings agree are skipped; `mixed` marks the other nodes. Return the number of rows
    read for one state.
    """
    reads, n_states = 0, emissions.shape[1]
    for k in range(count):
        out[k] = 0.0
    start = starts[i]
    for t in range(start, starts[i + 1]):
        own = labels[0, t]
        differs = False
        for k in range(1, count):
            differs = differs or labels[k, t] != own
        mixed[t - start] = differs
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
    ends = edges[1]
    low, high = edge_range(starts, edges[0], i)
    for e in range(low, high):
        u, v = edge_nodes(ends, e)
        if mixed[u - start] == 0.0 and mixed[v - start] == 0.0:
            continue
        own = pair_index(labels, 0, u, v, n_states)
        for k in range(1, count):
            pair = pair_index(labels, k, u, v, n_states)
            if pair != own:
                out[k] += pair_score(links, e, pair, transitions) - pair_score(links, e, own, transitions)
    return reads


@routine
def move(
    rows, links, starts, edges, i, labels, best, worst, height, most, scale, lam, late,
    emissions, transitions, early_emissions, early_transitions, change, pairs,
):  # fmt: skip
    """Transfer the optimal share, at most `most`, from the slot `worst` to the slot `best`.

    `height` is the difference of their scores plus losses, and `scale` the weight of the example. `change`
    and `pairs` have the shapes of the weights, and are zero before and after. Return the share, the increase
    of the lower bound, and the number of rows read for one state.
    """
    reads, n_states = 0, emissions.shape[1]
    start, end, ends = starts[i], starts[i + 1], edges[1]
    low, high = edge_range(starts, edges[0], i)
    for t in range(start, end):
        a, b = labels[worst, t], labels[best, t]
        if a != b:
            add_state(rows, t, 1.0, b, change)
            add_state(rows, t, -1.0, a, change)
            reads += 6
    for e in range(low, high):
        u, v = edge_nodes(ends, e)
        if labels[worst, u] != labels[best, u] or labels[worst, v] != labels[best, v]:
            p, q = pair_index(labels, worst, u, v, n_states), pair_index(labels, best, u, v, n_states)
            add_pair(links, e, 1.0, q, pairs)
            add_pair(links, e, -1.0, p, pairs)
    square = 0.0
    for t in range(start, end):
        a, b = labels[worst, t], labels[best, t]
        if a != b:
            square += state_score(rows, t, b, change) - state_score(rows, t, a, change)
    for e in range(low, high):
        u, v = edge_nodes(ends, e)
        if labels[worst, u] != labels[best, u] or labels[worst, v] != labels[best, v]:
            p, q = pair_index(labels, worst, u, v, n_states), pair_index(labels, best, u, v, n_states)
            square += pair_score(links, e, q, pairs) - pair_score(links, e, p, pairs)
    far = most
    if square * scale * most > lam * height:
        far = lam * height / (square * scale)
    step = far * scale / lam
    for t in range(start, end):
        a, b = labels[worst, t], labels[best, t]
        if a != b:
            move_state(rows, t, a, step, late, change, emissions, early_emissions)
            move_state(rows, t, b, step, late, change, emissions, early_emissions)
    for e in range(low, high):
        u, v = edge_nodes(ends, e)
        if labels[worst, u] != labels[best, u] or labels[worst, v] != labels[best, v]:
            p, q = pair_index(labels, worst, u, v, n_states), pair_index(labels, best, u, v, n_states)
            move_pair(links, p, step, late, pairs, transitions, early_transitions)
            move_pair(links, q, step, late, pairs, transitions, early_transitions)
    return far, step * (lam * height - 0.5 * step * lam * square), reads


@routine
def epoch(
    rows, links, starts, edges, order, truth, costs, weights, lam, exact, now,
    emissions, transitions, early_emissions, early_transitions, visits, late,
    labels, shares, used, counts, change, pairs, table, reach, tables, message, room,
):  # fmt: skip
    """Visit the examples in a given order.

    With `exact`, each example is decoded, and the labelling is stored in a free slot, which must exist; else
    the best stored labelling is used. A labelling without share is dropped if it was not the best one in the
    last `KEPT` epochs. The average of the iterates is the weights minus `early` / `late`, where `late` = (k +
    1) (k + 2) / 2 after k visits. `late` is also the weight of the next change in `early`. used[k, i] is the
    last epoch, counted by `now`, in which the labelling was the best one. `table`, `reach`, `tables`,
    `message` are work space for `decode`, and `room`, shape (2, K), for scores. Return the sum of the gaps at
    the visits, the increase of the lower bound, the number of rows read for one state, visits and late.
    """
    total = rise = 0.0
    work = 0
    heights, values = room[0], room[1]
    for i in order:
        start, end = starts[i], starts[i + 1]
        if weights[i] == 0.0:
            continue
        if exact:
            decode(
                rows, links, starts, edges, i, i + 1, emissions, transitions, truth, costs, weights,
                table, reach, tables, message, labels[counts[i]],
            )  # fmt: skip
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
            work += relative_scores(
                rows, links, starts, edges, i, labels, count, truth, costs[i], emissions, transitions,
                values, reach[:, 0], heights,
            )  # fmt: skip
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
                    rows, links, starts, edges, i, labels, best, worst, heights[best] - heights[worst],
                    shares[worst, i], weights[i], lam, late, emissions, transitions,
                    early_emissions, early_transitions, change, pairs,
                )  # fmt: skip
                rise += more
                work += reads
                shares[best, i] += far
                shares[worst, i] = max(0.0, shares[worst, i] - far)
            for k in range(count - 1, 0, -1):
                if shares[k, i] == 0.0 and now - used[k, i] > KEPT:
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
