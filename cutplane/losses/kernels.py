"""The built-in losses as compiled code sees them, one example at a time.

A built-in loss is phi(s) of the margin s = y t or of the residual s = t - y; `kernel_form` says which phi.
Only modules that need numba anyway import this one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from cutplane.losses.base import MarginLoss, ScalarLoss, UnivariateLoss
from cutplane.losses.classification import Exponential, Hinge, Logistic, ModifiedHuber, SquaredHinge
from cutplane.losses.regression import Absolute, EpsilonInsensitive, Huber, Poisson, Quantile, Squared
from cutplane.losses.tube import SquaredEpsilonInsensitive
from cutplane.validation import Array

PIECEWISE, LOGISTIC, EXPONENTIAL, POISSON = 0, 1, 2, 3

_PIECEWISE = {
    Hinge,
    SquaredHinge,
    ModifiedHuber,
    Squared,
    Absolute,
    Quantile,
    EpsilonInsensitive,
    SquaredEpsilonInsensitive,
    Huber,
}
_TRANSCENDENTAL = {Logistic: LOGISTIC, Exponential: EXPONENTIAL, Poisson: POISSON}
_OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}
_STEPS = 60


class KernelForm(NamedTuple):
    """A built-in loss in numbers.

    Attributes
    ----------
    kind : int
        PIECEWISE, LOGISTIC, EXPONENTIAL or POISSON. The phi of `Poisson`, exp(t) - y t, is the only one that
        is no function of s alone; `prox` and its companions do not know it.
    knots : ndarray of shape (k,)
        Ascending; empty unless phi is piecewise quadratic.
    pieces : ndarray of shape (k + 1, 3)
        phi(s) = a s^2 + b s + c between knots j - 1 and j, with (a, b, c) in row j.
    uses_margin : bool
        Whether s = y t, with labels y of -1 and 1; else s = t - y.
    """

    kind: int
    knots: Array
    pieces: Array
    uses_margin: bool


def kernel_form(loss: ScalarLoss) -> KernelForm | None:
    """Return a built-in loss in numbers, None for any other (a subclass of a built-in one included)."""
    uses_margin = isinstance(loss, MarginLoss)
    if type(loss) in _TRANSCENDENTAL:
        return KernelForm(_TRANSCENDENTAL[type(loss)], np.empty(0), np.empty((0, 3)), uses_margin)
    outline = loss._outline() if type(loss) in _PIECEWISE and isinstance(loss, UnivariateLoss) else None
    if outline is None:
        return None
    return KernelForm(PIECEWISE, np.array(outline[0]), np.array(outline[1]), uses_margin)


@njit(**_OPTIONS)
def dual_prox(kind, knots, pieces, s, q):
    """Return argmax over v of s v - phi*(v) - q v^2 / 2, the slope of phi at `prox`; q >= 0 and finite."""
    if kind == LOGISTIC:
        return _logistic_dual_prox(s, q)
    if kind == EXPONENTIAL:
        return _exponential_dual_prox(s, q)
    last = knots.shape[0]
    for j in range(last):
        v = (2.0 * pieces[j, 0] * s + pieces[j, 1]) / (1.0 + 2.0 * pieces[j, 0] * q)
        if s - q * v <= knots[j]:
            return v
        v = (s - knots[j]) / q
        if v <= 2.0 * pieces[j + 1, 0] * knots[j] + pieces[j + 1, 1]:
            return v
    return (2.0 * pieces[last, 0] * s + pieces[last, 1]) / (1.0 + 2.0 * pieces[last, 0] * q)


@njit(**_OPTIONS)
def prox(kind, knots, pieces, s, q):
    """Return argmin over r of phi(r) + (r - s)^2 / (2 q); q >= 0 and finite, and q = 0 gives s."""
    if kind != PIECEWISE:
        return s - q * dual_prox(kind, knots, pieces, s, q)
    last = knots.shape[0]
    for j in range(last):
        r = (s - q * pieces[j, 1]) / (1.0 + 2.0 * pieces[j, 0] * q)
        if r <= knots[j]:
            return r
        if s - knots[j] <= q * (2.0 * pieces[j + 1, 0] * knots[j] + pieces[j + 1, 1]):
            return knots[j]
    return (s - q * pieces[last, 1]) / (1.0 + 2.0 * pieces[last, 0] * q)


@njit(**_OPTIONS)
def conjugate(kind, knots, pieces, v):
    """Return sup over r of v r - phi(r); inf outside its domain."""
    if kind == LOGISTIC:
        if v < -1.0 or v > 0.0:
            return math.inf
        return _x_log_x(-v) + _x_log_x(1.0 + v)
    if kind == EXPONENTIAL:
        return math.inf if v > 0.0 else _x_log_x(-v) + v
    last = knots.shape[0]
    for j in range(last + 1):
        a, b, c = pieces[j]
        if a > 0.0:
            if (j == 0 or v >= 2.0 * a * knots[j - 1] + b) and (j == last or v <= 2.0 * a * knots[j] + b):
                return (v - b) ** 2 / (4.0 * a) - c
        elif v == b:
            return -c
        elif j == 0 and v < b:
            return math.inf
        if j < last and v < 2.0 * pieces[j + 1, 0] * knots[j] + pieces[j + 1, 1]:
            return v * knots[j] - (a * knots[j] + b) * knots[j] - c
    return math.inf


@njit(**_OPTIONS)
def _x_log_x(x):
    return x * math.log(x) if x > 0.0 else 0.0


@njit(**_OPTIONS)
def _logistic_dual_prox(s, q):
    """Solve u = q / (1 + exp(s + u)) for u = prox - s by Newton steps kept in a bracket."""
    low, high = 0.0, q
    guess = math.log(1.0 + q)
    u = min(max(guess - math.log(1.0 + max(guess - s, 0.0)) - s, low), high)
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + math.exp(s + u))
        gap = u - q * p
        step = gap / (1.0 + q * p * (1.0 - p))
        if gap > 0.0:
            high = u
        else:
            low = u
        if abs(step) <= 1e-9 * min(1.0, u):
            u -= step
            break
        u = u - step if low <= u - step <= high else 0.5 * (low + high)
    return -1.0 / (1.0 + math.exp(s + u))


@njit(**_OPTIONS)
def _exponential_dual_prox(s, q):
    """Solve w + exp(w) = ln q - s for w by Newton steps that fall towards it; the slope is -exp(w) / q."""
    if q == 0.0:
        return -math.exp(-s)
    b = math.log(q) - s
    w = math.log(b) if b > 1.0 else b
    for _ in range(_STEPS):
        e = math.exp(w)
        step = (w + e - b) / (1.0 + e)
        w -= step
        if abs(step) <= 1e-9:
            break
    return -math.exp(w) / q
