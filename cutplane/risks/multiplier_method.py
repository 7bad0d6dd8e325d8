"""The proximal method of multipliers for linear predictors, with Newton steps: multipliers and points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from cutplane.forms import DiagonalQuadratic
from cutplane.losses.kernels import PIECEWISE, POISSON, KernelForm, kernel_form
from cutplane.risks import multiplier_kernels as kernels
from cutplane.risks.chunks import equal_ranges
from cutplane.risks.running_sum import RunningSum
from cutplane.threads import run_chunks
from cutplane.validation import Array

if TYPE_CHECKING:
    from cutplane.risks.linear import LinearRisk

_MOST_FEATURES = 2000
_PER_EXAMPLE = 12.0
_PER_ENTRY = 1.5
_PER_SQUARE = 0.5
_PER_CUBE = 0.05
_INEXACT = 0.3
_SHRINK = 0.5
_FLAT = 0.1
_ROUNDING = 4e-16
_SEARCHES = 30
_SAMPLE = 2048
_SHARE = 0.2
_RANGE = 30


class MultiplierMethod:
    """Newton steps on f(x) + 1/2 sum_j weights_j (x_j - centre_j)^2, with the losses smoothed.

    Each loss is replaced by its Moreau envelope, shifted by multipliers v of the examples: with s_i the
    argument of loss i, ``min over r of phi(r) + (r - s_i - mu v_i)^2 / (2 mu)``. Its slopes are multipliers
    again, which give a cut; close to the minimiser they replace v, and mu is halved [1]_. A smooth loss is
    left as it is. A Newton step costs a pass over the data, the weighted Gram matrix of the examples that lie
    near a kink of their loss, and a Cholesky factor.

    Parameters
    ----------
    risk : LinearRisk
        One that `has_multiplier_method` accepts.
    quadratic : DiagonalQuadratic
        Positive weights, but for that of a bias.
    multipliers : ndarray of shape (m,), optional
        Where to start, within the domain of the conjugates.
    predictions : ndarray of shape (m,)
        Those of the point at which the steps start.
    gap : float
        How far from optimal that is: the first `mu` is such that smoothing costs as much.

    References
    ----------
    .. [1] X. Li, D. Sun, K.-C. Toh, "A highly efficient semismooth Newton augmented Lagrangian method for
       solving Lasso problems", SIAM J. Optim. 28, 2018, doi:10.1137/16M1097572.
    """

    def __init__(
        self,
        risk: LinearRisk,
        quadratic: DiagonalQuadratic,
        multipliers: Array | None,
        predictions: Array,
        gap: float,
    ):
        form = kernel_form(risk.loss)
        assert form is not None
        self.risk = risk
        self.quadratic = quadratic
        self._form = form
        m = risk.X.shape[0]
        self._signs = risk.y if form.uses_margin else np.ones(m)
        self._add = RunningSum(risk.data) if risk.data.cheap_rows else risk.data.transposed_times
        self._chunks = [slice(*rows) for rows in equal_ranges(m, 0.25 * _PER_EXAMPLE * m)]
        self._centre = np.zeros(m) if multipliers is None else self._signs * multipliers
        self._v, self._bends = np.empty(m), np.empty(m)
        self._rows = np.empty(0, np.int64)
        self.slopes = np.empty(risk.dim)
        self.offset = math.nan
        self._value = math.nan
        self._steps = 0
        self._smooth(0.0 if is_smooth(form) else self._first_mu(predictions, gap))

    @property
    def multipliers(self) -> Array:
        """The multipliers u at the last point looked at, shape (m,)."""
        return self._signs * self._v

    @property
    def cost(self) -> float:
        """The cost of the last step, in nanoseconds on a usual machine."""
        m, n = self.risk.X.shape
        return step_cost(m, n, m * self.risk.data.row_entries, self._rows.size)

    def look(self, x: Array, z: Array, value: float) -> tuple[float, float]:
        """Compute multipliers and their cut (`slopes`, `offset`) at x, with predictions z and risk `value`.

        Return two estimates, in the objective, of what separates x from the optimum: its distance from the
        minimiser with the present shifts, and the error of the smoothing.
        """
        self._value = value
        self._look(z)
        distance = self._distance(x)
        if self._mu == 0.0:
            self.offset = value - float(self.slopes @ x)
        error = value - self.offset - float(self.slopes @ x)
        self._steps += 1
        self._stale = self._mu > 0.0 and distance <= _INEXACT * error
        return distance, error

    def advance(self, z: Array) -> None:
        """Take the multipliers as the next shifts, if the last point was close to its minimiser."""
        if self._stale:
            self._centre, self._v = self._v, self._centre
            self._smooth((_SHRINK**2 if self._steps == 1 else _SHRINK) * self._mu)
            self._steps = 0
            self._look(z)

    def direction(self, x: Array) -> Array | None:
        """Return the Newton step at the point looked at; None if rounding errors leave none."""
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        hessian = self._hessian()
        diagonal = np.einsum("jj->j", hessian)
        loose = diagonal == 0.0  # a bias, where no example is near a kink
        diagonal[loose] = self.risk.weights.sum() / (self._mu or 1.0)
        try:
            factor = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return None
        step = cho_solve(factor, -self._gradient(x), check_finite=False)
        return step if np.isfinite(step).all() else None

    def step_length(self, x: Array, step: Array, z0: Array, z1: Array) -> float:
        """Return about the best t for x + t step, whose predictions are z0 + t (z1 - z0).

        It is 0 where the slope at 0 is not below what rounding makes of it.
        """
        weights = self.quadratic.weights
        rise = float(step @ (weights * (x - self.quadratic.centre)))
        bend = float(step @ (weights * step))

        def along(t: float) -> tuple[float, float]:
            parts = run_chunks(
                lambda rows: kernels.along(
                    *self._pieces, self.risk.y[rows], self.risk.weights[rows], z0[rows], z1[rows],
                    self._centre[rows], self._mu, t,
                ),
                self._chunks,
            )  # fmt: skip
            return (
                rise + t * bend + sum(slope for slope, _ in parts),
                bend + sum(curvature for _, curvature in parts),
            )

        start, _ = along(0.0)
        if not start < -_ROUNDING * abs(self._value):
            return 0.0
        low, high, t = 0.0, math.inf, 1.0
        for _ in range(_SEARCHES):
            slope, curvature = along(t)
            if abs(slope) <= -_FLAT * start:
                return t
            low, high = (t, high) if slope < 0.0 else (low, t)
            newton = t - slope / curvature if curvature > 0.0 else math.inf
            t = newton if low < newton < min(high, 10.0 * t) else min(0.5 * (low + high), 4.0 * t)
        return low

    def _smooth(self, mu: float) -> None:
        self._mu = mu
        self._pieces = self._form.kind, kernels.envelope_pieces(self._form, mu), self._form.uses_margin

    def _look(self, z: Array) -> None:
        weights = self.risk.weights
        parts = run_chunks(
            lambda rows: kernels.derivatives(
                *self._pieces, self.risk.y[rows], weights[rows], z[rows], self._centre[rows], self._mu,
                self._v[rows], self._bends[rows],
            ),
            self._chunks,
        )  # fmt: skip
        u = weights * self.multipliers
        slopes = self._add(u)
        self.slopes = np.append(slopes, u.sum()) if self.risk.intercept else slopes
        self.offset = -sum(parts)
        self._rows = np.flatnonzero(self._bends)

    def _gradient(self, x: Array) -> Array:
        return self.quadratic.weights * (x - self.quadratic.centre) + self.slopes

    def _distance(self, x: Array) -> float:
        """Return about how far x is from the minimiser for the present shifts, in the objective."""
        weights = self.quadratic.weights.copy()
        if self.risk.intercept:
            weights[-1] += self._bends.sum()
        squares = self._gradient(x) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return 0.5 * float(np.where(squares > 0.0, squares / weights, 0.0).sum())

    def _hessian(self) -> Array:
        risk, rows = self.risk, self._rows
        n = risk.X.shape[1]
        hessian = np.zeros((risk.dim, risk.dim))
        for part in run_chunks(self._gram, self._shares()):
            hessian[:n, :n] += part
        if risk.intercept:
            if rows.size:
                risk.data.add_rows(rows, self._bends[rows], hessian[n, :n])
            hessian[n, n] = self._bends[rows].sum()
        np.einsum("jj->j", hessian)[:] += self.quadratic.weights
        return hessian

    def _shares(self) -> list[tuple[int, int]]:
        """Split the rows of the Gram matrix in two, if that pays."""
        cost = _PER_SQUARE * self._rows.size * self.risk.data.row_entries**2
        return equal_ranges(self._rows.size, cost - 2.0 * self.risk.dim**2, 2)

    def _gram(self, share: tuple[int, int]) -> Array:
        X, rows = self.risk.X, self._rows[slice(*share)]
        n = X.shape[1]
        if sparse.issparse(X):
            out = np.zeros((n, n))
            indices = X.indices.view(np.uint32 if X.indices.itemsize == 4 else np.uint64)
            kernels.sparse_gram(X.data, indices, X.indptr, rows, self._bends[rows], out)
            return out + out.T
        scaled = X[rows] * np.sqrt(self._bends[rows])[:, np.newaxis]
        return scaled.T @ scaled

    def _first_mu(self, z: Array, gap: float) -> float:
        """Return the power of 4 for which smoothing at the predictions z costs about `gap`."""
        rows = slice(None, None, max(1, z.size // _SAMPLE))
        y, weights = np.ascontiguousarray(self.risk.y[rows]), np.ascontiguousarray(self.risk.weights[rows])
        z, centre, total = np.ascontiguousarray(z[rows]), np.zeros(y.size), float(weights.sum())
        if not total > 0.0:
            return 1.0
        weights *= self.risk.weights.sum() / total
        value = float((weights * self.risk.loss.value(z, y)).sum())
        gap = min(gap, _SHARE * value)
        signs = y if self._form.uses_margin else 1.0
        v, bends = np.empty((2, y.size))

        def costs_more(k: int) -> bool:
            pieces = kernels.envelope_pieces(self._form, 4.0**k)
            margin = self._form.uses_margin
            conjugates = kernels.derivatives(PIECEWISE, pieces, margin, y, weights, z, centre, 0.0, v, bends)
            return value - float((weights * signs * v) @ z) + conjugates > gap

        k = 0
        step = -1 if costs_more(0) else 1
        while abs(k) < _RANGE and costs_more(k) == (step < 0):
            k += step
        return 4.0**k


def step_cost(m: int, n: int, entries: float, near: float) -> float:
    """Return the cost of a step with `near` examples near a kink, in nanoseconds on a usual machine."""
    squares = near * (entries / m) ** 2
    return _PER_EXAMPLE * m + _PER_ENTRY * entries + _PER_SQUARE * squares + _PER_CUBE * n**3


def is_smooth(form: KernelForm) -> bool:
    """Tell whether phi has no kink."""
    if form.kind != PIECEWISE:
        return True
    left, right = (
        2.0 * form.pieces[j, 0] * form.knots + form.pieces[j, 1] for j in (slice(-1), slice(1, None))
    )
    return bool(np.allclose(left, right, rtol=0.0, atol=1e-12))


def has_multiplier_method(risk: LinearRisk) -> bool:
    """Tell whether the method suits a risk: a built-in loss, one block, few features, rows to be read."""
    form = kernel_form(risk.loss)
    rows = risk.X.format == "csr" if sparse.issparse(risk.X) else risk.data.cheap_rows
    return (
        form is not None
        and form.kind != POISSON
        and risk.n_blocks == 1
        and risk.X.shape[1] <= _MOST_FEATURES
        and rows
    )
