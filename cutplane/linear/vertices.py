"""Paths of piecewise linear losses with an l1 norm, by the simplex method from vertex to vertex."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.linear.predictor import predictor_of
from cutplane.linear.terms import terms_of
from cutplane.losses.base import pieces_of
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array
from cutplane.runtime.compiling import SUMS, routine
from cutplane.runtime.deadline import check_time

if TYPE_CHECKING:
    from cutplane.engine.declaration import Declaration

_MOST_ENTRIES = 300_000
"""Largest number of entries of the data, because a step reads all of them: at this number, a path takes 0.2
to 0.9 times the time of cold solves, at twice this number up to 1.5 times."""
_REFRESHED = 50
"""Number of steps after which all numbers are computed again from the basis, because each step adds a
rounding error."""
_APART = 1e-10
"""Size of random relative shifts of knots and costs, which are needed because steps may cycle at ties."""
_STEPS = 20
"""Largest number of steps per example and coordinate at one weight, because much fewer suffice."""
_MOVED, _OPTIMAL, _LOST = 0, 1, 2
"""Outcomes of a step, as numbers because compiled routines cannot return an enum."""
_VIOLATION = 1e-9
"""Violation of a multiplier, relative to its interval, that counts as zero, because the multiplier is a
rounded sum."""
_PIVOT = 1e-9
"""Smallest pivot, relative to the direction, because smaller ones are rounding errors."""
_STILL = 1e-11
"""Change of a prediction, relative to the largest one, that counts as zero, because it is a rounded sum."""
_PER_COORDINATE = 0.3
"""Weight of a coordinate's violation relative to an example's; any value from 0.1 to 1 is good, because the
number of steps hardly depends on it."""


class VertexFollower:
    """The simplex method on ``sum_i c_i l(<x_i, w> + b, y_i) + sum_j costs_j |w_j|``, for decreasing weights.

    The solution is a vertex: the basic examples are at knots of their losses, and as many coordinates are not
    zero. The objective decreases along an edge if the multiplier of a basic example is outside of the slopes
    at its knot, or if a slope of the risk exceeds the cost of a coordinate that is zero. A step passes all
    knots on the edge up to the minimum, as in the method of Barrodale and Roberts [1]_. The next weight
    starts at the last vertex.

    References
    ----------
    .. [1] I. Barrodale, F. D. K. Roberts, "An improved algorithm for discrete l1 linear approximation",
       SIAM Journal on Numerical Analysis 10, 1973, doi:10.1137/0710069.
    """

    def __init__(self, problem: Declaration):
        risk: Any = predictor_of(problem)
        rng = np.random.default_rng(0)
        self._risk, self._present = risk, np.flatnonzero(risk.weights > 0.0)
        X = risk.X.toarray() if sparse.issparse(risk.X) else risk.X
        X = np.asarray(X[self._present], dtype=np.float64)
        X = np.column_stack([X, np.ones(len(X))]) if risk.intercept else X
        m, n = X.shape
        pieces = risk.loss.pieces(risk.y)
        places = np.array(pieces.knots, dtype=np.float64)[:, self._present]
        apart = _APART * max(float(np.abs(places).max()), np.finfo(float).tiny) * rng.random(m)
        self._X, self._places = np.ascontiguousarray(X), np.ascontiguousarray(places + apart)
        self._weights = risk.weights[self._present]
        self._unweighted = np.array(pieces.slopes, dtype=np.float64)[:, self._present]
        self._slopes = np.ascontiguousarray(self._unweighted * self._weights)
        self._raised = 1.0 + _APART * rng.random(n)
        self._x, self._z = np.zeros(n), np.zeros(m)
        self._piece = (self._places <= 0.0).sum(axis=0)
        self._u = self._slopes[self._piece, np.arange(m)]
        self._base = self._u @ self._X
        integers = (np.zeros(n, np.int64) for _ in range(3))
        rows, knots, columns = integers
        self._basis = rows, knots, columns, np.zeros(n), np.full(n, -1), np.zeros(1, np.int64)
        self._inverse = np.zeros((n, n))
        count = places.size + n
        sizes = n, n, n, n, m, m, count, count
        self._work = tuple(np.empty(size) for size in sizes)

    @property
    def x(self) -> Array:
        """The current vertex."""
        return self._x

    def solve(self, problem: Declaration, tolerance: Callable[[float], float]) -> tuple[Array, Array] | None:
        """Return the vertex and multipliers of the examples; None if rounding errors or ties prevent it."""
        terms = terms_of(problem)
        if terms is None or not terms.costs.all():
            return None
        costs = terms.costs * self._raised
        state = self._x, self._z, self._piece, self._u, self._base, self._basis, self._inverse, self._work
        for count in range(_STEPS * sum(self._X.shape)):
            if count % _REFRESHED == 0:
                check_time()
                if not self._refresh():
                    return None
            outcome = _step(self._X, self._places, self._slopes, costs, *state)
            if outcome != _MOVED:
                return self._proposal(terms.costs) if outcome == _OPTIMAL and self._refresh() else None
        return None

    def _refresh(self) -> bool:
        """Compute all numbers from the basis; tell whether this is possible."""
        rows, knots, columns, _, _, size = self._basis
        p = size[0]
        E, N = rows[:p], columns[:p]
        there = self._places[knots[:p], E]
        try:
            self._inverse[:p, :p] = np.linalg.inv(self._X[np.ix_(E, N)])
        except np.linalg.LinAlgError:
            return False
        self._x[:] = 0.0
        self._x[N] = self._inverse[:p, :p] @ there
        self._z[:] = self._X @ self._x
        self._z[E] = there
        self._base[:] = self._u @ self._X
        return bool(np.isfinite(self._x).all())

    def _proposal(self, costs: Array) -> tuple[Array, Array]:
        """Return the vertex, and multipliers scaled into the domain of the conjugate of the norm."""
        rows, knots, columns, signs, _, size = self._basis
        p = size[0]
        E, N, k = rows[:p], columns[:p], knots[:p]
        own = -(self._base[N] + costs[N] * signs[:p]) @ self._inverse[:p, :p]
        u = self._unweighted[self._piece, np.arange(self._piece.size)]
        u[E] = np.clip(own / self._weights[E], self._unweighted[k, E], self._unweighted[k + 1, E])
        excess = float((np.abs((self._weights * u) @ self._X) / costs).max())
        every = np.array(self._risk.loss.derivative(np.zeros(self._risk.y.size), self._risk.y), dtype=float)
        every[self._present] = u
        return self._x.copy(), every / max(1.0, excess * (1.0 + _APART))


def can_walk(problem: Declaration) -> bool:
    """Tell whether a path follows vertices: a piecewise linear loss, positive costs, and few data."""
    risk, terms = predictor_of(problem), terms_of(problem)
    phi = None if risk is None else pieces_of(risk.loss)
    if risk is None or terms is None or phi is None or phi.curvatures.any() or risk.n_blocks > 1:
        return False
    bounded = np.isfinite(terms.low).any() or np.isfinite(terms.high).any()
    few = risk.X.shape[0] * risk.X.shape[1] <= _MOST_ENTRIES and np.isfinite(phi.slopes).all()
    linear = terms.costs.all() and not terms.weights.any() and not bounded
    return bool(few and linear and offers(problem.risk, Capability.DUAL_CUT))


@routine(fastmath=SUMS)
def _products(X, d, out):
    """Set the products of the rows with d; return the largest absolute product."""
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
def _reaching(times, rises, count, rise):
    """Return the first of `count` ordered times up to which the rises sum to `rise`; inf if there is none."""
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
def _entering(X, slopes, costs, basis, inverse, g, base):
    """Return kind (1 example, 2 coordinate), position, side and violation of a change of a piece.

    `base` are the slopes of the risk without the basic examples; g is set to the slopes of the whole risk.
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
def _step(X, places, slopes, costs, x, z, piece, u, base, basis, inverse, work):
    """Step along the steepest edge as long as the objective decreases; return _MOVED, _OPTIMAL or _LOST.

    Parameters
    ----------
    places : ndarray of shape (K, m)
        The knots of each example; `slopes`, shape (K + 1, m), are multiplied by its weight.
    piece : ndarray of shape (m,)
        The piece of each example; -1 for basic ones, whose slope in `u` is 0.
    basis : tuple
        Basic examples, their knots, basic coordinates, their signs, the position of each coordinate or -1,
        and their number, shape (1,).
    """
    rows, knots, columns, signs, _, size = basis
    g, d, w, y, moves, near, times, rises = work
    m, n, p, n_knots = X.shape[0], X.shape[1], size[0], places.shape[0]
    found, place, side, violation = _entering(X, slopes, costs, basis, inverse, g, base)
    if found == 0:
        return _OPTIMAL
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
    still = _STILL * _products(X, d, moves)
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
    t = _reaching(times, rises, count, violation)
    if not t < math.inf:
        return _LOST
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
        return _LOST
    return _exchange(X, basis, inverse, w, y, found == 1, place, side, stop, knot, drop)


@routine
def _exchange(X, basis, inverse, w, y, example, place, side, stop, knot, drop):
    """Change the basis: exchange, add or remove an example and a coordinate; return the outcome."""
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
            return _LOST
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
            return _LOST
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
            return _LOST
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
            return _LOST
        for b in range(p):
            share = inverse[drop, b] / pivot
            for a in range(p):
                if a != drop:
                    inverse[a, b] -= w[a] * share
            inverse[drop, b] = share
        inside[columns[drop]] = -1
        columns[drop], signs[drop], inside[place] = place, side, drop
    return _MOVED
