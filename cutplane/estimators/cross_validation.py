"""The weight of the penalty chosen by cross-validation, along paths that reuse every cut."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable

from cutplane.estimators.base import LinearEstimator, as_weights, uninterrupted
from cutplane.estimators.classification import LinearClassification
from cutplane.estimators.formulation import CLASSIFICATION, REGRESSION, Loss, as_loss, unit_weight
from cutplane.estimators.regression import LinearRegression
from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import ScalarLoss
from cutplane.losses.vector import VectorLoss
from cutplane.pieces.validation import Array, as_vector
from cutplane.problem import Problem
from cutplane.result import Result

_ALPHAS = np.logspace(0, -5, 11)


class CrossValidated(LinearEstimator):
    """What the cross-validated estimators share: one path of problems for each fold, and one for all data."""

    loss: Any
    alphas: Any
    cv: Any
    scoring: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Choose `alpha_` by cross-validation and fit with it on all data.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)
        y : array_like of shape (n_samples,)
        sample_weight : array_like of shape (n_samples,), optional
            Weights >= 0, by default 1 for each example; also passed to the scorer.

        Returns
        -------
        self

        Raises
        ------
        InvalidInputError
            A ``ValueError``; if a parameter or an argument is wrong.
        """
        self.alphas_ = _descending(self.alphas)
        problems = self._declare(X, y, sample_weight)
        X, y = indexable(X, y)
        weights = as_weights(sample_weight, len(y))
        folds: Any = check_cv(self.cv, y, classifier=is_classifier(self))
        self.scores_ = np.column_stack([self._scores(X, y, weights, *fold) for fold in folds.split(X, y)])
        best = int(np.argmax(self.scores_.mean(axis=1)))
        self.alpha_ = float(self.alphas_[best])
        self._store([deque(self._follow(problem, self.alphas_[: best + 1]), 1)[0] for problem in problems])
        return self

    def _weight(self, total: float) -> tuple[float, float]:
        return float(self.alphas_[0]), 1.0

    def _follow(self, problem: Problem, alphas: Array) -> Iterator[Result]:
        """Yield the results along the path; one weight at a time, for a whole path keeps the cuts of all."""
        result = None
        for lam in alphas * unit_weight(self.penalty):
            start = {"x0": self._x0(problem)} if result is None else {"warm_start": result}
            result = uninterrupted(problem.path([lam], **start, **self._options)[0])
            yield result

    def _scores(self, X: Any, y: Any, weights: Array | None, train: Array, test: Array) -> list[float]:
        """Return the score on the test part for each alpha, of the path on the training part."""
        model: Any = clone(self)
        model.alphas_ = self.alphas_
        part = _safe_indexing(X, train), _safe_indexing(y, train)
        problems = model._declare(*part, None if weights is None else weights[train])
        held_out = _safe_indexing(X, test), _safe_indexing(y, test)
        scorer: Any = check_scoring(model, scoring=self.scoring)
        options = {} if weights is None else {"sample_weight": weights[test]}
        scores = []
        paths = [self._follow(problem, self.alphas_) for problem in problems]
        for results in zip(*paths, strict=True):
            model._store(results)
            scores.append(float(scorer(model, *held_out, **options)))
        return scores


