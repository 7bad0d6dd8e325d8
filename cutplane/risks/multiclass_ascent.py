"""Coordinate ascent on the dual of multiclass margins, one example at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.parameters import read_only
from cutplane.pieces.validation import Array
from cutplane.risks.matrix import contiguous, unsigned
from cutplane.risks.multiclass_passes import visit_dense, visit_sparse
from cutplane.runtime.deadline import seconds_left

if TYPE_CHECKING:
    from cutplane.risks.multiclass import MulticlassRisk

_MOST = 100
"""Visits of those that move after one of all: if all that is left is rounding, they might go on for ever."""


class MulticlassAscent:
    """Shares of the classes for each example, and the weights that follow from them, updated in place.

    A visit maximises the dual over the shares of an example, by a projection on the simplex. After a visit of
    all examples those that moved are visited again, as often as that raises the bound no slower per example.

    Parameters
    ----------
    risk : MulticlassRisk
        With a loss of margins.
    quadratic : DiagonalQuadratic
        With equal positive weights.
    multipliers : ndarray of shape (m p,), optional
        The shares to start with; by default those of the true classes.
    """

    def __init__(self, risk: MulticlassRisk, quadratic: DiagonalQuadratic, multipliers: Array | None = None):
        self.risk = risk
        m, (p, width) = risk.y.size, risk.shape
        self._lam = float(quadratic.weights[0])
        self._shares = np.zeros((m, p))
        self._shares[np.arange(m), risk.y] = 1.0
        x = quadratic.centre
        if multipliers is not None:
            self._shares = risk.shares_of(multipliers)
            x = x - risk.dual_cut(multipliers)[0][0] / self._lam
        n = risk.X.shape[1]
        self._W = np.zeros((n + 1, p))
        self._W[:width] = x.reshape(p, width).T
        self._margins = risk.margins
        X: Any = sparse.csr_array(risk.X) if sparse.issparse(risk.X) else contiguous(risk.X)
        square = X.multiply(X).sum(axis=1) if sparse.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=float)
        self._squares = np.asarray(square, dtype=np.float64).ravel() + float(risk.intercept)
        self._present = np.flatnonzero(risk.weights > 0.0)
        self._active = np.zeros(m, dtype=bool)
        self._rng = np.random.default_rng(0)
        self._visit: Any = visit_sparse if sparse.issparse(X) else visit_dense
        self._rows = (
            (read_only(X.data), unsigned(X.indices), unsigned(X.indptr))
            if sparse.issparse(X)
            else (read_only(X),)
        )

    @property
    def x(self) -> Array:
        """The point that follows from the shares, shape (dim,)."""
        return self._W[: self.risk.shape[1]].T.ravel()

    @property
    def average(self) -> Array:
        """The same: each visit maximises."""
        return self.x

    @property
    def multipliers(self) -> Array:
        """The shares."""
        return self._shares.ravel().copy()

    def advance(self) -> float:
        """Visit all examples, and those that move as often as it pays; return the sum of the gaps met."""
        gap, rise = self._pass(self._present)
        visits = self._present.size
        for _ in range(_MOST):
            moving = np.flatnonzero(self._active)
            if not moving.size or seconds_left() == 0.0:
                break
            _, more = self._pass(moving)
            rise, visits = rise + more, visits + moving.size
            if more * visits < rise * moving.size:
                break
        return gap

    def _pass(self, examples: Array) -> tuple[float, float]:
        order, risk = self._rng.permutation(examples), self.risk
        return self._visit(
            *self._rows, order, risk.y, risk.weights, self._squares, self._margins, self._lam,
            float(risk.intercept), self._W, self._shares, self._active,
        )  # fmt: skip
