"""The risk of a linear predictor of ordered levels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import ScalarLoss
from cutplane.losses.scalar import Hinge
from cutplane.losses.weighted import WeightedLoss
from cutplane.pieces.lines import Line
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.risks.base import ImagedRisk
from cutplane.risks.columns import Columns, in_units, moments
from cutplane.risks.data import Data, make_data
from cutplane.risks.examples import as_labels, as_weights, describe, split_rows
from cutplane.risks.matrix import as_matrix


@dataclass(frozen=True, eq=False, repr=False)
class OrdinalRisk(ImagedRisk):
    """f(w, b) = sum_i c_i sum_j l(sign(y_i > j) (<w, x_i> - b_j)), with thresholds b between ordered levels.

    Level j and those below it lie on the line of scores <w, x> before b_j, the levels above it behind b_j.
    The vector of the problem is (w, b_0, ..., b_{r-2}), of dimension n + r - 1, for r levels.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row, every entry finite. float32 and float64 ndarrays (of any memory order), CSR and
        CSC are not copied, and must not be changed afterwards; other sparse formats are converted to CSR and
        other number types to float64, once. All that is computed from float32 data is float64.
    y : array_like of shape (m,)
        Levels 0, 1, ..., r - 1.
    loss : ScalarLoss, default Hinge()
        A loss for labels -1 and +1, such as ``Logistic()``.
    thresholds : {"all", "immediate"}, default "all"
        Whether an example is compared with every threshold, so that a mistake costs the more the more levels
        it is away and that the best thresholds are in order; or with the next one on either side only.
    n_levels : int, optional
        r; by default one more than the largest level.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, by default 1 for each example.
    normalize : bool, default True
        Whether the weights c are divided by their sum.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite, X is empty, a level is no integer or out of range,
        there is only one level, the loss is not one of margins, a weight is negative, or all are zero and
        `normalize` is set.

    Notes
    -----
    The image of (w, b) is the vector of the m scores, followed by b. To leave the thresholds unregularized,
    use ``L2(lam, weights=...)`` with zeros for the last r - 1 coordinates. Where a loss overflows, the risk
    is inf and its subgradient is given as zero.

    References
    ----------
    .. [1] A. Shashua, A. Levin, "Ranking with large margin principle: two approaches", NIPS 15, 2003.
    .. [2] J. D. M. Rennie, N. Srebro, "Loss functions for preference levels: regression with discrete ordered
       labels", IJCAI Workshop on Advances in Preference Handling, 2005.
    .. [3] W. Chu, S. S. Keerthi, "Support vector ordinal regression", Neural Computation 19, 2007,
       doi:10.1162/neco.2007.19.3.792.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.risks import OrdinalRisk
    >>> risk = OrdinalRisk(np.array([[0.0], [1.0], [3.0]]), [0, 1, 2], normalize=False)
    >>> x = np.array([1.0, 0.5, 2.0])
    >>> value, slope = risk.oracle(x)
    >>> float(value), slope.tolist(), risk.predict_levels(x).tolist()
    (1.0, [-1.0, 0.0, 0.0], [0, 1, 2])
    """

    black_box = False
    X: Any
    y: Array
    loss: ScalarLoss = field(default_factory=Hinge)
    thresholds: Literal["all", "immediate"] = "all"
    n_levels: Any = None
    sample_weight: Array | None = None
    normalize: bool = True
    dim: int = field(init=False)
    _data: Data = field(init=False)
    _margins: Any = field(init=False)
    _losses: WeightedLoss = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, ScalarLoss) or self.loss.variable != "margin":
            raise InvalidInputError(
                f"loss must be a loss of the margin, such as cutplane.losses.Hinge(), got {self.loss!r}."
            )
        if self.thresholds not in ("all", "immediate"):
            raise InvalidInputError(f'thresholds must be "all" or "immediate", got {self.thresholds!r}.')
        from cutplane.losses.weighted import weighted_loss

        X = as_matrix(self.X)
        m, n = X.shape
        y, n_levels = as_labels(self.y, m, self.n_levels, "n_levels")
        if n_levels < 2:
            raise InvalidInputError(
                "OrdinalRisk needs at least 2 levels, but all y are 0; pass n_levels if some have no example."
            )
        weights = as_weights(self.sample_weight, m, self.normalize)
        rows, columns = _comparisons(y, n_levels, self.thresholds)
        set_fields(
            self,
            X=X,
            y=y,
            n_levels=n_levels,
            dim=n + n_levels - 1,
            _data=make_data(X, np.array([0, m])),
            _margins=_differences(rows, columns, np.where(y[rows] > columns, 1.0, -1.0), m + n_levels - 1, m),
            _losses=weighted_loss(self.loss, np.ones(rows.size), weights[rows], np.array([0, rows.size])),
        )

    def __repr__(self) -> str:
        return f"OrdinalRisk({self.loss!r}, {describe(self.X)}, {self.n_levels} levels, {self.thresholds})"

    @property
    def infima(self) -> Array:
        """The sum of the least losses, shape (1,)."""
        return np.array([self._losses.weights @ self.loss.infimum(self._losses.y)])

    def predict_levels(self, x: Array, X: Any = None) -> Array:
        """Return the level of each row of X (default: the data of the risk): how many thresholds it exceeds.

        Parameters
        ----------
        x : ndarray of shape (dim,)
            w and the thresholds.
        X : ndarray or sparse matrix of shape (any, n), optional
        """
        n = self.X.shape[1]
        scores = (self.X if X is None else X) @ x[:n]
        return np.searchsorted(np.sort(x[n:]), scores)

    def split(self, n_parts: int) -> list[OrdinalRisk]:
        """Return at most `n_parts` risks of some of the examples each, whose sum is the risk."""
        return split_rows(self, n_parts)

    def data_columns(self) -> Columns:
        """Return the sizes of the columns of X; those of the thresholds are 1."""
        with np.errstate(all="ignore"):
            _, mean, deviation = moments(self.X)
        sizes = np.append(np.hypot(mean, deviation), np.ones(self.n_levels - 1))
        return Columns(np.zeros(self.dim), np.zeros(self.dim), sizes)

    def in_units(self, centre: Array, size: Array) -> OrdinalRisk:
        """Return the risk of the columns X / size; the centre is zero."""
        n = self.X.shape[1]
        return replace(self, X=in_units(self.X, centre[:n], size[:n]))

    def image(self, x: Array) -> Array:
        """Return the scores and the thresholds, shape (m + r - 1,): one pass over the data."""
        n = self.X.shape[1]
        return np.concatenate([self._data.times(x[:n]), x[n:]])

    def values(self, z: Array) -> float:
        """Return the risk of the scores and thresholds z."""
        return float(self._losses.values(self._margins @ z).sum())

    def slopes(self, z: Array) -> Array:
        """Return a subgradient, shape (dim,): one pass over the data."""
        m = self.y.size
        with np.errstate(over="ignore", invalid="ignore"):
            u = self._margins.T @ self._losses.derivatives(self._margins @ z)
            slopes = np.concatenate([self._data.transposed_times(u[:m]), u[m:]])
        return slopes if np.isfinite(slopes).all() else np.zeros(self.dim)

    def cancelled(self, z: Array) -> float:
        """Return the size of the terms that cancel where the subgradient crosses a kink."""
        return float(self._losses.cancelled(self._margins @ z).sum())

    def line(self, z0: Array, z1: Array) -> Line:
        """Return t -> the risk of z0 + t (z1 - z0); no pass over the data."""
        return self._losses.line(self._margins @ z0, self._margins @ z1)

    def cvxpy_form(self, x: Any) -> Any:
        """Return the risk as a cvxpy expression in x, a cvxpy expression of shape (dim,)."""
        import cvxpy as cp

        n = self.X.shape[1]
        z = cp.hstack([cp.Constant(self.X) @ x[:n], x[n:]])
        losses = self.loss.cvxpy_form(self._margins @ z, self._losses.y)
        return cp.sum(cp.multiply(self._losses.weights, losses))


def _comparisons(y: Array, n_levels: int, thresholds: str) -> tuple[Array, Array]:
    """Return which examples are compared with which thresholds."""
    rows = np.arange(y.size)
    if thresholds == "all":
        return np.repeat(rows, n_levels - 1), np.tile(np.arange(n_levels - 1), y.size)
    rows, columns = np.repeat(rows, 2), (y[:, np.newaxis] + np.array([-1, 0])).ravel()
    inside = (columns >= 0) & (columns < n_levels - 1)
    return rows[inside], columns[inside]


def _differences(rows: Array, columns: Array, signs: Array, dim: int, m: int) -> Any:
    """Return the matrix that takes m scores, followed by the thresholds, to signs (score - threshold)."""
    data = (signs[:, np.newaxis] * np.array([1.0, -1.0])).ravel()
    indices = np.stack([rows, columns + m], axis=1).ravel()
    return sparse.csr_array((data, indices, np.arange(0, data.size + 1, 2)), shape=(rows.size, dim))
