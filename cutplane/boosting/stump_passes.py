"""Decision stumps: compiled passes over sorted features, without the interpreter lock.

`codes` are defined in `SortedFeatures`. With s the sum of u = d y over the examples from an end of a feature
to a split, the edge of the stump is the total of u minus 2 s, or its negative, because the split changes the
sign of these examples.
"""

from __future__ import annotations

import numpy as np

from cutplane.runtime.compiling import routine

_EXAMPLE = np.uint32((1 << 31) - 1)


@routine
def largest_edges(codes, starts, middles, u, total, low, high, out):
    """out[j] = the largest edge of the splits of feature j, for low <= j < high; -1 if there is none."""
    for j in range(low, high):
        i, middle, k = starts[j], middles[j], starts[j + 1] - 1
        below, above, largest, largest_above = 0.0, 0.0, -1.0, -1.0
        while i < middle <= k:  # two sums at a time take half the time
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
    """Return the place in `codes` of the lowest split with an edge of at least `bar`, and the edge for +1."""
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
