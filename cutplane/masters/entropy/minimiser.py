"""The minimiser x(v) of an entropy + <v, x> over a box or a simplex, and how it changes with v."""

from __future__ import annotations

import math

import numpy as np

from cutplane.masters.base import ReducedProblem
from cutplane.pieces.capabilities import Capability, ask, offers
from cutplane.pieces.forms import LinearForm
from cutplane.pieces.validation import Array
from cutplane.sets.box import box_corner

_IDLE = 1e-6  # the share of the mean mass below which a coordinate adds nothing to a curvature that only
# steps depend on
_FLAT = 0.3  # the derivative that an inexact line search leaves, relative to that at its start
_TINY = 1e-300  # keeps a quotient finite
_TRIALS = 40  # bisections that leave 1e-12 of a step
_CHUNK = 1024  # columns whose products stay in the cache


def refusal(reduced: ReducedProblem) -> str | None:
    """Return None if x(v) has a closed form with a known derivative, else the reason why not."""
    regularizer, simple_set, dim = reduced.regularizer, reduced.simple_set, reduced.dim
    if not offers(regularizer, Capability.ENTROPY) or not regularizer.lam > 0.0:
        return "the regularizer is not an entropy with lam > 0"
    bounds = simple_set.bounds(dim)
    if bounds is not None:
        return None if (bounds[1] >= 0.0).all() else "the box has no point where the entropy is finite"
    if capped_form(simple_set, dim) is None:
        return "the feasible set is neither a box nor a (capped) simplex"
    return None


class EntropicMinimiser:
    """x(v) = argmin over x in X0 of lam sum_j x_j (ln x_j - log_reference_j) + <v, x>.

    Between its bounds, x_j = exp(log_reference_j - v_j / lam - theta), with theta = 1 on a box and such that
    the sum is right on a simplex. With u the coordinates between their bounds, -dx/dv is

        inv(lam) diag(x_u)  on a box,  inv(lam) (diag(x_u) - x_u x_u' / sum x_u)  on a simplex.

    The reduced problem is one that `refusal` accepts.
    """

    def __init__(self, reduced: ReducedProblem):
        self.lam = reduced.regularizer.lam
        self._log_reference = ask(reduced.regularizer, Capability.ENTROPY, reduced.dim)
        self._set = reduced.simple_set
        bounds = self._set.bounds(reduced.dim)
        self._is_box = bounds is not None
        if bounds is not None:
            self._lower, self._upper = np.maximum(bounds[0], 0.0), bounds[1]
        else:
            form = ask(self._set, Capability.LINEAR_FORM, reduced.dim)
            self._lower, self._upper = np.zeros(reduced.dim), form.upper

    def __call__(self, v: Array, lam: float) -> Array:
        """Return x(v)."""
        if not self._is_box:
            return ask(self._set, Capability.ENTROPIC_MINIMISATION, v / lam, self._log_reference)
        return np.clip(np.exp(self._log_reference - v / lam - 1.0), self._lower, self._upper)

    def least(self, v: Array) -> float:
        """Return the minimum of <v, x> over X0."""
        if self._is_box:
            return float(v @ box_corner(v, self._lower, self._upper))
        return float(v @ ask(self._set, Capability.LINEAR_MINIMISATION, v))

    def curvature(self, slopes: Array, x: Array, lam: float) -> Array:
        """Return A (-dx/dv) A' for rows A; coordinates with a negligible share of it are left out."""
        weights = self._between(x)
        chosen = np.flatnonzero(weights > _IDLE * weights.mean())
        if 2 * chosen.size < x.size:
            slopes, weights = np.take(slopes, chosen, axis=1), weights[chosen]
        H = np.zeros((slopes.shape[0], slopes.shape[0]))
        total = float(weights.sum())
        if not total > 0.0:
            return H
        means = np.zeros(H.shape[0]) if self._is_box else slopes @ weights / total
        roots = np.sqrt(weights / lam)
        for start in range(0, weights.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            columns = slopes[:, part] - means[:, None]
            columns *= roots[part]
            H += columns @ columns.T
        return H

    def search(self, v: Array, dv: Array, constant: float, slope: float, lam: float) -> tuple[float, Array]:
        """Return t in [0, 1] and x(v + t dv), where the dual along v + t dv is close to its maximum.

        Its derivative is constant + <dv, x(v + t dv)>, decreasing, and `slope` at t = 0. A t is close enough
        if the derivative has fallen to a fraction of that.
        """
        low, high, t = 0.0, 1.0, 1.0
        for _ in range(_TRIALS):
            x = self(v + t * dv, lam)
            rise = float(dv @ x) + constant
            if abs(rise) <= _FLAT * slope or (t == 1.0 and rise > 0.0):
                break
            low, high = (t, high) if rise > 0.0 else (low, t)
            newton = t + rise / max(self._bend(x, dv, lam), _TINY)
            t = newton if low < newton < high else 0.5 * (low + high)
        return t, x

    def _bend(self, x: Array, dv: Array, lam: float) -> float:
        """Return the rate at which <dv, x(v)> falls along dv."""
        weights = self._between(x)
        if self._is_box:
            return float(weights @ dv**2) / lam
        total = float(weights.sum())
        mean = float(weights @ dv) / total if total > 0.0 else 0.0
        return float(weights @ (dv - mean) ** 2) / lam

    def _between(self, x: Array) -> Array:
        """Return x where it is strictly between its bounds, else 0."""
        return np.where((x > self._lower) & (x < self._upper), x, 0.0)


def capped_form(simple_set: object, dim: int) -> LinearForm | None:
    """Return the linear form of {0 <= x <= upper, sum x = total} with an entropic minimiser, or None."""
    needed = (Capability.ENTROPIC_MINIMISATION, Capability.LINEAR_MINIMISATION)
    form = ask(simple_set, Capability.LINEAR_FORM, dim)
    is_one = (
        form is not None
        and all(offers(simple_set, capability) for capability in needed)
        and form.n_columns == dim
        and form.rows.shape[0] == 1
        and (form.rows.toarray() == 1.0).all()
        and not form.lower.any()
        and form.row_lower[0] == form.row_upper[0]
        and math.isfinite(form.row_upper[0])
    )
    return form if is_one else None
