"""Linear classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if

from cutplane.estimators.base import Classification
from cutplane.estimators.documentation import documented
from cutplane.estimators.formulation import CLASSIFICATION, Loss, as_loss, is_joint
from cutplane.estimators.linear import AnyPenalty, LinearEstimator, WarmStarted
from cutplane.estimators.on_workers import Encoder, Examples, of_classes
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


@dataclass(eq=False, repr=False, kw_only=True)
class LinearClassification(LinearEstimator, Classification):
    """What the linear classifiers share: one-vs-rest or joint problems, weights of classes, probabilities.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default None
        Factors of the weights of the examples by class, in every problem; "balanced" gives all classes the
        same total weight.

    Attributes
    ----------
    coef_ : ndarray of shape (n_rows, n_features)
        One row with two classes, else one for each class.
    intercept_ : ndarray of shape (n_rows,)
        Zero without `fit_intercept`.
    """

    class_weight: Any = None

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba`, shape (n_samples, n_classes)."""
        found = self._predictions(X)
        loss: Any = self._loss()
        single = found.shape[1] == 1
        if is_joint(loss):
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
        labels = self._labels(y)
        if self.class_weight is not None:
            weights = np.ones(len(y)) if weights is None else weights
            weights = weights * self._class_weights(y, labels, weights)[labels]
        if weights is not None and weights.any() and np.count_nonzero(np.bincount(labels, weights)) < 2:
            raise InvalidInputError(
                f"{type(self).__name__} needs at least 2 classes, but all classes but one have weight 0."
            )
        return [labels] if is_joint(loss) else self._against_rest(labels), weights

    def _encoders(self, data: Examples, loss: Loss) -> tuple[list[Encoder], float, float]:
        classes, totals = data.classes()
        targets, weights = self._encode(classes, totals, loss)  # one example for each class
        assert weights is not None
        factors = np.divide(weights, totals, out=np.zeros_like(totals), where=totals > 0.0)
        encoders = [of_classes(classes, target, factors) for target in targets]
        return encoders, float(weights.sum()), 1.0

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


@dataclass(eq=False, repr=False)
class AnyLossClassification(AnyPenalty, LinearClassification):
    """A linear classifier with any loss.

    Parameters
    ----------
    loss : str, ScalarLoss or VectorLoss, default "hinge"
        "hinge", "squared_hinge", "modified_huber", "logistic", "exponential", "softmax", "multiclass_hinge",
        or a loss object such as ``cutplane.losses.Squared()``, for targets -1 and 1.
    """

    loss: Any = "hinge"

    def _loss(self) -> Loss:
        return as_loss(self.loss, CLASSIFICATION, ScalarLoss | VectorLoss)


@documented
@dataclass(eq=False, repr=False)
class LinearClassifier(AnyLossClassification, WarmStarted):
    """A linear classifier for any convex loss and any convex penalty, with a certificate.

        minimise  (1 / sum_i c_i) sum_i c_i l(<w, x_i> + b, y_i) + alpha Omega(w)

    With more than two classes, each is separated from the rest, one problem for each class, except for the
    losses of all scores together ("softmax", "multiclass_hinge"), which make one joint problem.

    Examples
    --------
    >>> from cutplane.estimators import LinearClassifier
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]
    >>> model = LinearClassifier("hinge", alpha=0.5, tol=1e-9).fit(X, y)
    >>> model.predict([[0.2], [2.9]]).tolist(), round(model.objective_, 6), model.gap_ <= 1e-9
    (['low', 'high'], 0.444444, True)
    """

    alpha: float = 1e-4

    def _weight(self, total: float) -> tuple[float, float]:
        return as_scalar("alpha", self.alpha, low=0.0, low_open=True), 1.0
