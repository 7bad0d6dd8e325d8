"""Linear prediction for scikit-learn: classifiers, regressors, a ranker."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from cutplane.estimators.base import Classification, estimator
from cutplane.estimators.cross_validation import CrossValidatedPenalty
from cutplane.estimators.formulation import (
    CLASSIFICATION,
    REGRESSION,
    TUBES,
    Loss,
    as_choice,
    as_loss,
    as_piece,
)
from cutplane.estimators.linear import (
    LinearBase,
    LinearClassification,
    LinearEstimator,
    LinearRegression,
)
from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import ScalarLoss
from cutplane.losses.vector import MulticlassHinge, VectorLoss
from cutplane.measures import FBeta, Measure, PrecisionRecallBreakEven, RocArea
from cutplane.pieces.validation import Array, as_numbers, as_positive
from cutplane.problem import Problem
from cutplane.risks.joint import MeasureRisk, RankingRisk


@estimator
class LinearClassifier(LinearClassification):
    """A linear classifier for any convex loss and any convex penalty, with a certificate.

        minimise  (1 / sum_i c_i) sum_i c_i l(<w, x_i> + b, y_i) + alpha Omega(w)

    With more than two classes, there is one problem for each class against the rest. Losses of the scores of
    all classes ("softmax", "multiclass_hinge") give one joint problem instead.

    Parameters
    ----------
    loss : str, ScalarLoss or VectorLoss, default "hinge"
        "hinge", "squared_hinge", "modified_huber", "logistic", "exponential", "softmax", "multiclass_hinge",
        or a loss object, for example ``cutplane.losses.Squared()``, for targets -1 and 1.

    Examples
    --------
    >>> from cutplane.estimators import LinearClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
    >>> model = LinearClassifier("hinge", alpha=0.5, tol=1e-9).fit(X, y)
    >>> model.predict([[0.2], [2.9]]).tolist(), round(model.objective_, 6), model.gap_ <= 1e-9
    (['low', 'high'], 0.444444, True)
    """

    loss: Any = "hinge"
    penalty: Any = "l2"
    alpha: float = 1e-4
    _: KW_ONLY
    l1_ratio: float = 0.5

    def _loss(self) -> Loss:
        return as_loss(self.loss, CLASSIFICATION, ScalarLoss | VectorLoss)


@estimator
class LinearRegressor(LinearRegression):
    """Linear regression with any convex loss and any convex penalty, with a certificate.

        minimise  (1 / sum_i c_i) sum_i c_i l(<w, x_i> + b, y_i) + alpha Omega(w)

    With the squared loss it is scikit-learn's `Lasso` ("l1"), `ElasticNet` ("elasticnet"), or `Ridge` with
    n_samples times this `alpha` ("l2").

    Parameters
    ----------
    loss : str or ScalarLoss, default "squared"
        "squared" (half the squared residual), "absolute", "huber" (delta = 1), "quantile" (the median),
        "epsilon_insensitive", "squared_epsilon_insensitive" (epsilon = 0.1), "poisson", or a loss object, for
        example ``cutplane.losses.Quantile(0.9)``. With "poisson" the prediction is the mean, exp(<w, x> + b).

    Examples
    --------
    >>> from cutplane.estimators import LinearRegressor
    >>> model = LinearRegressor("absolute", alpha=0.01, tol=1e-9).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    >>> model.coef_.round(6).tolist(), round(abs(model.intercept_), 6), round(model.objective_, 6)
    ([1.0], 0.0, 0.005)
    """

    loss: Any = "squared"
    penalty: Any = "l2"
    alpha: float = 1e-4
    _: KW_ONLY
    l1_ratio: float = 0.5

    def _loss(self) -> Loss:
        return as_loss(self.loss, REGRESSION)


@estimator
class LinearClassifierCV(CrossValidatedPenalty, LinearClassifier):
    """A `LinearClassifier` whose `alpha` is chosen by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import LinearClassifierCV
    >>> X = np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    >>> model = LinearClassifierCV("logistic", alphas=[1e-3, 1e-1], cv=4).fit(X, X[:, 0] > 0.3)
    >>> model.alpha_, model.scores_.shape, model.score(X, X[:, 0] > 0.3)
    (0.001, (2, 4), 1.0)
    """


@estimator
class LinearRegressorCV(CrossValidatedPenalty, LinearRegressor):
    """A `LinearRegressor` whose `alpha` is chosen by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import LinearRegressorCV
    >>> X = np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    >>> model = LinearRegressorCV("absolute", alphas=[1e-2, 1.0], cv=4).fit(X, 3.0 * X[:, 0])
    >>> model.alpha_, model.scores_.shape, model.coef_.round(6).tolist()
    (0.01, (2, 4), [3.0])
    """


@estimator
class SupportVectorMachine(LinearEstimator):
    """A linear estimator with the scaling of support vector machines.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default "l2"
        "l1" replaces ``1/2 ||w||^2`` by ``||w||_1``.
    regularize_intercept : bool, default False
        Whether the penalty includes b, as in scikit-learn's `LinearSVC` and `LinearSVR`, but not in its `SVC`
        and `SVR` with ``kernel="linear"``.
    """

    C: float = 1.0
    _: KW_ONLY
    penalty: str = "l2"

    def _weight(self, total: float) -> tuple[float, float]:
        """Return lam = 1 / (C total), and the factor C total of the objective."""
        as_choice("penalty", self.penalty, ("l2", "l1"))
        factor = as_positive("C", self.C) * total
        return 1.0 / factor if factor > 0.0 else 1.0, factor


@estimator
class LinearSVC(SupportVectorMachine, LinearClassification):
    """The linear support vector classifier, with a certificate.

        minimise  1/2 ||w||^2 + C sum_i c_i max(0, 1 - y_i (<w, x_i> + b))

    It is solved as ``lam/2 ||w||^2`` plus the weighted mean loss, with lam = 1 / (C sum_i c_i), because this
    objective does not grow with the number of examples.

    Parameters
    ----------
    loss : {"hinge", "squared_hinge"}, default "hinge"
        "squared_hinge" squares the maximum.
    multi_class : {"ovr", "crammer_singer"}, default "ovr"
        With more than two classes: one problem for each class against the rest ("ovr"), or one joint problem
        with the loss max_j (1[j != y] + s_j) - s_y of the scores s ("crammer_singer", only for the loss
        "hinge").

    References
    ----------
    C. Cortes, V. Vapnik, "Support-vector networks", Machine Learning 20, 1995, doi:10.1007/BF00994018.

    Examples
    --------
    >>> from cutplane.estimators import LinearSVC
    >>> model = LinearSVC(C=10.0, tol=1e-9).fit([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
    >>> model.coef_.round(6).tolist(), model.intercept_.round(6).tolist(), round(model.objective_, 6)
    ([[1.0]], [-2.0], 0.5)
    """

    _: KW_ONLY
    loss: str = "hinge"
    multi_class: str = "ovr"

    def _loss(self) -> Loss:
        name = as_choice("loss", self.loss, ("hinge", "squared_hinge"))
        if as_choice("multi_class", self.multi_class, ("ovr", "crammer_singer")) == "ovr":
            return CLASSIFICATION[name]
        if name != "hinge":
            raise InvalidInputError(f"multi_class='crammer_singer' needs loss='hinge', got {name!r}.")
        return MulticlassHinge()


@estimator
class LinearSVR(SupportVectorMachine, LinearRegression):
    """Linear support vector regression, with a certificate.

        minimise  1/2 ||w||^2 + C sum_i c_i max(0, |<w, x_i> + b - y_i| - epsilon)

    Parameters
    ----------
    epsilon : float, default 0.0
        Half the width of the tube without loss, in the unit of y; at least 0.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default "epsilon_insensitive"
        "squared_epsilon_insensitive" squares the maximum.

    References
    ----------
    A. J. Smola, B. Schölkopf, "A tutorial on support vector regression", Statistics and Computing 14, 2004,
    doi:10.1023/B:STCO.0000035301.49549.88.

    Examples
    --------
    >>> from cutplane.estimators import LinearSVR
    >>> model = LinearSVR(C=10.0, epsilon=0.5, tol=1e-9).fit([[0.0], [1.0], [2.0]], [0.0, 2.0, 4.0])
    >>> model.coef_.round(6).tolist(), round(model.intercept_, 6), round(model.objective_, 6)
    ([1.5], 0.5, 1.125)
    """

    _: KW_ONLY
    epsilon: float = 0.0
    loss: str = "epsilon_insensitive"

    def _loss(self) -> Loss:
        return TUBES[as_choice("loss", self.loss, TUBES)](self.epsilon)


_NAMED: dict[str, Measure] = {"f1": FBeta(), "roc_area": RocArea(), "break_even": PrecisionRecallBreakEven()}


@estimator
class MeasureClassifier(Classification, LinearBase):
    """A binary linear classifier that is trained for a measure of all predictions, with a certificate.

        minimise  max over labellings v of Delta(y, v) + (1/m) sum_i (v_i - y_i) z_i + alpha Omega(w)

    with the scores z_i = <w, x_i> + b, and for example Delta = 1 - F1. See `cutplane.MeasureRisk`. The
    positive class is ``classes_[1]``. Measures of the order of the scores, for example "roc_area", do not
    determine b. In this case b is set after the fit, so that the number of positive predictions on the
    training set is the number of positive examples, or the number that the measure prescribes.

    Parameters
    ----------
    measure : {"f1", "roc_area", "break_even"} or Measure, default "f1"
        A name, or a measure, for example ``cutplane.measures.PrecisionAt(100)``.
    alpha : float, default 1e-4
        Weight of the penalty; greater than 0.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        Zero without `fit_intercept`.

    Examples
    --------
    >>> from cutplane.estimators import MeasureClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "no", "yes"]
    >>> model = MeasureClassifier("f1", alpha=0.01).fit(X, y)
    >>> model.predict([[0.5], [2.9]]).tolist(), model.gap_ <= 1e-3
    (['no', 'yes'], True)
    """

    measure: Any = "f1"
    penalty: Any = "l2"
    alpha: float = 1e-4
    _: KW_ONLY
    l1_ratio: float = 0.5
    fit_intercept: bool = True
    regularize_intercept: bool = False

    def _fitted(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        lam, measure = self._weight(1.0)[0], self._measure()
        X, y = self._training(X, y)
        labels = self._labels(y)
        if len(self.classes_) > 2:
            raise InvalidInputError(
                "Only binary classification is supported by MeasureClassifier, but y has "
                f"{len(self.classes_)} classes."
            )
        risk = MeasureRisk(X, 2.0 * labels - 1.0, measure, self._biased)
        results: Any = self._solve([Problem(risk, self._regularizer(lam, (1, risk.dim)))])
        if not results[0].x[: risk.X.shape[1]].any():
            warnings.warn(
                f"MeasureClassifier found coef_ = 0 (all scores are equal), because alpha = {lam:g} "
                "outweighs the measure; pass a smaller alpha.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return results

    def _measure(self) -> Measure:
        return as_piece("measure", self.measure, _NAMED, Measure, "measures.PrecisionAt(100)")

    @property
    def _biased(self) -> bool:
        return bool(self.fit_intercept) and not self._measure().ranks

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        self.coef_, self.intercept_ = coef, np.zeros(1)
        if intercept.size:
            self.intercept_ = intercept
        elif self.fit_intercept:
            self.intercept_ = np.array([-_threshold(self.results_[0].certificate.problem.risk, coef[0])])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _threshold(risk: MeasureRisk, coef: Array) -> float:
    """Return a score that k examples exceed; k is the measure's `predicted`, or the number of positives."""
    scores = np.sort(risk.image(coef).scores)[::-1]
    positives = int((risk.y > 0.0).sum())
    k = risk.measure.predicted(positives, scores.size - positives) or positives
    return 0.5 * (scores[k - 1] + scores[k]) if k < scores.size else scores[-1] - 1.0


@estimator
class LinearRanker(LinearBase):
    """A linear ranking of the rows of each query, learnt from pairs of rows, with a certificate.

        minimise  mean over pairs i, j with y_i < y_j of max(0, 1 + <w, x_i - x_j>) + alpha Omega(w)

    An evaluation takes one sort of the scores for any number of pairs [1]_. See `cutplane.RankingRisk`.

    Parameters
    ----------
    cost : None, "gain", callable or array_like of shape (R, R), default None
        Weight of a pair in the mean, by its two levels: 1 (None); the difference of the gains 2^y of NDCG
        ("gain"); or as in `RankingRisk`.

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
        y : array_like of shape (n_samples,)
            Relevance; larger is better.
        groups : array_like, optional
            The query of each row, shape (n_samples,), or the sizes of consecutive queries. Cross-validation
            needs the first form. By default all rows are one query.

        Raises
        ------
        InvalidInputError
            A ``ValueError``, if a parameter or an argument is invalid, or no query has rows of different
            relevance.
        """
        lam, _ = self._weight(1.0)
        X, y = self._training(X, y)
        risk = RankingRisk(X, as_numbers("y", y), groups, self.cost)
        self._store(self._solve([Problem(risk, self._regularizer(lam, (1, risk.dim)))]))
        return self

    def predict(self, X: Any) -> Array:
        """Return the scores; in each query the row with the largest score is ranked first."""
        return super().predict(X)

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return the weighted fraction of the pairs in the right order; a tie counts as half a pair.

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