class LinearClassifierCV(CrossValidated, LinearClassification):
    """A `LinearClassifier` whose `alpha` is chosen by cross-validation.

    In each fold the problems are solved from the largest weight to the smallest, and all cuts of the loss are
    kept from one to the next: they hold for every weight. The final fit follows the same path on all data as
    far as the weight that was chosen.

    Parameters
    ----------
    loss : str, ScalarLoss or VectorLoss, default "hinge"
        "hinge", "squared_hinge", "modified_huber", "logistic", "exponential", "softmax", "multiclass_hinge",
        or a loss object such as ``cutplane.losses.Squared()``, for targets -1 and 1.
    penalty : {"l2", "l1", "elasticnet"} or Regularizer, default "l2"
        Omega: half the squared Euclidean norm; the l1 norm; `l1_ratio` times the second plus ``1 - l1_ratio``
        times the first; or a regularizer object of cutplane, whose own `lam` is a factor. The penalty of a
        joint problem is that of the coefficients of all classes in one vector, class by class.
    alphas : array_like, optional
        Weights of the penalty beside the mean loss, each greater than 0; by default 11 from 1 to 1e-5.
    cv : int, cross-validation generator or iterable, optional
        As in scikit-learn; by default 5 folds, stratified.
    scoring : str or callable, optional
        As in scikit-learn; by default the accuracy.
    l1_ratio : float, default 0.5
        Share of the l1 norm in "elasticnet", in [0, 1].
    fit_intercept : bool, default True
        Whether there is a b.
    regularize_intercept : bool, default False
        Whether Omega includes b, as if X had a constant column; its optimum is found in fewer iterations.
    class_weight : dict, "balanced" or None, default None
        Factors of the weights of the examples by class, in every problem; "balanced" gives all classes the
        same total weight.
    tol : float, default 1e-3
        Relative certified gap, (objective - lower bound) / objective, of each problem.
    max_iter : int, default 10000
        Most iterations for each problem.
    time_limit : float, optional
        Seconds for each problem.
    max_cuts : int, optional
        Most cuts kept for each problem; by default no limit.
    method : Method or "auto", default "auto"
        Such as ``cutplane.OCAS()``.
    backend : str or Backend, default "auto"
        Who solves the reduced problems.
    verbose : int, default 0
        Whether to print a line per iteration.

    Attributes
    ----------
    alpha_ : float
        The weight with the best mean score; of equals, the largest.
    alphas_ : ndarray of shape (n_alphas,)
        The weights in the order of the path, descending.
    scores_ : ndarray of shape (n_alphas, n_folds)
    coef_ : ndarray of shape (n_rows, n_features)
        One row with two classes, else one for each class.
    intercept_ : ndarray of shape (n_rows,)
        Zero without `fit_intercept`.
    classes_ : ndarray of shape (n_classes,)
    objective_, lower_bound_ : float
        The objective, summed over the problems, and what is certified to be below its optimum.
    gap_ : float
        The largest relative gap of the problems.
    n_iter_ : int
        The most iterations of the problems.
    results_ : tuple of Result
        One for each problem: ``results_[0].certificate.verify()``. They refer to the training data, and are
        left out when the estimator is pickled.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import LinearClassifierCV
    >>> X = np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    >>> model = LinearClassifierCV("logistic", alphas=[1e-3, 1e-1], cv=4).fit(X, X[:, 0] > 0.3)
    >>> model.alpha_, model.scores_.shape, model.score(X, X[:, 0] > 0.3)
    (0.001, (2, 4), 1.0)
    """

    def __init__(
        self,
        loss: Any = "hinge",
        penalty: Any = "l2",
        *,
        alphas: Any = None,
        cv: Any = None,
        scoring: Any = None,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        regularize_intercept: bool = False,
        class_weight: Any = None,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        max_cuts: int | None = None,
        method: Any = "auto",
        backend: Any = "auto",
        verbose: int = 0,
    ):
        self.loss = loss
        self.penalty = penalty
        self.alphas = alphas
        self.cv = cv
        self.scoring = scoring
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.regularize_intercept = regularize_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.max_cuts = max_cuts
        self.method = method
        self.backend = backend
        self.verbose = verbose

    def _loss(self) -> Loss:
        return as_loss(self.loss, CLASSIFICATION, ScalarLoss | VectorLoss)


