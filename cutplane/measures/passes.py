"""Compiled routines of ranking: the order of scores within groups, and pairs in the wrong order."""

from __future__ import annotations

import numpy as np

from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import routine

_DIGIT, _DIGITS = 11, 6
"""Bits per digit and digits per number of the radix sort, because the 2048 counters of a digit fit into the
fastest cache."""
_ONE = np.uint64(1)
_MASK = np.uint64((1 << _DIGIT) - 1)
_SIGN = np.uint64(63)


def _by_comparison(scores: Array, groups: Array, starts: Array) -> Array:
    return np.lexsort((scores, groups))


@routine(plain=_by_comparison)
def order_within(scores, groups, starts):
    """Return the indices of the scores in ascending order, group after group, by a radix sort in O(m).

    groups[i] is the group of score i; group g is at starts[g] to starts[g + 1] of the result.
    """
    m = scores.shape[0]
    keys = scores.view(np.uint64).copy()
    counts = np.zeros((_DIGITS, 1 << _DIGIT), np.int64)
    for i in range(m):
        # The bits of positive floats increase with the floats, the bits of negative floats decrease.
        keys[i] ^= (~(keys[i] >> _SIGN) + _ONE) | (_ONE << _SIGN)
        for d in range(_DIGITS):
            counts[d, (keys[i] >> np.uint64(d * _DIGIT)) & _MASK] += 1
    order = np.arange(m)
    other, other_keys = np.empty(m, np.int64), np.empty(m, np.uint64)
    for d in range(_DIGITS):
        shift = np.uint64(d * _DIGIT)
        count = counts[d]
        if m == 0 or count[(keys[0] >> shift) & _MASK] == m:
            continue
        total = 0
        for k in range(count.shape[0]):
            total, count[k] = total + count[k], total
        for i in range(m):
            digit = (keys[i] >> shift) & _MASK
            place = count[digit]
            count[digit] += 1
            other[place] = order[i]
            other_keys[place] = keys[i]
        order, other = other, order
        keys, other_keys = other_keys, keys
    if starts.shape[0] == 2:
        return order
    heads = starts[:-1].copy()
    for i in order:
        other[heads[groups[i]]] = i
        heads[groups[i]] += 1
    return other


@routine
def _enter(tree, level):
    """Add 1 to the count of a level in a Fenwick tree."""
    k = level + 1
    while k < tree.shape[0]:
        tree[k] += 1.0
        k += k & -k


@routine
def _below(tree, level):
    """Return the count of all levels below `level`."""
    total, k = 0.0, level
    while k > 0:
        total += tree[k]
        k -= k & -k
    return total


@routine
def wrong_pairs(scores, order, starts, levels, n_levels, costs, low, high, slopes):
    """Sum the costs of the pairs i, j of a group with levels[i] < levels[j] and scores[j] - scores[i] < 1.

    Return the sum over the groups low <= g < high. slopes[i] is set to the cost of the pairs in which i has
    the lower level, minus the cost of the pairs in which i has the higher level. costs[0, k, l] for k < l is
    the cost of a pair of the levels k and l, costs[1] is the transposed matrix, and all other entries are 0.
    If `costs` is empty, every pair costs 1, and a Fenwick tree counts levels in place of a table.
    """
    tabled = costs.shape[0] > 0
    seen = np.zeros(n_levels if tabled else n_levels + 1)
    sum_of_all = 0.0
    for g in range(low, high):
        begin, end = starts[g], starts[g + 1]
        z, level = scores[order[begin:end]], levels[order[begin:end]]
        size = end - begin
        seen[:] = 0.0
        next_one = size - 1
        for j in range(size - 1, -1, -1):
            while next_one >= 0 and z[j] - z[next_one] < 1.0:
                if tabled:
                    for k in range(n_levels):
                        seen[k] += costs[0, level[next_one], k]
                else:
                    _enter(seen, level[next_one])
                next_one -= 1
            wrong = seen[level[j]] if tabled else _below(seen, level[j])
            sum_of_all += wrong
            slopes[order[begin + j]] = -wrong
        seen[:] = 0.0
        next_one = 0
        for i in range(size):
            while next_one < size and z[next_one] - z[i] < 1.0:
                if tabled:
                    for k in range(n_levels):
                        seen[k] += costs[1, level[next_one], k]
                else:
                    _enter(seen, level[next_one])
                next_one += 1
            wrong = seen[level[i]] if tabled else next_one - _below(seen, level[i] + 1)
            slopes[order[begin + i]] += wrong
    return sum_of_all
