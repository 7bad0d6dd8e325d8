"""The lp norm of a nonnegative vector, and the Euclidean projection on the ball of it."""

from __future__ import annotations

import math

import numpy as np

from cutplane.pieces.validation import Array

_STEPS = 60
_ROUNDING = 1e-15
_TINY = 1e-300


def lp_norm(x: Array, p: float) -> float:
    """Return ||x||_p of a vector x >= 0, for p in [1, inf], without overflow."""
    largest = float(x.max(initial=0.0))
    if not 0.0 < largest < math.inf or p == math.inf:
        return largest
    return largest * float(np.sum((x / largest) ** p)) ** (1.0 / p)


def project_unit_ball(z: Array, p: float) -> Array:
    """Return the Euclidean projection of z >= 0, outside the unit ball, on it, for 1 < p < inf.

    It is u(mu) with ``u_j + mu u_j^(p-1) = z_j`` and mu such that its norm is 1. Newton's method on
    ``||u(mu)||^(1-p)``, which is nearly linear in mu (for p = 2 it is), kept in a bracket.
    """
    positive = z > _TINY
    logs = np.log(z[positive])
    low, high = max(float(z.max()) - 1.0, 0.0), lp_norm(z, p / (p - 1.0))
    mu, log_u, log_norm = low, logs, 0.0
    for _ in range(_STEPS):
        log_u = _log_roots(logs, mu, p)
        top = float(log_u.max())
        shares = np.exp(p * (log_u - top))
        total = float(shares.sum())
        log_norm = top + math.log(total) / p
        low, high = (mu, high) if log_norm > 0.0 else (low, mu)
        with np.errstate(over="ignore"):
            fall = float(shares @ (1.0 / (np.exp((2.0 - p) * log_u) + (p - 1.0) * mu))) / total
        step = math.expm1((p - 1.0) * log_norm) / ((p - 1.0) * fall)
        target = mu + step
        if abs(step) <= _ROUNDING * mu or high - low <= _ROUNDING * high:
            break
        mu = target if low < target < high else 0.5 * (low + high)
    u = np.zeros_like(z)
    u[positive] = np.exp(log_u - log_norm)
    return np.minimum(u, z)


def _log_roots(logs: Array, mu: float, p: float) -> Array:
    """Return t_j with ``exp(t_j) + mu exp((p - 1) t_j) = exp(logs_j)``: Newton steps from above.

    The logarithm of the left side is convex in t and increasing, and at the start too large by ln 2 at most.
    """
    if mu == 0.0:
        return logs
    log_mu, s = math.log(mu), p - 1.0
    t = np.minimum(logs, (logs - log_mu) / s)
    for _ in range(_STEPS):
        value = np.logaddexp(t, log_mu + s * t)
        share = np.exp(t - value)
        step = (value - logs) / (share + s * (1.0 - share))
        t = t - step
        if np.abs(step).max() <= _ROUNDING * (1.0 + np.abs(t).max()):
            break
    return t
