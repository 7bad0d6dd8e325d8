"""The softmax loss on a line, in loops along the examples, which are vectorised."""

from __future__ import annotations

import numpy as np

from cutplane.losses.inlined import exp
from cutplane.runtime.compiling import SUMS, routine


@routine(fastmath=SUMS)
def softmax_at(t, rises, speeds, weights, top, total):
    """Return both derivatives in t of the weighted sum of ln sum_j exp(rises_ji + t speeds_ji) over i.

    `top` is set to the largest exponent of each example, `total` to the sum of exp(exponent - top).
    """
    p, m = rises.shape
    first, second = np.zeros(m), np.zeros(m)
    top[:] = -np.inf
    total[:] = 0.0
    for j in range(p):
        rise, speed = rises[j], speeds[j]
        for i in range(m):
            height = rise[i] + t * speed[i]
            top[i] = height if height > top[i] else top[i]
    for j in range(p):
        rise, speed = rises[j], speeds[j]
        for i in range(m):
            share = exp(rise[i] + t * speed[i] - top[i])
            total[i] += share
            first[i] += share * speed[i]
            second[i] += share * speed[i] * speed[i]
    slope = curvature = 0.0
    for i in range(m):
        mean = first[i] / total[i]
        slope += weights[i] * mean
        curvature += weights[i] * (second[i] / total[i] - mean * mean)
    return slope, curvature
