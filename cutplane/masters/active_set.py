"""Routines of a primal active-set method for the dual of the reduced problem.

    maximise  q'a - 1/2 a'Ha   subject to  a >= 0,  sum_{i in group k} a_i = 1 for every group k

with H positive semidefinite, possibly of low rank. A variable of group -1 is nonnegative and in no sum, a
variable of group -2 has any sign; such variables can make the problem unbounded. The free variables (those
not fixed at zero) have an upper triangular factor

    R'R = H + sigma E E' + ridge      on their rows and columns, E the 0/1 matrix of the groups.

No step depends on sigma, because the group sums are constant; it makes the factor well conditioned as long as
the free rows are affinely independent (Wolfe 1976, doi:10.1007/BF01580381). The ridge, of the size of
rounding errors, is needed for dependent rows. It changes the steps but not the answer, because gradients are
computed with H, and every step is an exact line search, up to the boundary if H has no curvature along the
direction.

Z is inv(R') E, so that a step which preserves the group sums costs two triangular solves.
"""

from __future__ import annotations

import math

import numpy as np

from cutplane.runtime.compiling import SUMS, routine
from cutplane.runtime.deadline import check_time

SOLVED, UNBOUNDED, STALLED, NOT_FINITE, PAUSED = 0, 1, 2, 3, 4
"""Statuses of a solve, as numbers because compiled routines cannot return an enum."""
EQUATION = -2
"""Group of a variable of any sign, negative because groups with a sum count from 0."""

_EPS = 2.0**-52
"""Distance from 1 to the next float, used because rounding errors are multiples of it."""
_RIDGE = 1e-13
"""Ridge relative to the diagonal, because some hundred rounding errors make the pivots of dependent rows
positive."""
_NOISE = 8.0 * _EPS
"""Rounding error of a gradient relative to its terms, because a few operations are rounded."""
_FLAT = 2e-14
"""Curvature relative to the squared length of its terms that counts as zero, because sums with cancellation
have such errors."""
_TINY = 1e-300
"""Number added to denominators and to noise, because quotients by a zero of the diagonal then stay finite."""
_IDLE = 20
"""Number of steps without a gain beyond rounding after which a solve stops, because later steps then gain
nothing either."""
_SETTLED = 1e-3
"""Largest score of a free variable, relative to the best fixed one, at which the latter becomes free, because
smaller scores are errors of the factor."""
_SLICE = 1e7
"""Number of operations between checks of clock and keyboard, because they take a hundredth of a second."""


@routine(fastmath=SUMS)
def append(H, group, sigma, R, Z, free, where, n_free, j):
    """Make variable j free and return the new number of free variables; O(n_free^2)."""
    own = group[j]
    column = np.empty(n_free)
    for p in range(n_free):
        i = free[p]
        column[p] = H[j, i]
        if own >= 0 and group[i] == own:
            column[p] += sigma
    diagonal = H[j, j] + (sigma if own >= 0 else 0.0)
    ridge = _RIDGE * diagonal if diagonal > 0.0 else _RIDGE
    pivot = diagonal + ridge
    z = Z[n_free]
    z[:] = 0.0
    if own >= 0:
        z[own] = 1.0
    for p in range(n_free):
        row = R[p]
        c = column[p] / row[p]
        row[n_free] = c
        pivot -= c * c
        for m in range(p + 1, n_free):
            column[m] -= c * row[m]
        for k in range(z.shape[0]):
            z[k] -= c * Z[p, k]
    R[n_free, n_free] = math.sqrt(max(pivot, ridge))
    for k in range(z.shape[0]):
        z[k] /= R[n_free, n_free]
    free[n_free] = j
    where[j] = n_free
    return n_free + 1


@routine(fastmath=SUMS)
def delete(R, Z, free, where, n_free, position):
    """Fix the free variable at a position at zero by rotations, in O(n_free^2); return the new number."""
    last = n_free - 1
    where[free[position]] = -1
    for p in range(position, last):
        free[p] = free[p + 1]
        where[free[p]] = p
    for p in range(position + 1):
        row = R[p]
        for m in range(position, last):
            row[m] = row[m + 1]
    for p in range(position, last):
        upper, lower = R[p], R[p + 1]
        h = math.hypot(upper[p], lower[p + 1])
        c, s = upper[p] / h, lower[p + 1] / h
        upper[p] = h
        for m in range(p + 1, last):
            u, v = upper[m], lower[m + 1]
            upper[m] = c * u + s * v
            lower[m] = c * v - s * u
        for k in range(Z.shape[1]):
            u, v = Z[p, k], Z[p + 1, k]
            Z[p, k] = c * u + s * v
            Z[p + 1, k] = c * v - s * u
    return last


