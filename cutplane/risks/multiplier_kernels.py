"""Compiled loops of the method of multipliers; see `cutplane.risks.multiplier_method`.

Example i has the prediction z_i, the argument s_i = y_i z_i (if `margin`) or z_i - y_i of its loss phi, and
the multiplier v_i, a slope of phi. The smoothed loss is the Moreau envelope of phi, with parameter `mu`, at
s_i + mu v_i.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cutplane.losses.elementary import exp
from cutplane.losses.kernels import LOGISTIC, PIECEWISE, KernelForm
from cutplane.validation import Array

_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
_BLOCK = 256


def envelope_pieces(form: KernelForm, mu: float) -> Array:
    """Return the pieces of the envelope of a piecewise phi; no row for another.

    Row j is (start, intercept, bend, lowest, highest, a, b, c): for s beyond its start (and that of no later
    row) the slope v is intercept + bend s, kept within [lowest, highest], and phi*(v) is a v^2 + b v + c.
    """
    rows = []
    last = form.knots.size
    for j in range(last + 1 if form.kind == PIECEWISE else 0):
        a, b, c = form.pieces[j]
        left = 2.0 * a * form.knots[j - 1] + b if j else -np.inf
        right = 2.0 * a * form.knots[j] + b if j < last else np.inf
        start = form.knots[j - 1] + mu * left if j else -np.inf
        shrink = 1.0 / (1.0 + 2.0 * a * mu)
        if a > 0.0:
            conjugate = 0.25 / a, -0.5 * b / a, 0.25 * b * b / a - c
            rows.append((start, b * shrink, 2.0 * a * shrink, left, right, *conjugate))
        else:
            rows.append((start, b, 0.0, b, b, 0.0, 0.0, -c))
        if j < last and mu > 0.0:
            knot = form.knots[j]
            left, right = (2.0 * form.pieces[k, 0] * knot + form.pieces[k, 1] for k in (j, j + 1))
            if left < right:
                height = (a * knot + b) * knot + c
                rows.append((knot + mu * left, -knot / mu, 1.0 / mu, left, right, 0.0, knot, -height))
    return np.array(rows).reshape(-1, 8)


@njit(**_OPTIONS)
def derivatives(kind, pieces, margin, y, weights, z, centre, mu, slopes, bends):
    """Set slopes to those of the smoothed losses in s, and bends to weights times their second derivatives.

    Return the weighted sum of the conjugates, as functions of z, of the losses that are piecewise.
    """
    argument, conjugate = np.empty(_BLOCK), np.empty(_BLOCK)
    total = 0.0
    for start in range(0, z.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        t, c, v, bend = y[rows], weights[rows], slopes[rows], bends[rows]
        s, cost = argument[: t.shape[0]], conjugate[: t.shape[0]]
        _arguments(margin, t, z[rows], centre[rows], mu, s)
        if kind == PIECEWISE:
            for j in range(pieces.shape[0]):
                _derivatives_on_piece(pieces[j], s, v, bend, cost)
            for i in range(t.shape[0]):
                total += c[i] * (cost[i] if margin else cost[i] + t[i] * v[i])
        else:
            _transcendental(kind, s, c, v, bend)
        for i in range(t.shape[0]):
            bend[i] *= c[i]
    return total


@njit(**_OPTIONS)
def along(kind, pieces, margin, y, weights, z0, z1, centre, mu, t):
    """Return the derivatives, first and second, of the smoothed losses of z0 + t (z1 - z0) in t."""
    slope = curvature = 0.0
    point, pace, slopes = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    bends, conjugate = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, z0.shape[0], _BLOCK):
        rows = slice(start, start + _BLOCK)
        c = weights[rows]
        size = c.shape[0]
        s, d, v, bend = point[:size], pace[:size], slopes[:size], bends[:size]
        _pace(margin, y[rows], z0[rows], z1[rows], d)
        _arguments(margin, y[rows], z0[rows], centre[rows], mu, s)
        _move(s, d, t)
        if kind == PIECEWISE:
            for j in range(pieces.shape[0]):
                _derivatives_on_piece(pieces[j], s, v, bend, conjugate[:size])
        else:
            _transcendental(kind, s, c, v, bend)
        more, bent = _products(c, d, v, bend)
        slope += more
        curvature += bent
    return slope, curvature


@njit(**_OPTIONS)
def _pace(margin, y, z0, z1, out):
    if margin:
        for i in range(out.shape[0]):
            out[i] = y[i] * (z1[i] - z0[i])
    else:
        for i in range(out.shape[0]):
            out[i] = z1[i] - z0[i]


@njit(**_OPTIONS)
def _move(s, d, t):
    for i in range(s.shape[0]):
        s[i] += t * d[i]


@njit(**_OPTIONS)
def _products(c, d, v, bend):
    slope = curvature = 0.0
    for i in range(c.shape[0]):
        rate = c[i] * d[i]
        slope += rate * v[i]
        curvature += rate * d[i] * bend[i]
    return slope, curvature


@njit(**_OPTIONS)
def _arguments(margin, y, z, centre, mu, out):
    if margin:
        for i in range(out.shape[0]):
            out[i] = y[i] * z[i] + mu * centre[i]
    else:
        for i in range(out.shape[0]):
            out[i] = z[i] - y[i] + mu * centre[i]


@njit(**_OPTIONS)
def _derivatives_on_piece(piece, s, v, bend, cost):
    begin, intercept, rate, lowest, highest, a, b, c = piece
    for i in range(s.shape[0]):
        slope = intercept + rate * s[i]
        slope = lowest if slope < lowest else (highest if slope > highest else slope)
        here = s[i] >= begin
        v[i] = slope if here else v[i]
        bend[i] = rate if here else bend[i]
        cost[i] = (a * slope + b) * slope + c if here else cost[i]


@njit(**_OPTIONS)
def _transcendental(kind, s, weights, v, bend):
    """Set the derivatives of a smooth loss; without weight they are those at 0, where none overflows."""
    if kind == LOGISTIC:
        for i in range(s.shape[0]):
            e = exp(-abs(s[i]))
            p = 1.0 / (1.0 + e)
            v[i] = -(e * p if s[i] > 0.0 else p)
            bend[i] = e * p * p
    else:
        for i in range(s.shape[0]):
            bend[i] = exp(-s[i] if weights[i] > 0.0 else 0.0)
            v[i] = -bend[i]


@njit(**_OPTIONS)
def sparse_gram(data, indices, indptr, rows, coefficients, out):
    """Add a T such that T + T' is the sum of coefficients_k x_r x_r', with r = rows[k], to out."""
    for k in range(rows.shape[0]):
        begin, end = np.uint64(indptr[rows[k]]), np.uint64(indptr[rows[k] + 1])
        for p in range(begin, end):
            factor = coefficients[k] * data[p]
            row = out[indices[p]]
            row[indices[p]] += 0.5 * factor * data[p]
            for q in range(begin, p):
                row[indices[q]] += factor * data[q]
