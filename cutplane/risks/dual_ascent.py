"""Dual coordinate ascent for linear predictors: multipliers that give a cut, a bound and a centre."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.forms import DiagonalQuadratic
from cutplane.pieces.validation import Array
from cutplane.risks import dual_ascent_kernels as kernels

if TYPE_CHECKING:
    from cutplane.losses.compiling import Compiled
    from cutplane.risks.linear import LinearRisk

_SEED = 0x9E3779B97F4A7C15
_PER_ENTRY = 2.4
_PER_VISIT = 28.0
_SAMPLE = 2048


class DualAscent:
    """Coordinate ascent on the dual of min over x of f(x) + 1/2 sum_j weights_j (x_j - centre_j)^2.

    With the multipliers u_i, slopes of the losses, ``x = centre - (c_i u_i x_i summed) / weights``; a step on
    one u_i is a proximal step of the loss [1]_. The examples come in random order, the same in every run;
    those whose multiplier is at a bound and whose prediction is far from a kink are left out until the next
    call. A bias without a weight is given one, around a centre that follows it, so that the sum of the c_i
    u_i tends to zero.

    Parameters
    ----------
    code : Compiled
        The loss of the risk.
    risk : LinearRisk
        One that `can_ascend` accepts.
    quadratic : DiagonalQuadratic
        Equal positive weights, but for that of a bias.
    multipliers : ndarray of shape (m,), optional
        Where to start, within the domain of the conjugates.

    References
    ----------
    .. [1] C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual coordinate descent
       method for large-scale linear SVM", ICML 2008, doi:10.1145/1390156.1390208.
    """

    def __init__(
        self, code: Compiled, risk: LinearRisk, quadratic: DiagonalQuadratic, multipliers: Array | None = None
    ):
        self.risk = risk
        self._numbers = code.numbers
        self._epochs = code.loop(kernels.csr_epochs if sparse.issparse(risk.X) else kernels.dense_epochs)
        m, n = risk.X.shape
        self._weight = float(quadratic.weights[0])
        self._centre = quadratic.centre.copy()
        norms = risk.data.squared_norms()
        self._rates = risk.weights / self._weight
        self._bias_rates = np.empty(0)
        if risk.intercept:
            own = float(quadratic.weights[n])
            self._follows = own == 0.0
            self._bias_weight = own or self._weight / max(float(norms.mean()), 1e-300)
            self._bias_rates = risk.weights / self._bias_weight
        self._curvatures = self._rates * norms
        if risk.intercept:
            self._curvatures += self._bias_rates
        self._order = np.arange(m)
        self._count = m
        self._reach = math.inf
        self._seed = np.uint64(_SEED)
        self._u = np.zeros(m) if multipliers is None else multipliers.copy()
        fixed = np.flatnonzero(self._curvatures == 0.0)  # rows of zeros, or without weight
        if multipliers is None and fixed.size:
            self._u[fixed] = risk.loss.derivative(np.zeros(fixed.size), risk.y[fixed])
        self.x = self._point()
        if multipliers is not None:
            self._rescale()

    @property
    def multipliers(self) -> Array:
        """The multipliers u, shape (m,)."""
        return self._u.copy()

    def run(self, epochs: int) -> float:
        """Do some epochs; return what they cost, in nanoseconds on a usual machine."""
        if self._count < 0.1 * self._order.size or self._reach == math.inf:
            self._count = self._order.size
        X = self.risk.X
        rest = (
            self.risk.y, self._rates, self._bias_rates, self._curvatures, self._numbers,
            self._u, self.x, self._order, self._count, self._reach, epochs, self._seed,
        )  # fmt: skip
        if sparse.issparse(X):
            indices = X.indices.view(np.uint32 if X.indices.itemsize == 4 else np.uint64)
            answer = self._epochs(X.data, indices, X.indptr, *rest)
        else:
            answer = self._epochs(X, *rest)
        self._count, self._reach, entries, visits, seed = answer
        self._seed = np.uint64(seed)
        if self.risk.intercept and self._follows:
            self._centre[-1] = self.x[-1]
        return _PER_ENTRY * entries + _PER_VISIT * visits

    def resume(self) -> None:
        """Take every example in again, and compute the point anew."""
        self._count, self._reach = self._order.size, math.inf
        self.x = self._point()

    def _rescale(self) -> None:
        """Scale the multipliers by the best factor in [0, 1]: they may be those of another weight of g."""
        step = self.x - self._centre
        weights = np.full(step.size, self._weight)
        if self.risk.intercept:
            weights[-1] = self._bias_weight
        rise, bend = -float((weights * step) @ self._centre), float((weights * step) @ step)
        rows = slice(None, None, max(1, self._u.size // _SAMPLE))
        u, y, c = self._u[rows], self.risk.y[rows], self.risk.weights[rows]
        u, y, c = (part[c > 0.0] for part in (u, y, c))
        c = c * (self.risk.weights.sum() / max(float(c.sum()), 1e-300))

        def loss(t: float) -> float:
            return 0.5 * t * t * bend - t * rise + float(c @ self.risk.loss.conjugate(t * u, y))

        from scipy.optimize import minimize_scalar

        best = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-2})
        if best.fun < loss(1.0):
            self._u *= best.x
            self.x = self._centre + best.x * step

    def _point(self) -> Array:
        u = self.risk.weights * self._u
        x = self._centre.copy()
        if not u.any():
            return x
        if self.risk.intercept:
            x[:-1] -= self.risk.data.transposed_times(u) / self._weight
            x[-1] -= u.sum() / self._bias_weight
        else:
            x -= self.risk.data.transposed_times(u) / self._weight
        return x


def can_ascend(risk: LinearRisk) -> bool:
    """Tell whether dual coordinate ascent suits a risk: an outline or smooth, one block, rows to be read."""
    rows = risk.X.format == "csr" if sparse.issparse(risk.X) else risk.X.flags.c_contiguous
    return bool(rows) and risk.n_blocks == 1 and offers(risk.loss, Capability.SECOND_DERIVATIVE)