@routine(fastmath=SUMS)
def factorise(H, group, sigma, R, Z, free, where, n_free):
    """Compute the factor of the free variables from H; O(n_free^3)."""
    done = np.int64(0)
    for p in range(n_free):
        done = append(H, group, sigma, R, Z, free, where, done, free[p])


@routine(fastmath=SUMS)
def keep_sums(Z, n_free, d):
    """Project d onto the complement of the columns of Z, so that the step preserves every group sum."""
    n_groups = Z.shape[1]
    S = np.zeros((n_groups, n_groups))
    nu = np.zeros(n_groups)
    for p in range(n_free):
        for k in range(n_groups):
            nu[k] += Z[p, k] * d[p]
            for m in range(k + 1):
                S[k, m] += Z[p, k] * Z[p, m]
    for k in range(n_groups):
        for m in range(k):
            for i in range(m):
                S[k, m] -= S[k, i] * S[m, i]
            S[k, m] /= S[m, m]
            nu[k] -= S[k, m] * nu[m]
        pivot = S[k, k]
        for i in range(k):
            pivot -= S[k, i] * S[k, i]
        S[k, k] = math.sqrt(max(pivot, _EPS * S[k, k]))
        nu[k] /= S[k, k]
    for k in range(n_groups - 1, -1, -1):
        for i in range(k + 1, n_groups):
            nu[k] -= S[i, k] * nu[i]
        nu[k] /= S[k, k]
    for p in range(n_free):
        for k in range(n_groups):
            d[p] -= nu[k] * Z[p, k]


@routine(fastmath=SUMS)
def newton(R, Z, n_free, d):
    """Overwrite d, a gradient on the free variables, with the step to the maximiser with the same sums."""
    for p in range(n_free):
        row = R[p]
        d[p] /= row[p]
        t = d[p]
        for m in range(p + 1, n_free):
            d[m] -= t * row[m]
    if Z.shape[1] > 0:
        keep_sums(Z, n_free, d)
    for p in range(n_free - 1, -1, -1):
        row = R[p]
        total = d[p]
        for m in range(p + 1, n_free):
            total -= row[m] * d[m]
        d[p] = total / row[p]


@routine(fastmath=SUMS)
def gradient(H, q, n, a, free, n_free, g):
    """Set g to q - Ha."""
    for i in range(n):
        g[i] = q[i]
    for p in range(n_free):
        j = free[p]
        t = a[j]
        row = H[j]
        for i in range(n):
            g[i] -= t * row[i]


@routine(fastmath=SUMS)
def start(H, q, group, sigma, R, Z, free, where, n_free, a, n):
    """Make a feasible: scale each group to sum 1; if a group is zero, set its best single variable to 1."""
    n_groups = Z.shape[1]
    mass = np.zeros(n_groups)
    best = np.full(n_groups, -1)
    value = np.full(n_groups, -np.inf)
    for i in range(n):
        k = group[i]
        if k >= 0:
            mass[k] += a[i]
            if q[i] - 0.5 * H[i, i] > value[k]:
                value[k] = q[i] - 0.5 * H[i, i]
                best[k] = i
    for p in range(n_free):
        k = group[free[p]]
        if k >= 0 and mass[k] > 0.0:
            a[free[p]] /= mass[k]
    for k in range(n_groups):
        if not mass[k] > 0.0:
            a[best[k]] = 1.0
            if where[best[k]] < 0:
                n_free = append(H, group, sigma, R, Z, free, where, n_free, best[k])
    return n_free


@routine(fastmath=SUMS)
def set_means(group, free, n_free, a, g, nu):
    """Set nu_k to the mean of g over group k, weighted by a."""
    mass = np.zeros(nu.shape[0])
    nu[:] = 0.0
    for p in range(n_free):
        i = free[p]
        if group[i] >= 0:
            nu[group[i]] += a[i] * g[i]
            mass[group[i]] += a[i]
    nu /= mass


