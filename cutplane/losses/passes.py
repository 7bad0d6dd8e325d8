"""Compiled loops over the examples: piecewise losses and their derivatives, at a point and along a line.

Loops over the pieces run within blocks of examples. The compiler can vectorise every inner loop, because
branches are conditional expressions, and arrays are sliced to the range of the loop first.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cutplane.losses.pieces import LAST_BITS, TINY, Pieces
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, routine

_BLOCK = 512
"""Number of examples in a block, because its arrays of 4 KiB each fit into the fastest cache."""


class Outline(NamedTuple):
    """The numbers of `Pieces`, for compiled code."""

    margin: bool
    """Whether s = y t; otherwise s = t - y."""
    base: Array
    """phi(at), the base slope, and `at`; see `Pieces.terms`."""
    terms: Array
    """The terms of `Pieces.terms`, shape (any, 5)."""
    pieces: Array
    """Per piece: its start, the relative distance within which a point counts as at the start, slope and
    curvature; shape (k + 1, 4)."""


@lru_cache(maxsize=256)
def as_outline(phi: Pieces, margin: bool) -> Outline:
    """Return the outline of phi."""
    base, terms = phi.terms
    pieces = np.zeros((phi.slopes.size, 4))
    pieces[0, 0] = -np.inf
    pieces[1:, 0], pieces[1:, 1] = phi.knots, np.where(phi.jumps > 0.0, LAST_BITS, 0.0)
    pieces[:, 2], pieces[:, 3] = phi.slopes, phi.curvatures
    return Outline(margin, np.array([phi.value, base, phi.at]), terms, pieces)


def bent(outline: Outline) -> Outline:
    """Return the outline whose first derivative is the second derivative of the given one."""
    pieces = outline.pieces.copy()
    pieces[:, 1], pieces[:, 2], pieces[:, 3] = 0.0, outline.pieces[:, 3], 0.0
    return outline._replace(pieces=pieces)


def envelope(outline: Outline, mu: float) -> Outline:
    """Return the outline with the slopes of the Moreau envelope of phi; `base` and `terms` do not change."""
    pieces: list[tuple[float, float, float, float]] = []
    begin = -math.inf
    rows = outline.pieces.tolist()
    for j, (_, _, slope, curvature) in enumerate(rows):
        shrink = 1.0 / (1.0 + mu * curvature)
        pieces.append((begin, 0.0, slope * shrink, curvature * shrink))
        if j + 1 == len(rows):
            break
        knot, kinked, after, bend = rows[j + 1]
        begin = knot + mu * (slope + curvature * knot)
        if kinked and mu > 0.0:
            pieces.append((begin, 0.0, -knot / mu, 1.0 / mu))
            begin = knot + mu * (after + bend * knot)
    return outline._replace(pieces=np.array(pieces))


@routine(fastmath=SUMS)
def values(outline, z, y, weights, edges, out):
    """Set out[k] to the weighted sum of the losses of the predictions z over edges[k] <= i < edges[k + 1]."""
    margin, terms = outline.margin, outline.terms
    least, rate, at = outline.base
    for k in range(out.shape[0]):
        total = 0.0
        for start in range(edges[k], edges[k + 1], _BLOCK):
            rows = slice(start, min(start + _BLOCK, edges[k + 1]))
            t, label, c = z[rows], y[rows], weights[rows]
            if least != 0.0 or rate != 0.0:
                for i in range(c.shape[0]):
                    s = label[i] * t[i] if margin else t[i] - label[i]
                    total += c[i] * (least + rate * (s - at))
            for j in range(terms.shape[0]):
                sign, knot, width, jump, curvature = terms[j]
                for i in range(c.shape[0]):
                    u = sign * ((label[i] * t[i] if margin else t[i] - label[i]) - knot)
                    u = 0.0 if u < 0.0 else u
                    v = width if u > width else u
                    total += c[i] * (jump * u + curvature * (v * (u - 0.5 * v)))
        out[k] = total


@routine(fastmath=SUMS)
def derivatives(outline, z, y, weights, out):
    """Set out to the weighted right derivatives of the losses in the predictions z; see `Pieces.slope`."""
    margin, pieces = outline.margin, outline.pieces
    for start in range(0, z.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        t, label, c, found = z[rows], y[rows], weights[rows], out[rows]
        for j in range(pieces.shape[0]):
            begin, near, slope, curvature = pieces[j]
            reach = near * abs(begin) + TINY if j else 0.0
            for i in range(c.shape[0]):
                sign = label[i] if margin else 1.0
                s = label[i] * t[i] if margin else t[i] - label[i]
                here = s + sign * (near * abs(label[i]) + reach) >= begin
                found[i] = c[i] * sign * (slope + curvature * s) if here else found[i]


@routine(fastmath=SUMS)
def cancelled(outline, z, y, weights, edges, out):
    """Set out[k] to the weighted sum over a block of `Pieces.cancelled`, for the slopes of `derivatives`."""
    margin, pieces = outline.margin, outline.pieces
    for k in range(out.shape[0]):
        total = 0.0
        rows = slice(edges[k], edges[k + 1])
        t, label, c = z[rows], y[rows], weights[rows]
        for j in range(1, pieces.shape[0]):
            begin, near, slope, curvature = pieces[j]
            jump = slope - pieces[j - 1, 2] + (curvature - pieces[j - 1, 3]) * begin if near > 0.0 else 0.0
            reach = near * abs(begin) + TINY
            for i in range(c.shape[0]):
                sign = label[i] if margin else 1.0
                s = label[i] * t[i] if margin else t[i] - label[i]
                crossed = (s + sign * (near * abs(label[i]) + reach) >= begin) != (s >= begin)
                total += c[i] * jump * (abs(label[i]) + abs(begin)) if crossed else 0.0
        out[k] = total


@routine(fastmath=SUMS)
def combine(t, z0, z1, out):
    """Set out to z0 + t (z1 - z0)."""
    for i in range(z0.shape[0]):
        out[i] = z0[i] + t * (z1[i] - z0[i])


@routine(fastmath=SUMS)
def between(outline, z0, z1, y, weights, low, high, kinks, jumps, bends):
    """Find the kinks in (low, high) of the weighted losses along a line, and the jumps of both derivatives.

    Return the first and second right derivative at low, and the number of kinks. `bends`, for the jumps of
    the second derivative, is empty if there are none; the other arrays have room for all kinks. Whether an
    example has passed a kink is decided by its t, because its prediction at the kink has a rounding error.
    """
    margin, pieces = outline.margin, outline.pieces
    slope = curvature = 0.0
    count = 0
    speeds, hit = np.empty(_BLOCK), np.empty(_BLOCK, np.uint8)
    begins, ends = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, z0.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        label, c, first, last = y[rows], weights[rows], z0[rows], z1[rows]
        size = c.shape[0]
        pace, found, enter, leave = speeds[:size], hit[:size], begins[:size], ends[:size]
        for i in range(c.shape[0]):
            pace[i] = label[i] * (last[i] - first[i]) if margin else last[i] - first[i]
        for j in range(pieces.shape[0]):
            _, _, rise, bend = pieces[j]
            end = pieces[j + 1, 0] if j + 1 < pieces.shape[0] else np.inf
            for i in range(c.shape[0]):
                leave[i] = (end - (label[i] * first[i] if margin else first[i] - label[i])) / pace[i]
            if rise != 0.0 or bend != 0.0:
                for i in range(c.shape[0]):
                    s = label[i] * first[i] if margin else first[i] - label[i]
                    up = pace[i] > 0.0
                    inside = ((enter[i] <= low) == up or j == 0) and (leave[i] <= low) != up
                    rate = c[i] * pace[i] if inside else 0.0
                    slope += rate * (rise + bend * (s + low * pace[i]))
                    curvature += rate * pace[i] * bend
            if j + 1 == pieces.shape[0]:
                break
            kinked = pieces[j + 1, 1] > 0.0
            jump = pieces[j + 1, 2] - rise + (pieces[j + 1, 3] - bend) * end if kinked else 0.0
            for i in range(c.shape[0]):
                found[i] = (leave[i] > low) & (leave[i] < high)
            for i in range(c.shape[0]):
                if found[i]:
                    rate = c[i] * abs(pace[i])
                    kinks[count] = leave[i]
                    jumps[count] = rate * jump
                    if bends.shape[0]:
                        bends[count] = rate * pace[i] * (pieces[j + 1, 3] - bend)
                    count += 1
            enter, leave = leave, enter
    return slope, curvature, count


@routine(fastmath=SUMS)
def both_derivatives(outline, z, y, first, second):
    """Set the first and second derivatives of losses without kinks in the predictions z."""
    margin, pieces = outline.margin, outline.pieces
    for start in range(0, z.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        t, label, slopes, bends = z[rows], y[rows], first[rows], second[rows]
        for j in range(pieces.shape[0]):
            begin, _, slope, curvature = pieces[j]
            for i in range(t.shape[0]):
                sign = label[i] if margin else 1.0
                s = label[i] * t[i] if margin else t[i] - label[i]
                here = s >= begin
                slopes[i] = sign * (slope + curvature * s) if here else slopes[i]
                bends[i] = curvature if here else bends[i]


@routine(fastmath=SUMS)
def along(outline, z0, z1, y, weights, t):
    """Return the first and second derivative in t of weighted losses without kinks of z0 + t (z1 - z0)."""
    margin, pieces = outline.margin, outline.pieces
    rise = curvature = 0.0
    slopes, bends = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, z0.shape[0], _BLOCK):
        rows = slice(start, min(start + _BLOCK, z0.shape[0]))
        label, c, first, last = y[rows], weights[rows], z0[rows], z1[rows]
        for j in range(pieces.shape[0]):
            begin, _, slope, bend = pieces[j]
            for i in range(c.shape[0]):
                z = first[i] + t * (last[i] - first[i])
                s = label[i] * z if margin else z - label[i]
                here = s >= begin
                slopes[i] = slope + bend * s if here else slopes[i]
                bends[i] = bend if here else bends[i]
        for i in range(c.shape[0]):
            step = last[i] - first[i]
            rise += c[i] * slopes[i] * (label[i] * step if margin else step)
            curvature += c[i] * bends[i] * step * step
    return rise, curvature


@routine(fastmath=SUMS)
def dual_prox(outline, t, y, q, start):
    """Return the u that maximises t u - l*(u, y) - q u^2 / 2, for q >= 0; `start` is ignored."""
    pieces = outline.pieces
    last = pieces.shape[0] - 1
    s = y * t if outline.margin else t - y
    v = 0.0
    for j in range(last + 1):
        _, _, slope, curvature = pieces[j]
        v = (slope + curvature * s) / (1.0 + curvature * q)
        if j == last or s - q * v <= pieces[j + 1, 0]:
            break
        v = (s - pieces[j + 1, 0]) / q
        if v <= pieces[j + 1, 2] + pieces[j + 1, 3] * pieces[j + 1, 0]:
            break
    return y * v if outline.margin else v


@routine(fastmath=SUMS)
def is_settled(outline, t, y, reach):
    """Tell whether the prediction t is farther than `reach` from every knot."""
    s = y * t if outline.margin else t - y
    for j in range(1, outline.pieces.shape[0]):
        if abs(s - outline.pieces[j, 0]) <= reach:
            return False
    return True
