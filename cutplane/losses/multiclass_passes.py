"""Compiled loops over examples: the multiclass hinge, and the hinge and the softmax loss along a line.

`scores` is C-contiguous of shape (m, p), `labels` of shape (m,).

The hinge of example i at start + t step is the maximum over the classes j of p affine functions of t, rise_j
+ t speed_j, where rise_j = margin_ij + start_ij - start_i,label and speed_j = step_ij - step_i,label; the
function of the true class is zero. `margins` is empty if all margins are 1.
"""

from __future__ import annotations

import numpy as np

from cutplane.losses.inlined import exp
from cutplane.runtime.compiling import SUMS, routine

_TINY = 5e-324
"""The smallest kink, because a kink must be greater than the start of the line."""


@routine
def _rise(scores, margins, i, own, j):
    if j == own:
        return 0.0
    margin = margins[own, j] if margins.size else 1.0
    return margin + (scores[i, j] - scores[i, own])


@routine
def _rival(scores, margins, i, own):
    """Return the class that attains the maximum, and the loss; of tied classes, the true or the first one."""
    rival, best = own, 0.0
    for j in range(scores.shape[1]):
        rise = _rise(scores, margins, i, own, j)
        if rise > best:
            rival, best = j, rise
    return rival, best


@routine
def hinge_losses(scores, labels, margins, out):
    """Fill `out`, shape (m,), with the hinge of each example."""
    for i in range(labels.size):
        out[i] = _rival(scores, margins, i, labels[i])[1]


@routine
def hinge_slopes(scores, labels, margins, out):
    """Fill `out`, shape (m, p), with a subgradient of the hinge of each example."""
    out[:] = 0.0
    for i in range(labels.size):
        rival = _rival(scores, margins, i, labels[i])[0]
        out[i, rival] += 1.0
        out[i, labels[i]] -= 1.0


@routine
def hinge_at(t, start, step, labels, weights, margins):
    """Return the weighted sum of the hinges at t, and its right derivative."""
    value = slope = 0.0
    for i in range(labels.size):
        own = labels[i]
        best = fastest = 0.0
        for j in range(start.shape[1]):
            speed = step[i, j] - step[i, own]
            height = _rise(start, margins, i, own, j) + t * speed
            if height > best or (height == best and speed > fastest):
                best, fastest = height, speed
        value += weights[i] * best
        slope += weights[i] * fastest
    return value, slope


@routine
def hinge_between(low, high, start, step, labels, weights, margins, kinks, jumps):
    """Find the kinks in (low, high) of the weighted sum of the hinges, and the jumps of its slope there.

    Return the slope after low, the sum of squares of its terms, and the number of kinks; `kinks` and `jumps`
    have room for m p. The maximal function of each example is followed from low to high: the next one is the
    steeper function that crosses it first. This takes O(p) per kink, and an example usually has few kinks.
    """
    m, p = start.shape
    heights, speeds = np.empty(p), np.empty(p)
    slope = squares = 0.0
    count = 0
    for i in range(m):
        if weights[i] == 0.0:
            continue
        own = top = labels[i]
        heights[own] = speeds[own] = 0.0
        for j in range(p):
            speeds[j] = step[i, j] - step[i, own]
            heights[j] = _rise(start, margins, i, own, j) + low * speeds[j]
            if heights[j] > heights[top] or (heights[j] == heights[top] and speeds[j] > speeds[top]):
                top = j
        slope += weights[i] * speeds[top]
        squares += (weights[i] * speeds[top]) ** 2
        last = 0.0
        while True:
            nearest, following = high - low, top
            for j in range(p):
                if speeds[j] > speeds[top]:
                    t = max(last, (heights[top] - heights[j]) / (speeds[j] - speeds[top]))
                    if t < nearest:
                        nearest, following = t, j
            kink = max(low + nearest, _TINY)
            if following == top or kink >= high:
                break
            jump = weights[i] * (speeds[following] - speeds[top])
            if kink > low:
                kinks[count] = kink
                jumps[count] = jump
                count += 1
            else:
                slope += jump
            last, top = nearest, following
    return slope, squares, count


@routine(fastmath=SUMS)
def softmax_at(t, rises, speeds, weights, top, total):
    """Return the first and second derivative in t of sum_i weights_i ln sum_j exp(rises_ji + t speeds_ji).

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