class LinearRegressorCV(CrossValidated, LinearRegression):
    """A `LinearRegressor` whose `alpha` is chosen by cross-validation.

    In each fold the problems are solved from the largest weight to the smallest, and all cuts of the loss are
    kept from one to the next: they hold for every weight. The final fit follows the same path on all data as
    far as the weight that was chosen.

    Parameters
    ----------
    loss : str or ScalarLoss, default "squared"
        "squared" (half the squared residual), "absolute", "huber" (delta = 1), "quantile" (the median),
        "epsilon_insensitive", "squared_epsilon_insensitive" (epsilon = 0.1), "poisson", or a loss object such
        as ``cutplane.losses.Quantile(0.9)``. With "poisson" the prediction is the mean, exp(<w, x> + b).
    penalty : {"l2", "l1", "elasticnet"} or Regularizer, default "l2"
        Omega: half the squared Euclidean norm; the l1 norm; `l1_ratio` times the second plus ``1 - l1_ratio``
        times the first; or a regularizer object of cutplane, whose own `lam` is a factor.
    alphas : array_like, optional
        Weights of the penalty beside the mean loss, each greater than 0; by default 11 from 1 to 1e-5.
    cv : int, cross-validation generator or iterable, optional
        As in scikit-learn; by default 5 folds.
    scoring : str or callable, optional
        As in scikit-learn; by default the coefficient of determination.
    l1_ratio : float, default 0.5
        Share of the l1 norm in "elasticnet", in [0, 1].
    fit_intercept : bool, default True
        Whether there is a b.
    regularize_intercept : bool, default False
        Whether Omega includes b, as if X had a constant column.
    tol : float, default 1e-3
        Relative certified gap, (objective - lower bound) / objective.
    max_iter : int, default 10000
    time_limit : float, optional
        Seconds.
    max_cuts : int, optional
        Most cuts kept; by default no limit.
    method : Method or "auto", default "auto"
        Such as ``cutplane.OCAS()``.
    backend : str or Backend, default "auto"
        Who solves the reduced problems.
    verbose : int, default 0
        Whether to print a line per iteration.

    Attributes
    ----------
    alpha_ : float
        The weight with the best mean score; of equals, the largest.
    alphas_ : ndarray of shape (n_alphas,)
        The weights in the order of the path, descending.
    scores_ : ndarray of shape (n_alphas, n_folds)
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
        Zero without `fit_intercept`.
    objective_, lower_bound_ : float
        The objective, and what is certified to be below its optimum.
    gap_ : float
        The relative gap.
    n_iter_ : int
        Number of iterations.
    results_ : tuple of Result
        The result: ``results_[0].certificate.verify()``. It refers to the training data, and is left out when
        the estimator is pickled.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from cutplane.estimators import LinearRegressorCV
    >>> X = np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    >>> model = LinearRegressorCV("absolute", alphas=[1e-2, 1.0], cv=4).fit(X, 3.0 * X[:, 0])
    >>> model.alpha_, model.scores_.shape, model.coef_.round(6).tolist()
    (0.01, (2, 4), [3.0])
    """

    def __init__(
        self,
        loss: Any = "squared",
        penalty: Any = "l2",
        *,
        alphas: Any = None,
        cv: Any = None,
        scoring: Any = None,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        regularize_intercept: bool = False,
        tol: float = 1e-3,
        max_iter: int = 10_000,
        time_limit: float | None = None,
        max_cuts: int | None = None,
        method: Any = "auto",
        backend: Any = "auto",
        verbose: int = 0,
    ):
        self.loss = loss
        self.penalty = penalty
        self.alphas = alphas
        self.cv = cv
        self.scoring = scoring
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.regularize_intercept = regularize_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.max_cuts = max_cuts
        self.method = method
        self.backend = backend
        self.verbose = verbose

    def _loss(self) -> Loss:
        return as_loss(self.loss, REGRESSION)


def _descending(alphas: Any) -> Array:
    values = _ALPHAS if alphas is None else np.unique(as_vector("alphas", alphas))[::-1]
    if values.size == 0 or values[-1] <= 0.0:
        raise InvalidInputError(f"alphas must be positive numbers, at least one, got {alphas!r}.")
    return values
