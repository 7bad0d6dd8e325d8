"""Linear ranking."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any

from cutplane.estimators.documentation import documented
from cutplane.estimators.linear import LinearPredictor
from cutplane.pieces.validation import Array, as_numbers, as_scalar
from cutplane.problem import Problem
from cutplane.risks.ranking import RankingRisk


@documented
@dataclass(eq=False, repr=False)
class LinearRanker(LinearPredictor):
    """A linear ranking of the rows of each query, learnt from pairs of them, with a certificate.

        minimise  mean over pairs i, j with y_i < y_j of max(0, 1 + <w, x_i - x_j>) + alpha Omega(w)

    The number of pairs does not matter for the time: an evaluation takes one sort of the scores [1]_. See
    `cutplane.RankingRisk`.

    Parameters
    ----------
    penalty : {"l2", "l1", "elasticnet"} or Regularizer, default "l2"
        Omega: half the squared Euclidean norm; the l1 norm; `l1_ratio` times the second plus ``1 - l1_ratio``
        times the first; or a regularizer object of cutplane, whose own `lam` is a factor.
    alpha : float, default 1e-4
        Weight of the penalty beside the mean loss; greater than 0.
    l1_ratio : float, default 0.5
        Share of the l1 norm in "elasticnet", in [0, 1].
    cost : None, "gain", callable or array_like of shape (R, R), default None
        What a pair costs by its two levels: 1; the difference of the gains 2^y of NDCG; or as `RankingRisk`
        says. The mean is weighted by it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)

    References
    ----------
    .. [1] T. Joachims, "Training linear SVMs in linear time", KDD 2006, doi:10.1145/1150402.1150429.

    Examples
    --------
    >>> from cutplane.estimators import LinearRanker
    >>> X, y, groups = [[1.0], [3.0], [2.0], [5.0], [4.0]], [0, 1, 1, 2, 0], [3, 2]
    >>> model = LinearRanker(alpha=0.1, tol=1e-9).fit(X, y, groups=groups)
    >>> model.coef_.round(6).tolist(), model.score(X, y, groups=groups)
    ([1.0], 1.0)
    """

    penalty: Any = "l2"
    alpha: float = 1e-4
    _: KW_ONLY
    l1_ratio: float = 0.5
    cost: Any = None
    _target_checks = MappingProxyType({"y_numeric": True, "ensure_min_samples": 2})

    def fit(self, X: Any, y: Any, groups: Any = None) -> Any:
        """Fit.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
            float32 and float64, dense, CSR and CSC are not copied.
        y : array_like of shape (n_samples,)
            Relevance, the larger the better.
        groups : array_like, optional
            The query of each row, shape (n_samples,), as cross-validation splits it; or the sizes of
            consecutive queries. By default all rows are one query.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong, or no query has rows of different
            relevance.
        """
        alpha = as_scalar("alpha", self.alpha, low=0.0, low_open=True)
        X, y = self._training(X, y)
        risk = RankingRisk(X, as_numbers("y", y), groups, self.cost)
        self._store(self._solve([Problem(risk, self._regularizer(alpha, (1, risk.dim)))]))
        return self

    def predict(self, X: Any) -> Array:
        """Return the scores: in each query the largest is ranked first.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._predictions(X)[:, 0]

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return the share of the pairs that are ordered rightly, weighted by their costs; a tie is half.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
        groups : array_like, optional
            As in `fit`.
        """
        return RankingRisk(self._examples(X), y, groups, self.cost).accuracy(self.coef_)

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        self.coef_, self.intercept_ = coef[0], 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
