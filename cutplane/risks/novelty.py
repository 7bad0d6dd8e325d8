"""The risk of a linear novelty detector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from cutplane.losses.base import ScalarLoss
from cutplane.losses.pieces import Pieces
from cutplane.pieces.validation import as_scalar
from cutplane.risks.base import Risk
from cutplane.risks.linear import LinearRisk
from cutplane.risks.matrix import as_matrix
from cutplane.risks.objective import LinearObjective


@dataclass(frozen=True)
class Shortfall(ScalarLoss):
    """l(t, y) = max(0, y - t)."""

    def outline(self) -> Pieces:
        return Pieces(knots=[0.0], slopes=[-1.0, 0.0])


def NoveltyRisk(X: Any, nu: float, sample_weight: Any = None) -> Risk:
    """Return f(w, rho) = (1/nu) sum_i c_i max(0, rho - <w, x_i>) - rho, with weights c that sum to 1.

    The one-class support vector machine: with ``L2(lam, weights=...)``, 1 for w and 0 for rho, the half-space
    <w, x> >= rho excludes at most the share nu of the (weighted) examples, and its distance from the origin
    is as large as that allows. The vector of the problem is (w, rho), of dimension n + 1. f alone has no
    finite infimum where a half-space separates all examples from the origin.

    Parameters
    ----------
    X : ndarray, sparse array or sparse matrix of shape (m, n)
        One example per row; see `LinearRisk`.
    nu : float
        The largest share of the examples that may be excluded, in (0, 1].
    sample_weight : array_like of shape (m,), optional
        Weights >= 0, not all zero, by default 1 for each example; c is their share of the sum.

    Returns
    -------
    WeightedSum
        1/nu times a `LinearRisk` of the vector (w, -rho), minus rho.

    Raises
    ------
    InvalidInputError
        If X is empty or not finite, nu is out of range, a weight is negative or all are zero.

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
    X = as_matrix(X)
    m, n = X.shape
    nu = as_scalar("nu", nu, low=0.0, high=1.0, low_open=True)
    excess = LinearRisk(X, np.zeros(m), Shortfall(), sample_weight, intercept=True)
    rho = np.eye(1, n + 1, n)[0]
    return (1.0 / nu) * (excess @ sparse.diags_array(1.0 - 2.0 * rho)) + LinearObjective(-rho)
