"""The risk of a linear predictor of ordered levels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse

from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import ScalarLoss
from cutplane.losses.scalar import Hinge
from cutplane.pieces.linear_maps import LinearMap
from cutplane.pieces.parameters import set_fields
from cutplane.pieces.validation import Array
from cutplane.risks.affine import ImagedAffineRisk
from cutplane.risks.columns import Columns, in_units, moments
from cutplane.risks.data import Data, make_data
from cutplane.risks.examples import as_labels, as_weights, describe, split_rows
from cutplane.risks.linear import LinearRisk
from cutplane.risks.matrix import as_matrix


@dataclass(frozen=True, eq=False)
class ScoreMap(LinearMap):
    """(w, b) -> (X w, b)."""

    data: Data
    n_thresholds: int

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.data.X.shape
        return m + self.n_thresholds, n + self.n_thresholds

    @property
    def matrix(self) -> Any:
        """The block diagonal of X and the identity."""
        return sparse.block_diag((self.data.X, sparse.eye_array(self.n_thresholds)), format="csr")

    def __call__(self, x: Array) -> Array:
        n = self.data.X.shape[1]
        return np.concatenate([self.data.times(x[:n]), x[n:]])

    def transposed(self, s: Array) -> Array:
        if s.ndim > 1:
            return np.array([self.transposed(row) for row in s])
        m = self.data.X.shape[0]
        return np.concatenate([self.data.transposed_times(s[:m]), s[m:]])

    def cvxpy_form(self, x: Any) -> Any:
        import cvxpy as cp

        X = self.data.X
        return cp.hstack([cp.Constant(X) @ x[: X.shape[1]], x[X.shape[1] :]])

    def shown(self) -> str:
        return f" @ <scores of {describe(self.data.X)}>"


@dataclass(frozen=True, eq=False, repr=False)
class OrdinalRisk(ImagedAffineRisk):
    """f(w, b) = sum_i c_i sum_j l(sign(y_i > j) (<w, x_i> - b_j)), with thresholds b between ordered levels.

    The scores <w, x> of examples of the levels 0, ..., j should be below b_j, and the scores of higher levels
    above b_j. The vector of the problem is (w, b_0, ..., b_{r-2}), of dimension n + r - 1, for r levels.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row; see `LinearRisk`.
    y : array_like of shape (m,)
        Levels 0, 1, ..., r - 1.
    loss : ScalarLoss, default Hinge()
        A loss for labels -1 and +1, such as ``Logistic()``.
    thresholds : {"all", "immediate"}, default "all"
        "all" compares an example with every threshold, so that a mistake by several levels costs more than a
        mistake by one level, and the best thresholds are in order. "immediate" compares it only with the next
        threshold on each side.
    n_levels : int, optional
        r; by default one more than the largest level.
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, by default 1 for each example.
    normalize : bool, default True
        Whether the weights c are divided by their sum.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, an entry is not finite, X is empty, a level is not an integer or out of
        range, there is only one level, the loss is not a function of the margin, a weight is negative, or all
        are zero and `normalize` is set.

    Notes
    -----
    It is a `LinearRisk` of the differences of scores and thresholds, which are a linear image of (w, b). To
    leave the thresholds unregularized, use ``L2(lam, weights=...)`` with zeros for the last r - 1
    coordinates. Where a loss overflows, the risk is inf and its subgradient is given as zero.

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

    X: Any  # pyright: ignore[reportGeneralTypeIssues]
    y: Array  # pyright: ignore[reportGeneralTypeIssues]
    loss: ScalarLoss = field(default_factory=Hinge)
    thresholds: Literal["all", "immediate"] = "all"
    n_levels: Any = None
    sample_weight: Array | None = None
    normalize: bool = True
    risk: Any = field(init=False)
    map: LinearMap = field(init=False)
    offset: Array | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.loss, ScalarLoss) or self.loss.variable != "margin":
            raise InvalidInputError(
                f"loss must be a loss of the margin, such as cutplane.losses.Hinge(), got {self.loss!r}."
            )
        if self.thresholds not in ("all", "immediate"):
            raise InvalidInputError(f'thresholds must be "all" or "immediate", got {self.thresholds!r}.')

        X = as_matrix(self.X)
        m = X.shape[0]
        y, n_levels = as_labels(self.y, m, self.n_levels, "n_levels")
        if n_levels < 2:
            raise InvalidInputError(
                "OrdinalRisk needs at least 2 levels, but all y are 0; pass n_levels if some have no example."
            )
        weights = as_weights(self.sample_weight, m, self.normalize)
        rows, columns = _comparisons(y, n_levels, self.thresholds)
        signs = np.where(y[rows] > columns, 1.0, -1.0)
        data = (signs[:, np.newaxis] * np.array([1.0, -1.0])).ravel()
        indices = np.stack([rows, columns + m], axis=1).ravel()
        size = m + n_levels - 1
        margins = sparse.csr_array(
            (data, indices, np.arange(0, data.size + 1, 2)), shape=(rows.size, size)
        )  # differences of scores and thresholds
        set_fields(
            self,
            X=X,
            y=y,
            n_levels=n_levels,
            risk=LinearRisk(margins, np.ones(rows.size), self.loss, weights[rows], normalize=False),
            map=ScoreMap(make_data(X, np.array([0, m])), n_levels - 1),
        )
        super().__post_init__()

    def __repr__(self) -> str:
        return f"OrdinalRisk({self.loss!r}, {describe(self.X)}, {self.n_levels} levels, {self.thresholds})"

    def predict_levels(self, x: Array, X: Any = None) -> Array:
        """Return the level of each row of X, which is the number of thresholds below its score.

        Parameters
        ----------
        x : ndarray of shape (dim,)
            w and the thresholds.
        X : ndarray or sparse matrix of shape (any, n), optional
            By default the data of the risk.
        """
        n = self.X.shape[1]
        scores = (self.X if X is None else X) @ x[:n]
        return np.searchsorted(np.sort(x[n:]), scores)

    def split(self, n_parts: int) -> list[OrdinalRisk]:
        return split_rows(self, n_parts)

    def data_columns(self) -> Columns:
        with np.errstate(all="ignore"):
            _, mean, deviation = moments(self.X)
        sizes = np.append(np.hypot(mean, deviation), np.ones(self.n_levels - 1))
        return Columns(np.zeros(self.dim), np.zeros(self.dim), sizes)

    def in_units(self, centre: Array, size: Array) -> OrdinalRisk:
        """Return the risk of the columns (X - 1 centre') / size."""
        n = self.X.shape[1]
        return replace(self, X=in_units(self.X, centre[:n], size[:n]))


def _comparisons(y: Array, n_levels: int, thresholds: str) -> tuple[Array, Array]:
    """Return the indices of the examples and of the thresholds of all comparisons."""
    rows = np.arange(y.size)
    if thresholds == "all":
        return np.repeat(rows, n_levels - 1), np.tile(np.arange(n_levels - 1), y.size)
    rows, columns = np.repeat(rows, 2), (y[:, np.newaxis] + np.array([-1, 0])).ravel()
    inside = (columns >= 0) & (columns < n_levels - 1)
    return rows[inside], columns[inside]
