"""Compiled global alignment of two sequences."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import NUMBERS, routine


@routine(fastmath=NUMBERS)
def best_alignment(a, b, matches, bonus, partners, opening, extension, prefixes, predecessors, found):
    """Find an alignment of largest score; set found[i] to the position matched with a[i], or -1.

    The unmatched positions of a between two matches, before the first and after the last match form one gap,
    and the unmatched positions of b another gap. A gap of n positions scores ``opening + n extension``.
    `matches` contains the scores of two symbols; the bonus is added if a[i] is matched with partners[i].
    `prefixes`, shape (3, len(b) + 1), is set to the best scores of prefixes that end in state 0, a match;
    1, an unmatched position of a; or 2, an unmatched position of b. `predecessors`, shape (3, len(a) + 1,
    len(b) + 1), is set to the states from which these scores come. Return the largest score.
    """
    n, m = a.shape[0], b.shape[0]
    for j in range(m + 1):
        prefixes[0, j] = 0.0 if j == 0 else -np.inf
        prefixes[1, j] = -np.inf
        prefixes[2, j] = opening + j * extension if j > 0 else -np.inf
        predecessors[2, 0, j] = 2 if j > 1 else 0
    for i in range(1, n + 1):
        before = -np.inf
        origin = 0
        for j in range(m + 1):
            # a[i - 1] is unmatched, after the prefixes i - 1 and j
            best, state = prefixes[0, j] + opening, 0
            if prefixes[1, j] > best:
                best, state = prefixes[1, j], 1
            alone = best + extension
            predecessors[1, i, j] = state
            # the best score of the prefixes i - 1 and j, for a match of a[i - 1] and b[j]
            ahead, which = prefixes[0, j], 0
            for k in range(1, 3):
                if prefixes[k, j] > ahead:
                    ahead, which = prefixes[k, j], k
            # a[i - 1] and b[j - 1] are matched, after the prefixes i - 1 and j - 1
            matched = -np.inf
            if j > 0:
                matched = before + matches[a[i - 1], b[j - 1]]
                if partners[i - 1] == j - 1:
                    matched += bonus
                predecessors[0, i, j] = origin
            # b[j - 1] is unmatched, after the prefixes i and j - 1
            skipped = -np.inf
            if j > 0:
                best, state = max(prefixes[0, j - 1], prefixes[1, j - 1]) + opening, 0
                if prefixes[1, j - 1] > prefixes[0, j - 1]:
                    state = 1
                if prefixes[2, j - 1] > best:
                    best, state = prefixes[2, j - 1], 2
                skipped = best + extension
                predecessors[2, i, j] = state
            before, origin = ahead, which
            prefixes[0, j], prefixes[1, j], prefixes[2, j] = matched, alone, skipped
    state = 0
    for k in range(1, 3):
        if prefixes[k, m] > prefixes[state, m]:
            state = k
    total = prefixes[state, m]
    i, j = n, m
    while i > 0 or j > 0:
        following = predecessors[state, i, j]
        if state == 0:
            found[i - 1] = j - 1
            i -= 1
            j -= 1
        elif state == 1:
            found[i - 1] = -1
            i -= 1
        else:
            j -= 1
        state = following
    return total