@routine(fastmath=SUMS)
def assess(H, base, group, free, n_free, a, g, n, reach, nu, noise):
    """Set nu, the mean of g over each group, and noise, the rounding error of g - nu.

    Return the complementarity gap sum_i a_i |g_i| of the variables without a group, the rounding error of
    a'g, and the rounding error of the largest g of a free variable.
    """
    set_means(group, free, n_free, a, g, nu)
    slack = spread = 0.0
    for p in range(n_free):
        i = free[p]
        spread += abs(a[i]) * math.sqrt(H[i, i])
        if group[i] < 0:
            slack += abs(a[i] * g[i])
    if reach > 0.0:
        spread = reach
    common = total = 0.0
    for i in range(n):
        noise[i] = _TINY + _NOISE * (abs(base[i]) + math.sqrt(H[i, i]) * spread)
        total += abs(a[i]) * noise[i]
        if group[i] >= 0:
            common += a[i] * noise[i]
    largest = total - common
    for i in range(n):
        if group[i] >= 0:
            if a[i] > 0.0:
                largest = max(largest, noise[i])
            noise[i] += common
    return slack, total, largest


@routine(fastmath=SUMS)
def ascend(H, group, R, Z, free, where, n_free, a, g, n, nu, noise, d, moved, steps):
    """Step to the maximiser over the free variables; delete those that would become negative.

    Return the number of free variables, the gain, the sum of |step_i| sqrt(H_ii), the number of remaining
    steps, and a status: SOLVED, UNBOUNDED if the objective is unbounded along d, or PAUSED if no step
    remains.
    """
    gain = travel = 0.0
    w = np.empty(n)
    sums = np.empty(nu.shape[0])
    while n_free > 0:
        if steps == 0:
            return n_free, gain, travel, steps, PAUSED
        steps -= 1
        set_means(group, free, n_free, a, g, nu)
        for p in range(n_free):
            i = free[p]
            d[p] = g[i] - nu[group[i]] if group[i] >= 0 else g[i]
        newton(R, Z, n_free, d)
        sums[:] = 0.0
        for p in range(n_free):
            if group[free[p]] >= 0:
                sums[group[free[p]]] += d[p]
        for p in range(n_free):
            i = free[p]
            if group[i] >= 0:
                d[p] -= sums[group[i]] * a[i]
        w[:] = 0.0
        for p in range(n_free):
            row = H[free[p]]
            t = d[p]
            for i in range(n):
                w[i] += t * row[i]
        slope = curvature = size = slope_error = 0.0
        for p in range(n_free):
            i = free[p]
            slope += d[p] * (g[i] - nu[group[i]] if group[i] >= 0 else g[i])
            curvature += d[p] * w[i]
            size += abs(d[p]) * math.sqrt(H[i, i])
            slope_error += abs(d[p]) * noise[i]
        if not slope > 0.0:
            break
        step = np.inf if curvature <= _FLAT * size * size else slope / curvature
        blocked = np.int64(-1)
        for p in range(n_free):
            if d[p] < 0.0 and a[free[p]] < -d[p] * step and group[free[p]] != EQUATION:
                step = -a[free[p]] / d[p]
                blocked = p
        if step == np.inf:
            if slope > slope_error:
                return n_free, gain, travel, steps, UNBOUNDED
            step = 1.0
        travel += step * size
        gain += step * (slope - 0.5 * step * curvature)
        for p in range(n_free):
            i = free[p]
            a[i] += step * d[p]
            if a[i] < 0.0 and group[i] != EQUATION:
                a[i] = 0.0
            moved[i] += step * d[p]
        for i in range(n):
            g[i] -= step * w[i]
        if blocked < 0:
            break
        a[free[blocked]] = 0.0
        n_free = delete(R, Z, free, where, n_free, blocked)
    return n_free, gain, travel, steps, SOLVED


