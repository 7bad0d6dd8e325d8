"""A step of the simplex method for piecewise linear losses with an l1 norm, compiled; see `vertices`.

At a vertex as many coordinates are basic as examples: those lie at a knot of their loss, and the others are
zero. `inverse` is that of the matrix of basic examples and coordinates.
"""

from __future__ import annotations

import math

from cutplane.runtime.compiling import SUMS, routine

MOVED, OPTIMAL, LOST = 0, 1, 2
_VIOLATION = 1e-9
"""A multiplier this far outside of its interval, relative to it, is inside but for rounding."""
_PIVOT = 1e-9
"""A pivot below this, relative to the direction, is rounding."""
_STILL = 1e-11
"""An example that moves less than this share of the farthest one stays where it is but for rounding."""
_PER_COORDINATE = 0.3
"""How much the violation of a coordinate counts beside that of an example: 0.1 to 1 take as many steps."""


@routine(fastmath=SUMS)
def products(X, d, out):
    """Set the products of the rows with d; return the largest size."""
    largest = 0.0
    for i in range(X.shape[0]):
        total = 0.0
        row = X[i]
        for j in range(d.shape[0]):
            total += row[j] * d[j]
        out[i] = total
        largest = max(largest, abs(total))
    return largest


@routine
def reaching(times, rises, count, rise):
    """Return the first of so many times, in order, up to which the rises sum to `rise`; inf if none is."""
    total = 0.0
    for k in range(count):
        total += rises[k]
    if not total >= rise:
        return math.inf
    low, high, below = 0, count, 0.0
    while high - low > 1:
        a, b, c = times[low], times[(low + high) // 2], times[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        less, k, more = low, low, high
        before, there = 0.0, 0.0
        while k < more:
            t, r = times[k], rises[k]
            if t < pivot:
                before += r
                times[k], rises[k] = times[less], rises[less]
                times[less], rises[less] = t, r
                less += 1
                k += 1
            elif t > pivot:
                more -= 1
                times[k], rises[k] = times[more], rises[more]
                times[more], rises[more] = t, r
            else:
                there += r
                k += 1
        if below + before >= rise:
            high = less
        elif below + before + there >= rise:
            return pivot
        else:
            below += before + there
            low = more
    return times[low]


@routine
def entering(X, slopes, costs, basis, inverse, g, base):
    """Return what leaves its knot or zero: whether it is an example, its place, its side, its violation.

    The slopes of the risk, less those of basic examples, are `base`; g is set to all of them.
    """
    rows, knots, columns, signs, inside, size = basis
    p = size[0]
    best, found, place, side, violation = 0.0, 0, -1, 0.0, 0.0
    for j in range(g.shape[0]):
        g[j] = base[j]
    for b in range(p):
        u, norm = 0.0, 0.0
        for a in range(p):
            j = columns[a]
            u -= inverse[a, b] * (base[j] + costs[j] * signs[a])
            norm += inverse[a, b] * inverse[a, b]
        i = rows[b]
        low, high = slopes[knots[b], i], slopes[knots[b] + 1, i]
        off = max(low - u, u - high)
        if off > _VIOLATION * (high - low) and off > best * math.sqrt(norm):
            best, found, place, violation = off / math.sqrt(norm), 1, b, off
            side = -1.0 if u < low else 1.0
        for j in range(g.shape[0]):
            g[j] += u * X[i, j]
    for j in range(g.shape[0]):
        if inside[j] < 0:
            off = abs(g[j]) - costs[j]
            if off > _VIOLATION * costs[j] and _PER_COORDINATE * off > best:
                best, found, place, violation = _PER_COORDINATE * off, 2, j, off
                side = -1.0 if g[j] > 0.0 else 1.0
    return found, place, side, violation


@routine
def step(X, places, slopes, costs, x, z, piece, u, base, basis, inverse, work):
    """Go along the edge that falls most, as far as the objective falls; return MOVED, OPTIMAL or LOST.

    Parameters
    ----------
    places : ndarray of shape (K, m)
        The knots of each example, and `slopes`, shape (K + 1, m), times its weight.
    piece : ndarray of shape (m,)
        Where each example is; -1 of basic ones, whose slope in `u` is 0.
    basis : tuple
        Basic examples, their knots, basic coordinates, their signs, the place of each coordinate or -1, and
        the number of them, shape (1,).
    """
    rows, knots, columns, signs, _, size = basis
    g, d, w, y, moves, near, times, rises = work
    m, n, p, n_knots = X.shape[0], X.shape[1], size[0], places.shape[0]
    found, place, side, violation = entering(X, slopes, costs, basis, inverse, g, base)
    if found == 0:
        return OPTIMAL
    for j in range(n):
        d[j] = 0.0
    for a in range(p):
        w[a] = 0.0
        if found == 1:
            d[columns[a]] = side * inverse[a, place]
        else:
            for b in range(p):
                w[a] += inverse[a, b] * X[rows[b], place]
            d[columns[a]] = -side * w[a]
    if found == 2:
        d[place] = side
    still = _STILL * products(X, d, moves)
    if found == 1:
        i = rows[place]
        piece[i] = knots[place] + (1 if side > 0.0 else 0)
        z[i], moves[i], u[i] = places[knots[place], i], side, slopes[piece[i], i]
        for j in range(n):
            base[j] += u[i] * X[i, j]
    count = 0
    for i in range(m):
        near[i] = math.inf
        if piece[i] < 0 or abs(moves[i]) <= still:
            continue
        first, k = count, piece[i]
        while 0 <= k - (moves[i] < 0.0) < n_knots:
            knot = k - 1 if moves[i] < 0.0 else k
            times[count] = max(0.0, (places[knot, i] - z[i]) / moves[i])
            rises[count] = (slopes[knot + 1, i] - slopes[knot, i]) * abs(moves[i])
            count += 1
            k += -1 if moves[i] < 0.0 else 1
        if count > first:
            near[i] = times[first]
    for a in range(p):
        j = columns[a]
        if x[j] * d[j] < 0.0:
            times[count], rises[count] = -x[j] / d[j], 2.0 * costs[j] * abs(d[j])
            count += 1
    t = reaching(times, rises, count, violation)
    if not t < math.inf:
        return LOST
    stop, knot, drop = -1, -1, -1
    for i in range(m):
        if near[i] > t:
            continue
        down = moves[i] < 0.0
        k = piece[i]
        while 0 <= k - down < n_knots:
            ahead = k - 1 if down else k
            when = max(0.0, (places[ahead, i] - z[i]) / moves[i])
            if when == t and stop < 0:
                stop, knot = i, ahead
            if when >= t:
                break
            k += -1 if down else 1
        if k != piece[i]:
            change = slopes[k, i] - u[i]
            piece[i], u[i] = k, slopes[k, i]
            for j in range(n):
                base[j] += change * X[i, j]
    for a in range(p):
        j = columns[a]
        if x[j] * d[j] < 0.0:
            when = -x[j] / d[j]
            if when < t:
                signs[a] = -signs[a]
            elif when == t and stop < 0:
                drop = a
    for j in range(n):
        x[j] += t * d[j]
    for i in range(m):
        z[i] += t * moves[i]
    if stop >= 0:
        for j in range(n):
            base[j] -= u[stop] * X[stop, j]
        u[stop], piece[stop], z[stop] = 0.0, -1, places[knot, stop]
    elif drop >= 0:
        x[columns[drop]] = 0.0
    else:
        return LOST
    return exchange(X, basis, inverse, w, y, found == 1, place, side, stop, knot, drop)


@routine
def exchange(X, basis, inverse, w, y, example, place, side, stop, knot, drop):
    """Change the basis: an example or a coordinate leaves it, or joins, for another one; return the state."""
    rows, knots, columns, signs, inside, size = basis
    p = size[0]
    if stop >= 0:
        for b in range(p):
            y[b] = 0.0
            for a in range(p):
                y[b] += X[stop, columns[a]] * inverse[a, b]
    if stop >= 0 and example:
        pivot = y[place]
        if not abs(pivot) > _PIVOT:
            return LOST
        for a in range(p):
            share = inverse[a, place] / pivot
            for b in range(p):
                inverse[a, b] -= share * y[b]
            inverse[a, place] = share
        rows[place], knots[place] = stop, knot
    elif stop >= 0:
        pivot = X[stop, place]
        for a in range(p):
            pivot -= X[stop, columns[a]] * w[a]
        if not abs(pivot) > _PIVOT:
            return LOST
        for a in range(p):
            for b in range(p):
                inverse[a, b] += w[a] * y[b] / pivot
            inverse[a, p], inverse[p, a] = -w[a] / pivot, -y[a] / pivot
        inverse[p, p] = 1.0 / pivot
        rows[p], knots[p], columns[p], signs[p], inside[place] = stop, knot, place, side, p
        size[0] = p + 1
    elif example:
        pivot = inverse[drop, place]
        if not abs(pivot) > _PIVOT:
            return LOST
        last = p - 1
        for a in range(p):
            if a != drop:
                share = inverse[a, place] / pivot
                for b in range(p):
                    if b != place:
                        inverse[a, b] -= share * inverse[drop, b]
        for b in range(p):
            inverse[drop, b] = inverse[last, b]
        for a in range(p):
            inverse[a, place] = inverse[a, last]
        inside[columns[drop]] = -1
        if drop != last:
            columns[drop], signs[drop] = columns[last], signs[last]
            inside[columns[drop]] = drop
        rows[place], knots[place] = rows[last], knots[last]
        size[0] = last
    else:
        pivot = w[drop]
        if not abs(pivot) > _PIVOT:
            return LOST
        for b in range(p):
            share = inverse[drop, b] / pivot
            for a in range(p):
                if a != drop:
                    inverse[a, b] -= w[a] * share
            inverse[drop, b] = share
        inside[columns[drop]] = -1
        columns[drop], signs[drop], inside[place] = place, side, drop
    return MOVED
