"""The risk of a linear predictor."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.capabilities import Capability
from cutplane.exceptions import InvalidInputError
from cutplane.lines import Line
from cutplane.losses.base import ScalarLoss
from cutplane.risks.base import ImagedRisk
from cutplane.risks.data import DenseData, SparseData, as_matrix
from cutplane.validation import Array, as_count, as_vector


@dataclass(frozen=True, eq=False, repr=False)
class LinearRisk(ImagedRisk):
    """f(w) = sum_i c_i l(<x_i, w>, y_i), the weighted loss of the linear predictor w on m examples.

    With ``normalize`` the weights c sum to 1, which makes f the (weighted) mean loss; without, c is
    `sample_weight`, which makes f the (weighted) sum.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row, every entry finite. float32 and float64 ndarrays (of any memory order), CSR and
        CSC are not copied, and must not be changed afterwards; other sparse formats are converted to CSR and
        other number types to float64, once. float32 data are never converted as a whole, and all that is
        computed from them is float64.
    y : array_like of shape (m,)
        Targets: labels -1 and +1 for the losses of classification, counts >= 0 for `Poisson`, else any
        numbers.
    loss : ScalarLoss
        For example ``Hinge()``.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, by default 1 for each example.
    normalize : bool, default True
        Whether the weights are divided by their sum.
    blocks : int, default 1
        Number of cuts per query, at most m: the examples are split into as many contiguous blocks of nearly
        equal size, and f is the sum of their risks.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite, X is empty, the loss refuses y, a weight is
        negative, or all are zero and `normalize` is set.

    Notes
    -----
    The image of w is the vector of predictions X w. Where a loss overflows, the risk is inf and its
    subgradient is given as zero.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.losses import Hinge
    >>> from cutplane.risks import LinearRisk
    >>> risk = LinearRisk(np.eye(2), [1.0, -1.0], Hinge())
    >>> risk
    LinearRisk(Hinge(), 2 x 2 dense float64)
    >>> value, slope = risk.oracle(np.array([0.5, 0.0]))
    >>> float(value), slope.tolist()
    (0.75, [-0.5, 0.5])
    """

    X: Any
    y: Array
    loss: ScalarLoss
    sample_weight: Array | None = None
    normalize: bool = True
    blocks: int = 1
    weights: Array = field(init=False)
    dim: int = field(init=False)
    n_blocks: int = field(init=False)
    _data: DenseData | SparseData = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, ScalarLoss):
            raise InvalidInputError(
                f"loss must be a loss such as cutplane.losses.Hinge(), got {self.loss!r}."
            )
        X = as_matrix(self.X)
        m, n = X.shape
        y = self.loss.check_targets(self.y)
        if y.shape != (m,):
            raise InvalidInputError(f"y must have one target per row of X, shape ({m},), got {y.shape}.")
        blocks = as_count("blocks", self.blocks)
        if blocks > m:
            raise InvalidInputError(f"blocks must be at most the number of examples, {m}, got {blocks}.")
        weights = _weights(self.sample_weight, m, self.normalize)
        edges = np.arange(blocks + 1) * m // blocks
        for name, value in {
            "X": X,
            "y": y,
            "weights": weights,
            "dim": n,
            "n_blocks": blocks,
            "_data": (SparseData if sparse.issparse(X) else DenseData)(X, edges),
        }.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        m, n = self.X.shape
        blocks = f", {self.n_blocks} blocks" if self.n_blocks > 1 else ""
        return f"LinearRisk({self.loss!r}, {m} x {n} {self._data.label}{blocks})"

    @property
    def withheld(self) -> tuple[Capability, ...]:
        """The capabilities that this loss cannot give."""
        return () if hasattr(self.loss, "cvxpy_form") else (Capability.CVXPY,)

    @property
    def infima(self) -> Array:
        """The sum over each block of the least losses, shape (n_blocks,)."""
        with np.errstate(invalid="ignore"):
            least = np.where(self.weights > 0.0, self.weights * self.loss.infimum(self.y), 0.0)
        return np.add.reduceat(least, self._data.edges[:-1])

    def image(self, x: Array) -> Array:
        """Return the predictions X x, shape (m,): one pass over the data."""
        return self._data.times(x)

    def values(self, z: Array) -> Any:
        """Return the risk of the predictions z, a float or an ndarray of shape (n_blocks,)."""
        with np.errstate(over="ignore"):
            losses = self.loss.value(self._relevant(z), self.y)
            if self.n_blocks == 1:
                return float(self.weights @ losses)
            return np.add.reduceat(self.weights * losses, self._data.edges[:-1])

    def slopes(self, z: Array) -> Array:
        """Return a subgradient, shape (dim,) or (n_blocks, dim): one pass over the data."""
        with np.errstate(over="ignore", invalid="ignore"):
            u = self.weights * self.loss.derivative(self._relevant(z), self.y)
            if self.n_blocks == 1:
                slopes = self._data.transposed_times(u)
            else:
                slopes = self._data.block_sums(u)
        slopes[~np.isfinite(slopes).all(axis=-1)] = 0.0
        return slopes

    def line(self, z0: Array, z1: Array) -> Line:
        """Return t -> the risk of the predictions z0 + t (z1 - z0); no pass over the data."""
        start = self._relevant(z0)
        step = self._relevant(z1) - start

        def evaluate(t: float) -> tuple[float, float]:
            with np.errstate(over="ignore", invalid="ignore"):
                z = start + t * step
                value = float(self.weights @ self.loss.value(z, self.y))
                slope = float(self.weights @ self.loss.directional(z, self.y, step))
            return value, 0.0 if math.isnan(slope) else slope  # nan: the risk is inf on the whole line

        return Line(evaluate, self._kinks(start, step))

    def cvxpy_form(self, x: Any) -> Any:
        """Return the risk as a cvxpy expression in x, a cvxpy expression of shape (dim,)."""
        import cvxpy as cp

        losses = getattr(self.loss, "cvxpy_form")(cp.Constant(self.X) @ x, self.y)  # noqa: B009
        return cp.sum(cp.multiply(self.weights, losses))

    @cached_property
    def _weightless(self) -> Array | None:
        return self.weights == 0.0 if (self.weights == 0.0).any() else None

    @cached_property
    def _knots(self) -> Array | None:
        pieces = self.loss.pieces(self.y)
        return None if pieces is None else pieces.knots

    def _relevant(self, z: Array) -> Array:
        """Return z with zeros for the examples without weight, whose losses might overflow."""
        return z if self._weightless is None else np.where(self._weightless, 0.0, z)

    def _kinks(self, start: Array, step: Array) -> Array | None:
        if self._knots is None:
            return None
        moving = np.flatnonzero(step)
        with np.errstate(over="ignore"):
            t = ((self._knots[:, moving] - start[moving]) / step[moving]).ravel()
        return t[np.isfinite(t)]


def _weights(sample_weight: Any, m: int, normalize: bool) -> Array:
    if sample_weight is None:
        return np.full(m, 1.0 / m if normalize else 1.0)
    weights = as_vector("sample_weight", sample_weight, m)
    if (weights < 0.0).any():
        where = int(np.argmin(weights))
        raise InvalidInputError(
            f"sample_weight[{where}] is {weights[where]:g}; every weight must be at least 0."
        )
    if not normalize:
        return weights
    total = weights.sum()
    if total == 0.0:
        raise InvalidInputError(
            "sample_weight is zero for every example; give some a weight, or pass normalize=False."
        )
    return weights / total
