"""Linear classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from cutplane.estimators.base import LinearEstimator
from cutplane.estimators.formulation import CLASSIFICATION, Loss, as_loss
from cutplane.exceptions import InvalidInputError
from cutplane.losses.base import ScalarLoss
from cutplane.losses.vector import VectorLoss
from cutplane.pieces.capabilities import Capability, offers
from cutplane.pieces.validation import Array, as_scalar


def _gives_probabilities(estimator: Any) -> bool:
    try:
        loss = estimator._loss()
    except InvalidInputError:
        return False
    if offers(loss, Capability.LOG_PROBABILITY):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} gives probabilities with a loss that has a log_probability, such as "
        f"'logistic' or 'softmax', not with {loss!r}."
    )


class LinearClassification(ClassifierMixin, LinearEstimator):
    """What the linear classifiers share: classes, one-vs-rest or joint problems, scores, probabilities."""

    class_weight: Any

    def decision_function(self, X: Any) -> Array:
        """Return the scores of the classes.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The class with the largest is predicted; with two classes of shape (n_samples,), positive for
            ``classes_[1]``.
        """
        found = self._predictions(X)
        return found[:, 0] if found.shape[1] == 1 else found

    def predict(self, X: Any) -> Array:
        """Return the classes.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        found = self._predictions(X)
        chosen = (found[:, 0] > 0.0).astype(np.intp) if found.shape[1] == 1 else found.argmax(axis=1)
        return self.classes_[chosen]

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba`, shape (n_samples, n_classes)."""
        found = self._predictions(X)
        loss: Any = self._loss()
        single = found.shape[1] == 1
        if isinstance(self._loss(), VectorLoss):
            return loss.log_probability(np.hstack([0.0 * found, found]) if single else found)
        logarithms = loss.log_probability(np.hstack([-found, found]) if single else found)
        return logarithms if single else logarithms - np.logaddexp.reduce(logarithms, axis=1, keepdims=True)

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, for the losses "logistic" and "softmax".

        With "logistic" and more than two classes, the probabilities of the one-vs-rest problems are divided
        by their sum.

        Parameters
        ----------
        X : ndarray or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    def _encode(self, y: Array, weights: Array | None, loss: Loss) -> tuple[list[Array], Array | None]:
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise InvalidInputError(
                f"{type(self).__name__} needs at least 2 classes in y, got 1 class: {self.classes_[0]!r}."
            )
        if self.class_weight is not None:
            weights = np.ones(len(y)) if weights is None else weights
            weights = weights * self._class_weights(y, labels, weights)[labels]
        if weights is not None and weights.any() and np.count_nonzero(np.bincount(labels, weights)) < 2:
            raise InvalidInputError(
                f"{type(self).__name__} needs at least 2 classes, but all classes but one have weight 0."
            )
        if isinstance(loss, VectorLoss):
            return [labels], weights
        positive = (1,) if count == 2 else range(count)
        return [np.where(labels == k, 1.0, -1.0) for k in positive], weights

    def _class_weights(self, y: Array, labels: Array, weights: Array) -> Array:
        if self.class_weight == "balanced":
            totals = np.bincount(labels, weights)
            return weights.sum() / (totals.size * np.where(totals > 0.0, totals, np.inf))
        return compute_class_weight(self.class_weight, classes=self.classes_, y=y)

    def _set_solution(self, coef: Array, intercept: Array) -> None:
        if len(coef) == 2:  # the difference of the scores of two classes says it all
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_ = coef
        self.intercept_ = intercept if intercept.size else np.zeros(len(coef))


class LinearClassifier(LinearClassification):
    """A linear classifier for any convex loss and any convex penalty, with a certificate.

        minimise  (1 / sum_i c_i) sum_i c_i l(<w, x_i> + b, y_i) + alpha Omega(w)

    With more than two classes, each is separated from the rest, one problem for each class, except for the
    losses of all scores together ("softmax", "multiclass_hinge"), which make one joint problem.

    Parameters
    ----------
    loss : str, ScalarLoss or VectorLoss, default "hinge"
        "hinge", "squared_hinge", "modified_huber", "logistic", "exponential", "softmax", "multiclass_hinge",
        or a loss object such as ``cutplane.losses.Squared()``, for targets -1 and 1.
    penalty : {"l2", "l1", "elasticnet"} or Regularizer, default "l2"
        Omega: half the squared Euclidean norm; the l1 norm; `l1_ratio` times the second plus ``1 - l1_ratio``
        times the first; or a regularizer object of cutplane, whose own `lam` is a factor. The penalty of a
        joint problem is that of the coefficients of all classes in one vector, class by class.
    alpha : float, default 1e-4
        Weight of the penalty beside the mean loss; greater than 0.
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
    warm_start : bool, default False
        Whether the next fit starts from the cuts of this one, if X, y, the weights and the loss are the same
        (`alpha`, `penalty` and `tol` may change), and else from its solution.
    verbose : int, default 0
        Whether to print a line per iteration.

    Attributes
    ----------
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
    >>> from cutplane.estimators import LinearClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
    >>> model = LinearClassifier("hinge", alpha=0.5, tol=1e-9).fit(X, y)
    >>> model.predict([[0.2], [2.9]]).tolist(), round(model.objective_, 6), model.gap_ <= 1e-9
    (['low', 'high'], 0.444444, True)
    """

    def __init__(
        self,
        loss: Any = "hinge",
        penalty: Any = "l2",
        alpha: float = 1e-4,
        *,
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
        warm_start: bool = False,
        verbose: int = 0,
    ):
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
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
        self.warm_start = warm_start
        self.verbose = verbose

    def _loss(self) -> Loss:
        return as_loss(self.loss, CLASSIFICATION, ScalarLoss | VectorLoss)

    def _weight(self, total: float) -> tuple[float, float]:
        return as_scalar("alpha", self.alpha, low=0.0, low_open=True), 1.0
