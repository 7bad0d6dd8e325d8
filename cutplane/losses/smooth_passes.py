"""The loops of `cutplane.losses.passes` for losses given by `value`, `derivative` and `second_derivative`.

They are patterns: `cutplane.losses.compiling` compiles a copy for each loss, in which the first three
functions are the methods of that loss. An example without weight counts as if its prediction were 0, where no
loss overflows.
"""

from __future__ import annotations

import math

_STEPS = 100
"""Halvings from 1e16 to 1e-14."""

_CLOSE = 1e-8
"""The relative size of a last Newton step: what it leaves is its square."""


def value(numbers, t, y):
    """Stand for the loss; `numbers` are what the loss uses of itself."""
    return 0.0


def derivative(numbers, t, y):
    """Stand for its derivative in t."""
    return 0.0


def second_derivative(numbers, t, y):
    """Stand for its second derivative in t."""
    return 0.0


def values(numbers, z, y, weights, edges, out):
    """Set out[k] to the weighted loss of the predictions z over edges[k] <= i < edges[k + 1]."""
    for k in range(out.shape[0]):
        rows = slice(edges[k], edges[k + 1])
        t, label, c = z[rows], y[rows], weights[rows]
        total = 0.0
        for i in range(c.shape[0]):
            total += c[i] * value(numbers, t[i] if c[i] > 0.0 else 0.0, label[i])
        out[k] = total


def derivatives(numbers, z, y, weights, out):
    """Set out to the weighted derivatives of the losses in the predictions z."""
    for i in range(z.shape[0]):
        out[i] = weights[i] * derivative(numbers, z[i] if weights[i] > 0.0 else 0.0, y[i])


def along(numbers, z0, z1, y, weights, t):
    """Return the derivatives, first and second, of the weighted loss of z0 + t (z1 - z0) in t."""
    slope = curvature = 0.0
    for i in range(z0.shape[0]):
        d = z1[i] - z0[i] if weights[i] > 0.0 else 0.0
        z = z0[i] + t * d if weights[i] > 0.0 else 0.0
        slope += weights[i] * d * derivative(numbers, z, y[i])
        curvature += weights[i] * d * d * second_derivative(numbers, z, y[i])
    return slope, curvature


def dual_prox(numbers, t, y, q, start):
    """Return the derivative of the loss at the r that minimises l(r, y) + (r - t)^2 / (2 q).

    That is the zero of r - t + q l'(r), whose slope is at least 1, so that it lies within the value at a
    point of that point. Newton steps, and halvings where they do not halve the step; from `start`, or 0
    where the zero may be far from it.
    """
    r = start
    u = derivative(numbers, r, y)
    excess = r - t + q * u
    if not abs(excess) <= 1.0 + abs(r):
        r = 0.0
        u = derivative(numbers, r, y)
        excess = r - t + q * u
    low, high = (r - excess, r) if excess > 0.0 else (r, r - excess)
    last = math.inf
    for _ in range(_STEPS):
        step = -excess / (1.0 + q * second_derivative(numbers, r, y))
        if not (abs(step) <= 0.5 * last and low <= r + step <= high):
            step = 0.5 * (low - r + (high - r))
        last = abs(step)
        r += step
        u = derivative(numbers, r, y)
        if last <= _CLOSE * (1.0 + abs(r)):
            break
        excess = r - t + q * u
        if excess > 0.0:
            high = r
        else:
            low = r
    return u


def is_settled(numbers, t, y, reach):
    """Tell whether the multiplier cannot change while the prediction moves by less than `reach`."""
    return False
