"""The risk of a linear novelty detector."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutplane.pieces.lines import Line, PiecewiseLinear
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array, as_scalar
from cutplane.risks.base import ImagedRisk
from cutplane.risks.data import Data, make_data
from cutplane.risks.examples import as_weights, describe
from cutplane.risks.matrix import as_matrix

_TINY = 5e-324
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class NoveltyRisk(ImagedRisk):
    """f(w, rho) = (1/nu) sum_i c_i max(0, rho - <w, x_i>) - rho, with weights c that sum to 1.

    The one-class support vector machine: with ``L2(lam, weights=...)``, 1 for w and 0 for rho, the half-space
    <w, x> >= rho leaves out at most the share nu of the (weighted) examples, and its distance from the origin
    is as large as that allows. The vector of the problem is (w, rho), of dimension n + 1.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row, every entry finite. float32 and float64 ndarrays (of any memory order), CSR and
        CSC are not copied, and must not be changed afterwards; other sparse formats are converted to CSR and
        other number types to float64, once. All that is computed from float32 data is float64.
    nu : float
        The largest share of the examples that may be left out, in (0, 1].
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, not all zero, by default 1 for each example; c is their share of the sum.

    Raises
    ------
    InvalidInputError
        If X is empty or not finite, nu is out of range, a weight is negative or all are zero.

    Notes
    -----
    f alone has no finite infimum where a half-space separates all examples from the origin. The image of (w,
    rho) is the vector of the m scores <w, x_i>, followed by rho.

    References
    ----------
    B. Schoelkopf, J. C. Platt, J. Shawe-Taylor, A. J. Smola, R. C. Williamson, "Estimating the support of a
    high-dimensional distribution", Neural Computation 13, 2001, doi:10.1162/089976601750264965.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.risks import NoveltyRisk
    >>> risk = NoveltyRisk(np.array([[1.0], [2.0]]), nu=0.5)
    >>> value, slope = risk.oracle(np.array([1.0, 1.5]))
    >>> float(value), slope.tolist()
    (-1.0, [-1.0, 0.0])
    """

    black_box = False
    X: Any
    nu: float
    sample_weight: Array | None = None
    weights: Array = field(init=False)
    dim: int = field(init=False)
    _data: Data = field(init=False)

    def __post_init__(self) -> None:
        X = as_matrix(self.X)
        m, n = X.shape
        set_fields(
            self,
            X=X,
            nu=as_scalar("nu", self.nu, low=0.0, high=1.0, low_open=True),
            weights=as_weights(self.sample_weight, m, normalize=True),
            dim=n + 1,
            _data=make_data(X, np.array([0, m])),
        )

    def __repr__(self) -> str:
        return f"NoveltyRisk({describe(self.X)}, nu={self.nu:g})"

    def image(self, x: Array) -> Array:
        """Return the scores and rho, shape (m + 1,): one pass over the data."""
        return np.append(self._data.times(x[:-1]), x[-1])

    def values(self, z: Array) -> float:
        """Return the risk of the scores and rho."""
        u, excess = self._multipliers(z)
        return float(excess * z[-1] - u @ z[:-1])

    def slopes(self, z: Array) -> Array:
        """Return a subgradient, shape (dim,): one pass over the data."""
        u, excess = self._multipliers(z)
        return np.append(-self._data.transposed_times(u), excess)

    def line(self, z0: Array, z1: Array) -> Line:
        """Return t -> the risk of z0 + t (z1 - z0); no pass over the data."""
        step = z1 - z0
        short, shorter = z0[-1] - z0[:-1], step[-1] - step[:-1]
        return shortfall_line(short, shorter, self.weights / self.nu, -z0[-1], -step[-1])

    def cvxpy_form(self, x: Any) -> Any:
        """Return the risk as a cvxpy expression in x, a cvxpy expression of shape (dim,)."""
        import cvxpy as cp

        short = cp.pos(x[-1] - cp.Constant(self.X) @ x[:-1])
        return cp.sum(cp.multiply(self.weights / self.nu, short)) - x[-1]

    def _multipliers(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the examples left out, and their sum less 1, which is 0 if that is rounding.

        f is homogeneous: computed from these its value is the product of its subgradient and (w, rho).
        """
        u = self.weights / self.nu * (z[:-1] < z[-1])
        excess = float(u.sum()) - 1.0
        return u, excess if abs(excess) > _ROUNDING else 0.0


def shortfall_line(short: Array, shorter: Array, c: Array, level: float, rise: float) -> Line:
    """Return t -> sum_i c_i max(0, short_i + t shorter_i) + level + t rise."""

    def evaluate(t: float) -> tuple[float, float]:
        now = short + t * shorter
        counts = (now > 0.0) | ((now == 0.0) & (shorter > 0.0))
        return float(c @ np.maximum(0.0, now)) + (level + t * rise), float((c * shorter) @ counts + rise)

    crossing = np.flatnonzero((np.sign(short) * np.sign(shorter) < 0.0) & (c > 0.0))
    with np.errstate(over="ignore"):
        times = -short[crossing] / shorter[crossing]
    near = np.isfinite(times)
    kinks, jumps = np.maximum(times[near], _TINY), (c * np.abs(shorter))[crossing[near]]
    return Line(evaluate, derivative=PiecewiseLinear(evaluate(0.0)[1], 0.0, kinks, jumps))
