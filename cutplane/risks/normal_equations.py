"""The minimiser of a quadratic risk of linear predictions plus a diagonal quadratic: one linear system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, sparse

from cutplane.validation import Array

if TYPE_CHECKING:
    from cutplane.forms import DiagonalQuadratic
    from cutplane.risks.linear import LinearRisk

_CHUNK = 2**21
"""Entries of X that are multiplied at once, so that no weighted copy of X is made."""
_STEPS = 2
"""Newton steps; the second corrects what rounding left of the first."""


def minimiser(risk: LinearRisk, quadratic: DiagonalQuadratic) -> Array | None:
    """Return the minimiser of risk(x) + quadratic(x), for a loss of constant curvature, or None.

    With W = diag(weights * curvature) and Q = diag(quadratic.weights), a Newton step solves

        (X'WX + Q) d = -gradient,

    or, with t = X d and a = Wt,

        (X inv(Q) X' + inv(W)) a = -X inv(Q) gradient,

    whichever is smaller; an intercept is a column of ones.
    """
    weights = risk.weights * risk.loss.curvature
    by_examples = risk.X.shape[0] < risk.X.shape[1]
    build = _ExampleSystem if by_examples else _FeatureSystem
    x = np.array(quadratic.centre)
    try:
        system = build(risk, weights, quadratic.weights)
        for _ in range(_STEPS):
            gradient = np.sum(np.atleast_2d(risk.slopes(risk.image(x))), axis=0)
            x = x + system.step(gradient + quadratic.weights * (x - quadratic.centre))
    except (linalg.LinAlgError, ZeroDivisionError):
        return None
    return x if np.isfinite(x).all() else None


class _FeatureSystem:
    """(X'WX + Q) d = -gradient."""

    def __init__(self, risk: LinearRisk, weights: Array, curvatures: Array):
        H = np.diag(curvatures)
        n = risk.X.shape[1]
        for rows in _chunks(risk.X.shape[0], n):
            part = _as_floats(risk.X[rows])
            weighted = _scaled_rows(part, weights[rows])
            H[:n, :n] += _dense(part.T @ weighted)
            if risk.intercept:
                H[:n, n] += np.ravel(weighted.sum(axis=0))
        if risk.intercept:
            H[n, :n] = H[:n, n]
            H[n, n] += weights.sum()
        self._factor = linalg.cho_factor(H, overwrite_a=True)

    def step(self, gradient: Array) -> Array:
        """Return d."""
        return -linalg.cho_solve(self._factor, gradient)


class _ExampleSystem:
    """The system in the multipliers of the examples, of those with a weight."""

    def __init__(self, risk: LinearRisk, weights: Array, curvatures: Array):
        n = risk.X.shape[1]
        if not curvatures[:n].all():
            raise linalg.LinAlgError("a feature has no weight in the quadratic")
        self._rows = np.flatnonzero(weights)
        self._X, self._curvatures, self._intercept = risk.X, curvatures, risk.intercept
        m = self._rows.size
        size = m + int(risk.intercept)
        K = np.zeros((size, size))
        for columns in _chunks(n, m):
            part = _as_floats(risk.X[:, columns][self._rows])
            K[:m, :m] += _dense(part @ _scaled_rows(part.T, 1.0 / curvatures[:n][columns]))
        K[np.arange(m), np.arange(m)] += 1.0 / weights[self._rows]
        if risk.intercept:
            K[:m, m] = K[m, :m] = -1.0
            K[m, m] = -curvatures[n]
        self._factor = linalg.lu_factor(K, overwrite_a=True)

    def step(self, gradient: Array) -> Array:
        """Return d."""
        n, m = self._X.shape[1], self._rows.size
        step = gradient[:n] / self._curvatures[:n]
        right = -(self._X @ step)[self._rows]
        if self._intercept:
            right = np.append(right, gradient[n])
        solution = linalg.lu_solve(self._factor, right)
        multipliers = np.zeros(self._X.shape[0])
        multipliers[self._rows] = solution[:m]
        d = -step - (self._X.T @ multipliers) / self._curvatures[:n]
        return np.append(d, solution[m:])


def _chunks(count: int, width: int) -> Iterator[slice]:
    length = max(1, _CHUNK // max(width, 1))
    for first in range(0, count, length):
        yield slice(first, first + length)


def _as_floats(part: Any) -> Any:
    return part.astype(np.float64, copy=False)


def _scaled_rows(part: Any, factors: Array) -> Any:
    return sparse.diags_array(factors) @ part if sparse.issparse(part) else part * factors[:, np.newaxis]


def _dense(product: Any) -> Array:
    return product.toarray() if sparse.issparse(product) else product
