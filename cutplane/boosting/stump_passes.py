"""Compiled passes over sorted features for decision stumps, without interpreter lock.

`codes` are defined in `SortedFeatures`. Let s be the sum of u = d y over the examples between an end of a
feature and a split. The edge of the stump is the total of u minus 2 s, or its negative, because the split
changes the sign of these examples.
"""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import routine

_EXAMPLE = np.uint32((1 << 31) - 1)


@routine
def largest_edges(codes, starts, middles, u, total, low, high, out):
    """Set out[j] to the largest edge of a split of feature j for low <= j < high; -1 without a split."""
    for j in range(low, high):
        i, middle, k = starts[j], middles[j], starts[j + 1] - 1
        below, above, largest, largest_above = 0.0, 0.0, -1.0, -1.0
        while i < middle <= k:  # two sums at once take half the time
            code, code_above = codes[i], codes[k]
            below += u[code & _EXAMPLE]
            above += u[code_above & _EXAMPLE]
            if code > _EXAMPLE:
                largest = max(largest, abs(total - 2.0 * below))
            if code_above > _EXAMPLE:
                largest_above = max(largest_above, abs(total - 2.0 * above))
            i += 1
            k -= 1
        for place in range(i, middle):
            code = codes[place]
            below += u[code & _EXAMPLE]
            if code > _EXAMPLE:
                largest = max(largest, abs(total - 2.0 * below))
        for place in range(k, middle - 1, -1):
            code = codes[place]
            above += u[code & _EXAMPLE]
            if code > _EXAMPLE:
                largest = max(largest, abs(total - 2.0 * above))
        out[j] = max(largest, largest_above)


@routine
def lowest_split(codes, start, middle, stop, u, total, bar):
    """Return the index in `codes` of the lowest split with an edge of at least `bar`, and its edge for +1."""
    s = 0.0
    for k in range(start, middle):
        code = codes[k]
        s += u[code & _EXAMPLE]
        if code > _EXAMPLE and abs(total - 2.0 * s) >= bar:
            return k, total - 2.0 * s
    place, edge = np.int64(-1), 0.0
    s = 0.0
    for k in range(stop - 1, middle - 1, -1):
        code = codes[k]
        s += u[code & _EXAMPLE]
        if code > _EXAMPLE and abs(total - 2.0 * s) >= bar:
            place, edge = np.int64(k), 2.0 * s - total
    return place, edge
