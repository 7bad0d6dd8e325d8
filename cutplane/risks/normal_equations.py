"""The minimiser of a quadratic risk of linear predictions plus a diagonal quadratic, by one linear system."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import linalg, sparse
from scipy.linalg.lapack import dpotrf, dpotrs  # pyright: ignore[reportAttributeAccessIssue]

from cutplane.pieces.validation import Array

if TYPE_CHECKING:
    from cutplane.pieces.forms import DiagonalQuadratic
    from cutplane.risks.linear import LinearRisk

_CHUNK = 2**21
"""Number of entries of X in one product, because a weighted copy of X may not fit into memory."""
_STEPS = 2
"""Number of Newton steps, because the second corrects the rounding errors of the first."""
_SMALL_SYSTEM = 1000
"""Number of unknowns of a system that is built for data of any size, because it takes only 8 MB."""
_PASSES, _OVERHEAD = 100.0, 1e6
"""Number of passes of a solve with cuts, and nanoseconds of a pass besides the data, used because the system
must not cost more than such a solve."""
_PER_ENTRY, _PER_DENSE_SQUARE, _PER_SPARSE_SQUARE, _PER_CUBE = 1.0, 0.05, 5.0, 0.05
"""Nanoseconds per product in a pass, in a Gram matrix and in a factorisation, used because these costs are
compared."""


def is_affordable(X: Any) -> bool:
    """Tell whether the system takes at most the time of a solve with cuts and the memory of the data."""
    size, entries = min(X.shape), X.nnz if sparse.issparse(X) else X.size
    if size > _SMALL_SYSTEM and size**2 > entries:
        return False
    if sparse.issparse(X):
        products = _PER_SPARSE_SQUARE * float((_entries_per_line(X).astype(np.float64) ** 2).sum())
    else:
        products = _PER_DENSE_SQUARE * float(entries) * size
    return products + _PER_CUBE * size**3 <= _PASSES * (_OVERHEAD + _PER_ENTRY * entries)


def minimiser(risk: LinearRisk, quadratic: DiagonalQuadratic) -> Array | None:
    """Return the minimiser of risk(x) + quadratic(x), for a loss of constant curvature, or None.

    With W = diag(weights * curvature) and Q = diag(quadratic.weights), a Newton step solves

        (X'WX + Q) d = -gradient,

    or, with t = X d and a = Wt,

        (X inv(Q) X' + inv(W)) a = -X inv(Q) gradient,

    whichever is smaller; an intercept is a column of ones. The result is None if the system is singular, or
    overflows.
    """
    if not quadratic.weights[: risk.X.shape[1]].all():
        return None
    weights = risk.weights * risk.loss.curvature
    by_examples = risk.X.shape[0] < risk.X.shape[1]
    build = _ExampleSystem if by_examples else _FeatureSystem
    x = np.array(quadratic.centre)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.LinAlgWarning)
        try:
            system = build(risk, weights, quadratic.weights)
            for _ in range(_STEPS):
                gradient = np.sum(np.atleast_2d(risk.slopes(risk.image(x))), axis=0)
                x = x + system.step(gradient + quadratic.weights * (x - quadratic.centre))
        except (linalg.LinAlgError, ValueError):  # ValueError if numbers are not finite
            return None
    return x if np.isfinite(x).all() else None


class _FeatureSystem:
    """(X'WX + Q) d = -gradient."""

    def __init__(self, risk: LinearRisk, weights: Array, curvatures: Array):
        H = np.diag(curvatures)
        n = risk.X.shape[1]
        roots = np.sqrt(weights)
        for rows in _chunks(risk.X, 0):
            part = _scaled_rows(risk.X[rows], roots[rows])
            H[:n, :n] += _dense(part.T @ part)
            if risk.intercept:
                H[:n, n] += part.T @ roots[rows]
        if risk.intercept:
            H[n, :n] = H[:n, n]
            H[n, n] += weights.sum()
        trace = np.trace(H)  # at least every |H_jk|, to detect overflows
        self._factor, failed = dpotrf(H, lower=1, overwrite_a=1)
        if failed or not np.isfinite(trace):
            raise linalg.LinAlgError("the matrix is not positive definite")

    def step(self, gradient: Array) -> Array:
        """Return d."""
        return -dpotrs(self._factor, gradient, lower=1)[0]


class _ExampleSystem:
    """The system in the multipliers of the examples with positive weights."""

    def __init__(self, risk: LinearRisk, weights: Array, curvatures: Array):
        n = risk.X.shape[1]
        if not curvatures[:n].all():
            raise linalg.LinAlgError("a feature has no weight in the quadratic")
        self._rows = np.flatnonzero(weights)
        self._X, self._curvatures, self._intercept = risk.X, curvatures, risk.intercept
        m = self._rows.size
        size = m + int(risk.intercept)
        K = np.zeros((size, size))
        roots = 1.0 / np.sqrt(curvatures[:n])
        for columns in _chunks(risk.X, 1):
            part = _scaled_rows(risk.X[:, columns].T, roots[columns]).T
            part = part if m == part.shape[0] else part[self._rows]
            K[:m, :m] += _dense(part @ part.T)
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


def _entries_per_line(X: Any) -> Array:
    """Return the number of entries of each row of sparse data, or of each column if there are fewer rows."""
    long = X.shape[0] >= X.shape[1]
    if X.format == ("csr" if long else "csc"):
        return np.diff(X.indptr)
    return np.bincount(X.indices, minlength=max(X.shape))


def _chunks(X: Any, axis: int) -> Iterator[slice]:
    """Split the rows (axis 0) or columns of X; no split if a slice would take a pass over all data."""
    count = X.shape[axis]
    entries = X.nnz if sparse.issparse(X) else X.size
    whole = sparse.issparse(X) and X.format != ("csr", "csc")[axis]
    length = count if whole else max(1, count * _CHUNK // max(entries, 1))
    for first in range(0, count, length):
        yield slice(first, first + length)


def _scaled_rows(part: Any, factors: Array) -> Any:
    """Return diag(factors) part, in double precision."""
    if sparse.issparse(part):
        return sparse.diags_array(factors) @ part.astype(np.float64, copy=False)
    return part * factors[:, np.newaxis]


def _dense(product: Any) -> Array:
    return product.toarray() if sparse.issparse(product) else product
