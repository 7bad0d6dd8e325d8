"""Global alignment of two sequences in compiled loops."""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import NUMBERS, routine


@routine(fastmath=NUMBERS)
def best_alignment(a, b, matches, bonus, partners, opening, extension, reach, came, found):
    """Set found[i] to the position of b that a[i] is matched with, or -1, at the largest score; return that.

    Between two matches, before the first and after the last, the positions of a without a partner are one
    gap, and the positions of b another: a gap of n positions scores ``opening + n extension``.
    `matches` holds the scores of two symbols, to which the bonus is added where a[i] is matched with
    partners[i]. Set `reach`, shape (3, len(b) + 1), to the best scores of a that end in a match, a gap in b,
    and a gap in a, and `came`, shape (3, len(a) + 1, len(b) + 1), to their predecessors.
    """
    n, m = a.shape[0], b.shape[0]
    for j in range(m + 1):
        reach[0, j] = 0.0 if j == 0 else -np.inf
        reach[1, j] = -np.inf
        reach[2, j] = opening + j * extension if j > 0 else -np.inf
        came[2, 0, j] = 2 if j > 1 else 0
    for i in range(1, n + 1):
        before = -np.inf
        origin = 0
        for j in range(m + 1):
            # from the prefix i - 1, j: a[i - 1] has no partner
            best, state = reach[0, j] + opening, 0
            if reach[1, j] > best:
                best, state = reach[1, j], 1
            alone = best + extension
            came[1, i, j] = state
            # the best of the prefix i - 1, j, for the match of a[i - 1] and b[j]
            ahead, which = reach[0, j], 0
            for k in range(1, 3):
                if reach[k, j] > ahead:
                    ahead, which = reach[k, j], k
            # from the prefix i - 1, j - 1: a[i - 1] and b[j - 1] are matched
            matched = -np.inf
            if j > 0:
                matched = before + matches[a[i - 1], b[j - 1]]
                if partners[i - 1] == j - 1:
                    matched += bonus
                came[0, i, j] = origin
            # from the prefix i, j - 1: b[j - 1] has no partner
            skipped = -np.inf
            if j > 0:
                best, state = max(reach[0, j - 1], reach[1, j - 1]) + opening, 0
                if reach[1, j - 1] > reach[0, j - 1]:
                    state = 1
                if reach[2, j - 1] > best:
                    best, state = reach[2, j - 1], 2
                skipped = best + extension
                came[2, i, j] = state
            before, origin = ahead, which
            reach[0, j], reach[1, j], reach[2, j] = matched, alone, skipped
    state = 0
    for k in range(1, 3):
        if reach[k, m] > reach[state, m]:
            state = k
    total = reach[state, m]
    i, j = n, m
    while i > 0 or j > 0:
        following = came[state, i, j]
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