@routine(fastmath=SUMS)
def continue_steps(
    H, base, group, sigma, R, Z, free, where, n_free, a, g, n, reach, tol, ray, moved, course, steps
):
    """Do at most `steps` steps of `maximise`; the status is PAUSED if more are needed.

    `course` has the numbers needed to continue: the count of moves to a maximiser, the count of the last
    moves without a gain, the gain of an incomplete move (-1 if there is none), and the growth of `reach`.
    """
    nu = np.empty(Z.shape[1])
    top = np.empty(Z.shape[1])
    noise = np.empty(n)
    renewed = False
    while True:
        moves, idle, pending, growth = course
        spread = reach + growth if reach > 0.0 else 0.0
        gap, rounding, error = assess(H, base, group, free, n_free, a, g, n, spread, nu, noise)
        top[:] = 0.0
        entering = np.int64(-1)
        best = unsettled = 0.0
        violated = False
        for i in range(n):
            k = group[i]
            v = g[i] - nu[k] if k >= 0 else g[i]
            if k == EQUATION:
                v = abs(v)
            if k >= 0:
                top[k] = max(top[k], v)
            if abs(v) > noise[i]:
                score = v / math.sqrt(H[i, i] + _TINY)
                if where[i] >= 0:
                    unsettled = max(unsettled, abs(score))
                elif score > best:
                    best = score
                    entering = i
                violated = violated or (k < 0 and v > 0.0)
        for k in range(top.shape[0]):
            gap += top[k]
        if not gap < np.inf:
            return NOT_FINITE, n_free, gap, error, course
        if violated:
            gap = np.inf
        if gap <= tol:
            return SOLVED, n_free, gap, error, course
        if idle > _IDLE or moves > 20 * n + 100:
            return STALLED, n_free, gap, error, course
        if pending < 0.0:
            if moves > 0 or unsettled <= _SETTLED * best:
                if entering >= 0:
                    n_free = append(H, group, sigma, R, Z, free, where, n_free, entering)
                elif unsettled == 0.0 or renewed:
                    status = STALLED if violated or unsettled > 0.0 else SOLVED
                    return status, n_free, gap, error, course
                else:
                    renewed = True
                    factorise(H, group, sigma, R, Z, free, where, n_free)
            pending = 0.0
        n_free, gain, travel, steps, status = ascend(
            H, group, R, Z, free, where, n_free, a, g, n, nu, noise, ray, moved, steps
        )
        pending += gain
        growth += travel
        if status != SOLVED:
            return status, n_free, gap, error, (moves, idle, pending, growth)
        course = moves + 1, 0 if pending > rounding else idle + 1, -1.0, growth


@routine(fastmath=SUMS)
def begin(
    H, heights, offsets, t, base, group, sigma, R, Z, free, where, n_free, a, g, n, tol, ray, moved, steps
):
    """Do the first steps of `maximise` for q = heights / t, where heights are offsets plus products."""
    total = 0.0
    q = np.empty(n)
    for i in range(n):
        q[i] = heights[i] / t
        base[i] = abs(q[i]) + abs(offsets[i]) / t
        total += base[i]
        moved[i] = 0.0
    course = 0, 0, -1.0, 0.0
    if not total < np.inf:
        return NOT_FINITE, n_free, total, total, course
    n_free = start(H, q, group, sigma, R, Z, free, where, n_free, a, n)
    gradient(H, q, n, a, free, n_free, g)
    return continue_steps(
        H, base, group, sigma, R, Z, free, where, n_free, a, g, n, 0.0, tol, ray, moved, course, steps
    )


def maximise(
    H, base, group, sigma, R, Z, free, where, n_free, a, g, n, reach, tol, ray, moved, linear=None
):  # fmt: skip
    """Solve from the point a; update a, g, the factor and the free variables.

    Without `linear`, a must be feasible and g its gradient, with a rounding error relative to |base_i| +
    sqrt(H_ii) reach. A reach of 0 stands for sum_i a_i sqrt(H_ii), which is a bound for the gradient q - Ha
    with base q. With `linear` = (heights, offsets, t), q is heights / t, and base is set to the size of its
    terms. The solve stops at a duality gap of tol, or of rounding errors. `ray` becomes the last direction on
    the free variables, and `moved` the change of a, which is more exact than a difference of two values of a.
    Return the status, the number of free variables, the gap, its rounding error, and the number of moves;
    raise `OutOfTime` if the deadline passes between two slices.
    """
    steps = 1 + int(_SLICE / (n * (n + Z.shape[1] ** 2 + 1)))
    if linear is not None:
        state = H, *linear, base, group, sigma, R, Z, free, where, n_free, a, g, n
        status, n_free, gap, error, course = begin(*state, tol, ray, moved, steps)
    else:
        moved[:n] = 0.0
        status, course = PAUSED, (0, 0, -1.0, 0.0)
    while status == PAUSED:
        check_time()
        status, n_free, gap, error, course = continue_steps(
            H, base, group, sigma, R, Z, free, where, n_free, a, g, n, reach, tol, ray, moved, course, steps
        )
    return status, n_free, gap, error, course[0]
